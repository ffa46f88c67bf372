"""Runs of a drill or an audit job beside a node: list, show, follow, stop, report.

``gossamer drill`` and ``gossamer audit`` also run on this machine without a node; here the node that is asked
does the work, and keeps the report.

Rules: 1. Each node has its own runs; ``--node`` asks another one.  2. Following ends when the run does, with
an exit code for how it ended; to stop following stops nothing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from gossamer.cli.api.client import DEFAULT_API, ApiClient
from gossamer.cli.exits import ExitCode
from gossamer.cli.names import Complete
from gossamer.cli.nouns import REQUIRED, Parameters, add_command
from gossamer.cli.options import Api, Json, OnNode, Watch
from gossamer.cli.render.output import ago, clock, emit_json, json_text, note, print_lines
from gossamer.cli.render.show import Part, Report, Row, show, show_part
from gossamer.cli.render.table import Grid, printable
from gossamer.cli.resources.listing import Resource, add_list, items
from gossamer.errors import UnavailableError, UsageError

__all__ = ["ON_NODE", "Wait", "add_runs", "start_run"]

ON_NODE = "At a node (its reports stay there)"
"""Panel of the help."""
PERIOD = 0.5
_TIMEOUT = 60.0

Wait = Annotated[bool, typer.Option("--wait", help="Follow it to its end; 8 if a promise is broken.")]
_FILE = Annotated[
    Path | None,
    typer.Argument(metavar="FILE", dir_okay=False, help="Output file; - prints it (default: ID.html)."),
]
_AT_NODE: Parameters = {"api": (Api, DEFAULT_API), "node": (OnNode, None)}


class ReportFileError(UsageError):
    """The report cannot be written."""

    def __init__(self, *, path: Path, problem: str) -> None:
        self.path = path
        super().__init__(f"{path}: {problem}; name another file")


class RunFailedError(UnavailableError):
    """A run ended without a verdict."""

    def __init__(self, *, id: str, state: str, says: str) -> None:
        self.id = id
        super().__init__(f"{id} {state}{f': {says}' if says else ''}")


def add_runs(
    app: typer.Typer, what: str, path: str, complete: Complete, *, listed: str, stopped: str
) -> None:
    """Add to the noun ``what`` the verbs for its runs, which the API has at ``path``."""
    run: Parameters = {
        "run": (
            Annotated[
                str,
                typer.Argument(metavar="ID", help=f"As `{what} list` shows it.", autocompletion=complete),
            ],
            REQUIRED,
        )
    }
    json: Parameters = {"json": (Json, False)}
    resource = Resource(
        path=path,
        says=listed,
        columns={
            "ID": "id",
            "WHAT": _what,
            "STATE": "state",
            "BEGAN": _began,
            "BY": "by",
            "FOUND": _found,
        },
        empty="none yet",
        fetch=items,
        restless=frozenset({"BEGAN"}),
    )
    add_list(app, resource, panel=ON_NODE)
    for verb, says, parameters, carry_out in (
        (
            "show",
            f"Show one {what}: its progress, or its result.",
            {**run, **_AT_NODE, **json, "watch": (Watch, None)},
            _show,
        ),
        (
            "follow",
            f"Follow one {what} to its end; 8 if a promise is broken. Ctrl-C ends following, not the {what}.",
            {**run, **_AT_NODE, **json},
            _follow_run,
        ),
        ("stop", stopped, {**run, **_AT_NODE, **json}, _stop),
        (
            "report",
            f"Save the HTML report of a {what} that has ended.",
            {**run, "file": (_FILE, None), **_AT_NODE},
            _save,
        ),
    ):
        add_command(app, verb, says, parameters, _at(path, carry_out), panel=ON_NODE)


def _at(path: str, carry_out: Any) -> Any:
    return lambda run, **options: carry_out(f"/api/v1/{path}/{run}", **options)


def start_run(path: str, body: Row, *, runs: str, api: str, node: str | None, json: bool, wait: bool) -> None:
    """Post what of ``body`` is given, and with ``wait`` follow the run, which the API has below ``runs``."""
    given = {name: value for name, value in body.items() if value is not None}
    with ApiClient(api, node=node, timeout=_TIMEOUT) as client:
        found = client.post(f"/api/v1/{path}", given)
        if wait:
            _follow(client, f"/api/v1/{runs}/{found['id']}", json=json)
        elif json:
            emit_json(found)
        else:
            print_lines(f"{found['id']} runs at {found['node']}")


def _show(path: str, *, api: str, node: str | None, json: bool, watch: float | None) -> None:
    def report(client: ApiClient) -> Report:
        found = client.document(path)
        return Report(found, lambda: _parts(found))

    with ApiClient(api, node=node) as client:
        show(lambda _: report(client), json=json, watch=watch)


def _follow_run(path: str, *, api: str, node: str | None, json: bool) -> None:
    with ApiClient(api, node=node, timeout=_TIMEOUT) as client:
        _follow(client, path, json=json)


def _stop(path: str, *, api: str, node: str | None, json: bool) -> None:
    with ApiClient(api, node=node, timeout=_TIMEOUT) as client:
        found = client.delete(path)
    if json:
        emit_json(found)
    else:
        print_lines(f"{found['id']}: {found['state']}")


def _save(path: str, *, file: Path | None, api: str, node: str | None) -> None:
    with ApiClient(api, node=node, timeout=_TIMEOUT) as client:
        page = client.page(f"{path}/report")
    if str(file) == "-":
        sys.stdout.buffer.write(page)
        return
    target = file or Path(f"{path.rpartition('/')[2]}.html")
    try:
        target.write_bytes(page)
    except OSError as error:
        raise ReportFileError(path=target, problem=error.strerror or str(error)) from error
    sys.stdout.write(f"{target}\n")
    note("a page without scripts: open it in any browser")


def _parts(found: Row) -> Iterable[Part]:
    by = f", ordered by {found['by']}" if found["by"] else ""
    yield f"{found['id']} {found['state']}: {_what(found)}{by} {_began(found)} ago"
    if found["says"]:
        yield printable(found["says"])
    progress = found.get("progress")
    if progress:
        yield f"{progress['step']} at {progress['at']:.1f} s"
        yield Grid(["AT", "NODE", "EVENT", "PEER", "WHAT"], [_mark(mark) for mark in progress["marks"][-20:]])
    for step in found.get("steps", ()):
        took = "runs" if step["seconds"] is None else f"{step['seconds']:.1f} s"
        yield f"{step['job']}: {took}"
    if found.get("verdicts"):
        words = {True: "kept", False: "BROKEN", None: "not tested"}
        yield Grid(
            ["PROMISE", "VERDICT", "FOUND"],
            [[one["promise"], words[one["kept"]], one["got"]] for one in found["verdicts"]],
        )
    if found.get("figures"):
        yield Grid(["MEASURED", "IS", ""], found["figures"])
    for job, told in found.get("jobs", {}).items():
        yield "\n".join([f"{job}:", *(f"  {line}" for line in told["says"])])
    if broken := found.get("broken"):
        yield Grid(["BROKEN PROMISE", "TIMES"], list(broken.items()))
    if found.get("words"):
        yield found["words"]


def _follow(client: ApiClient, path: str, *, json: bool) -> None:
    told: set[tuple[str, ...]] = set()
    step = ""
    while True:
        found = client.document(path)
        over = found["state"] != "running"
        progress = found.get("progress") or {}
        if not json and not over:
            if progress and progress["step"] != step:
                step = progress["step"]
                sys.stdout.write(f"--- {step}\n")
            # The latest marks are told each time, those that were told among them.
            for mark in progress.get("marks", ()):
                cells = tuple(_mark(mark))
                if cells not in told:
                    told.add(cells)
                    sys.stdout.write(printable("  ".join(filter(None, cells))) + "\n")
            sys.stdout.flush()
        if over:
            break
        time.sleep(PERIOD)
    if json:
        sys.stdout.write(json_text(found) + "\n")
    else:
        for part in _parts(found):
            show_part(part)
    if found["state"] == "broken":
        raise typer.Exit(ExitCode.PROMISE_BROKEN)
    if found["state"] not in ("kept", "elsewhere"):
        raise RunFailedError(id=found["id"], state=found["state"], says=found["says"])


def _what(row: Mapping[str, Any]) -> str:
    order = row["order"]
    words = [order.get("kind") or order.get("job") or "report", order.get("split")]
    return " ".join([*filter(None, words), *(["here"] if order.get("on") == "this-cluster" else [])])


def _began(row: Mapping[str, Any]) -> str:
    return ago(row["began_at"]) or clock(row["began_at"])


def _found(row: Mapping[str, Any]) -> str:
    return str(
        row.get("words")
        or row["says"]
        or ", ".join(f"{n} {what}" for what, n in row.get("broken", {}).items())
    )


def _mark(mark: Mapping[str, Any]) -> list[str]:
    return [f"{mark['at']:.2f} s", mark["node"] or "drill", mark["kind"], mark["peer"], mark["detail"]]

"""Runs at a node: a drill or an audit job beside a node: list, show, follow, stop, report.

``gossamer drill`` and ``gossamer audit`` also run on this machine without a node; here the node that is asked
does the work, and keeps the report.

Rules: 1. Each node has its own runs; ``--node`` asks another one.  2. Following ends when the run does, with
an exit code for how it ended; to stop following stops nothing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from gossamer.api.model.forms import RUN_ID
from gossamer.cli import values
from gossamer.cli.client import ApiClient, Row
from gossamer.cli.command import argument, asks
from gossamer.cli.completion import Complete
from gossamer.cli.errors import ExitCode, FileError
from gossamer.cli.render.output import Grid, ago, clock, json_text, print_line, printable
from gossamer.cli.render.show import Columns, Listing, Note, Part, Report, show_part
from gossamer.errors import UnavailableError

ON_NODE = "At a node (its reports stay there)"
"""Panel of the help."""
PERIOD = 0.5
RUN_TIMEOUT = 60.0
VERDICTS = {True: "kept", False: "BROKEN", None: "not tested"}
_EXAMPLE = "20260131T070000-1c0ffe"

Wait = Annotated[bool, typer.Option("--wait", help="Follow it to its end; 8 if a promise is broken.")]


def add_runs(
    app: typer.Typer, what: str, path: str, complete: Complete, *, listed: str, stopped: str
) -> None:
    """Add to the noun ``what`` the verbs for its runs, which the API has at ``path``."""
    shown = f"As `{what} list` shows it."
    run_id = argument(..., "ID", shown, complete, callback=values.form(RUN_ID))

    @app.command("list", help=listed, rich_help_panel=ON_NODE)
    @asks(node=True, watch=True)
    def list_runs(client: ApiClient) -> Listing:
        found = client.document(path)["items"]
        return Listing(found, _COLUMNS, empty="none yet")

    @app.command("show", help=f"Show one {what}: its progress, or its result.", rich_help_panel=ON_NODE)
    @asks(_EXAMPLE, node=True, watch=True)
    def show_run(client: ApiClient, run: str = run_id) -> Report:
        found = client.document(f"{path}/{run}")
        return Report(found, lambda: _parts(found))

    followed = (
        f"Follow one {what} to its end; 8 if a promise is broken. Ctrl-C ends following, not the {what}."
    )

    @app.command("follow", help=followed, rich_help_panel=ON_NODE)
    @asks(_EXAMPLE, node=True, timeout=RUN_TIMEOUT)
    def follow_run(client: ApiClient, json: bool, run: str = run_id) -> Report:
        _follow(client, f"{path}/{run}", json=json)

    @app.command("stop", help=stopped, rich_help_panel=ON_NODE)
    @asks(_EXAMPLE, node=True, timeout=RUN_TIMEOUT)
    def stop_run(client: ApiClient, run: str = run_id) -> Report:
        found = client.delete(f"{path}/{run}")
        return Report(found, lambda: [f"{found['id']}: {found['state']}"])

    @app.command("report", help=f"Save the HTML report of a {what} that has ended.", rich_help_panel=ON_NODE)
    @asks(f"{_EXAMPLE} {what}.html", node=True, timeout=RUN_TIMEOUT)
    def save_report(
        client: ApiClient,
        run: str = run_id,
        file: Path | None = argument(
            None, "FILE", "Output file; - prints it (default: ID.html).", dir_okay=False
        ),
    ) -> Report:
        page = client.page(f"{path}/{run}/report")
        if str(file) == "-":
            sys.stdout.buffer.write(page)
            raise typer.Exit
        target = file or Path(f"{run}.html")
        try:
            target.write_bytes(page)
        except OSError as error:
            raise FileError(target, error, advice="name another file") from error
        remark = Note("a page without scripts: open it in any browser")
        return Report({"file": str(target)}, lambda: [str(target), remark])


def start_run(client: ApiClient, path: str, body: Row, *, runs: str, json: bool, wait: bool) -> Report:
    """Post what of ``body`` is given, and with ``wait`` follow the run, which the API has below ``runs``."""
    found = client.post(path, {name: value for name, value in body.items() if value is not None})
    if wait:
        _follow(client, f"{runs}/{found['id']}", json=json)
    return Report(found, lambda: [f"{found['id']} runs at {found['node']}"])


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
    yield from result_parts(found.get("verdicts", ()), found.get("figures", ()))
    for job, told in found.get("jobs", {}).items():
        yield "\n".join([f"{job}:", *(f"  {line}" for line in told["says"])])
    if broken := found.get("broken"):
        yield Grid(["BROKEN PROMISE", "TIMES"], list(broken.items()))
    if found.get("words"):
        yield found["words"]


def result_parts(verdicts: Iterable[Row], figures: Sequence[Sequence[str]]) -> Iterable[Part]:
    """Return the result of a drill for people: each promise, and the measurements."""
    rows = [[one["promise"], VERDICTS[one["kept"]], one["got"]] for one in verdicts]
    if rows:
        yield Grid(["PROMISE", "VERDICT", "FOUND"], rows)
    if figures:
        yield Grid(["MEASURED", "IS", ""], figures)


def _follow(client: ApiClient, path: str, *, json: bool) -> NoReturn:
    told: set[tuple[str, ...]] = set()
    step = ""
    while (found := client.document(path))["state"] == "running":
        progress = {} if json else found.get("progress") or {}
        if progress and progress["step"] != step:
            step = progress["step"]
            print_line(f"--- {step}")
        # Each answer has the latest marks, including those that were printed.
        for mark in progress.get("marks", ()):
            cells = tuple(_mark(mark))
            if cells not in told:
                told.add(cells)
                print_line(printable("  ".join(filter(None, cells))))
        time.sleep(PERIOD)
    if json:
        print_line(json_text(found))
    else:
        for part in _parts(found):
            show_part(part)
    state = found["state"]
    if state not in ("kept", "elsewhere", "broken"):
        raise UnavailableError(": ".join(filter(None, (f"{found['id']} {state}", found["says"]))))
    raise typer.Exit(ExitCode.PROMISE_BROKEN if state == "broken" else ExitCode.DONE)


def _what(row: Row) -> str:
    order = row["order"]
    words = [order.get("kind") or order.get("job") or "report", order.get("split")]
    return " ".join([*filter(None, words), *(["here"] if order.get("on") == "this-cluster" else [])])


def _began(row: Row) -> str:
    return ago(row["began_at"]) or clock(row["began_at"])


def _found(row: Row) -> str:
    return str(
        row.get("words")
        or row["says"]
        or ", ".join(f"{n} {what}" for what, n in row.get("broken", {}).items())
    )


def _mark(mark: Row) -> list[str]:
    return [f"{mark['at']:.2f} s", mark["node"] or "drill", mark["kind"], mark["peer"], mark["detail"]]


_COLUMNS: Columns = {
    "ID": "id",
    "WHAT": _what,
    "STATE": "state",
    "BEGAN": _began,
    "BY": "by",
    "FOUND": _found,
}

"""``gossamer drills`` and ``audits``: what is run beside a node by order over HTTP, and what came of it.

``gossamer drill`` and ``gossamer audit run`` do the same on this machine, without a node; here the node that
is asked does it, and keeps the report.

Rules: 1. Each node has its own runs; ``--node`` asks another one.  2. To watch ends when the run does, with a
code that tells how; to stop watching stops nothing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from gossamer.cli import values
from gossamer.cli.client import DEFAULT_API, ApiClient
from gossamer.cli.exits import ExitCode
from gossamer.cli.noun import noun
from gossamer.cli.options import Api, Json, OnNode, Watch
from gossamer.cli.output import ago, clock, emit_json, json_text, note, print_lines
from gossamer.cli.show import Listing, Part, Report, ask, show, show_part
from gossamer.cli.table import Grid, printable
from gossamer.errors import UnavailableError, UsageError, WrongValueError

__all__ = ["audits", "drills"]

DRILLS, REPORTS, ORDERS = "/api/v1/drills", "/api/v1/audit/reports", "/api/v1/audit/runs"
PERIOD = 0.5
_PATIENT = 60.0

drills = noun("Drills ordered at a node: start one, follow it, read what came of it.")
audits = noun("Audits ordered at a node: start one, follow it, read what it found.")

Row = dict[str, Any]
DrillId = Annotated[
    str, typer.Argument(metavar="ID", help="As `drills` shows it.", autocompletion=values.drills)
]
AuditId = Annotated[
    str, typer.Argument(metavar="ID", help="As `audits` shows it.", autocompletion=values.audits)
]
Wait = Annotated[bool, typer.Option("--wait", help="Follow it to its end; 8 if a promise is broken.")]
Target = Annotated[
    Path | None,
    typer.Argument(metavar="FILE", dir_okay=False, help="Where to; - prints it (default: ID.html)."),
]


class ReportFileError(UsageError):
    """The report cannot be written."""

    def __init__(self, *, path: Path, problem: str) -> None:
        self.path = path
        super().__init__(f"{path}: {problem}; name another file")


class RunFailedError(UnavailableError):
    """A run came to no verdict."""

    def __init__(self, *, id: str, state: str, says: str) -> None:
        self.id = id
        super().__init__(f"{id} {state}{f': {says}' if says else ''}")


# -- drills


@drills.command("list")
def list_drills(api: Api = DEFAULT_API, node: OnNode = None, json: Json = False, watch: Watch = None) -> None:
    """List the drills that were ordered at a node, the newest first."""
    _list(api, node, DRILLS, json=json, watch=watch)


@drills.command("start")
def start_drill(
    kind: Annotated[
        str, typer.Argument(metavar="KIND", help="partition, kill, slow, …", autocompletion=values.kinds)
    ],
    here: Annotated[
        bool,
        typer.Option(
            "--here", help="Part this very cluster (partition only; an administrator's, drill.faults)."
        ),
    ] = False,
    split: Annotated[
        str | None,
        typer.Option("--split", help="2/1; one way 1>2; one link 1-2.", autocompletion=values.splits),
    ] = None,
    hold: Annotated[str, typer.Option("--for", metavar="DURATION", help="How long the fault holds.")] = "10s",
    nodes: Annotated[
        int | None, typer.Option("--nodes", "-n", min=2, help="Of its own cluster (default: 3).")
    ] = None,
    load: Annotated[
        float | None, typer.Option("--load", min=0, help="Messages a second (default: 100).")
    ] = None,
    number: Annotated[
        int | None,
        typer.Option("--number", min=1, help="Of the node that is killed, paused … (default: the last)."),
    ] = None,
    api: Api = DEFAULT_API,
    node: OnNode = None,
    json: Json = False,
    wait: Wait = False,
) -> None:
    """Start a drill on the machine of a node, on a cluster of its own; with --here on the one that runs."""
    from gossamer.config import parse_duration

    try:
        seconds = parse_duration(hold)
    except ValueError:
        raise WrongValueError(f"--for: got {hold!r}, expected a duration such as 500ms, 15s, 5m") from None
    order = {"kind": kind, "seconds": seconds, "split": split, "nodes": nodes, "load": load, "node": number}
    body = {name: what for name, what in order.items() if what is not None}
    _start(
        api, node, DRILLS, DRILLS, {**body, **({"on": "this-cluster"} if here else {})}, json=json, wait=wait
    )


@drills.command("show")
def show_drill(
    run: DrillId, api: Api = DEFAULT_API, node: OnNode = None, json: Json = False, watch: Watch = None
) -> None:
    """Show one drill: how far it is, or what came of it."""
    _show(api, node, f"{DRILLS}/{run}", json=json, watch=watch)


@drills.command("follow")
def follow_drill(run: DrillId, api: Api = DEFAULT_API, node: OnNode = None, json: Json = False) -> None:
    """Follow one drill to its end; 8 if a promise is broken. Ctrl-C stops following, not the drill."""
    with ask(api, node, timeout=_PATIENT) as client:
        _follow(client, f"{DRILLS}/{run}", json=json)


@drills.command("stop")
def stop_drill(run: DrillId, api: Api = DEFAULT_API, node: OnNode = None, json: Json = False) -> None:
    """Stop a drill and heal what it broke; or forget one that is over."""
    _stop(api, node, f"{DRILLS}/{run}", json=json)


@drills.command("report")
def drill_report(run: DrillId, file: Target = None, api: Api = DEFAULT_API, node: OnNode = None) -> None:
    """Save the page of a drill that is over."""
    _save(api, node, f"{DRILLS}/{run}/report", file or Path(f"{run}.html"))


# -- audits


@audits.command("list")
def list_audits(api: Api = DEFAULT_API, node: OnNode = None, json: Json = False, watch: Watch = None) -> None:
    """List the audits of a node, the newest first, those of a stream beside it too."""
    _list(api, node, REPORTS, json=json, watch=watch)


@audits.command("start")
def start_audit(
    job: Annotated[
        str, typer.Argument(metavar="JOB", help="report is all of them.", autocompletion=values.jobs)
    ] = "report",
    begin: Annotated[
        str | None, typer.Option("--from", help="Such as 6h, yesterday, 2026-01-31T07:00.")
    ] = None,
    end: Annotated[str | None, typer.Option("--to", help="Excluded; as --from.")] = None,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-on", metavar="PROMISE", help="lost, doubled, late, misrouted, …; may be repeated."
        ),
    ] = None,
    api: Api = DEFAULT_API,
    node: OnNode = None,
    json: Json = False,
    wait: Wait = False,
) -> None:
    """Run a job over what a node recorded, on its machine."""
    order = {"job": job, "from": begin, "to": end, "fail_on": fail_on or None}
    body = {name: what for name, what in order.items() if what is not None}
    _start(api, node, ORDERS, REPORTS, body, json=json, wait=wait)


@audits.command("show")
def show_audit(
    run: AuditId, api: Api = DEFAULT_API, node: OnNode = None, json: Json = False, watch: Watch = None
) -> None:
    """Show one audit: how far it is, or what it found."""
    _show(api, node, f"{REPORTS}/{run}", json=json, watch=watch)


@audits.command("follow")
def follow_audit(run: AuditId, api: Api = DEFAULT_API, node: OnNode = None, json: Json = False) -> None:
    """Follow one audit to its end; 8 if a promise is broken. Ctrl-C stops following, not the audit."""
    with ask(api, node, timeout=_PATIENT) as client:
        _follow(client, f"{REPORTS}/{run}", json=json)


@audits.command("stop")
def stop_audit(run: AuditId, api: Api = DEFAULT_API, node: OnNode = None, json: Json = False) -> None:
    """Stop an audit; or remove one that is over, with all that it made."""
    _stop(api, node, f"{REPORTS}/{run}", json=json)


@audits.command("report")
def audit_report(run: AuditId, file: Target = None, api: Api = DEFAULT_API, node: OnNode = None) -> None:
    """Save the page of an audit that is over."""
    _save(api, node, f"{REPORTS}/{run}/report", file or Path(f"{run}.html"))


# -- both


def _list(api: str, node: str | None, path: str, *, json: bool, watch: float | None) -> None:
    with ask(api, node) as client:
        show(
            lambda _: Listing(
                client.document(path)["items"],
                ["ID", "WHAT", "STATE", "BEGAN", "BY", "FOUND"],
                lambda row: [row["id"], _what(row), row["state"], _began(row), row["by"], _found(row)],
                empty="none yet",
                restless=frozenset({"BEGAN"}),
            ),
            json=json,
            watch=watch,
        )


def _start(api: str, node: str | None, orders: str, runs: str, body: Row, *, json: bool, wait: bool) -> None:
    with ask(api, node, timeout=_PATIENT) as client:
        found = client.post(orders, body)
        if not wait:
            if json:
                emit_json(found)
            else:
                print_lines(f"{found['id']} runs at {found['node']}")
            return
        _follow(client, f"{runs}/{found['id']}", json=json)


def _show(api: str, node: str | None, path: str, *, json: bool, watch: float | None) -> None:
    with ask(api, node) as client:
        show(lambda _: _report(client.document(path)), json=json, watch=watch)


def _report(found: Row) -> Report:
    return Report(found, lambda: _parts(found))


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


def _stop(api: str, node: str | None, path: str, *, json: bool) -> None:
    with ask(api, node, timeout=_PATIENT) as client:
        found = client.delete(path)
    if json:
        emit_json(found)
    else:
        print_lines(f"{found['id']}: {found['state']}")


def _save(api: str, node: str | None, path: str, file: Path) -> None:
    with ask(api, node, timeout=_PATIENT) as client:
        page = client.page(path)
    if str(file) == "-":
        sys.stdout.buffer.write(page)
        return
    try:
        file.write_bytes(page)
    except OSError as error:
        raise ReportFileError(path=file, problem=error.strerror or str(error)) from error
    sys.stdout.write(f"{file}\n")
    note("a page without scripts: open it in any browser")


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

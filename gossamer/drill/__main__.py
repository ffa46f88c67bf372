"""``python -m gossamer.drill DIR``: a drill that nobody watches, whose plan and findings are files.

::

    DIR/plan.json       what is to be done (a :class:`~gossamer.drill.record.Plan`)
    DIR/progress.json   how far it is, replaced twice a second while it lasts
    DIR/record.json     everything, in the end
    DIR/result.json     the verdicts and figures of it, which is all that a list shows
    DIR/report.html     the page

A node starts this when it is asked for a drill over HTTP. Exit codes are those of the command: 0 kept,
8 broken, 5 a plan that makes no sense, 6 not possible.

Rules: 1. A file is replaced as a whole, so that who reads it never sees half of one.  2. SIGTERM ends the
drill in order: nodes, load and directories are gone when the process is.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import msgspec

from gossamer.drill.record import DrillRecord, Plan, record_json
from gossamer.drill.report.page import html
from gossamer.drill.report.promises import short
from gossamer.drill.report.words import figures, happened, outcome, verdict_in_words
from gossamer.drill.run.runner import Progress, conduct
from gossamer.errors import GossamerError, UsageError
from gossamer.files import replace_file

_BROKEN, _REFUSED, _UNAVAILABLE = 8, 5, 6
_INTERVAL = 0.5
_START_TIMEOUT = 120.0
"""Seconds that the cluster may take to start: a drill beside other work has no right to be quick."""
_MARKS = 60
"""The latest marks that the progress has."""


def carry_out(directory: Path) -> int:
    """Carry out ``directory/plan.json``; the exit code."""
    try:
        return asyncio.run(_run(directory))
    except (GossamerError, OSError, TimeoutError) as error:
        # The node keeps what is printed.
        print(f"error: {error or type(error).__name__}", file=sys.stderr, flush=True)  # noqa: T201
        return _REFUSED if isinstance(error, UsageError) else _UNAVAILABLE


async def _run(directory: Path) -> int:
    plan = _read_plan(directory / "plan.json")
    main = asyncio.current_task()
    assert main is not None  # noqa: S101 - asyncio.run made it

    def on_signal() -> None:
        # Once is enough: cleaning up is quick, and a second signal must not stop it.
        if not main.cancelling():
            main.cancel()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, on_signal)
    shown: list[asyncio.Task[None]] = []

    def show(progress: Progress) -> None:
        shown.append(asyncio.create_task(_tell(progress, directory / "progress.json"), name="progress"))

    try:
        record, _ = await conduct(plan, patience=_START_TIMEOUT, show=show)
    except asyncio.CancelledError:
        if not main.cancelling():
            raise
        return _UNAVAILABLE
    finally:
        for task in shown:
            task.cancel()
            await asyncio.wait({task})
    replace_file(directory / "record.json", record_json(record), durable=False)
    replace_file(directory / "report.html", html(record).encode(), durable=False)
    # Last, so that who sees a result finds the rest.
    replace_file(directory / "result.json", msgspec.json.encode(_result(record)), durable=False)
    return _BROKEN if outcome(record.verdicts, record.failure) == "broken" else 0


def _progress(progress: Progress) -> dict[str, object]:
    """How far a drill is, in plain data. Times are the drill's; before its first phase ``at`` is 0."""
    load = progress.load
    nodes = progress.plan.nodes
    return {
        "step": progress.step,
        "at": round(max(0.0, progress.now()), 2),
        "phases": progress.phases,
        "sides": progress.sides,
        "marks": sorted(progress.marks, key=lambda mark: mark.at)[-_MARKS:],
        "sees": {
            short(node): {short(peer): progress.sight.of(node, peer) for peer in nodes if peer != node}
            for node in nodes
        },
        "sent": 0 if load is None else load.ledger.sent.total(),
        "delivered": 0 if load is None else load.ledger.delivered.total(),
        "owed": 0 if load is None else max(0, load.ledger.owed),
        "dropped": sum(not drop.excused for drop in progress.drops),
    }


def _result(record: DrillRecord) -> dict[str, object]:
    """What a list of drills shows of one."""
    return {
        "words": verdict_in_words(record),
        "happened": happened(record),
        "verdicts": record.verdicts,
        "figures": figures(record),
        "failure": record.failure,
    }


async def _tell(progress: Progress, file: Path) -> None:
    while True:
        replace_file(file, msgspec.json.encode(_progress(progress)), durable=False)
        await asyncio.sleep(_INTERVAL)


def _read_plan(file: Path) -> Plan:
    try:
        return msgspec.json.decode(file.read_bytes(), type=Plan)
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError(f"{file}: got {error}, expected a plan of a drill as JSON") from error


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m gossamer.drill DIR (a directory with plan.json)")
    sys.exit(carry_out(Path(sys.argv[1])))

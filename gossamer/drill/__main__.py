"""``python -m gossamer.drill DIR``: an unattended drill, with its plan and results in files.

::

    DIR/plan.json       the :class:`~gossamer.drill.record.Plan`
    DIR/progress.json   the progress, replaced twice a second while the drill runs
    DIR/record.json     the full record, at the end
    DIR/result.json     its verdicts and figures, for lists of drills
    DIR/report.html     the report page

A node starts this for a drill requested over HTTP. Exit codes are those of the command: 0 kept,
8 broken, 5 an invalid plan, 6 not possible.

Rules: 1. Files are replaced atomically, so a reader never sees half of one.  2. SIGTERM ends the drill in
order: nodes, load and directories are removed before the process ends.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import msgspec

from gossamer.drill.record import DrillRecord, Plan, record_json
from gossamer.drill.report.found import short
from gossamer.drill.report.page import html
from gossamer.drill.report.words import figures, happened, outcome, verdict_in_words
from gossamer.drill.run.runner import Progress, conduct
from gossamer.errors import GossamerError, UsageError
from gossamer.files import replace_file

_BROKEN, _REFUSED, _UNAVAILABLE = 8, 5, 6
_INTERVAL = 0.5
_START_TIMEOUT = 120.0
"""Timeout in seconds of the cluster's start; long, since a drill may run beside other work."""
_MARKS = 60
"""Number of latest marks in the progress."""


def carry_out(directory: Path) -> int:
    """Run ``directory/plan.json``; return the exit code."""
    try:
        return asyncio.run(_run(directory))
    except (GossamerError, OSError, TimeoutError) as error:
        # The node stores the output.
        print(f"error: {error or type(error).__name__}", file=sys.stderr, flush=True)  # noqa: T201
        return _REFUSED if isinstance(error, UsageError) else _UNAVAILABLE


async def _run(directory: Path) -> int:
    plan = _read_plan(directory / "plan.json")
    main = asyncio.current_task()
    assert main is not None  # noqa: S101 - asyncio.run made it

    def on_signal() -> None:
        # Cancel only once: a second signal must not interrupt the cleanup.
        if not main.cancelling():
            main.cancel()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, on_signal)
    shown: list[asyncio.Task[None]] = []

    def show(progress: Progress) -> None:
        shown.append(asyncio.create_task(_tell(progress, directory / "progress.json"), name="progress"))

    try:
        record, _ = await conduct(plan, start_timeout=_START_TIMEOUT, show=show)
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
    # Last: a reader that finds the result finds the rest too.
    replace_file(directory / "result.json", msgspec.json.encode(_result(record)), durable=False)
    return _BROKEN if outcome(record.verdicts, record.failure) == "broken" else 0


def _progress(progress: Progress) -> dict[str, object]:
    """Return the progress as plain data. Times are the drill's; before its first phase ``at`` is 0."""
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
    """Return the summary for a list of drills."""
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

"""What a drill shows: lines while it runs where nobody watches, a picture where somebody does, and the end.

Rules: 1. On a terminal one picture, redrawn four times a second; elsewhere a line for each step and mark.  2.
When standard output is for the record, all of this goes to standard error.  3. Of clients that come and go
the first lines are shown and the rest counted: a broken drill may have thousands.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections import Counter
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Protocol, Self

from rich.console import Console
from rich.live import Live

from gossamer.cli.drill.view import Rates, frame
from gossamer.cli.render.output import print_table
from gossamer.cli.render.table import PipedConsole

if TYPE_CHECKING:
    from gossamer.drill import Progress, StepName
    from gossamer.drill.record import DrillRecord, Mark

__all__ = ["Screen", "line_of", "open_screen", "show_record"]

_REDRAW = 0.25
_CLIENT_LINES = 10


class Screen(Protocol):
    """Hears of a drill as it goes."""

    def show(self, progress: Progress) -> None:
        """What may be looked at from now on."""

    def tell(self, what: Mark | StepName) -> None:
        """A step begins, or something happened."""


@contextlib.asynccontextmanager
async def open_screen(*, quiet: bool) -> AsyncIterator[Screen]:
    """The screen for where the output goes; ``quiet``: standard output is taken."""
    console = PipedConsole(stderr=quiet, highlight=False)
    if console.is_terminal:
        with _LiveScreen(console) as screen:
            drawing = asyncio.create_task(screen.draw(), name="screen")
            try:
                yield screen
            finally:
                drawing.cancel()
                await asyncio.wait({drawing})
    else:
        yield _Lines(console)


class _Lines:
    """Line by line."""

    def __init__(self, console: Console) -> None:
        self._file = console.file
        self._progress: Progress | None = None
        self._clients = 0

    def show(self, progress: Progress) -> None:
        self._progress = progress

    def tell(self, what: Mark | StepName) -> None:
        if isinstance(what, str):
            self._print(f"--- {what}")
            return
        if what.kind in ("client dropped", "client back"):
            self._clients += 1
            if self._clients > _CLIENT_LINES:
                if self._clients == _CLIENT_LINES + 1:
                    self._print("    more clients come and go; they are counted in the end")
                return
        self._print(line_of(what))

    def _print(self, line: str) -> None:
        print(line, file=self._file, flush=True)


class _LiveScreen:
    """A picture that is redrawn."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, refresh_per_second=4, auto_refresh=False, transient=True)
        self._progress: Progress | None = None
        self._rates = Rates()

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, progress: Progress) -> None:
        self._progress = progress

    def tell(self, what: Mark | StepName) -> None:
        """Nothing: the picture is drawn from what is known."""

    async def draw(self) -> None:
        """Again and again."""
        while True:
            if self._progress is not None:
                self._rates.look(self._progress)
                self._live.update(
                    frame(self._progress, self._rates, height=self._live.console.height), refresh=True
                )
            await asyncio.sleep(_REDRAW)


def short(node: str) -> str:
    """``node3`` of ``node3@127.0.0.1``."""
    return node.partition("@")[0]


def line_of(mark: Mark) -> str:
    """One mark as a line."""
    words = [f"{mark.at:8.2f} s ", f"{short(mark.node) or 'drill':<8}", mark.kind]
    if mark.peer:
        words.append(short(mark.peer))
    if mark.detail:
        words.append(f"({mark.detail})")
    return " ".join(words)


def show_record(record: DrillRecord) -> None:
    """The end of a drill, for people, on standard output."""
    speeds = [
        (
            speed.name,
            "never" if speed.seconds is None else f"{speed.seconds:.2f} s",
            "" if speed.bar is None else f"≤ {speed.bar:g} s",
        )
        for speed in record.speeds
    ]
    out = sys.stdout.write
    if speeds:
        out("\n")
        print_table(("measured", "took", "promised"), speeds, empty="")
    out("\n")
    print_table(
        ("phase", "from", "to", "QoS", "session", "sent", "acked", "delivered", "late", "lost", "doubled"),
        _traffic(record),
        empty="no message was sent",
    )
    drops = record.clients.drops
    excused = sum(drop.excused for drop in drops)
    rows = sum(found.rows for found in record.quarantined)
    out(
        f"\n{record.clients.publishers + record.clients.subscribers} clients: {len(drops) - excused} dropped"
        + (f", {excused} of nodes that the drill ended" if excused else "")
        + f"; {len(record.heals)} heals; {record.merged} rows decided, {rows} in quarantine\n"
    )
    for found in record.quarantined:
        out(f"  {found.rows} rows of {short(found.node)} in {found.file}\n")
    out("\n")
    words = {True: "kept", False: "BROKEN", None: "not tested"}
    print_table(
        ("promise", "verdict", "found"),
        [(verdict.promise, words[verdict.kept], verdict.got) for verdict in record.verdicts],
        empty="nothing was promised",
    )
    if record.failure:
        out(f"\nthe drill did not come to its end: {record.failure}\n")


_COLUMNS = ("sent", "acknowledged", "delivered", "late", "lost", "doubled")


def _traffic(record: DrillRecord) -> list[tuple[object, ...]]:
    """Summed up: what crossed the fault by side and kind of session, all else by phase."""
    sums: dict[tuple[str, ...], Counter[str]] = {}
    torn = {(row.source, row.target) for row in record.traffic if row.parted}
    for row in record.traffic:
        session = "persistent" if row.persistent else "clean"
        if row.phase not in ("split", "heal") or not torn:
            key = (row.phase, "all", "all", "all", "all")
        elif (row.source, row.target) in torn:
            key = (row.phase, row.source, "others", "0" if row.qos == 0 else "1, 2", session)
        else:
            key = (row.phase, "any", "not parted", "all", "all")
        sums.setdefault(key, Counter()).update({name: getattr(row, name) for name in _COLUMNS})
    order: dict[str, int] = {phase.name: number for number, phase in enumerate(record.phases)}
    return [
        (*key, *(f"{count[name]}" for name in _COLUMNS))
        for key, count in sorted(sums.items(), key=lambda item: (order.get(item[0][0], 9), item[0][1:]))
    ]

"""What a drill shows: a line for each step and each mark as it happens, where it is now, and how it ended.

Rules: 1. On a terminal one more line, below the others, says where the drill is; it is redrawn four times a
second.  2. When standard output is for the record, all of this goes to standard error.  3. Of clients that
come and go the first lines are shown and the rest counted: a broken drill may have thousands.
"""

from __future__ import annotations

import contextlib
import sys
from collections import Counter, deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live
from rich.text import Text

from gossamer.cli.render.output import print_table
from gossamer.cli.render.table import PipedConsole

if TYPE_CHECKING:
    from gossamer.drill import Progress, StepName
    from gossamer.drill.record import DrillRecord, Mark

__all__ = ["VERDICTS", "Screen", "line_of", "open_screen", "show_record"]

_CLIENT_LINES = 10
_WINDOW = 2.0
"""Seconds over which rates are taken."""
VERDICTS = {True: "kept", False: "BROKEN", None: "not tested"}


@contextlib.contextmanager
def open_screen(*, quiet: bool) -> Iterator[Screen]:
    """The screen for where the output goes; ``quiet``: standard output is taken."""
    console = PipedConsole(stderr=quiet, highlight=False)
    screen = Screen(console)
    if console.is_terminal:
        with Live(screen, console=console, refresh_per_second=4, transient=True):
            yield screen
    else:
        yield screen


class Screen:
    """Hears of a drill as it goes; drawn, it is the line that says where the drill is."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress: Progress | None = None
        self._clients = 0
        self._counts: deque[tuple[float, int, int]] = deque()

    def show(self, progress: Progress) -> None:
        """What may be looked at from now on."""
        self._progress = progress

    def tell(self, what: Mark | StepName) -> None:
        """A step begins, or something happened."""
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
        self._console.print(Text(line), soft_wrap=True)

    def __rich__(self) -> Text:
        progress = self._progress
        if progress is None or progress.load is None:
            return Text("starting" if progress is None else progress.step, style="bold")
        now, ledger = progress.now(), progress.load.ledger
        since = now - (progress.phases[-1].end if progress.phases else 0.0)
        # Lists, since this is drawn by a thread of its own while the counters grow.
        self._counts.append((now, sum(list(ledger.sent.values())), sum(list(ledger.delivered.values()))))
        while now - self._counts[0][0] > _WINDOW and len(self._counts) > 2:
            self._counts.popleft()
        then, sent, delivered = self._counts[0]
        _, *latest = self._counts[-1]
        span = max(now - then, 0.001)
        line = Text(f"{progress.step} {max(0.0, since):.0f} s: ", no_wrap=True, overflow="ellipsis")
        line.append(
            f"{(latest[0] - sent) / span:.0f} sent/s, {(latest[1] - delivered) / span:.0f} delivered/s"
        )
        line.append(f", {max(0, ledger.owed)} due")
        if dropped := sum(not drop.excused for drop in progress.drops):
            line.append(f", {dropped} clients dropped", "red")
        return line


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
    print_table(
        ("promise", "verdict", "found"),
        [(verdict.promise, VERDICTS[verdict.kept], verdict.got) for verdict in record.verdicts],
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

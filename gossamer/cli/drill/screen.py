"""What a drill shows: a line for each step and each mark as it happens, and where it is now.

Rules: 1. On a terminal one more line, below the others, says where the drill is; it is redrawn four times a
second.  2. When standard output is for the record, all of this goes to standard error.  3. Of clients that
come and go the first lines are shown and the rest counted: a broken drill may have thousands.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live
from rich.text import Text

from gossamer.cli.render.table import PipedConsole

if TYPE_CHECKING:
    from gossamer.drill import Progress, StepName
    from gossamer.drill.record import Mark

_CLIENT_LINES = 10
_WINDOW = 2.0
"""Seconds over which rates are taken."""


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

"""``--watch``: what a command shows, asked again every few seconds, changes marked, until somebody ends it.

On a terminal the screen is drawn anew and is as it was afterwards; piped, the rounds stand below each other;
with ``--json`` each is one line.

Rules: 1. The first round must come off, so that a mistake is told as everywhere.  2. After that a node that
cannot be asked is shown as such, what was known stays, and watching goes on.  3. What the node refuses ends
it: that does not change by waiting.  4. Ctrl-C and q end it in order, with code 0: it is the way to stop.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, Self

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.segment import Segment
from rich.text import Text

from gossamer.cli.render.keyboard import Keyboard
from gossamer.cli.render.output import json_text
from gossamer.cli.render.show import Ask, Part, Rendered, parts_of, show_part, whole
from gossamer.cli.render.table import Cell, Grid, draw, make_console, marked, printable, tree_lines
from gossamer.errors import TransportError, UnavailableError

__all__ = ["PERIOD", "Cropped", "watch_it"]

PERIOD = 2.0
"""Seconds between two rounds where nobody says."""
ROWS = 1000
"""Rows of a list that are asked for again and again; a terminal shows fewer."""
Rows = Sequence[Sequence[Cell]]


@dataclass(slots=True)
class Round:
    """What one round found; ``error`` is why it found nothing."""

    at: float
    shown: list[tuple[Part, Rows]] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    error: str = ""


class Screen(Protocol):
    """Where rounds go."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def draw(self, rendered: Rendered | None, error: str) -> None:
        """One round: what it found, or why it found nothing."""


def watch_it(
    ask: Ask,
    *,
    seconds: float,
    json: bool,
    limit: int | None = None,
    goes_on: Callable[[], bool] = lambda: True,
) -> None:
    """Ask and show every ``seconds`` while ``goes_on``."""
    on_terminal = sys.stdout.isatty() and not json
    if on_terminal:
        limit = min(limit or ROWS, ROWS)
    begun = False
    try:
        with Keyboard() as keyboard, _screen(json=json, every=seconds) as screen:
            while goes_on():
                following = time.monotonic() + seconds
                try:
                    screen.draw(ask(limit), "")
                except (TransportError, UnavailableError) as error:
                    if not begun:
                        raise
                    screen.draw(None, str(error))
                begun = True
                if keyboard.wait_for("q", until=following):
                    return
    except KeyboardInterrupt:
        pass


def _screen(*, json: bool, every: float) -> Screen:
    if json:
        return _Lines()
    return _Terminal(every) if sys.stdout.isatty() else _Rounds()


class _Lines:
    """One JSON document a line."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def draw(self, rendered: Rendered | None, error: str) -> None:
        at = round(time.time(), 3)
        # Whole before the first character is written: a list that breaks off leaves no half a line.
        line = json_text({"at": at, "error": error} if rendered is None else {"at": at, **whole(rendered)})
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


class _Rounds:
    """One below the other."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def draw(self, rendered: Rendered | None, error: str) -> None:
        sys.stdout.write(f"-- {_clock(time.time())}\n")
        if rendered is None:
            sys.stdout.write(printable(error) + "\n")
        else:
            for part in parts_of(rendered):
                show_part(part)
            for name, reason in rendered.missing.items():
                sys.stdout.write(printable(f"{name} did not answer: {reason}") + "\n")
        sys.stdout.flush()


class _Terminal:
    """The whole terminal, drawn anew each round."""

    def __init__(self, every: float) -> None:
        self._every = every
        self._last = Round(0.0)
        self._console = make_console()
        self._live = Live(console=self._console, screen=True, auto_refresh=False, vertical_overflow="crop")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def draw(self, rendered: Rendered | None, error: str) -> None:
        now = self._read(rendered) if rendered is not None else replace(self._last, error=error)
        if not self._live.is_started:
            # Not before the first round: what goes wrong with it is told on the usual screen.
            self._live.start()
        self._live.update(self._screen(now), refresh=True)
        if rendered is not None:
            self._last = now

    def _read(self, rendered: Rendered) -> Round:
        now = Round(time.time())
        for part in parts_of(rendered):
            now.shown.append((part, list(part.rows) if isinstance(part, Grid) else []))
        now.missing = dict(rendered.missing)
        return now

    def _screen(self, now: Round) -> Group:
        before = [rows if isinstance(part, Grid) else None for part, rows in self._last.shown]
        # A round that failed shows what was there, without marks.
        fresh = not now.error and len(before) == len(now.shown)
        body: list[RenderableType] = []
        for at, (part, rows) in enumerate(now.shown):
            if not isinstance(part, Grid):
                body.append(part)
                continue
            if part.title:
                body.append(Text(printable(part.title), style="bold"))
            marks = marked(part, before[at] if fresh else None, rows)
            if part.tree:
                body += _uncut(tree_lines(part, rows, marks=marks))
            else:
                body.append(draw(part, rows, marks=marks) if rows else Text(part.empty, style="dim"))
        foot = [
            Text(
                printable(f"{name} did not answer: {reason}"), style="red", no_wrap=True, overflow="ellipsis"
            )
            for name, reason in now.missing.items()
        ]
        if now.error:
            since = int(time.time() - now.at)
            foot.append(Text(printable(now.error), style="bold red"))
            foot.append(Text(f"what stands above is {since} s old; trying again", style="red"))
        foot.append(Text(f"{_clock(time.time())}, every {self._every:g} s; q ends", style="dim"))
        foot_lines = sum(len(self._console.render_lines(line)) for line in foot)
        return Group(
            Cropped(Group(*body), max(1, self._console.height - foot_lines), dim=bool(now.error)),
            *foot,
        )


class Cropped:
    """As many lines of something as there is room for, and how many more there are."""

    def __init__(self, inside: Group, height: int, *, dim: bool = False) -> None:
        self._inside = inside
        self._height = height
        self._dim = dim

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        style = console.get_style("dim") if self._dim else None
        lines = console.render_lines(self._inside, options.update(height=None), style=style, pad=False)
        shown = lines
        if len(lines) > self._height:
            shown = lines[: self._height - 1]
            more = Text(f"… {len(lines) - len(shown)} more lines", style="dim")
            shown = [*shown, *console.render_lines(more, options, pad=False)]
        for line in shown:
            yield from line
            yield Segment.line()


def _uncut(lines: Iterable[Text]) -> Iterable[Text]:
    """One line of the screen for each, whatever there is room for."""
    for line in lines:
        line.no_wrap, line.overflow = True, "ellipsis"
        yield line


def _clock(moment: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(moment))

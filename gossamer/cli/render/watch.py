"""``--watch``: refresh a command's output every few seconds, with changes marked, until it is stopped.

On a terminal the screen is redrawn and is as it was afterwards; piped, the rounds stand below each other;
with ``--json`` each is one line.

Rules: 1. The first round must succeed, so that a mistake is told as everywhere.  2. After that a node that
cannot be asked is shown as such, what was known stays, and watching goes on.  3. What the node refuses ends
it: that does not change by waiting.  4. Ctrl-C and q end it in order, with code 0: it is the way to stop.
5. Keys are read one by one, without Enter; none where standard input is no terminal.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import time
import tty
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from types import FrameType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.segment import SegmentLines
from rich.text import Text

from gossamer.cli.render.output import (
    Cell,
    Grid,
    draw,
    json_text,
    make_console,
    marked,
    print_line,
    printable,
)
from gossamer.cli.render.show import Ask, Part, Rendered, document_of, show_part
from gossamer.errors import TransportError, UnavailableError

_ARROWS = {"A": "up", "B": "down", "C": "right", "D": "left"}
_NAMED = {
    **{f"\x1b{lead}{code}": name for lead in "[O" for code, name in _ARROWS.items()},
    "\r": "enter",
    "\n": "enter",
    "\x1b": "escape",
    "\x7f": "backspace",
    "\b": "backspace",
}
"""Keys that are no character, by what the terminal sends."""


class Keyboard(ExitStack):
    """Inside, keys come one by one, and a signal that ends the program ends it as Ctrl-C does.

    The terminal is as it was afterwards, however this ends.
    """

    def __init__(self) -> None:
        super().__init__()
        self._typed: deque[str] = deque(maxlen=64)
        self._on_terminal = False

    def __enter__(self) -> Self:
        for number in (signal.SIGTERM, signal.SIGHUP):
            self.callback(signal.signal, number, signal.signal(number, _interrupt))
        if sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty():
            self._on_terminal = True
            self.callback(termios.tcsetattr, sys.stdin, termios.TCSADRAIN, termios.tcgetattr(sys.stdin))
            tty.setcbreak(sys.stdin.fileno())
        return self

    def read(self, seconds: float) -> str:
        """The next key, or nothing after ``seconds``."""
        if not self._on_terminal:
            time.sleep(seconds)
            return ""
        if not self._typed:
            descriptor = sys.stdin.fileno()
            ready, _, _ = select.select([descriptor], [], [], max(0.0, seconds))
            if not ready:
                return ""
            # An arrow is several bytes at once.
            pressed = os.read(descriptor, 64).decode("utf-8", "replace")
            if pressed in _NAMED:
                return _NAMED[pressed]
            if pressed[:2] in ("\x1b[", "\x1bO"):
                return ""
            # Fast typing and pasted text are read completely.
            self._typed.extend(pressed)
        key = self._typed.popleft() if self._typed else ""
        return _NAMED.get(key, key)

    def wait_for(self, keys: str, *, until: float) -> str:
        """Return one of ``keys``, or an empty string at ``until`` by the monotonic clock."""
        while (left := until - time.monotonic()) > 0:
            if (key := self.read(left)) and key in keys:
                return key
        return ""


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


ROWS = 1000
"""Rows of a list that are asked for again and again; a terminal shows fewer."""
Rows = Sequence[Sequence[Cell]]
Round = Rendered | str
"""The result of one round, or why there is none."""


def watch_it(
    ask: Ask,
    *,
    seconds: float,
    json: bool,
    limit: int | None = None,
    draw: Callable[[Round], None] | None = None,
    goes_on: Callable[[], bool] = lambda: True,
) -> None:
    """Ask and show every ``seconds`` while ``goes_on``; by ``draw`` where that is given."""
    begun = False
    try:
        with ExitStack() as stack:
            keyboard = stack.enter_context(Keyboard())
            if draw is None and sys.stdout.isatty() and not json:
                limit = min(limit or ROWS, ROWS)
                draw = stack.enter_context(_Terminal(seconds)).draw
            draw = draw or (_json_line if json else _below)
            while goes_on():
                following = time.monotonic() + seconds
                try:
                    draw(ask(limit))
                except (TransportError, UnavailableError) as error:
                    if not begun:
                        raise
                    draw(str(error))
                begun = True
                if keyboard.wait_for("q", until=following):
                    return
    except KeyboardInterrupt:
        pass


def _json_line(now: Round) -> None:
    at = round(time.time(), 3)
    # Whole before the first character is written: a list that breaks off leaves no half a line.
    print_line(json_text({"at": at, **({"error": now} if isinstance(now, str) else document_of(now))}))


def _below(now: Round) -> None:
    print_line(f"-- {_clock()}")
    if isinstance(now, str):
        print_line(printable(now))
        return
    for part in now.parts():
        show_part(part)
    for line in _silent(now):
        print_line(line)


class _Terminal:
    """The whole terminal, redrawn each round."""

    def __init__(self, every: float) -> None:
        self._every = every
        self._at = 0.0
        self._shown: list[tuple[Part, Rows]] = []
        self._silent: list[str] = []
        self._console = make_console()
        self._live = Live(console=self._console, screen=True, auto_refresh=False, vertical_overflow="crop")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def draw(self, now: Round) -> None:
        """Draw what was found, or what was found before and why there is nothing new."""
        error = now if isinstance(now, str) else ""
        before = None if error else [rows for _, rows in self._shown]
        if not isinstance(now, str):
            self._at = time.time()
            self._shown = [(part, list(part.rows) if isinstance(part, Grid) else []) for part in now.parts()]
            self._silent = list(_silent(now))
        if not self._live.is_started:
            # Not before the first round, whose errors are printed on the normal screen.
            self._live.start()
        foot = [Text(line, style="red", no_wrap=True, overflow="ellipsis") for line in self._silent]
        if error:
            foot.append(Text(printable(error), style="bold red"))
            foot.append(
                Text(f"what stands above is {int(time.time() - self._at)} s old; trying again", "red")
            )
        foot.append(Text(f"{_clock()}, every {self._every:g} s; q ends", style="dim"))
        room = self._console.height - sum(len(self._console.render_lines(line)) for line in foot)
        body = cropped(self._console, self._body(before), max(1, room), style="dim" if error else "")
        self._live.update(Group(body, *foot), refresh=True)

    def _body(self, before: Sequence[Rows] | None) -> Group:
        # A round that failed shows what was there, without marks.
        if before is None or len(before) != len(self._shown):
            before = None
        body: list[RenderableType] = []
        for at, (part, rows) in enumerate(self._shown):
            if not isinstance(part, Grid):
                body.append(Text(printable(part)))
                continue
            if part.title:
                body.append(Text(printable(part.title), style="bold"))
            marks = marked(part, before[at], rows) if before is not None else {}
            body.append(draw(part, rows, marks=marks) if rows else Text(part.empty, style="dim"))
        return Group(*body)


def cropped(console: Console, body: Group, height: int, *, style: str = "") -> RenderableType:
    """Crop ``body`` to the available lines, and add the number of the rest."""
    lines = console.render_lines(body, style=console.get_style(style or "none"), pad=False)
    if len(lines) <= height:
        return SegmentLines(lines, new_lines=True)
    shown = lines[: height - 1]
    more = Text(f"… {len(lines) - len(shown)} more lines", style="dim")
    return Group(SegmentLines(shown, new_lines=True), more)


def _silent(rendered: Rendered) -> Sequence[str]:
    return [printable(f"{name} did not answer: {why}") for name, why in rendered.missing.items()]


def _clock() -> str:
    return time.strftime("%H:%M:%S")

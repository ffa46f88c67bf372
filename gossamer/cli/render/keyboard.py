"""Single keys of whoever watches, without Enter; none where standard input is no terminal."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import time
import tty
from collections import deque
from contextlib import ExitStack
from types import FrameType
from typing import Self

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
            # Whoever types fast, or pastes, has all of it read.
            self._typed.extend(pressed)
        key = self._typed.popleft() if self._typed else ""
        return _NAMED.get(key, key)

    def wait_for(self, keys: str, *, until: float) -> str:
        """One of ``keys``, or nothing at ``until`` by the monotonic clock."""
        while (left := until - time.monotonic()) > 0:
            if (key := self.read(left)) and key in keys:
                return key
        return ""


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt

"""Single keys of whoever watches, without Enter; none where standard input is no terminal."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections import deque
from types import FrameType, TracebackType
from typing import Any, Self

try:
    import termios
    import tty
except ImportError:  # pragma: no cover - there is no such terminal on this system
    termios = None  # type: ignore[assignment]

__all__ = ["Keyboard"]

_NAMED = {
    **{
        f"\x1b{lead}{code}": name
        for lead in "[O"
        for code, name in zip("ABCD", ("up", "down", "right", "left"), strict=True)
    },
    "\r": "enter",
    "\n": "enter",
    "\x1b": "escape",
    "\x7f": "backspace",
    "\b": "backspace",
}
"""Keys that are no character, by what the terminal sends."""
_ENDINGS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


class Keyboard:
    """Inside, keys come one by one, and a signal that ends the program ends it as Ctrl-C does.

    The terminal is as it was afterwards, however this ends.
    """

    def __init__(self) -> None:
        self._before: list[Any] | None = None
        self._typed: deque[str] = deque(maxlen=64)
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in _ENDINGS:
            self._handlers[number] = signal.signal(number, _interrupt)
        if termios is not None and sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty():
            self._before = termios.tcgetattr(sys.stdin)
            tty.setcbreak(sys.stdin.fileno())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._before)
            self._before = None
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def read(self, seconds: float) -> str:
        """The next key, or nothing after ``seconds``."""
        if self._before is None:
            time.sleep(seconds)
            return ""
        if self._typed:
            return self._next()
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
        return self._next()

    def _next(self) -> str:
        key = self._typed.popleft()
        return _NAMED.get(key, key)

    def wait_for(self, keys: str, *, until: float) -> str:
        """One of ``keys``, or nothing at ``until`` by the monotonic clock."""
        while (left := until - time.monotonic()) > 0:
            if (key := self.read(left)) and key in keys:
                return key
        return ""


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt

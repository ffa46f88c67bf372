"""Log lines that anybody can cause: so many of a kind an interval, and the count of those left out.

A caller that is refused ten thousand times a second must not fill the disc, nor hide what else is logged.
The first lines of each interval are written; the first of the next says by ``left_out`` how many were not.
Counters have the rest.

Rule: kinds are few and the program's own, such as events and reasons, never what a caller sends.
"""

from __future__ import annotations

from collections.abc import Callable


class LogLimit:
    """Writes ``lines`` log lines of each kind an ``interval`` of seconds, by the clock ``now``."""

    def __init__(self, now: Callable[[], float], *, lines: int = 10, interval: float = 60.0) -> None:
        self._now = now
        self._lines = lines
        self._interval = interval
        self._written: dict[str, tuple[float, int]] = {}
        """Of each kind: when its interval began, and how often it was asked for since."""

    def write(self, log: Callable[..., object], event: str, *, kind: str = "", **fields: object) -> None:
        """Call ``log`` with ``event`` and ``fields`` unless enough of it was written; ``kind`` divides it."""
        key, now = f"{event} {kind}", self._now()
        began, count = self._written.get(key, (now, 0))
        if now - began >= self._interval:
            if count > self._lines:
                fields["left_out"] = count - self._lines
            began, count = now, 0
        self._written[key] = began, count + 1
        if count < self._lines:
            log(event, **fields)

"""A wall clock that a drill sets wrong: it jumps, as one does that is set by hand or by a bad time server."""

from __future__ import annotations

import asyncio

from gossamer.clock import Clock


class FaultyClock:
    """Implements :class:`gossamer.clock.Clock` on another one; ``wall`` alone is wrong, as on a machine."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._timer: asyncio.TimerHandle | None = None
        self.offset = 0.0

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def wall(self) -> float:
        return self._clock.wall() + self.offset

    def set(self, offset: float, *, seconds: float | None = None) -> None:
        """Jump to ``offset`` seconds off, for ``seconds`` or until the next call."""
        self.offset = offset
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if seconds is not None and offset:
            self._timer = asyncio.get_running_loop().call_later(seconds, self.set, 0.0)

"""A simulated host's clock: the loop's time for intervals, a wall clock that may be wrong."""

from __future__ import annotations

import asyncio

__all__ = ["SIMULATED_EPOCH", "SimClock"]

SIMULATED_EPOCH = 1_700_000_000.0
"""What a wall clock without skew shows when virtual time is 0."""


class SimClock:
    """Implements :class:`gossamer.clock.Clock`. ``skew`` is how many seconds the wall clock is ahead;
    ``drift`` how many seconds it gains each second."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, skew: float = 0.0, drift: float = 0.0) -> None:
        self._loop = loop
        self.skew = skew
        self.drift = drift

    def monotonic(self) -> float:
        return self._loop.time()

    def wall(self) -> float:
        elapsed = self._loop.time()
        return SIMULATED_EPOCH + elapsed + elapsed * self.drift + self.skew

    def jump(self, seconds: float) -> None:
        """Step the wall clock, as an operator or a time daemon does."""
        self.skew += seconds

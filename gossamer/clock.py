"""Clocks, passed in: the clock of a node, and the hybrid logical clock that orders events across nodes.

Rules: 1. Nothing in gossamer reads the system clock but :class:`SystemClock`.  2. Intervals are measured on
``monotonic``, which is the event loop's own time, so that a virtual-time loop moves both.  3. ``wall`` is for
display, for expiry that outlives a process, and for the hybrid clock; it may jump.

The hybrid logical clock is that of Kulkarni et al., "Logical Physical Clocks" (2014): 48 bits of wall
milliseconds above 16 bits of counter, one integer that sorts like both.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Protocol

from gossamer.errors import PeerError

_COUNTER_BITS = 16


class Clock(Protocol):
    """Clock of a node, in seconds."""

    def monotonic(self) -> float:
        """Return a time that never goes back; its zero is arbitrary."""

    def wall(self) -> float:
        """Seconds since 1970 as this machine believes them; may jump."""


class SystemClock:
    """The running loop's time and the system's wall clock."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    def monotonic(self) -> float:
        # Asking which loop runs is a system call, and the clock is read for every read of a socket.
        loop = self._loop
        if loop is None or not loop.is_running():
            loop = self._loop = asyncio.get_running_loop()
        return loop.time()

    def wall(self) -> float:
        return time.time()


def reader_of(clock: Clock) -> Callable[[], float]:
    """Return ``clock.monotonic`` for something that stays on the running loop, and reads it all the time."""
    if type(clock) is SystemClock:
        with contextlib.suppress(RuntimeError):
            return asyncio.get_running_loop().time
    return clock.monotonic


class ClockSkewError(PeerError):
    """A peer's clock is further ahead of ours than the bound allows."""

    def __init__(self, *, ahead: float, bound: float) -> None:
        self.ahead = ahead
        self.bound = bound
        super().__init__(
            f"a timestamp is {ahead:.3f} s ahead of this node's clock, expected at most {bound:.3f} s; "
            "check time synchronisation on both nodes"
        )


class HybridLogicalClock:
    """Issues 64-bit timestamps that respect causality and stay close to wall time.

    ``max_skew`` bounds, in seconds, how far a peer may drag this clock ahead of its own wall clock.
    """

    def __init__(self, *, max_skew: float = 60.0) -> None:
        self._max_skew = max_skew
        self._last = 0

    def tick(self, wall: float) -> int:
        """A timestamp for a local event, larger than every one issued or observed before."""
        last = self._last + 1
        now = int(wall * 1000) << _COUNTER_BITS
        self._last = last = now if now > last else last
        return last

    def observe(self, remote: int, wall: float) -> None:
        """Take in a timestamp received from a peer; later ticks are larger than it.

        Raises:
            ClockSkewError: it is more than ``max_skew`` ahead of ``wall``; the clock stays as it was.
        """
        ahead = self.wall_of(remote) - wall
        if ahead > self._max_skew:
            raise ClockSkewError(ahead=ahead, bound=self._max_skew)
        self._last = max(self._last, remote)

    @staticmethod
    def wall_of(timestamp: int) -> float:
        """The wall-clock part, in seconds since 1970."""
        return (timestamp >> _COUNTER_BITS) / 1000

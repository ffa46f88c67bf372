"""Restart intensity: how often may a supervisor restart before it gives up.

Rules: 1. No clock, no I/O: callers pass ``now``.  2. ``now`` never goes backwards.  3. A sweep of many
children is one restart; every failed attempt to restart is one more.
"""

from __future__ import annotations

from collections import deque

__all__ = ["RestartWindow"]


class RestartWindow:
    """Counts restarts in the last ``period`` seconds."""

    __slots__ = ("_intensity", "_period", "_stamps")

    def __init__(self, *, intensity: int, period: float) -> None:
        self._intensity = intensity
        self._period = period
        self._stamps: deque[float] = deque()

    def admit(self, now: float) -> bool:
        """Record a restart; False means give up."""
        self._stamps.append(now)
        # A stamp exactly one period old still counts, as in OTP.
        while self._stamps[0] < now - self._period:
            self._stamps.popleft()
        return len(self._stamps) <= self._intensity

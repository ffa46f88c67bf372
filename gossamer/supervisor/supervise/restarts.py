"""How often may a child restart, and how long does a restart wait: intensity and back-off.

Rules: 1. No clock, no I/O: callers pass ``now``, which never goes backwards, and the source of randomness.
2. A sweep of many children is one restart; every failed attempt to restart is one more.  3. A wait is never
zero: a child with back-off is never restarted in the same turn.

Rejected: a first restart at once in spite of back-off. A child that fails at once on every node would then
still restart on all of them together.
"""

from __future__ import annotations

import random
from collections import deque

from gossamer.supervisor.supervise.spec import Backoff

__all__ = ["Delays", "RestartWindow"]


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


class Delays:
    """The waits of one child."""

    __slots__ = ("_backoff", "_failures", "_rng", "_tried_at")

    def __init__(self, backoff: Backoff, rng: random.Random) -> None:
        self._backoff = backoff
        self._rng = rng
        self._failures = 0
        self._tried_at = 0.0

    def next(self, now: float) -> float:
        """Seconds to wait after a failure at ``now``."""
        backoff = self._backoff
        if now - self._tried_at >= backoff.reset_after:
            self._failures = 0
        delay = backoff.initial
        # The exponent is bounded: a child may fail for weeks, and floats overflow.
        if self._failures:
            delay = min(backoff.maximum, delay * backoff.factor ** min(self._failures, 64))
        self._failures += 1
        delay *= 1 - backoff.jitter * self._rng.random()
        self._tried_at = now + delay
        return delay

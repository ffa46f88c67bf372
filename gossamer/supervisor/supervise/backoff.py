"""Back-off: how long to wait before the next restart of a child that keeps failing.

The wait doubles (``factor``) with every failure in a row, up to ``maximum``, and is shortened by a random
part (``jitter``), so that children of many nodes do not restart in step. A child whose last restart is
``reset_after`` seconds ago counts as well again.

Rules: 1. No clock, no I/O: callers pass ``now`` and the source of randomness.  2. Never zero: a child with
back-off is never restarted in the same turn.

Rejected: a first restart at once. A child that fails at once on every node would then still restart on all of
them together.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from gossamer.supervisor.errors import BadChildSpec

__all__ = ["Backoff", "Delays"]


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential back-off between restarts; times in seconds.

    The n-th wait in a row is ``initial * factor ** (n - 1)``, at most ``maximum``, less a random part of it
    that is no larger than ``jitter`` (0 to 1).

    Raises:
        BadChildSpec: a value makes no sense.
    """

    initial: float = 0.1
    maximum: float = 30.0
    factor: float = 2.0
    jitter: float = 0.5
    reset_after: float = 60.0

    def __post_init__(self) -> None:
        _check("initial", self.initial, self.initial > 0, "seconds, more than 0")
        _check("maximum", self.maximum, self.maximum >= self.initial, "seconds, not less than initial")
        _check("factor", self.factor, self.factor >= 1, "a number, 1 or more")
        _check("jitter", self.jitter, 0 <= self.jitter < 1, "a part from 0 to less than 1")
        _check("reset_after", self.reset_after, self.reset_after >= 0, "seconds, 0 or more")


def _check(key: str, got: float, sound: bool, expected: str) -> None:
    if not sound:
        raise BadChildSpec("backoff", key, got, expected)


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

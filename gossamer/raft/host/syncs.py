"""How long a node's disc takes to sync the log of its groups, and whether that is too long for a while.

A turn of all groups waits for its sync, heartbeats and ticks with it. A disc whose syncs take a tick
(:data:`SLOW_SYNC`) on average has some that take ten: by then followers campaign, and a leader is replaced
that works. It is judged by a mean in which the latest syncs count most, so that one that is late, or a few of
many, is not taken for a slow disc; one that does not end counts while it lasts.

Rejected: a quantile. A disc with few syncs has none for minutes, and one with many hides what stands still.
"""

from __future__ import annotations

from gossamer.histogram import Histogram

SLOW_SYNC = 0.1
"""Seconds, a tick: from this mean on the disc is slow, and below half of it no more."""
WEIGHT = 1 / 16
"""Of the latest sync in the mean."""
IDLE = 10.0
"""Seconds without a sync after which the ones before say nothing."""


class SyncTimes:
    """Times are passed in, in seconds; the thread of the disc reports, others read."""

    def __init__(self) -> None:
        self.latency = Histogram()
        self.mean = 0.0
        self._slow_since: float | None = None
        self._begun: float | None = None
        self._ended = 0.0

    def begin(self, now: float) -> None:
        """Note that a sync begins."""
        if now - self._ended >= IDLE:
            self.mean, self._slow_since = 0.0, None
        self._begun = now

    def end(self, now: float) -> None:
        """Note that it has ended."""
        begun, self._begun, self._ended = self._begun, None, now
        if begun is None:
            return
        self.latency.observe(now - begun)
        self.mean += (now - begun - self.mean) * WEIGHT
        if self.mean < SLOW_SYNC / 2:
            self._slow_since = None
        elif self.mean >= SLOW_SYNC and self._slow_since is None:
            self._slow_since = begun

    def slow_since(self, now: float) -> float | None:
        """Return since when the disc is slow; None: it is not."""
        if self._begun is None:
            return None if now - self._ended >= IDLE else self._slow_since
        if self._slow_since is None and now - self._begun >= SLOW_SYNC:
            return self._begun
        return self._slow_since

    def text(self, now: float) -> str:
        """Return how long a sync takes, or the one that has not ended, and what was expected."""
        takes = self.mean if self._begun is None else max(self.mean, now - self._begun)
        expected = f"expected less than {SLOW_SYNC:g} s"
        return f"it takes {takes:.2g} s to have what groups of replicas write, {expected}"

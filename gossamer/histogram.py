"""Histogram of durations, with the buckets of Prometheus.

Rule: an observation costs an index and three additions, so that it can be used on a hot path.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds for what takes between a turn of an event loop and a timeout."""


class Histogram:
    """Observations up to each of ``bounds``, and beyond; ``sum`` and ``count`` of all."""

    __slots__ = ("_counts", "bounds", "count", "sum")

    def __init__(self, bounds: tuple[float, ...] = SECONDS) -> None:
        self.bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.sum = 0.0
        self.count = 0

    def observe(self, value: float) -> None:
        """Count one."""
        self._counts[bisect_left(self.bounds, value)] += 1
        self.sum += value
        self.count += 1

    def buckets(self) -> list[int]:
        """Return cumulative counts per bound, the total last."""
        return list(accumulate(self._counts))

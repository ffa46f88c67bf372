"""A heap of things to do later, on a clock that the caller holds.

Rules: 1. Nothing is cancelled: what fires checks whether it still applies.  2. Equal times fire in the order
they were set.  3. ``run`` reports how late the earliest one fired, which is how the state machine notices
that its process stalled.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

__all__ = ["Timers"]


class Timers:
    """Callbacks ``fn(now)`` ordered by time."""

    __slots__ = ("_heap", "_next")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Callable[[float], None]]] = []
        self._next = 0

    def at(self, when: float, fn: Callable[[float], None]) -> None:
        """Call ``fn(now)`` at ``when`` or after."""
        self._next += 1
        heapq.heappush(self._heap, (when, self._next, fn))

    @property
    def deadline(self) -> float | None:
        """When the next one is due."""
        return self._heap[0][0] if self._heap else None

    def lag(self, now: float) -> float:
        """How late the earliest due timer is, in seconds."""
        return now - self._heap[0][0] if self._heap else 0.0

    def run(self, now: float) -> None:
        """Fire all that is due, what they set at ``now`` or before included."""
        heap = self._heap
        while heap and heap[0][0] <= now:
            heapq.heappop(heap)[2](now)

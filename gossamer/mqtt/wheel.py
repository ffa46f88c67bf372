"""Deadlines by the second: keep alive of every connection and everything that expires, on one timer.

Rules: 1. No clock: callers pass ``now``.  2. Precision is one tick, which keep alive and expiry allow.  3.
A busy connection costs nothing between its deadlines: it only notes when it was last heard, and is looked
at again when that could matter.

Rejected: a loop timer per connection (a heap entry and a callback object each, cancelled at every packet).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from itertools import count

__all__ = ["Wheel"]


class Wheel:
    """A heap of (deadline, callback); a callback says when it wants to be called next, or None."""

    __slots__ = ("_heap", "_serial")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Callable[[float], float | None]]] = []
        self._serial: Iterator[int] = count()

    def __len__(self) -> int:
        return len(self._heap)

    def at(self, deadline: float, callback: Callable[[float], float | None]) -> None:
        """Call ``callback(now)`` on the first turn at or after ``deadline``."""
        heapq.heappush(self._heap, (deadline, next(self._serial), callback))

    def turn(self, now: float) -> int:
        """Call what is due; the number of callbacks called."""
        heap = self._heap
        called = 0
        while heap and heap[0][0] <= now:
            _, serial, callback = heapq.heappop(heap)
            called += 1
            again = callback(now)
            if again is not None:
                heapq.heappush(heap, (max(again, now + 0.001), serial, callback))
        return called

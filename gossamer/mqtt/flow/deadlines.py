"""Deadlines by the second: keep alive of every connection and everything that expires, on one timer.

Rules: 1. No clock: callers pass ``now``.  2. Precision is one tick, which keep alive and expiry allow.  3.
A busy connection costs nothing between its deadlines: it notes the time of its last packet, which is checked
at the deadline.  4. A cancelled deadline keeps nothing alive, and is removed when half of them are cancelled.

Rejected: a loop timer per connection (a heap entry and a callback object each, cancelled at every packet).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from itertools import count

Callback = Callable[[float], float | None]


class Deadline:
    """Entry of a :class:`Wheel`; ``cancel`` it when it no longer matters."""

    __slots__ = ("_wheel", "callback")

    def __init__(self, wheel: Wheel, callback: Callback) -> None:
        self._wheel = wheel
        self.callback: Callback | None = callback

    def cancel(self) -> None:
        if self.callback is not None:
            self.callback = None
            self._wheel.cancelled()


class Wheel:
    """Heap of deadlines; a callback returns when to call it next, None for never."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Deadline]] = []
        self._serial: Iterator[int] = count()
        self._cancelled = 0

    def __len__(self) -> int:
        return len(self._heap)

    def at(self, when: float, callback: Callback) -> Deadline:
        """Call ``callback(now)`` on the first turn at or after ``when``."""
        deadline = Deadline(self, callback)
        heapq.heappush(self._heap, (when, next(self._serial), deadline))
        return deadline

    def cancelled(self) -> None:
        """Count a cancelled deadline; remove all of them once they are the majority."""
        self._cancelled += 1
        if self._cancelled > 64 and self._cancelled * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].callback is not None]
            heapq.heapify(self._heap)
            self._cancelled = 0

    def turn(self, now: float) -> int:
        """Call what is due; return the number of callbacks called."""
        called = 0
        # A callback may cancel others, and so replace the heap.
        while self._heap and self._heap[0][0] <= now:
            _, serial, deadline = heapq.heappop(self._heap)
            callback = deadline.callback
            if callback is None:
                self._cancelled = max(0, self._cancelled - 1)
                continue
            called += 1
            again = callback(now)
            if again is None:
                deadline.callback = None
            elif deadline.callback is None:
                # It cancelled itself meanwhile.
                self._cancelled = max(0, self._cancelled - 1)
            else:
                heapq.heappush(self._heap, (max(again, now + 0.001), serial, deadline))
        return called

"""Parts of a batch of another node that are safe before the rest of it, which waits for other quorums.

A batch has what many publishers sent in one turn, for sessions whose copies are in several ranges. If one of
these has just lost its leader, the other node is told which bytes are safe, and lets go of who waits for
them alone.

Rules: 1. A part waits for the ranges that its records wrote to, and for the disc; those that wrote nothing
wait for nothing.  2. Nothing is told of a batch that is done within :data:`SLOW` seconds, as nearly all are.
3. What a wide fan-out delivers in later turns cannot be told apart, so a batch with one has no parts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from gossamer.mqtt.flow.backpressure import Hold
from gossamer.mqtt.flow.ranges import CopiedWriter

SLOW = 0.05
Span = tuple[int, int]
"""First byte of a batch, and the one behind the last."""


class Parts:
    """Records of one batch by the ranges that they wrote to."""

    def __init__(self, store: CopiedWriter) -> None:
        self._store = store
        self._notes = store.notes
        self._spans: dict[Sequence[int], list[Span]] = {}
        self._at = 0

    def end(self, stop: int) -> Parts:
        """Note that all up to ``stop`` is taken; return this."""
        if stop == self._at:
            return self
        numbers = self._store.ranges_since(self._notes)
        spans = self._spans.setdefault(numbers, [])
        if spans and spans[-1][1] == self._at:
            spans[-1] = spans[-1][0], stop
        else:
            spans.append((self._at, stop))
        self._at, self._notes = stop, self._store.notes
        return self

    def watch(self, safe: list[Span]) -> bool:
        """Add each part to ``safe`` once it is; False: there is only one."""
        if len(self._spans) < 2:
            return False
        for numbers, spans in self._spans.items():
            self._store.when(numbers, partial(safe.extend, spans))
        return True


def _call_later(seconds: float, callback: Callable[[], None]) -> object:
    return asyncio.get_running_loop().call_later(seconds, callback)


class SlowBatches:
    """Batches that have parts, and are not done yet. ``call_later`` is the loop's."""

    def __init__(self, call_later: Callable[[float, Callable[[], None]], object] = _call_later) -> None:
        self._call_later = call_later
        self._open: list[tuple[Hold, list[Span]]] = []
        self._armed = False

    def watch(self, hold: Hold, parts: Parts) -> None:
        """Tell which parts are safe of a batch that is held."""
        safe: list[Span] = []
        if parts.watch(safe):
            self._open.append((hold, safe))
            self._arm()

    def _arm(self) -> None:
        if self._open and not self._armed:
            self._armed = True
            self._call_later(SLOW, self._look)

    def _look(self) -> None:
        self._armed = False
        self._open = [(hold, safe) for hold, safe in self._open if not hold.released]
        for hold, safe in self._open:
            if safe:
                hold.tell(sorted(safe))
                safe.clear()
        self._arm()

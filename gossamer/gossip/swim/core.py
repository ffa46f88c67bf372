"""Core shared by the parts of the state machine, and their timers: a heap of callbacks.

Rules of the timers: 1. Timers are never cancelled: a callback checks whether it still applies.  2. Equal
times fire in the order they were set.  3. ``lag`` is the delay of the earliest one, by which the state
machine detects that its process stalled.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable

from gossamer.config import GossipConfig
from gossamer.gossip.swim.hints import PartitionHints
from gossamer.gossip.swim.lifeguard import Awareness
from gossamer.gossip.swim.outbox import Outbox
from gossamer.gossip.swim.table import MemberTable
from gossamer.gossip.wire import Alive


class Timers:
    """Callbacks ``fn(now)`` ordered by time."""

    __slots__ = ("_heap", "_next")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Callable[[float], object]]] = []
        self._next = 0

    def at(self, when: float, fn: Callable[[float], object]) -> None:
        """Call ``fn(now)`` at ``when`` or after."""
        self._next += 1
        heapq.heappush(self._heap, (when, self._next, fn))

    @property
    def deadline(self) -> float | None:
        """Time at which the next timer is due."""
        return self._heap[0][0] if self._heap else None

    def lag(self, now: float) -> float:
        """Return the delay of the earliest timer in seconds."""
        return now - self._heap[0][0] if self._heap else 0.0

    def run(self, now: float) -> None:
        """Fire all due timers, including new ones that are due at ``now``."""
        heap = self._heap
        while heap and heap[0][0] <= now:
            heapq.heappop(heap)[2](now)


class Core:
    """Shared objects of all parts of one instance."""

    def __init__(self, me: Alive, settings: GossipConfig, rng: random.Random) -> None:
        self.table = MemberTable(me, retransmit_mult=settings.retransmit_mult)
        self.awareness = Awareness(maximum=settings.awareness_max)
        self.timers = Timers()
        self.outbox = Outbox(self.table, mtu=settings.mtu)
        self.hints = PartitionHints(self.outbox.emit)
        self.settings = settings
        self.rng = rng


class Part:
    """Base of the parts around a core."""

    def __init__(self, core: Core) -> None:
        self._table = core.table
        self._awareness = core.awareness
        self._timers = core.timers
        self._outbox = core.outbox
        self._hints = core.hints
        self._settings = core.settings
        self._rng = core.rng

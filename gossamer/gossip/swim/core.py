"""The core that the parts of the state machine share, and their timers: a heap of things to do later.

Rules of the timers: 1. Nothing is cancelled: what fires checks whether it still applies.  2. Equal times fire
in the order they were set.  3. ``lag`` tells how late the earliest one is, which is how the state machine
notices that its process stalled.
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


class Core:
    """What is one for all parts, of the life that says ``me`` of itself."""

    def __init__(self, me: Alive, settings: GossipConfig, rng: random.Random) -> None:
        self.table = MemberTable(me, retransmit_mult=settings.retransmit_mult)
        self.awareness = Awareness(maximum=settings.awareness_max)
        self.timers = Timers()
        self.outbox = Outbox(self.table, mtu=settings.mtu)
        self.hints = PartitionHints(self.outbox.emit)
        self.settings = settings
        self.rng = rng


class Part:
    """A part around a core."""

    def __init__(self, core: Core) -> None:
        self._table = core.table
        self._awareness = core.awareness
        self._timers = core.timers
        self._outbox = core.outbox
        self._hints = core.hints
        self._settings = core.settings
        self._rng = core.rng

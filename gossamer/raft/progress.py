"""How far a member has come, as its leader knows it, and how much may be on its way to it.

::

    PROBE      where its log agrees is not known: one message at a time
    REPLICATE  it agrees: entries are sent ahead, up to ``max_inflight`` messages
    SNAPSHOT   it needs entries that are compacted: a snapshot goes chunk by chunk

Rules: 1. ``match`` never goes back within a term: what was acknowledged is on its disc.  2. ``next`` is above
``match``.  3. No clock: a lost message shows when a heartbeat is answered and ``match`` is behind.
"""

from __future__ import annotations

import enum
from collections import deque

from gossamer.raft.values import Snapshot


class Flow(enum.Enum):
    """State of the flow of entries to a member."""

    PROBE = "probe"
    REPLICATE = "replicate"
    SNAPSHOT = "snapshot"


class Progress:
    """Progress of one member."""

    __slots__ = (
        "active",
        "chunk_due",
        "commit_sent",
        "flow",
        "inflight",
        "match",
        "moved",
        "next",
        "nudge",
        "offset",
        "round",
        "snapshot",
        "stamp",
        "waiting",
    )

    def __init__(self, next_index: int) -> None:
        self.match = 0
        self.next = next_index
        self.flow = Flow.PROBE
        self.inflight: deque[int] = deque()
        """Last index of each message that is not answered."""
        self.waiting = False
        """A probe is not answered yet."""
        self.nudge = False
        """It answers and is behind, so what was sent may be lost: ask where it is."""
        self.commit_sent = 0
        self.round = 0
        """Last round of heartbeats that it answered."""
        self.stamp = 0
        """Its time when it did."""
        self.active = True
        """Something came from it since quorums were last checked."""
        self.snapshot: Snapshot | None = None
        self.offset = 0
        self.chunk_due = False
        self.moved = False
        """Part of a snapshot arrived since the last heartbeat."""

    def sent(self, last: int) -> None:
        """Note entries that were sent ahead, up to ``last``."""
        self.next = last + 1
        self.inflight.append(last)

    def acknowledge(self, index: int) -> bool:
        """Note what its disc holds; return whether that is news."""
        news = index > self.match
        self.match = max(self.match, index)
        self.next = max(self.next, index + 1)
        while self.inflight and self.inflight[0] <= index:
            self.inflight.popleft()
        if self.flow is Flow.PROBE or (
            self.flow is Flow.SNAPSHOT and self.snapshot and index >= self.snapshot.index
        ):
            self._enter(Flow.REPLICATE)
            self.next = self.match + 1
        return news

    def reject(self, prev_index: int, hint: int) -> bool:
        """Go back to where its log may agree; False where the rejection is an old one."""
        if self.flow is Flow.REPLICATE:
            if prev_index <= self.match:
                return False
            self.next = self.match + 1
        elif self.flow is Flow.SNAPSHOT or prev_index != self.next - 1:
            return False
        else:
            self.next = max(min(prev_index, hint + 1), self.match + 1)
        self._enter(Flow.PROBE)
        return True

    def answered_heartbeat(self, last: int, round_: int, stamp: int) -> None:
        """Note that it follows; ask it where it is if it seems behind."""
        self.active = True
        if round_ >= self.round:
            self.round, self.stamp = round_, stamp
        self.waiting = False
        if self.match < last:
            self.nudge = True
            self.chunk_due = self.chunk_due or (self.flow is Flow.SNAPSHOT and not self.moved)
            self.moved = False

    def begin_snapshot(self, snapshot: Snapshot) -> None:
        """Send it a snapshot from the start."""
        self._enter(Flow.SNAPSHOT)
        self.snapshot = snapshot
        self.chunk_due = True

    def received(self, index: int, count: int) -> None:
        """Note how many bytes of its snapshot it has, so that the next chunk is due."""
        # The same count again is the answer to a chunk that came twice.
        if self.snapshot is not None and index == self.snapshot.index and count != self.offset:
            self.offset = count
            self.chunk_due = self.moved = True

    def _enter(self, flow: Flow) -> None:
        self.flow = flow
        self.waiting = self.nudge = self.chunk_due = False
        self.inflight.clear()
        self.snapshot = None
        self.offset = 0

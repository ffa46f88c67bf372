"""How old a replica's state is at most, for reads that may be stale by so much.

A message may have been on its way for long, and clocks of two nodes need not agree. So a replica goes by its
own clock alone, and by what must have come before what::

    follower   answers a heartbeat, with its time:      it is 12.0
    leader     sends round 8, once it has that answer:  entry 31 is the last that is committed
    quorum     answers round 8:                         so nothing later was committed when it was sent
    leader     sends round 9, which says:               entry 31, as of your 12.0
    follower   has applied entry 31:                    its state is no older than 12.0

Rules: 1. The clock never goes back; only differences count.  2. A time counts from a number on that is this
process's own, so that one of an earlier process, whose clock may have been another, is not taken for one of
this.  3. What was known in an earlier term stays true.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable
from math import inf

PER_SECOND = 1_000_000
"""Steps of a stamp."""


class Freshness:
    """Knows since when a state that has applied so much may lack something."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began = clock()
        # No two processes begin at the same nanosecond since their machines did.
        digest = hashlib.blake2b(repr(self._began).encode(), digest_size=8).digest()
        self._origin = 1 << 61 | int.from_bytes(digest) >> 3
        self._known: deque[tuple[int, float]] = deque()
        """Index that must be applied, for the state to be no older than a time; both in order."""
        self._as_of = -inf

    def stamp(self) -> int:
        """Return the time, as it travels to the leader and back."""
        return self._origin + int((self._clock() - self._began) * PER_SECOND)

    def confirm(self, stamp: int, index: int) -> None:
        """Note that nothing beyond ``index`` was committed before the time of a stamp; of another's, or 0,
        nothing is known."""
        if self._origin <= stamp <= self.stamp():
            at = self._began + (stamp - self._origin) / PER_SECOND
            if at > (self._known[-1][1] if self._known else self._as_of):
                self._known.append((index, at))

    def as_of(self, applied: int) -> float:
        """Return the time than which a state that has applied so much is no older."""
        while self._known and self._known[0][0] <= applied:
            self._as_of = self._known.popleft()[1]
        return self._as_of

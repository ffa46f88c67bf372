"""Requests that a leader commits together: under load each costs all members the same, whatever is in it.

Nodes that write much have one batch each on its way. Their batches would take turns: each comes while another
is being committed, and is an entry, a sync and a dozen messages of its own.

Rules: 1. A small request never waits, nor does a large one while no other is on its way.  2. What comes
meanwhile leaves together once that is answered; and who was just answered is waited for, for half of the time
that it took and :data:`PATIENCE` at most.  3. Who does not come again is not expected the next time.
"""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")

LARGE = 2048
"""Bytes from which on a request is taken for a batch of many."""
PATIENCE = 0.006
"""Seconds."""


class Gathering(Generic[T]):
    """Decides when requests leave; times are passed in, in seconds."""

    def __init__(self) -> None:
        self._held: list[T] = []
        self._flying = self._left = 0
        """How many left together, and how many of these are not answered."""
        self._began = self._until = 0.0
        self._expected = 0

    def add(self, request: T) -> None:
        """Take a large request; :meth:`due` says when it leaves."""
        self._held.append(request)

    def due(self, now: float) -> list[T]:
        """Return what leaves now, each of which is reported to :meth:`answered`."""
        if self._left or self.waits(now):
            return []
        due, self._held = self._held, []
        self._flying = self._left = len(due)
        self._began = now
        return due

    def waits(self, now: float) -> float:
        """Return for how many seconds what is here waits for more; 0: it does not, or for an answer."""
        if self._left or not 0 < len(self._held) < self._expected:
            return 0.0
        return max(0.0, self._until - now)

    def answered(self, now: float) -> None:
        """Note that one of those that left is answered, or will not be."""
        self._left -= 1
        if not self._left:
            self._expected = self._flying + len(self._held)
            self._until = now + min((now - self._began) / 2, PATIENCE)

    def give_up(self) -> list[T]:
        """Forget what left; return what did not."""
        held, self._held = self._held, []
        self._left = self._expected = 0
        return held

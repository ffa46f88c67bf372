"""Commits of sessions that are copied: who waits for which quorums.

The copy of a session is in one of a few *ranges*, each with a quorum of its own. One whose leader has just
died takes nothing for a second or two; that must hold up no message for sessions of the others.

Rules: 1. What waits for a range waits for this node's disc too.  2. A message waits for the ranges of the
sessions that wrote a row for it, or would have, had they not had it before; a packet to a client for that of
its own session; what names no session for all.  3. Those that wait for one range are called in the order of
the calls, as their tickets are; between ranges there is no order. A connection has its own (``pipe``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Protocol

import structlog

from gossamer.mnesia_like import Journal
from gossamer.mqtt.flow.commits import JournalWriter, Soon, Until

log = structlog.get_logger(__name__)

_DISC = -1
"""In place of a range: this node's disc alone."""
MANY = 64
"""So many sessions are taken to have all ranges: to look would take longer than it saves."""


class SessionLike(Protocol):
    """Session of a client."""

    client_id: str


class Copies(Protocol):
    """Where sessions are copied to; see ``gossamer.mqtt.copies``."""

    def committed_in(self, number: int) -> float: ...
    def range_of(self, client_id: str) -> int: ...
    def is_behind(self, client_id: str) -> bool: ...
    def is_usurped(self, client_id: str) -> bool: ...
    def leave(self, client_id: str) -> None: ...
    def taken(self, client_id: str, ticket: int | None = None) -> None: ...
    def note(
        self, client_id: str, kind: int, key: object, value: bytes | None, ticket: int, *, new: bool
    ) -> int | None: ...


class _Waiter:
    """Who waits for several ranges, and for how many still."""

    __slots__ = ("callback", "left")

    def __init__(self, callback: Callable[[], object], left: int) -> None:
        self.callback, self.left = callback, left

    def __call__(self) -> None:
        self.left -= 1
        if not self.left:
            self.callback()


class CopiedWriter(JournalWriter):
    """Writer of rows that the disc has, and as far as they are copied, a quorum of their range."""

    def __init__(self, journal: Journal, *, soon: Soon) -> None:
        super().__init__(journal, soon=soon)
        self.copies: Copies | None = None
        """Where sessions are copied to, in a cluster that does."""
        self.notes = 0
        """Number of rows written so far; compare two readings to see whether there was one."""
        self._written: dict[int, int] = {}
        """By range, what ``notes`` were when a row of it was written last."""
        self._queues: dict[int, deque[tuple[int, Callable[[], object]]]] = {}
        """By range, who waits for it, each with a ticket."""
        self._peers: dict[frozenset[int], Until] = {}

    @property
    def committed(self) -> int:
        """Ticket up to which all writes are on disc, and as far as sessions are copied, at a quorum."""
        return int(min(map(self._committed_in, self._written or (_DISC,))))

    def committed_of(self, client_id: str) -> float:
        """Return the ticket up to which the disc has all writes, and a quorum those of a session's range."""
        return self._committed_in(self._range_of(client_id))

    def wrote(self, number: int | None) -> None:
        """Note the range of the row that was written last; None: it has none."""
        if number is not None:
            self._written[number] = self.notes

    def touch(self, client_id: str) -> None:
        """Have a message wait for what a session wrote before, as if it had written that now."""
        self.notes += 1
        if self.copies is not None:
            self.wrote(self.copies.range_of(client_id))

    # Who waits.

    def after(self, ticket: int, callback: Callable[[], object]) -> None:
        self._after(ticket, callback, self._written or (_DISC,))

    def after_of(self, client_id: str, ticket: int, callback: Callable[[], object]) -> None:
        """Call ``callback`` once ``ticket`` is committed as far as a session needs it; now, if it is."""
        self._after(ticket, callback, (self._range_of(client_id),))

    def since(self, before: int) -> Until:
        """Return what a message waits for that wrote all rows since ``notes`` were ``before``."""
        numbers = self.ranges_since(before) or (_DISC,)
        return Until(self.peer, partial(self._append_acked, numbers, self.ticket))

    def ranges_since(self, before: int) -> tuple[int, ...]:
        """Return the ranges of all rows since ``notes`` were ``before``; of such as have none, the disc."""
        if self.notes == before:
            return ()
        return tuple(n for n, written in self._written.items() if written > before) or (_DISC,)

    def when(self, numbers: Sequence[int], callback: Callable[[], object]) -> None:
        """Call ``callback`` once these ranges have all that was written so far; now, if they have."""
        self._after(self.ticket, callback, numbers)

    def of(self, sessions: Sequence[SessionLike]) -> CopiedWriter | Until:
        """Return what a message to ``sessions`` waits for; the same for the same ranges."""
        if self.copies is None or len(sessions) > MANY:
            return self
        numbers = frozenset(self._range_of(session.client_id) for session in sessions)
        peer = self._peers.get(numbers)
        if peer is None:
            peer = self._peers[numbers] = Until(self.peer, partial(self._append_acked, numbers, None))
        return peer

    def _append_acked(
        self, numbers: Iterable[int], ticket: int | None, _record: bytes, on_safe: Callable[[bool], object]
    ) -> None:
        self._after(self.ticket if ticket is None else ticket, partial(on_safe, True), numbers)

    def _after(self, ticket: int, callback: Callable[[], object], numbers: Iterable[int]) -> None:
        lacking = [number for number in numbers if ticket > self._committed_in(number)]
        if not lacking:
            callback()
            return
        waiter = callback if len(lacking) == 1 else _Waiter(callback, len(lacking))
        for number in lacking:
            self._queues.setdefault(number, deque()).append((ticket, waiter))

    def _range_of(self, client_id: str) -> int:
        return _DISC if self.copies is None else self.copies.range_of(client_id)

    def _committed_in(self, number: int) -> float:
        committed = self._journal.committed
        if self.copies is None or number == _DISC:
            return committed
        return min(committed, self.copies.committed_in(number))

    def _release(self) -> None:
        self.on_commit()
        for number, queue in list(self._queues.items()):
            while queue and queue[0][0] <= self._committed_in(number):
                self.call((queue.popleft()[1],))

    @staticmethod
    def call(callbacks: Iterable[Callable[[], object]]) -> None:
        """Call all, and in order, whatever becomes of one of them."""
        for callback in callbacks:
            try:
                callback()
            except Exception:
                log.exception("commit_callback_failed")

"""Which rows of which sessions a quorum does not have yet: pure, without clock and I/O.

A change is noted with the ticket of its commit on disc, and is *pending* until a quorum of its range has it
too: what is acknowledged as safe waits for both. While a session's rows are being written, its next changes
gather, and what is written and deleted meanwhile never gets there.

Rules: 1. One write of a session is on its way at a time, and none before the disc has the first of its
changes.  2. Where a write fails, it is not known what became of it: the session is read and written whole the
next time; so also where this node stood still before it heard that it is done: another one may have begun
with the copy since.  3. A session that has waited :data:`PATIENCE` for a quorum is *behind*: it goes on with
the disc alone, and is written whole once a quorum can be reached. Of a range that does not answer, one
session asks for all.  4. A session for which its range has no room is not copied for :data:`REST`; nothing
waits for it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Container
from heapq import heappop, heappush
from itertools import chain, count
from typing import Literal, TypeAlias

from gossamer.mqtt.copies.rows import Owner

PATIENCE = 3.0
"""Seconds for which an acknowledgement waits for a quorum."""
SLEEP = 2.0
"""Seconds between two looks at the clock after which others may have taken this node for down meanwhile."""
REST = 60.0
CopyState: TypeAlias = Literal["unconfirmed", "level", "behind", "not_copied"]
"""Of a copy: this node has not written it yet, a quorum has all that was acknowledged, it lacks something, or
its range has no room for it."""


class Copy:
    """One session's copy, as far as this node knows it."""

    __slots__ = (
        "behind",
        "client_id",
        "dirty",
        "ended",
        "first",
        "foreign",
        "fresh",
        "large",
        "later",
        "owner",
        "queued",
        "range",
        "rests",
        "since",
        "state",
        "turned",
        "usurped",
        "whole",
        "writing",
        "written",
    )

    def __init__(self, client_id: str, number: int) -> None:
        self.client_id = client_id
        self.range = number
        """Number of the range that has it."""
        self.dirty: dict[bytes, bytes | None] = {}
        """Rows that have changed since the last write began, by the ends of their keys."""
        self.fresh: dict[bytes, None] = {}
        """Those of them that no write ever had."""
        self.first: int | None = None
        """Ticket of the oldest change that is pending; None: there is none."""
        self.later: int | None = None
        """Ticket of the oldest change since the last write began."""
        self.since = 0.0
        """When the oldest was noted."""
        self.owner: Owner | None = None
        """What is in the owner's row, with this node in it; None: that is not known."""
        self.whole = True
        """It is to be read and written whole."""
        self.large: dict[bytes, None] = {}
        """Rows whose values are in parts."""
        self.queued = False
        self.writing = False
        self.written = False
        """This node has written it."""
        self.ended = False
        """The session has ended, and its copy is to be deleted."""
        self.behind = False
        self.rests = 0.0
        """Until when it is not copied, since its range has no room; 0: it is copied."""
        self.foreign = False
        """Another node has the session."""
        self.usurped = False
        """It may have begun with the copy; until this node has written that again, it may lack what was noted
        here last."""
        self.state: CopyState = "unconfirmed"
        self.turned = 0.0
        """Since when that is its state; 0: not known."""

    def turn(self, state: CopyState, now: float) -> None:
        """Note the state of the copy, for who looks at it."""
        if self.state != state:
            self.state, self.turned = state, now


class Copying:
    """State of all copies. Times are passed in, in seconds; tickets are those of the journal."""

    def __init__(self) -> None:
        self.copies: dict[str, Copy] = {}
        self.failing: dict[int, float] = {}
        """By range that does not answer, since when."""
        self.behind: dict[Copy, None] = {}
        """Sessions of which a quorum does not have everything, and nobody waits for it."""
        self._dirty: dict[Copy, None] = {}
        """Those that wait for the disc."""
        self._postponed: dict[Copy, None] = {}
        self.resting: dict[Copy, None] = {}
        """Sessions that are not copied, since their ranges have no room."""
        self._due: deque[Copy] = deque()
        self._silent: dict[int, float] = {}
        """By range that was asked in vain, until when it is not asked again."""
        self._pending: dict[int, list[tuple[int, int, Copy]]] = {}
        """By range, the sessions that are waited for, the oldest change first."""
        self._numbers = count()
        self._looked = math.inf
        self._woke = -math.inf
        """When this node last saw that it had stood still."""

    def committed_in(self, number: int) -> float:
        """Return the ticket up to which a quorum of a range has everything that is waited for."""
        pending = self._pending.get(number)
        while pending and pending[0][2].first != pending[0][0]:
            heappop(pending)
        return pending[0][0] - 1 if pending else math.inf

    # Changes.

    def note(
        self, copy: Copy, suffix: bytes, value: bytes | None, ticket: int, now: float, *, new: bool
    ) -> None:
        """Note a change of a row; ``new``: there was none under that key."""
        if copy.ended:
            # Its client has begun another session.
            copy.ended = copy.foreign = False
        if not copy.whole:
            if value is None and suffix in copy.fresh:
                # It may go on under another key, noted next: it is waited for until the disc has that.
                del copy.dirty[suffix]
                copy.fresh.pop(suffix, None)
                return
            if new and suffix not in copy.dirty:
                copy.fresh[suffix] = None
            copy.dirty[suffix] = value
        self._pends(copy, ticket, now)

    def end(self, copy: Copy, ticket: int, now: float) -> None:
        """Note that a session has ended, and its copy is to be deleted."""
        self._whole(copy)
        copy.ended = True
        self._pends(copy, ticket, now)

    def again(self, copy: Copy) -> None:
        """Have a session written whole, though nothing waits for it.

        One that another node had is this node's once that is done, not before.
        """
        self._whole(copy)
        copy.foreign = False
        if not copy.writing:
            self._dirty[copy] = None

    def awaited(self, copy: Copy, ticket: int, now: float) -> None:
        """Have ``ticket`` wait for the next write of a session, though nothing was noted."""
        self._pends(copy, ticket, now)

    def _whole(self, copy: Copy) -> None:
        copy.whole = True
        copy.dirty.clear()
        copy.fresh.clear()

    def _pends(self, copy: Copy, ticket: int, now: float) -> None:
        if (copy.foreign or copy.rests) and not copy.ended:
            return
        if copy.later is None:
            copy.later = ticket
        if copy.first is None and not copy.behind:
            self._push(copy, ticket, now)
        if not copy.writing:
            self._dirty[copy] = None

    def _push(self, copy: Copy, ticket: int, now: float) -> None:
        copy.first, copy.since = ticket, now
        heappush(self._pending.setdefault(copy.range, []), (ticket, next(self._numbers), copy))

    # Writes.

    def flush(self) -> bool:
        """Make due what the disc has; return whether there is anything to write."""
        for copy in self._dirty:
            if copy.queued or copy.behind or copy.writing:
                continue
            if copy.dirty or copy.whole:
                copy.queued = True
                self._due.append(copy)
            else:
                # All that came is gone again.
                copy.first = copy.later = None
        self._dirty.clear()
        return bool(self._due)

    def next(self, busy: Container[int] = ()) -> Copy | None:
        """Return a session to be written now, of a range that is not ``busy``; None: there is none."""
        for _ in range(len(self._due)):
            copy = self._due.popleft()
            if copy.range in busy:
                self._due.append(copy)
                continue
            copy.queued = False
            # One that went elsewhere meanwhile is that node's to write.
            if not copy.writing and self.copies.get(copy.client_id) is copy:
                copy.writing = True
                return copy
        return None

    def take(self, copy: Copy) -> dict[bytes, bytes | None]:
        """Return the changes that a write which begins now has; the whole session, if it is to be written
        whole, is that of this moment."""
        rows, copy.dirty, copy.fresh = copy.dirty, {}, {}
        copy.later = None
        copy.whole = False
        return rows

    def done(self, copy: Copy, now: float) -> None:
        """Note that a write is done."""
        copy.writing = False
        if copy.foreign:
            return
        copy.behind = copy.usurped = False
        copy.written = True
        copy.turn("level", now)
        self.behind.pop(copy, None)
        self.failing.pop(copy.range, None)
        copy.first = None
        if copy.later is not None:
            if copy.dirty or copy.whole:
                self._push(copy, copy.later, now)
                copy.queued = True
                self._due.append(copy)
            else:
                copy.later = None

    def postponed(self, copy: Copy) -> None:
        """Note that a session is not written now, since it is on its way here: nothing waits for it before
        its next change, which ends that."""
        copy.writing = False
        copy.first = copy.later = None
        self._postponed[copy] = None

    def refused(self, copy: Copy) -> None:
        """Note that a session cannot be written yet: nothing waits for that, and it is tried again."""
        copy.writing, copy.behind = False, True
        copy.first = copy.later = None
        self.behind[copy] = None

    def failed(self, copy: Copy, now: float, *, answered: bool) -> None:
        """Note that a write has failed; ``answered``: since the owner is another than was expected."""
        copy.writing = False
        copy.owner = None
        self._whole(copy)
        if copy.foreign:
            return
        if answered:
            self._dirty[copy] = None
            return
        self.failing.setdefault(copy.range, now)
        if copy.first is None:
            # Written for nobody's sake.
            self._fall_behind(copy, now)
        else:
            self._postponed[copy] = None

    def full(self, copy: Copy, now: float) -> None:
        """Note that a session's range has no room for it, and has nothing of it any more."""
        copy.writing = copy.behind = False
        copy.first = copy.later = copy.owner = None
        copy.usurped = False
        self._whole(copy)
        self.behind.pop(copy, None)
        copy.rests = now + REST
        copy.turn("not_copied", now)
        self.resting[copy] = None

    def silent(self, number: int, now: float) -> None:
        """Note that a range has not answered in time: nothing waits for it, nor asks it for a while."""
        self.failing[number] = now - PATIENCE
        self._silent[number] = now + PATIENCE

    def answers(self, number: int, now: float) -> bool:
        """Return whether a range may answer."""
        return now >= self._silent.get(number, 0.0)

    def gone(self, copy: Copy) -> None:
        """Forget a session that has ended here, and its copy with it."""
        copy.writing, copy.first = False, None
        self.behind.pop(copy, None)
        self._dirty.pop(copy, None)
        self._postponed.pop(copy, None)
        self.resting.pop(copy, None)
        if self.copies.get(copy.client_id) is copy:
            del self.copies[copy.client_id]

    def leave(self, copy: Copy) -> None:
        """Note that another node has a session: nothing that is not on its way yet is written here."""
        copy.behind = False
        copy.foreign = copy.usurped = True
        copy.turn("unconfirmed", 0.0)
        copy.first = copy.later = copy.owner = None
        copy.rests = 0.0
        self._whole(copy)
        for waiting in (self.behind, self.resting, self._dirty, self._postponed):
            waiting.pop(copy, None)

    def has_slept(self, since: float, now: float) -> bool:
        """Return whether this node has stood still since: another one may have begun with a copy by now."""
        if now - self._looked > SLEEP:
            self._woke = now
        self._looked = now
        return since < self._woke

    def tick(self, now: float) -> None:
        """Let go of what has waited too long, and try again what is behind. Call it about once a second."""
        self.has_slept(now, now)
        for _, _, copy in chain(*self._pending.values()):
            if copy.first is not None and now - min(copy.since, self._failing(copy)) >= PATIENCE:
                self.failing.setdefault(copy.range, now)
                copy.first = None
                self._fall_behind(copy, now)
        for copy in [one for one in self.resting if one.rests <= now]:
            del self.resting[copy]
            copy.rests = 0.0
            self._dirty[copy] = None
        self._dirty |= self._postponed
        self._postponed.clear()
        for number, pending in self._pending.items():
            self._pending[number] = sorted(entry for entry in pending if entry[2].first == entry[0])
        asked: set[int] = {copy.range for copy in self.behind if copy.writing or copy.queued}
        for copy in self.behind:
            if copy.writing or copy.queued or (copy.range in self.failing and copy.range in asked):
                continue
            asked.add(copy.range)
            self._whole(copy)
            copy.queued = True
            self._due.append(copy)
        # Where nobody asks any more, nobody would learn that a range answers again.
        waited = {number for number, pending in self._pending.items() if pending}
        asking = {copy.range for copy in self.behind} | waited
        for number in [one for one in self.failing if one not in asking and self.answers(one, now)]:
            del self.failing[number]

    def _fall_behind(self, copy: Copy, now: float) -> None:
        copy.behind = True
        copy.turn("behind", now)
        self.behind[copy] = None

    def _failing(self, copy: Copy) -> float:
        return self.failing.get(copy.range, math.inf)

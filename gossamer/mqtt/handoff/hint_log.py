"""Hints for the persistent sessions of one node that is away, and their replay when it is back.

::

    live ── down ──▶ away ── up ──▶ asking ── answered ──▶ sending ── nothing left, its rows are here ──▶ live
                      ▲                │                      │
                      └────── down ────┴──────────────────────┘

Away: what its persistent sessions want is kept. Asking: the node is back and is asked what it has already:
frames whose acknowledgement the cut took with it, and what it got in an earlier return. Sending: the rest
goes in its order, a window at a time. What comes meanwhile goes behind it, and is *live*: for everybody
there, not for persistent sessions alone.

What becomes of an entry: the node has it; it has expired; there was no room (``limit`` messages,
``max_bytes``); the node is permanently removed, or lost its sessions. All but the first are counted by
reason.

A session that moves to another node while its own is away gets there what comes from then on, until the node
is back with a higher claim; ``moved`` says from which number to which, and from which to which again. What is
live is in none of these ranges, also once the node is away again: a session may have been on its way there.

A node that leaves hands what it keeps to one that stays (``hint_transfer``), which keeps it behind its own.

Rules: 1. Pure: no clock, no I/O; methods return what is to be done.  2. Numbers grow, through the lives of
the node that keeps as well.  3. An entry is never changed, and goes in the order of its number.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from gossamer.mqtt.handoff.hints import (
    MOVED_LIMIT,
    NO_END,
    Action,
    Ask,
    Drop,
    Keep,
    Kept,
    Live,
    Lost,
    Moved,
    Over,
    Send,
    joined,
)

State = Literal["live", "away", "asking", "sending"]

WINDOW_MESSAGES = 1000
WINDOW_BYTES = 1024 * 1024
Refresh = Callable[[bytes, float], tuple[bytes, int]]
"""``refresh(records, seconds)``: the records with so much less time left, and how many have expired."""


class Spool:
    """State machine of what is kept for one node.

    ``first`` is the first number; ``keep_oldest``: without room the new entry goes.
    """

    def __init__(
        self,
        *,
        refresh: Refresh,
        limit: int,
        max_bytes: int,
        keep_oldest: bool = False,
        first: int = 1,
    ) -> None:
        self.state: State = "live"
        self.entries: dict[int, Kept] = {}
        self.generation = ""
        """Which sessions the node had; blank: not known."""
        self.moved: dict[str, Sequence[int]] = {}
        """Clients whose session went elsewhere, and the numbers that are not for them here."""
        self.counts: Counter[str] = Counter()
        """``kept``, ``sent``, ``known``, ``handed_over``, ``dropped_<reason>``, in messages."""
        self.overflowed = 0
        """How many found no room since the node was last seen."""
        self.full_since: float | None = None
        """Time of day at which there first was none."""
        self.messages = 0
        self.bytes = 0
        self.next = first
        self._refresh = refresh
        self._limit = limit
        self._max_bytes = max_bytes
        self._keep_oldest = keep_oldest
        self._waiting = 0
        self._todo: deque[int] = deque()
        self._flight: dict[int, Kept] = {}
        self._flying = 0
        self._over = True

    @property
    def waiting(self) -> int:
        """Messages that were kept while the node was away, and are here still."""
        return self._waiting

    def lacking(self, taken: int, frames: Mapping[int, int]) -> list[Kept]:
        """Return what a node lacks that has taken so much of what was kept, and of each stream."""
        return [kept for kept in self.entries.values() if not kept.is_known(taken, frames)]

    # -- the node goes and comes

    def down(self) -> tuple[list[Action], list[str]]:
        """The node is away, or away again; what was live is its persistent sessions' from now on. Also of
        which clients less is known to be not for them."""
        self.state = "away"
        self._over = False
        self._flight.clear()
        self._flying = 0
        self._todo = deque(self.entries)
        self._waiting = self.messages
        again = [kept for kept in self.entries.values() if kept.live]
        changed = [msgspec.structs.replace(kept, live=False) for kept in again]
        self.entries.update((kept.number, kept) for kept in changed)
        return [Keep(kept) for kept in changed], self._cut_moved(again[0].number) if again else []

    def up(self) -> list[Action]:
        """The node is back."""
        if self.state == "live":
            return []
        self.state = "asking"
        return [Ask()]

    def answered(
        self, generation: str, taken: int, frames: Mapping[int, int], now: float, *, renewed: bool = False
    ) -> list[Action]:
        """The node says which sessions it has, up to which number it has taken, and how far each stream.

        ``renewed``: its sessions began after it went away.
        """
        actions: list[Action] = []
        if renewed or (self.generation and self.generation != generation):
            gone = [kept.number for kept in self.entries.values() if not kept.live]
            actions += self._drop(gone, "sessions_lost")
            self.moved.clear()
        self.generation = generation
        if self.state != "asking":
            return actions
        known = [kept.number for kept in self.entries.values() if kept.is_known(taken, frames)]
        actions += self._drop(known, "", "known")
        self.state = "sending"
        return actions + self.pump(now)

    def gone(self, reason: str) -> list[Action]:
        """The node will not come back."""
        self.state = "live"
        self.moved.clear()
        self.overflowed = 0
        self._flight.clear()
        return self._drop(list(self.entries), reason)

    def settled(self) -> list[Action]:
        """The node's rows are here: where nothing is left to send, it gets what comes itself."""
        if self.state != "sending" or self.entries:
            return []
        self.state = "live"
        self.moved.clear()
        self.overflowed = 0
        return [Live()]

    def moves(self, client_id: str, *, always: bool = False) -> bool:
        """A client's session is on another node from now on, or ``always`` was; whether that is new."""
        bounds = self.moved.get(client_id, ())
        if self.state == "live" or NO_END in bounds or (not bounds and len(self.moved) >= MOVED_LIMIT):
            return False
        self.moved[client_id] = *bounds, 0 if always and not bounds else self.next, NO_END
        return True

    def returns(self, client_id: str) -> bool:
        """A client that went elsewhere is the node's again from now on; whether that is new."""
        bounds = self.moved.get(client_id, (0,))
        if bounds[-1] != NO_END:
            return False
        self.moved[client_id] = *bounds[:-1], self.next
        return True

    def fills_up(self, wall: float) -> bool:
        """Return whether something had no room since the last call; ``wall`` is the time."""
        if not self.overflowed:
            self.full_since = None
        elif self.full_since is None:
            self.full_since = wall
            return True
        return False

    # -- entries

    def add(
        self, records: bytes, count: int, now: float, *, session: int = 0, frame: int = 0
    ) -> list[Action]:
        """Keep these. They may find no room: then nothing is kept of them, or older ones go."""
        kept = Kept(self.next, now, records, count, live=self.state != "away", session=session, frame=frame)
        self.next += 1
        actions: list[Action] = []
        short = self._short(kept)
        if short and not self._keep_oldest and kept.size <= self._max_bytes and count <= self._limit:
            actions += self._make_room(kept)
            short = self._short(kept)
        if short:
            self.counts["dropped_overflow"] += count
            self.overflowed += count
            actions.append(Lost((records,), "overflow"))
            return actions
        self._put(kept)
        self.counts["kept"] += count
        actions.append(Keep(kept))
        return actions + self.pump(now)

    def adopt(self, hints: Iterable[Kept], moved: Moved) -> tuple[list[Action], list[str]]:
        """Keep what another node has kept, in its order; ``moved`` says by its numbers what is not for a
        client. What is known here of a client says nothing of these. Also of which clients more is known."""
        first, actions, numbers = self.next, list[Action](), list[int]()
        for kept in hints:
            numbers.append(kept.number)
            actions += self.add(kept.records, kept.count, kept.at)
        changed: list[str] = []
        for client_id in dict.fromkeys([*self.moved, *moved]):
            bounds = list(self.moved.get(client_id, ()))
            cut = bisect_right(bounds, first)
            inside = [first + bisect_left(numbers, bound) for bound in moved.get(client_id, ())]
            if cut % 2:
                inside = [first, *inside, self.next]
            after = joined([*bounds[:cut], *inside, *bounds[cut:]])
            if after != bounds:
                self.moved[client_id] = after
                changed.append(client_id)
        return actions, changed

    def adopted(self, numbers: Iterable[int], now: float) -> list[Action]:
        """Another node keeps these from now on."""
        gone = [number for number in numbers if number in self.entries]
        for number in gone:
            # The node is back since they were offered.
            kept = self._flight.pop(number, None)
            self._flying -= 0 if kept is None else kept.size
        return [*self._drop(gone, "", "handed_over"), *self.pump(now)]

    def restore(self, entries: Iterable[Kept], generation: str, moved: Moved) -> None:
        """Restore what the disc had; the node is away until it is seen."""
        for kept in sorted(entries, key=lambda kept: kept.number):
            self._put(kept)
        self._waiting = self.messages
        self.generation = generation
        self.moved.update(moved)
        self.state = "away"
        self._over = False

    def confirmed(self, number: int, now: float) -> list[Action]:
        """An entry has taken effect."""
        kept = self._flight.pop(number, None)
        if kept is None:
            return []
        self._flying -= kept.size
        return [*self._drop([number], "", "sent"), *self.pump(now)]

    def pump(self, now: float) -> list[Action]:
        """Return what may be sent now."""
        actions: list[Action] = []
        if self.state != "sending":
            return actions
        expired: list[int] = []
        while self._todo and len(self._flight) < WINDOW_MESSAGES and self._flying < WINDOW_BYTES:
            number = self._todo.popleft()
            kept = self.entries.get(number)
            if kept is None:
                continue
            if kept.live and not self._over:
                self._over = True
                actions.append(Over())
            records, late = self._refresh(kept.records, now - kept.at)
            self.counts["dropped_expired"] += late
            if late:
                actions.append(Lost((kept.records,), "expired", records))
            if not records:
                expired.append(number)
                continue
            self._flight[number] = kept
            self._flying += kept.size
            actions.append(Send(kept, records))
        actions += self._drop(expired, "")
        if not self._over and not self._waiting:
            self._over = True
            actions.append(Over())
        return actions

    # -- inside

    def _cut_moved(self, first: int) -> list[str]:
        """Have everything from a number on be for every client; for which ones it was not."""
        changed = [client_id for client_id, bounds in self.moved.items() if bounds[-1] > first]
        for client_id in changed:
            bounds = self.moved.pop(client_id)
            if before := bounds[: bisect_left(bounds, first)]:
                self.moved[client_id] = [*before, first] if len(before) % 2 else before
        return changed

    def _put(self, kept: Kept) -> None:
        self.entries[kept.number] = kept
        self._todo.append(kept.number)
        self.messages += kept.count
        self.bytes += kept.size
        self._waiting += 0 if kept.live else kept.count

    def _short(self, kept: Kept) -> bool:
        return self.messages + kept.count > self._limit or self.bytes + kept.size > self._max_bytes

    def _make_room(self, kept: Kept) -> list[Action]:
        oldest: list[int] = []
        messages, size = self.messages + kept.count, self.bytes + kept.size
        for number, old in self.entries.items():
            if messages <= self._limit and size <= self._max_bytes:
                break
            if number not in self._flight:
                oldest.append(number)
                messages -= old.count
                size -= old.size
        self.overflowed += sum(self.entries[number].count for number in oldest)
        return self._drop(oldest, "overflow")

    def _drop(self, numbers: list[int], reason: str, what: str = "") -> list[Action]:
        if not numbers:
            return []
        lost = tuple(self.entries[number].records for number in numbers) if reason else ()
        for number in numbers:
            kept = self.entries.pop(number)
            self.messages -= kept.count
            self.bytes -= kept.size
            self._waiting -= 0 if kept.live else kept.count
            if reason or what:
                self.counts[what or f"dropped_{reason}"] += kept.count
        drop = Drop(tuple(numbers))
        return [drop, Lost(lost, reason)] if lost else [drop]

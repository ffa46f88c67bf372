"""Hints for the persistent sessions of one node that is away, and their replay when it is back.

::

    live ── down ──▶ away ── up ──▶ asking ── answered ──▶ sending ── nothing left, its rows are here ──▶ live
                      ▲                │                      │
                      └────── down ────┴──────────────────────┘

Away: messages for its persistent sessions are kept. Asking: the node is back and is asked what it has: frames
whose acknowledgement was lost with the link, and what it received in an earlier return. Sending: the rest
goes in order, a window at a time. Messages that come meanwhile queue behind it as *live* entries: for all
sessions there, not for persistent ones alone.

An entry is dropped when the node has it, when it expires, without room (``limit`` messages, ``max_bytes``),
and when the node is permanently removed or has lost its sessions. All but the first are counted by reason.

A session that moves to another node while its own is away gets new messages there, until the node is back
with a higher claim; ``moved`` has these ranges of numbers. A live entry is in none of them, also once the
node is away again: a session may have been on its way there.

A node that leaves hands its hints to one that stays (``hint_transfer``), which keeps them behind its own.

Rules: 1. Pure: no clock, no I/O; methods return the actions to carry out.  2. Numbers grow, also from one
creation of the keeping node to the next.  3. An entry's records never change; it goes in order of its number.
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
    Hint,
    Keep,
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
"""``refresh(records, seconds)``: the records, so many seconds closer to expiry, and how many have expired."""


class HintLog:
    """State machine of the hints for one node.

    ``first`` is the first number; ``keep_oldest``: without room the new entry is dropped, not an old one.
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
        self.entries: dict[int, Hint] = {}
        self.generation = ""
        """Generation of the sessions that the node had; blank: not known."""
        self.moved: dict[str, Sequence[int]] = {}
        """By client whose session moved, the numbers that are not for it (see :data:`Moved`)."""
        self.counts: Counter[str] = Counter()
        """``kept``, ``sent``, ``known``, ``handed_over``, ``dropped_<reason>``, in messages."""
        self.overflowed = 0
        """Messages without room since the node was last seen."""
        self.full_since: float | None = None
        """Time of day at which there first was no room; None: there is."""
        self.messages = 0
        self.bytes = 0
        self.next = first
        self._refresh = refresh
        self._limit = limit
        self._max_bytes = max_bytes
        self._keep_oldest = keep_oldest
        self._waiting = 0
        self._todo: deque[int] = deque()
        self._flight: dict[int, Hint] = {}
        self._flying = 0
        self._over = True

    @property
    def waiting(self) -> int:
        """Number of messages that were kept while the node was away, and are still here."""
        return self._waiting

    def lacking(self, taken: int, frames: Mapping[int, int]) -> list[Hint]:
        """Return the entries that a node lacks: not :meth:`Hint.is_known` by these positions."""
        return [hint for hint in self.entries.values() if not hint.is_known(taken, frames)]

    # -- the node goes and comes

    def down(self) -> tuple[list[Action], list[str]]:
        """Keep from now on, live entries for persistent sessions alone; return also clients whose ``moved``
        has changed."""
        self.state = "away"
        self._over = False
        self._flight.clear()
        self._flying = 0
        self._todo = deque(self.entries)
        self._waiting = self.messages
        again = [hint for hint in self.entries.values() if hint.live]
        changed = [msgspec.structs.replace(hint, live=False) for hint in again]
        self.entries.update((hint.number, hint) for hint in changed)
        return [Keep(hint) for hint in changed], self._cut_moved(again[0].number) if again else []

    def up(self) -> list[Action]:
        """Ask a node that is back what it has, unless nothing was kept."""
        if self.state == "live":
            return []
        self.state = "asking"
        return [Ask()]

    def answered(
        self, generation: str, taken: int, frames: Mapping[int, int], now: float, *, renewed: bool = False
    ) -> list[Action]:
        """Take the node's answer: its generation, the last entry that it took, and by link session the last
        frame. Drop what it has, and send the rest; sessions that are ``renewed``, having begun after the node
        went away, or of another generation get no hints.
        """
        actions: list[Action] = []
        if renewed or (self.generation and self.generation != generation):
            gone = [hint.number for hint in self.entries.values() if not hint.live]
            actions += self._drop(gone, "sessions_lost")
            self.moved.clear()
        self.generation = generation
        if self.state != "asking":
            return actions
        known = [hint.number for hint in self.entries.values() if hint.is_known(taken, frames)]
        actions += self._drop(known, "", "known")
        self.state = "sending"
        return actions + self.pump(now)

    def gone(self, reason: str) -> list[Action]:
        """Drop all: the node will not come back."""
        self.state = "live"
        self.moved.clear()
        self.overflowed = 0
        self._flight.clear()
        return self._drop(list(self.entries), reason)

    def settled(self) -> list[Action]:
        """Go live if nothing is left to send, now that the node's rows are here: it is forwarded to again."""
        if self.state != "sending" or self.entries:
            return []
        self.state = "live"
        self.moved.clear()
        self.overflowed = 0
        return [Live()]

    def moves(self, client_id: str, *, always: bool = False) -> bool:
        """Note that a client's session has moved, now or ``always``; return whether that is new."""
        bounds = self.moved.get(client_id, ())
        if self.state == "live" or NO_END in bounds or (not bounds and len(self.moved) >= MOVED_LIMIT):
            return False
        self.moved[client_id] = *bounds, 0 if always and not bounds else self.next, NO_END
        return True

    def returns(self, client_id: str) -> bool:
        """Note that a client that moved is the node's again from now on; return whether that is new."""
        bounds = self.moved.get(client_id, (0,))
        if bounds[-1] != NO_END:
            return False
        self.moved[client_id] = *bounds[:-1], self.next
        return True

    def fills_up(self, wall: float) -> bool:
        """Return whether room has run out since the last call; ``wall`` is the time of day."""
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
        """Keep ``count`` messages in one entry. Without room none of it is kept, or older ones are dropped.

        ``session``, ``frame``: the frame in which it was sent, in that link session; 0: it was not.
        """
        hint = Hint(self.next, now, records, count, live=self.state != "away", session=session, frame=frame)
        self.next += 1
        actions: list[Action] = []
        short = self._short(hint)
        if short and not self._keep_oldest and hint.size <= self._max_bytes and count <= self._limit:
            actions += self._make_room(hint)
            short = self._short(hint)
        if short:
            self.counts["dropped_overflow"] += count
            self.overflowed += count
            actions.append(Lost((records,), "overflow"))
            return actions
        self._put(hint)
        self.counts["kept"] += count
        actions.append(Keep(hint))
        return actions + self.pump(now)

    def adopt(self, hints: Iterable[Hint], moved: Moved) -> tuple[list[Action], list[str]]:
        """Keep hints of another node, in its order; ``moved``, by its numbers, says what is not for a client,
        and what is known here does not apply to them. Return also the clients whose ``moved`` has changed."""
        first, actions, numbers = self.next, list[Action](), list[int]()
        for hint in hints:
            numbers.append(hint.number)
            actions += self.add(hint.records, hint.count, hint.at)
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
        """Drop entries that another node keeps from now on."""
        gone = [number for number in numbers if number in self.entries]
        for number in gone:
            # The node came back after they were offered.
            hint = self._flight.pop(number, None)
            self._flying -= 0 if hint is None else hint.size
        return [*self._drop(gone, "", "handed_over"), *self.pump(now)]

    def restore(
        self, entries: Iterable[Hint], generation: str, moved: Moved
    ) -> tuple[list[Action], list[str]]:
        """Restore the entries on disc; the node is away until it is seen. Returns what :meth:`down` does: for
        the node it went with the creation that wrote them."""
        for hint in sorted(entries, key=lambda hint: hint.number):
            self._put(hint)
        self.generation = generation
        self.moved.update(moved)
        return self.down()

    def confirmed(self, number: int, now: float) -> list[Action]:
        """Drop an entry that has taken effect."""
        hint = self._flight.pop(number, None)
        if hint is None:
            return []
        self._flying -= hint.size
        return [*self._drop([number], "", "sent"), *self.pump(now)]

    def pump(self, now: float) -> list[Action]:
        """Return what may be sent now: the next entries, as far as the window goes."""
        actions: list[Action] = []
        if self.state != "sending":
            return actions
        expired: list[int] = []
        while self._todo and len(self._flight) < WINDOW_MESSAGES and self._flying < WINDOW_BYTES:
            number = self._todo.popleft()
            hint = self.entries.get(number)
            if hint is None:
                continue
            if hint.live and not self._over:
                self._over = True
                actions.append(Over())
            records, late = self._refresh(hint.records, now - hint.at)
            self.counts["dropped_expired"] += late
            if late:
                actions.append(Lost((hint.records,), "expired", records))
            if not records:
                expired.append(number)
                continue
            self._flight[number] = hint
            self._flying += hint.size
            actions.append(Send(hint, records))
        actions += self._drop(expired, "")
        if not self._over and not self._waiting:
            self._over = True
            actions.append(Over())
        return actions

    # -- inside

    def _cut_moved(self, first: int) -> list[str]:
        """Clear ``moved`` from a number on; return the clients for which that changed something."""
        changed = [client_id for client_id, bounds in self.moved.items() if bounds[-1] > first]
        for client_id in changed:
            bounds = self.moved.pop(client_id)
            if before := bounds[: bisect_left(bounds, first)]:
                self.moved[client_id] = [*before, first] if len(before) % 2 else before
        return changed

    def _put(self, hint: Hint) -> None:
        self.entries[hint.number] = hint
        self._todo.append(hint.number)
        self.messages += hint.count
        self.bytes += hint.size
        self._waiting += 0 if hint.live else hint.count

    def _short(self, hint: Hint) -> bool:
        return self.messages + hint.count > self._limit or self.bytes + hint.size > self._max_bytes

    def _make_room(self, hint: Hint) -> list[Action]:
        oldest: list[int] = []
        messages, size = self.messages + hint.count, self.bytes + hint.size
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
            hint = self.entries.pop(number)
            self.messages -= hint.count
            self.bytes -= hint.size
            self._waiting -= 0 if hint.live else hint.count
            if reason or what:
                self.counts[what or f"dropped_{reason}"] += hint.count
        drop = Drop(tuple(numbers))
        return [drop, Lost(lost, reason)] if lost else [drop]

"""A consumer group: which of a queue's messages each consumer has, which come next, and which come again.
 A message is *unclaimed* from the cursor on; below it, it is *held* by a consumer, *delayed* after a
``nack``, *ready* to be given again, *parked* behind another one of its key, or settled, and then it is in
none of these.
 Rules: 1. A consumer that has room is given a message as soon as there is one, by the entry that brings it or
the room: no claim is asked for, and no two consumers have one message.  2. What comes again goes before what
is new, in the order of offsets.  3. A message whose time is over goes to another consumer; who let it pass is
*stuck*, and is given nothing until it settles something: else it would use up the deliveries of all.  4. A
consumer that leaves gives back what it has at once.  5. With ordering by key the key of a message that is not
settled is closed, also while it is delayed.
 Pure: no clock, no I/O; ``now`` is the group's time in milliseconds. All of it is state, and goes to
snapshots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heappop, heappush

import msgspec

from gossamer.queues.stats import CheckpointStats, ConsumerStats, GroupStats
from gossamer.queues.values import MAX_CHECKPOINT, Checkpoint, Why

_SETTLED = 1000
"""Deadlines of settled messages that a group keeps beside those that count."""


class Consumer(msgspec.Struct, array_like=True):
    """A consumer; ``held`` are offsets: a dict, since a set has no order that outlives a snapshot."""

    client: str
    node: str
    limit: int
    replica: bool
    last: int = 0
    """When it was last given a message, as the group counts what it gives."""
    held: dict[int, None] = msgspec.field(default_factory=dict)
    stuck: bool = False
    single: bool = False
    """Whether it wants no other to be given messages while it is the first."""

    @property
    def has_room(self) -> bool:
        """Return whether it may be given a message."""
        return not self.stuck and len(self.held) < self.limit


class Given(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Who has a message, and until when."""

    consumer: str
    deadline: int


class ConsumerGroup(msgspec.Struct, array_like=True):
    """State of a group. A queue calls it, and says what has become of offsets."""

    name: str
    cursor: int
    consumers: dict[str, Consumer] = msgspec.field(default_factory=dict)
    given: int = 0
    """Messages that were ever given."""
    held: dict[int, Given] = msgspec.field(default_factory=dict)
    attempts: dict[int, int] = msgspec.field(default_factory=dict)
    """How often each message was given that is below the cursor and not settled."""
    deadlines: list[tuple[int, int]] = msgspec.field(default_factory=list)
    """Heap of the times at which claims end, with their offsets; some are over already."""
    delayed: list[tuple[int, int]] = msgspec.field(default_factory=list)
    """Heap of the times at which messages come again, with their offsets."""
    ready: list[int] = msgspec.field(default_factory=list)
    """Heap of offsets to be given again."""
    closed: dict[str, int] = msgspec.field(default_factory=dict)
    """Offset of the message that closes a key."""
    parked: dict[str, list[int]] = msgspec.field(default_factory=dict)
    """Offsets behind it, in order."""
    checkpoint: Checkpoint = Checkpoint(0, b"")
    idle_since: int = 0
    """When its last consumer left."""

    # -- who takes part

    def join(self, consumer: str, client: str, node: str, limit: int, *, replica: bool, single: bool) -> None:
        """Add a consumer, or change its limit."""
        known = self.consumers.get(consumer)
        if known is not None:
            known.limit, known.replica, known.single = limit, replica, single
            return
        self.consumers[consumer] = Consumer(client, node, limit, replica, single=single)

    def leave(self, consumer: str) -> list[int]:
        """Remove a consumer; return the offsets that it had: the caller says what becomes of them."""
        gone = self.consumers.pop(consumer, None)
        returned = [] if gone is None else sorted(gone.held)
        for offset in returned:
            del self.held[offset]
        return returned

    # -- giving

    def free(self) -> str | None:
        """Return the consumer that is next: of those with room the one that has least, then the one that
        was given none for longest. Where one wants to be the only one, of those that are not stuck the one
        that joined first."""
        best: tuple[int, int, str] | None = None
        single = any(one.single for one in self.consumers.values())
        for name, one in self.consumers.items():
            if one.has_room and (best is None or (len(one.held), one.last) < best[:2]):
                best = len(one.held), one.last, name
            if single and not one.stuck:
                break
        return None if best is None else best[2]

    def next(self, end: int, key_of: Callable[[int], str | None], *, by_key: bool) -> int | None:
        """Return the offset that is to be given next, which the caller gives; None: there is none.

        ``end`` is behind the last offset; ``key_of(offset)`` the key of a message, None where it is gone.
        """
        while self.ready:
            offset = heappop(self.ready)
            if offset in self.attempts:
                return offset
        while self.cursor < end:
            offset = self.cursor
            self.cursor += 1
            key = key_of(offset)
            if key is None:
                continue
            if not by_key or not key:
                return offset
            if key not in self.closed:
                self.closed[key] = offset
                return offset
            self.parked.setdefault(key, []).append(offset)
            self.attempts[offset] = 0
        return None

    def give(self, offset: int, consumer: str, deadline: int) -> int:
        """Give a message to a consumer; return which attempt it is."""
        attempt = self.attempts[offset] = self.attempts.get(offset, 0) + 1
        self.held[offset] = Given(consumer, deadline)
        mine = self.consumers[consumer]
        mine.held[offset] = None
        self.given += 1
        mine.last = self.given
        heappush(self.deadlines, (deadline, offset))
        if len(self.deadlines) > 2 * len(self.held) + _SETTLED:
            # Of what is settled nothing is due any more: a quick group would have a million of these.
            self.deadlines = sorted((one.deadline, known) for known, one in self.held.items())
        return attempt

    # -- settling

    def take_back(self, consumer: str, offsets: list[int]) -> tuple[list[int], list[int]]:
        """Take messages from a consumer that says what became of them; return those that it had, and those
        that it has no more."""
        mine = self.consumers[consumer]
        mine.stuck = False
        found, late = [], []
        for offset in offsets:
            if offset in mine.held:
                del self.held[offset], mine.held[offset]
                found.append(offset)
            else:
                late.append(offset)
        return found, late

    def refusal_of(self, checkpoint: bytes | None, based_on: int) -> Why | None:
        """Return why a checkpoint is not taken, if there is one that is not."""
        if checkpoint is None:
            return None
        if len(checkpoint) > MAX_CHECKPOINT:
            return Why.TOO_LARGE
        return None if based_on == self.checkpoint.number else Why.STALE

    def again(self, offset: int) -> None:
        """Have a message come again as soon as a consumer has room."""
        heappush(self.ready, offset)

    def delay(self, offset: int, until: int) -> None:
        """Have a message come again later."""
        heappush(self.delayed, (until, offset))

    def forget(self, offset: int, key: str = "") -> None:
        """Note that a message is settled or gone, so that the next of its ``key`` may be given."""
        self.attempts.pop(offset, None)
        given = self.held.pop(offset, None)
        if given is not None:
            self.consumers[given.consumer].held.pop(offset, None)
        waiting = self.parked.get(key, [])
        if self.closed.get(key) != offset:
            if offset in waiting:
                waiting.remove(offset)
        elif waiting:
            self.closed[key] = waiting.pop(0)
            heappush(self.ready, self.closed[key])
        else:
            del self.closed[key]
        if not waiting:
            self.parked.pop(key, None)

    def has_open(self, offset: int) -> bool:
        """Return whether a message is still to be settled here."""
        return offset >= self.cursor or offset in self.attempts

    def pass_time(self, now: int) -> Iterator[int]:
        """Have delayed messages come again whose time has come; yield the offsets whose claim is over, each
        of which is with no consumer any more: the caller says what becomes of it."""
        while self.delayed and self.delayed[0][0] <= now:
            _, offset = heappop(self.delayed)
            if offset in self.attempts:
                heappush(self.ready, offset)
        while self.deadlines and self.deadlines[0][0] <= now:
            deadline, offset = heappop(self.deadlines)
            given = self.held.get(offset)
            if given is None or given.deadline != deadline:
                continue
            mine = self.consumers[given.consumer]
            mine.held.pop(offset, None)
            mine.stuck = True
            del self.held[offset]
            yield offset

    def shift(self, elapsed: int) -> None:
        """Take the times of another clock, which is so far ahead."""
        self.held = {at: Given(one.consumer, one.deadline + elapsed) for at, one in self.held.items()}
        self.deadlines = [(until + elapsed, offset) for until, offset in self.deadlines]
        self.delayed = [(until + elapsed, offset) for until, offset in self.delayed]

    # -- what there is

    @property
    def busy(self) -> bool:
        """Return whether time changes something."""
        return bool(self.held or self.delayed)

    def committed(self) -> int:
        """Return the first offset that is not settled."""
        return min(self.attempts, default=self.cursor)

    def stats(self, waiting: int) -> GroupStats:
        """Return what operators see; ``waiting``: messages from the cursor on."""
        parked, kept = sum(map(len, self.parked.values())), self.checkpoint
        return GroupStats(
            name=self.name,
            cursor=self.cursor,
            committed=self.committed(),
            waiting=waiting + len(self.ready) + parked,
            held=len(self.held),
            delayed=len(self.delayed),
            consumers=[
                ConsumerStats(one.client, one.node, len(one.held), one.limit, one.stuck)
                for one in self.consumers.values()
            ],
            checkpoint=CheckpointStats(kept.number, len(kept.data), kept.offset, kept.client)
            if kept.number
            else None,
        )

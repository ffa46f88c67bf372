"""One queue: its messages in the order of their offsets, its limits, and its consumer groups.

Rules: 1. An offset is given once and never again.  2. A message of a *classic* or *ephemeral* queue goes when
every consumer group has settled it; with no group it waits. That of a *stream* goes by age and limits alone,
and that of a *last_value* queue when its key has a later one.  3. A dead letter leaves its queue in the step
that puts it into the other one.  4. What a limit or its age removes is counted as dropped, and no consumer
group waits for it.

Pure, as ``consumers``: ``now`` is the group's time in milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

import msgspec

from gossamer.config import QueueConfig
from gossamer.queues.replicated.consumers import ConsumerGroup
from gossamer.queues.replicated.fates import (
    APPENDED,
    BURIED,
    DISCARDED,
    EXPIRED,
    GROUP_DROPPED,
    LIMIT,
    NOT_KEPT,
    PURGED,
    REPLAYED,
    SUPERSEDED,
    Fates,
)
from gossamer.queues.replicated.state import OVERHEAD, DeadLetter, Entry, QueueState
from gossamer.queues.values import (
    Append,
    Assigned,
    Checkpoint,
    Join,
    Message,
    Outcome,
    Refused,
    Settle,
    Why,
    is_start,
)

_PER_TICK = 1000
"""Messages that leave by age in one tick, at most."""


class Queue:
    """A queue with its state, which the machine of its replication group has."""

    def __init__(self, state: QueueState, fates: Fates) -> None:
        self.state = state
        self._fates = fates
        self.define(state.defined)

    def define(self, settings: bytes) -> None:
        """Take other settings, a :class:`~gossamer.config.QueueConfig` as JSON."""
        self.state.defined = settings
        self.config = QueueConfig.model_validate_json(settings)
        self._by_key = self.config.ordering == "key"
        self._stays = self.config.type in ("stream", "last_value")
        self._keyed = self.config.type == "last_value"
        self._visible = int(self.config.visibility_timeout * 1000)
        limits, ttl = self.config.limits, self.config.limits.message_ttl
        self._ttl = None if ttl is None else int(ttl * 1000)
        self._most = limits.max_message_size, limits.max_depth, limits.max_bytes
        self.dead_letters = self.config.dlq.queue_of(self.state.name) if self.config.dlq.enabled else ""
        if self._keyed and not self.state.latest:
            self._keep_latest()

    def _keep_latest(self) -> None:
        """Remove what has a later message of its key: the queue was of another type."""
        latest = self.state.latest
        for offset, entry in list(self.state.entries.items()):
            if entry.key in latest:
                self._supersede(latest[entry.key])
            latest[entry.key] = offset

    # -- messages come

    def append(self, asked: Append, now: int) -> int | Refused:
        """Put a message in; return its offset, or why not."""
        state, expires, ttl, expiry = self.state, 0, self._ttl, asked.expiry
        if ttl is not None or expiry is not None:
            expires = now + min(one for one in (ttl, expiry) if one is not None)
        entry = Entry(asked.key, asked.payload, asked.properties, asked.at, now, expires)
        largest, depth, most = self._most
        if (size := entry.size) - OVERHEAD > largest:
            state.counts.refused += 1
            return Refused(Why.TOO_LARGE)
        before = state.latest.get(entry.key) if self._keyed else None
        if before is None and len(state.entries) < depth and state.size + size <= most:
            self._put(entry)
            return state.end - 1
        if self.config.limits.overflow == "reject" and self._is_full(entry, before):
            state.counts.refused += 1
            return Refused(Why.FULL)
        if before is not None:
            self._supersede(before)
        self.bury(entry)
        return state.end - 1

    def bury(self, entry: Entry) -> None:
        """Put in what is not refused, as a dead letter: where there is no room the oldest goes."""
        while self.state.entries and self._is_full(entry):
            self._drop(self.state.first, LIMIT)
        self._put(entry)

    def put_back(self, entry: Entry) -> bool:
        """Take a dead letter back; False: there is no room."""
        if self._is_full(entry):
            return False
        if self.config.type == "last_value" and entry.key in self.state.latest:
            # What the queue keeps of this key is later.
            self.state.counts.dropped += 1
        else:
            self._put(entry)
            state = self.state
            self._fates.note(APPENDED, state.name, state.end - 1, REPLAYED, entry.only or None, key=entry.key)
        return True

    def take_out(self, offset: int) -> None:
        """Remove a message that is in another queue now."""
        self._remove(offset)
        self._fates.note(DISCARDED, self.state.name, offset, REPLAYED)

    def _put(self, entry: Entry) -> None:
        state = self.state
        state.entries[state.end] = entry
        state.size += entry.size
        if self._keyed:
            state.latest[entry.key] = state.end
        state.end += 1

    def _is_full(self, entry: Entry, instead: int | None = None) -> bool:
        """Return whether there is no room for a message, in place of another one, if so."""
        state, (_, most_depth, most) = self.state, self._most
        gone = 0 if instead is None else state.entries[instead].size
        depth, size = len(state.entries) - (instead is not None), state.size + entry.size - gone
        return depth >= most_depth or size > most

    # -- messages go

    def _remove(self, offset: int) -> None:
        """Remove a message, for which no consumer group waits any more."""
        state = self.state
        entry = state.entries.pop(offset)
        state.size -= entry.size
        if state.latest.get(entry.key) == offset:
            del state.latest[entry.key]
        while state.first < state.end and state.first not in state.entries:
            state.first += 1
        for group in state.groups.values():
            group.forget(offset, entry.key)

    def _drop(self, offset: int, reason: str) -> None:
        self._remove(offset)
        self.state.counts.dropped += 1
        self._fates.note(DISCARDED, self.state.name, offset, reason)

    def _supersede(self, offset: int) -> None:
        self._remove(offset)
        self._fates.note(DISCARDED, self.state.name, offset, SUPERSEDED)

    def purge(self) -> int:
        """Remove all messages; return how many."""
        offsets = list(self.state.entries)
        for offset in offsets:
            self._remove(offset)
        if offsets:
            self._fates.note(DISCARDED, self.state.name, self.state.end - 1, PURGED)
        return len(offsets)

    def _settled(self, group: ConsumerGroup, offsets: list[int]) -> None:
        entries = self.state.entries
        self.state.counts.settled += len(offsets)
        for offset in offsets:
            group.forget(offset, entries[offset].key)
            if not self._stays and not self._is_open(offset):
                self._remove(offset)

    def _is_open(self, offset: int) -> bool:
        """Return whether a consumer group has a message still to settle."""
        entry = self.state.entries[offset]
        return any(one.has_open(offset) for one in self.state.groups.values() if entry.is_for(one.name))

    # -- consumers

    def join(self, asked: Join) -> Why | None:
        """Let a consumer take part; return why not, if so."""
        group = self.state.groups.get(asked.group)
        if group is None:
            if len(self.state.groups) >= self.config.limits.max_groups:
                return Why.TOO_MANY_GROUPS
            start = self._start(asked.start)
            if start is None:
                return Why.BAD_START
            group = self.state.groups[asked.group] = ConsumerGroup(asked.group, start)
        limit = min(asked.limit, self.config.max_inflight)
        replica, single = asked.replica, asked.single
        group.join(asked.consumer, asked.client, asked.node, limit, replica=replica, single=single)
        return None

    def _start(self, start: str) -> int | None:
        """Return the offset at which a new consumer group begins (``values.is_start``); None: no such thing
        can be, or it is beyond what is there."""
        state = self.state
        match start.partition(":"):
            case _ if not is_start(start):
                return None
            case ("", _, _):
                return state.end if self.config.type == "stream" else state.first
            case ("first", "", _):
                return state.first
            case ("last", "", _):
                return max(state.entries, default=state.end)
            case ("next", "", _):
                return state.end
            case (number, "", _):
                # What is gone by age is no mistake of who asks for it.
                return max(int(number), state.first) if int(number) <= state.end else None
            case (_, _, at):
                late = (offset for offset, entry in state.entries.items() if entry.at >= int(at))
                return next(late, state.end)

    def leave(self, group: str, consumer: str, now: int) -> list[DeadLetter]:
        """Take a consumer out of a group, also one that is not there; return what became dead letters."""
        found = self.state.groups.get(group)
        if found is None:
            return []
        returned = found.leave(consumer)
        self.state.idle_since = found.idle_since = now
        return self._again(found, returned, "its consumer left")

    def drop_group(self, group: str) -> Why | None:
        """Remove a consumer group, if nobody is in it: who is would join it again."""
        gone = self.state.groups.get(group)
        if gone is not None and gone.consumers:
            return Why.IN_USE
        if self.state.groups.pop(group, None) is not None:
            self._fates.note(DISCARDED, self.state.name, self.state.end - 1, GROUP_DROPPED, group)
        if gone is None or self._stays:
            return None
        for offset, entry in list(self.state.entries.items()):
            if self.state.groups and not self._is_open(offset):
                self._remove(offset)
            elif entry.only == group:
                self.state.entries[offset] = msgspec.structs.replace(entry, only="")
        return None

    def node_gone(self, node: str, kept: set[str], now: int) -> list[DeadLetter]:
        """Take the consumers of a node out of all groups."""
        dead: list[DeadLetter] = []
        for name, group in self.state.groups.items():
            gone = [one for one, member in group.consumers.items() if member.node == node and one not in kept]
            for consumer in gone:
                dead += self.leave(name, consumer, now)
        return dead

    def settle(self, asked: Settle, now: int) -> tuple[list[DeadLetter], Refused | None]:
        """Take what a consumer says of messages; return what became dead letters, and what was refused."""
        group = self.state.groups.get(asked.group)
        offsets = [asked.offsets] if isinstance(asked.offsets, int) else asked.offsets
        if group is None or asked.consumer not in group.consumers:
            return [], Refused(Why.NOT_JOINED, offsets)
        if (why := group.refusal_of(asked.checkpoint, asked.based_on)) is not None:
            return [], Refused(why, offsets)
        found, late = group.take_back(asked.consumer, offsets)
        refused = Refused(Why.NOT_HELD, late) if late else None
        if asked.outcome is Outcome.ACK:
            if asked.checkpoint is not None and found:
                client = group.consumers[asked.consumer].client
                number = asked.based_on + 1
                group.checkpoint = Checkpoint(number, asked.checkpoint, found[-1], client)
            self._settled(group, found)
            return [], refused
        if asked.outcome is Outcome.REJECT:
            letters = [self._bury(group, offset, asked.reason or "rejected") for offset in found]
        else:
            letters = [self._later(group, offset, asked, now) for offset in found]
        return [one for one in letters if one is not None], refused

    def _later(self, group: ConsumerGroup, offset: int, asked: Settle, now: int) -> DeadLetter | None:
        """Have a message come again after a while, unless it was given too often."""
        if (letter := self._given_too_often(group, offset, asked.reason or "nack")) is not None:
            return letter
        # One that was given too often, and is not kept, is gone.
        if (attempt := group.attempts.get(offset)) is not None:
            retry = self.config.retry
            wait = min(retry.initial_backoff * retry.multiplier ** (attempt - 1), retry.max_backoff)
            group.delay(offset, now + (int(wait * 1000) if asked.delay is None else max(0, asked.delay)))
        return None

    def _again(self, group: ConsumerGroup, offsets: Iterable[int], reason: str) -> list[DeadLetter]:
        """Have messages come again that no consumer has any more, but for those that were given too often."""
        dead: list[DeadLetter] = []
        for offset in offsets:
            if (letter := self._given_too_often(group, offset, reason)) is not None:
                dead.append(letter)
            elif offset in group.attempts:
                group.again(offset)
        return dead

    def _given_too_often(self, group: ConsumerGroup, offset: int, reason: str) -> DeadLetter | None:
        attempts = group.attempts.get(offset, 0)
        if attempts < self.config.retry.max_deliveries:
            return None
        return self._bury(group, offset, f"given {attempts} times; {reason}")

    def _bury(self, group: ConsumerGroup, offset: int, reason: str) -> DeadLetter | None:
        """Settle a message that nobody could do; return it, if it is kept."""
        state, dlq = self.state, self.config.dlq
        entry, attempt = state.entries[offset], group.attempts.get(offset, 0)
        self._settled(group, [offset])
        state.counts.settled -= 1
        if not dlq.enabled or dlq.queue == state.name:
            state.counts.dropped += 1
            self._fates.note(DISCARDED, state.name, offset, NOT_KEPT, group.name, attempt)
            return None
        state.counts.dead += 1
        self._fates.note(BURIED, state.name, offset, reason, group.name, attempt)
        note = f"{state.name}, consumer group {group.name}: {reason}"
        origin = state.name, group.name
        entry = msgspec.structs.replace(entry, note=note, origin=origin, only="")
        return DeadLetter(dlq.queue_of(state.name), entry)

    # -- giving

    def assign(self, now: int) -> Iterator[Assigned]:
        """Give messages to consumers that have room, as long as there are both; yield each."""
        state = self.state
        for group in state.groups.values():
            key_of = partial(self._key_of, group.name)
            while (consumer := group.free()) is not None:
                offset = group.next(state.end, key_of, by_key=self._by_key)
                if offset is None:
                    break
                entry = state.entries[offset]
                if entry.expires and entry.expires <= now:
                    self._drop(offset, EXPIRED)
                    continue
                attempt = group.give(offset, consumer, now + self._visible)
                state.counts.redelivered += attempt > 1
                yield self._assigned(group, consumer, offset, attempt)

    def _key_of(self, group: str, offset: int) -> str | None:
        entry = self.state.entries.get(offset)
        return None if entry is None or not entry.is_for(group) else entry.key

    def _assigned(self, group: ConsumerGroup, consumer: str, offset: int, attempt: int) -> Assigned:
        to, name = group.consumers[consumer], self.state.name
        message = self._message(offset)
        return Assigned(name, group.name, consumer, to.node, to.replica, attempt, message)

    # -- time

    def pass_time(self, now: int) -> list[DeadLetter]:
        """Do what time has made due."""
        dead: list[DeadLetter] = []
        for group in self.state.groups.values():
            dead += self._again(group, group.pass_time(now), "its consumer let its time pass")
        for _ in range(_PER_TICK):
            if not self.state.entries or not self._is_over(self.state.entries[self.state.first], now):
                break
            self._drop(self.state.first, EXPIRED)
        return dead

    def _is_over(self, entry: Entry, now: int) -> bool:
        age = self.config.max_age
        return bool(entry.expires and entry.expires <= now) or (
            age is not None and now - entry.since >= age * 1000
        )

    def is_over(self, now: int) -> bool:
        """Return whether the queue itself goes: it is ephemeral, and nobody has wanted it for long."""
        if self.config.type != "ephemeral" or any(group.consumers for group in self.state.groups.values()):
            return False
        return now - self.state.idle_since >= self.config.expires_after * 1000

    @property
    def busy(self) -> bool:
        """Return whether time changes something."""
        aging = self.config.type == "ephemeral" or bool(self.state.entries)
        return aging or any(group.busy for group in self.state.groups.values())

    # -- what there is

    def _message(self, offset: int) -> Message:
        entry = self.state.entries[offset]
        return Message(offset, entry.key, entry.payload, entry.properties, entry.at, entry.note)

    def peek(self, offset: int, limit: int) -> list[Message]:
        """Return messages from an offset on."""
        offsets = range(max(offset, self.state.first), self.state.end)
        found = (one for one in offsets if one in self.state.entries)
        return [self._message(one) for one, _ in zip(found, range(limit), strict=False)]

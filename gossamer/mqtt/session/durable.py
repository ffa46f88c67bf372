"""A session that survives its node: each change of state that must survive is written to the journal at once.

The changes are those that :class:`SessionState` lists as journalled; each is made there, and its row is
written here. The publish path is the same for both kinds of sessions, and a session that ends with its
connection pays nothing.

In a cluster that copies sessions, all that waits for the commit waits for the quorum of this session's range
too (``flow.ranges``).

Rules: 1. A packet that confirms something as safe, or lets the client discard its copy, waits for the commit:
CONNACK, a PUBLISH of QoS 2 (its packet identifier must be known after a crash, or the next message that gets
it is taken for a duplicate), PUBREL, PUBCOMP, SUBACK, UNSUBACK, and what is behind one of these. PUBACK and
PUBREC to publishers wait too (``store``).  2. A PUBLISH of QoS 1 goes at once: at worst it comes twice.
3. A session that has ended writes nothing.  4. While a quorum lacks
something of the session, what belongs to QoS 2 waits for it, and what is behind that: its client may go on
elsewhere, from what the quorum has, and would have a message twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import msgspec

from gossamer.mqtt.codec.packets import Subscription
from gossamer.mqtt.messages.message_ids import NO_ID, mark_of
from gossamer.mqtt.session.expiry import expiry_of
from gossamer.mqtt.session.qos2 import Block, Once
from gossamer.mqtt.session.session import FanoutLike, Session
from gossamer.mqtt.session.state import Item
from gossamer.mqtt.session.store import (
    INCOMING,
    INFLIGHT,
    ONCE,
    QUEUED,
    SESSION,
    SUBSCRIPTION,
    SessionStore,
    Stored,
    once_key,
)

_WAITS = frozenset({0x20, 0x34, 0x62, 0x70, 0x90, 0xB0})
"""First bytes, without DUP and RETAIN, of packets that wait for the commit."""
_ONCE = frozenset({0x34, 0x62, 0x70})
"""Those of QoS 2."""
_FREE = frozenset({0x30, 0xD0})
"""Those that wait behind no other: QoS 0, and PINGRESP, for which a client may time out."""
_SUBACK = 0x90
_ANSWERS = frozenset({_SUBACK, 0xB0})
"""Those that do not wait for a quorum behind QoS 2."""


class DurableSession(Session):
    """Session whose state is journalled, and survives a restart of its node."""

    __slots__ = (
        "_ended",
        "_expects",
        "_held",
        "_number",
        "_ticket",
        "first",
        "numbers",
        "series",
        "store",
    )

    store: SessionStore

    def __init__(
        self,
        client_id: str,
        *,
        fanout: FanoutLike,
        store: SessionStore,
        max_queued: int,
        keep_oldest: bool = False,
    ) -> None:
        super().__init__(client_id, fanout=fanout, max_queued=max_queued, keep_oldest=keep_oldest)
        self.store = store
        self.first = 0
        """Number of the oldest message in the queue."""
        self.numbers: dict[int, int] = {}
        """By packet identifier, its place in the order of sending."""
        self._number = 0
        self.series = store.new_series(), store.new_series()
        """Of the numbers in the queue, and of those in flight: see :class:`Facts`."""
        self._held: list[tuple[int, bytes]] = []
        self._expects = False
        """It is to be told once a quorum has all of it."""
        self._ticket = 0
        self._ended = False

    # Journalled.

    def assign(self, head: bytes, tail: bytes, message_id: int) -> bytes:
        packet = super().assign(head, tail, message_id)
        self._put_inflight(self.last_id)
        return packet

    def keep(self, packet_id: int, packet: bytes, message_id: int = NO_ID) -> None:
        super().keep(packet_id, packet, message_id)
        self._put_inflight(packet_id)

    def settle(self, packet_id: int) -> None:
        super().settle(packet_id)
        del self.numbers[packet_id]
        self._put(INFLIGHT, packet_id, None)

    def withdraw(self, packet_id: int) -> int:
        if self._held:
            # It may not have been sent yet.
            self._held = [held for held in self._held if _publish_id(held[1]) != packet_id]
        return super().withdraw(packet_id)

    def append(self, item: Item, size: int) -> None:
        super().append(item, size)
        self._put(QUEUED, self.first + len(self.queue) - 1, self.store.pack(item), new=True)

    def popleft(self) -> Item:
        item = super().popleft()
        self._put(QUEUED, self.first, None)
        self.first += 1
        return item

    def refill(self, items: Iterable[Item]) -> None:
        before = len(self.queue)
        super().refill(items)
        for _ in range(before):
            self._put(QUEUED, self.first, None)
            self.first += 1
        for number, item in enumerate(self.queue, self.first):
            self._put(QUEUED, number, self.store.pack(item), new=True)

    def unreleased(self, packet_id: int, message_id: int, *, doubtful: bool = False) -> None:
        super().unreleased(packet_id, message_id, doubtful=doubtful)
        self._put(INCOMING, packet_id, self._incoming_row(packet_id))

    def _incoming_row(self, packet_id: int) -> object:
        known = self.message_id_of(packet_id)
        return True if known == NO_ID else mark_of(known)

    def release(self, packet_id: int) -> bool:
        known = super().release(packet_id)
        if known:
            self._put(INCOMING, packet_id, None)
        return known

    def subscribe(self, wanted: Subscription, identifier: int | None) -> None:
        super().subscribe(wanted, identifier)
        self._put(SUBSCRIPTION, wanted.filter, _subscription_row(wanted, identifier))

    def unsubscribe(self, topic_filter: str) -> bool:
        known = super().unsubscribe(topic_filter)
        if known:
            self._put(SUBSCRIPTION, topic_filter, None)
        return known

    def admit(self, message_id: int) -> bool:
        new = super().admit(message_id)
        if not new:
            # Perhaps a moment ago: whoever sends it again is told once that is safe.
            self.store.touch(self.client_id)
        return new

    def remember(self) -> Once:
        if self.once is None:
            self.once = Once(self._put_once)
        return self.once

    def save(self) -> None:
        self._put(SESSION, 0, self._facts())

    def _facts(self) -> tuple[object, ...]:
        return (
            self.version,
            self.username,
            self.expiry,
            self.store.time_of_day(self.expires_at),
            self.epoch,
            None,
            None,
            self.clean,
            self.born,
            None if self.given is None else self.first + self.given,
            self.move,
            self.moves,
            self.revised,
            self.succeeded,
            self.series,
        )

    def rows(self) -> Iterator[tuple[int, object, object]]:
        """Yield kind, key and value of every row that the session has."""
        yield SESSION, 0, self._facts()
        for wanted, identifier in self.subscriptions.values():
            yield SUBSCRIPTION, wanted.filter, _subscription_row(wanted, identifier)
        for packet_id in self.inflight:
            yield INFLIGHT, packet_id, self._inflight_row(packet_id)
        for packet_id in self.incoming:
            yield INCOMING, packet_id, self._incoming_row(packet_id)
        for number, item in enumerate(self.queue, self.first):
            yield QUEUED, number, self.store.pack(item)
        for block in () if self.once is None else self.once.dump():
            yield ONCE, once_key(*block[:3]), block[3]

    def forget(self) -> None:
        for topic_filter in list(self.subscriptions):
            self.unsubscribe(topic_filter)
        for packet_id in list(self.inflight):
            self.settle(packet_id)
        for packet_id in self.incoming:
            self._put(INCOMING, packet_id, None)
        self.incoming.clear()
        if self.once is not None:
            self.once.clear()
        super().forget()
        self._put(SESSION, 0, None)
        self._ended = True

    def _put(self, kind: int, key: object, value: object, *, new: bool = False) -> None:
        if not self._ended:
            self._ticket = self.store.put(self.client_id, kind, key, value, new=new)

    def _put_inflight(self, packet_id: int) -> None:
        new = packet_id not in self.numbers
        if new:
            # A PUBREL keeps the place of its PUBLISH.
            self.numbers[packet_id] = self._number
            self._number += 1
        self._put(INFLIGHT, packet_id, self._inflight_row(packet_id), new=new)

    def _inflight_row(self, packet_id: int) -> object:
        packet = self.inflight[packet_id]
        message_id = self.message_ids.get(packet_id) if self.message_ids else None
        tag = b"" if message_id is None else mark_of(message_id)
        # What is written takes bytes, and no kind of them.
        expires = self.store.time_of_day(expiry_of(packet))
        return self.numbers[packet_id], bytes(packet), tag, expires

    def _put_once(self, block: Block) -> None:
        self._put(ONCE, once_key(*block[:3]), block[3] or None)

    # What waits for the disc.

    def send(self, head: bytes, tail: bytes, message_id: int = NO_ID) -> None:
        self.push(self.assign(head, tail, message_id))

    def send_all(self, head: bytes, tails: Sequence[bytes]) -> None:
        for tail in tails:
            if len(self.inflight) < self.window:
                self.send(head, tail)
            else:
                self.enqueue(head, tail)

    def push_all(self, packets: list[bytes]) -> None:
        for packet in packets:
            self.push(packet)

    def push(self, packet: bytes) -> None:
        held = self._held
        kind = packet[0] & 0xF6
        free = kind in _FREE or (not held and (kind not in _WAITS or self._is_safe(kind, self._ticket)))
        if free or (kind in _ANSWERS and held and self._is_committed(self._ticket)):
            super().push(packet)
            return
        held.append((self._ticket, packet))
        if len(held) == 1:
            self._wait()
        elif kind in _ANSWERS:
            self.store.after_of(self.client_id, self._ticket, partial(self._release_held, self.channel))

    @property
    def holds_suback(self) -> bool:
        """True while a SUBACK waits for what it says to be safe."""
        return any(packet[0] == _SUBACK for _, packet in self._held)

    def _is_committed(self, ticket: int) -> bool:
        return ticket <= self.store.committed_of(self.client_id)

    def _is_safe(self, kind: int, ticket: int) -> bool:
        return self._is_committed(ticket) and not (kind in _ONCE and self.store.is_behind(self.client_id))

    def _wait(self) -> None:
        """Release what is held once its first packet may go."""
        ticket, packet = self._held[0]
        if not self._is_committed(ticket):
            self.store.after_of(self.client_id, ticket, partial(self._release_held, self.channel))
        elif packet[0] & 0xF6 in _ONCE and not self._expects:
            self._expects = True
            self.store.when_level(self.client_id, self._is_level)

    def _is_level(self) -> None:
        self._expects = False
        self._release_held(self.channel)

    def _release_held(self, channel: Any) -> None:
        if channel is not self.channel or channel is None:
            return
        held, self._held = self._held, []
        for ticket, packet in held:
            kind = packet[0] & 0xF6
            answers = kind in _ANSWERS and self._is_committed(ticket)
            if not answers and (self._held or not self._is_safe(kind, ticket)):
                self._held.append((ticket, packet))
                continue
            super().push(packet)
            if kind == _SUBACK:
                channel.answered = self.store.wall()
        if self._held:
            self._wait()

    def attach(self, channel: object, **options: Any) -> None:
        self._held.clear()
        super().attach(channel, **options)

    def detach(self) -> None:
        self._held.clear()
        super().detach()

    def read_only(self) -> None:
        """Write nothing from now on."""
        self._ended = True

    # A restart.

    def restore(self, stored: Stored) -> None:
        """Load the state on disc, without writing it again."""
        facts = stored.facts
        assert facts is not None  # noqa: S101 - the store yields no others
        self.version = facts.version
        self.username = facts.username
        self.expiry = facts.expiry
        self.epoch = facts.epoch
        self.clean = facts.clean
        self.born = facts.born
        self.revised = facts.revised
        self.move = facts.move
        self.moves = tuple(facts.moves)
        for wanted, identifier in stored.subscriptions:
            self.subscriptions[wanted.filter] = wanted, identifier
        self.message_ids = dict(stored.message_ids) or None
        for number, packet_id, packet in stored.inflight:
            self.inflight[packet_id] = packet
            self.numbers[packet_id] = number
            self._number = number + 1
        for packet_id in stored.incoming:
            self.incoming[packet_id] = True
            if -packet_id in stored.message_ids:
                self.doubtful[packet_id] = None
        queue, flight = facts.series
        if stored.queue:
            super().refill(item for _, item in stored.queue)
            self.first = stored.queue[0][0]
            self.series = queue, self.series[1]
        if stored.inflight:
            self.series = self.series[0], flight
        if stored.once:
            self.once = Once.of(stored.once)
            self.once.note = self._put_once
        if facts.given is not None:
            self.given = min(max(0, facts.given - self.first), len(self.queue))


def _subscription_row(wanted: Subscription, identifier: int | None) -> object:
    return msgspec.structs.astuple(wanted), identifier


def _publish_id(packet: bytes) -> int:
    """Return the packet identifier of a PUBLISH of QoS 1 or 2; 0 for other packets."""
    if packet[0] & 0xF0 != 0x30 or not packet[0] & 0x06:
        return 0
    at = next(place for place in range(1, 5) if packet[place] < 0x80) + 1
    at += 2 + int.from_bytes(packet[at : at + 2])
    return int.from_bytes(packet[at : at + 2])

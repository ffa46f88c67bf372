"""A session that survives its node: every change to it is noted for the disc as it happens.

What it holds is kept in containers that note what is put in and taken out, so that the code of
:class:`Session`, and the publish path around it, is the same for both kinds; a session that ends with its
connection pays nothing.

Rules: 1. What tells somebody that something is safe, or makes him forget his own copy, waits for the commit:
CONNACK, a PUBLISH of QoS 2 (its identifier must be known after a crash, or the next message that gets it is
taken for a repetition), PUBREL, PUBCOMP, SUBACK, UNSUBACK, and what comes behind one of these. PUBACK and
PUBREC to publishers wait too (``sessionstore``).  2. A PUBLISH of QoS 1 goes at once: at worst it comes
twice.  3. A session that has ended notes nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec

from gossamer.mqtt.codec.packets import Subscription
from gossamer.mqtt.messages.message_ids import NO_IDENT, mark_of
from gossamer.mqtt.session.expiry import expiry_of
from gossamer.mqtt.session.qos2 import Block, Once
from gossamer.mqtt.session.session import Hub, Item, Session
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

__all__ = ["DurableSession"]

K = TypeVar("K")
V = TypeVar("V")

_WAITS = frozenset({0x20, 0x34, 0x62, 0x70, 0x90, 0xB0})
"""First bytes, without DUP and RETAIN, of what waits for the commit."""


class _Kept(dict[K, V]):
    """A dict that notes its changes; None: the key is gone."""

    __slots__ = ("_note",)

    def __init__(self, note: Callable[[K, V | None], None]) -> None:
        super().__init__()
        self._note = note

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self._note(key, value)

    def __delitem__(self, key: K) -> None:
        super().__delitem__(key)
        self._note(key, None)

    def pop(self, key: K, default: Any = None) -> Any:
        if key not in self:
            return default
        value = self[key]
        del self[key]
        return value

    def clear(self) -> None:
        for key in list(self):
            del self[key]

    def update(self, other: Any = (), /, **more: Any) -> None:
        for key, value in dict(other, **more).items():
            self[key] = value


class _KeptIdents(dict[int, int]):
    """Who recorded messages are, noted with the packet; that one is gone says the packet's own row."""

    __slots__ = ("_note",)

    def __init__(self, note: Callable[[int], None]) -> None:
        super().__init__()
        self._note = note

    def __setitem__(self, key: int, ident: int) -> None:
        super().__setitem__(key, ident)
        self._note(key)


class _KeptQueue(deque[Item]):
    """A queue that notes what comes at its end and what goes at its start."""

    def __init__(self, note: Callable[[int, Item | None], None], first: int = 0) -> None:
        super().__init__()
        self._note = note
        self.first = first
        """The number of the oldest message."""

    def append(self, item: Item, /) -> None:
        super().append(item)
        self._note(self.first + len(self) - 1, item)

    def extend(self, items: Iterable[Item], /) -> None:
        for item in items:
            self.append(item)

    def popleft(self) -> Item:
        item = super().popleft()
        self._note(self.first, None)
        self.first += 1
        return item


class DurableSession(Session):
    """Session whose state is journalled, and survives a restart of its node."""

    __slots__ = ("_ended", "_held", "_kept_queue", "_number", "_numbers", "_ticket", "store")

    store: SessionStore

    def __init__(
        self, client_id: str, *, hub: Hub, store: SessionStore, max_queued: int, keep_oldest: bool = False
    ) -> None:
        super().__init__(client_id, hub=hub, max_queued=max_queued, keep_oldest=keep_oldest)
        self.store = store
        self.inflight = _Kept(self._note_inflight)
        self.incoming = _Kept(self._note_incoming)
        self.subscriptions = _Kept(self._note_subscription)
        self._kept_queue: _KeptQueue | None = None
        self._numbers: dict[int, int] = {}
        self._number = 0
        self._held: list[tuple[int, bytes]] = []
        self._ticket = 0
        self._ended = False

    # What changes.

    def _note(self, kind: int, key: Any, value: Any) -> None:
        if not self._ended:
            self._ticket = self.store.put(self.client_id, kind, key, value)

    def _note_inflight(self, packet_id: int, packet: bytes | None) -> None:
        if packet is None:
            self._numbers.pop(packet_id, None)
            self._note(INFLIGHT, packet_id, None)
            return
        number = self._numbers.get(packet_id)
        if number is None:
            # A PUBREL keeps the place of its PUBLISH.
            number = self._numbers[packet_id] = self._number
            self._number += 1
        ident = self.idents.get(packet_id) if self.idents else None
        tag = b"" if ident is None else mark_of(ident)
        # What is written takes bytes, and no kind of them.
        expires = self.store.time_of_day(expiry_of(packet))
        self._note(INFLIGHT, packet_id, (number, bytes(packet), tag, expires))

    def _note_incoming(self, packet_id: int, value: bool | None) -> None:
        ident = self.ident_of(packet_id)
        known: Any = value if value is None or ident == NO_IDENT else mark_of(ident)
        self._note(INCOMING, packet_id, known)

    def new_idents(self) -> dict[int, int]:
        return _KeptIdents(self._note_ident)

    def _note_ident(self, key: int) -> None:
        if key > 0:
            self._note_inflight(key, self.inflight[key])
        elif -key in self.incoming:
            self._note_incoming(-key, True)

    def new_once(self, blocks: Iterable[Block] = ()) -> Once:
        once = Once()
        once.load(blocks)
        once.note = self._note_once
        return once

    def _note_once(self, block: Block) -> None:
        self._note(ONCE, once_key(*block[:3]), block[3] or None)

    def _note_subscription(self, topic_filter: str, value: tuple[Subscription, int | None] | None) -> None:
        if value is not None:
            wanted, identifier = value
            self._note(SUBSCRIPTION, topic_filter, (msgspec.structs.astuple(wanted), identifier))
        else:
            self._note(SUBSCRIPTION, topic_filter, None)

    def _note_queued(self, number: int, item: Item | None) -> None:
        self._note(QUEUED, number, None if item is None else self.store.pack(item))

    def save(self) -> None:
        """Note the session itself: call it when one of its own values has changed."""
        self._note(
            SESSION,
            0,
            (
                self.version,
                self.username,
                self.expiry,
                self.store.time_of_day(self.expires_at),
                self.epoch,
                None,
                None,
                self.clean,
                self.born,
                None if self.given is None else self._first + self.given,
                self.move,
                self.moves,
                self.revised,
            ),
        )

    def forget(self) -> None:
        """The session is over: so are its rows."""
        self.subscriptions.clear()
        self.inflight.clear()
        self.incoming.clear()
        self._drop_queue()
        if self.once is not None:
            self.once.clear()
        super().forget()
        self._note(SESSION, 0, None)
        self._ended = True

    # The queue.

    @property
    def _first(self) -> int:
        return 0 if self._kept_queue is None else self._kept_queue.first

    def _new_queue(self) -> deque[Item]:
        self._kept_queue = _KeptQueue(self._note_queued)
        return self._kept_queue

    def refill(self, items: Iterable[Item]) -> None:
        self._drop_queue()
        queue = self.queue = self._new_queue()
        queue.extend(items)
        self._weigh()

    def _drop_queue(self) -> None:
        kept = self._kept_queue
        if kept is not None:
            for number in range(kept.first, kept.first + len(kept)):
                self._note_queued(number, None)
            self._kept_queue = None

    # What waits for the disc.

    @property
    def owes_connack(self) -> bool:
        return bool(self._held) and self._held[0][1][0] == 0x20

    def push(self, packet: bytes) -> None:
        held = self._held
        if not held and (packet[0] & 0xF6 not in _WAITS or self._ticket <= self.store.committed):
            super().push(packet)
            return
        held.append((self._ticket, packet))
        if len(held) == 1:
            self.store.after(self._ticket, partial(self._release, self.channel))

    def send_all(self, head: bytes, tails: Sequence[bytes]) -> None:
        if not self._held:
            # PUBLISH of QoS 1 waits for nothing but what came before it.
            super().send_all(head, tails)
            return
        for tail in tails:
            if len(self.inflight) < self.window:
                self.send(head, tail)
            else:
                self.enqueue(head, tail)

    def _release(self, channel: object) -> None:
        if channel is not self.channel or channel is None:
            return
        held = self._held
        committed = self.store.committed
        count = 0
        while count < len(held) and held[count][0] <= committed:
            super().push(held[count][1])
            count += 1
        del held[:count]
        if held:
            self.store.after(held[0][0], partial(self._release, channel))

    def attach(self, channel: object, **options: Any) -> None:
        self._held.clear()
        super().attach(channel, **options)

    def detach(self) -> None:
        self._held.clear()
        super().detach()

    # A restart.

    def restore(self, stored: Stored) -> None:
        """Be what the disc had; nothing of it is noted again."""
        facts = stored.facts
        assert facts is not None  # noqa: S101 - the store yields no others
        self.version = facts.version
        self.username = facts.username
        self.expiry = facts.expiry
        self.epoch = facts.epoch
        self.clean = facts.clean
        self.born = facts.born
        self.revised = facts.revised
        for wanted, identifier in stored.subscriptions:
            dict.__setitem__(self.subscriptions, wanted.filter, (wanted, identifier))
        if stored.idents:
            self.idents = self.new_idents()
            dict.update(self.idents, stored.idents)
        for number, packet_id, packet in stored.inflight:
            dict.__setitem__(self.inflight, packet_id, packet)
            self._numbers[packet_id] = number
            self._number = number + 1
        for packet_id in stored.incoming:
            dict.__setitem__(self.incoming, packet_id, True)
            if -packet_id in stored.idents:
                self.doubtful.add(packet_id)
        if stored.queue:
            first = stored.queue[0][0]
            kept = self._kept_queue = _KeptQueue(self._note_queued, first)
            deque.extend(kept, (item for _, item in stored.queue))
            self.queue = kept
            self._weigh()
        self.move = facts.move
        self.moves = tuple(facts.moves)
        if stored.once:
            self.once = self.new_once(stored.once)
        if facts.given is not None:
            self.given = max(0, facts.given - self._first)

"""State machine of a session (MQTT 5.0, 4.1).

Pure: no I/O and no callbacks; a clock is passed in where time matters. A method changes the state and returns
what to send and what is lost; :class:`~gossamer.mqtt.session.session.Session` sends and counts.

Rules: 1. ``inflight`` holds, by packet identifier and in the order of sending, the very packet to send
again after a reconnect: a PUBLISH until it is acknowledged, then, for QoS 2, its PUBREL.  2. ``window`` is
how many may be in flight *now*: the client's receive maximum, or 0 while it is not connected or its socket
is full. So one comparison on the publish path covers flow control, back-pressure and absence.  3. While
anything is queued the window is full or closed: order is kept.  4. The queue is bounded; at the bound the
oldest message is dropped, or with ``keep_oldest`` the new one.  5. QoS 0 is never queued: it is for clients
that are connected.  6. Stored packets have no topic aliases, which end with a connection ([MQTT-3.3.2-7]).
7. State that must survive the node changes only in the methods under "journalled": ``durable`` adds to each
of them the row that it writes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from gossamer.mqtt.codec.encoder import PACKET_ID, convert, read_publish
from gossamer.mqtt.codec.packets import V4, V5, Subscription
from gossamer.mqtt.codec.properties import Properties
from gossamer.mqtt.flow.backpressure import ITEM
from gossamer.mqtt.messages.message import Message
from gossamer.mqtt.messages.message_ids import NO_ID, Tracked, message_id_in
from gossamer.mqtt.session.aliases import TopicAliases
from gossamer.mqtt.session.expiry import Expiring, expiry_of, sent_again
from gossamer.mqtt.session.qos2 import Once

Item = tuple[bytes, bytes, Message | None]
"""A queued message: head and tail of its PUBLISH, and if it expires itself, to be encoded again."""

Lost = tuple[bytes, str]
"""Tail of a queued message that is dropped, and the reason."""

Clock = Callable[[], float]

# An idle session has no queue of its own: an empty deque takes more room than all the rest.
_EMPTY: deque[Item] = deque(maxlen=0)


class Drained(NamedTuple):
    """Messages taken from the queue."""

    packets: list[bytes]
    """Packets to send, in order."""
    sent: list[tuple[int, Tracked]]
    """First bytes and tails of those that have an id."""
    lost: list[Lost]


class SessionState:
    """State of one client's session; see the module's rules."""

    __slots__ = (
        "__weakref__",
        "_aliases",
        "alias_maximum",
        "born",
        "channel",
        "checked",
        "clean",
        "client_id",
        "departed",
        "doubtful",
        "epoch",
        "expires_at",
        "expiry",
        "former",
        "gate",
        "given",
        "incoming",
        "inflight",
        "keep_oldest",
        "last_id",
        "max_packet",
        "max_queued",
        "message_ids",
        "move",
        "moves",
        "once",
        "out",
        "passing",
        "queue",
        "queued_bytes",
        "receive_maximum",
        "resend",
        "revised",
        "subscriptions",
        "succeeded",
        "username",
        "version",
        "window",
    )

    def __init__(self, client_id: str, *, max_queued: int = 10_000, keep_oldest: bool = False) -> None:
        self.client_id = client_id
        self.max_queued = max_queued
        self.keep_oldest = keep_oldest
        self.epoch = 0
        self.born = 0
        """Its first epoch, which it keeps when it moves."""
        self.clean = True
        """It began with a clean start."""
        self.revised = 0
        """When its client changed its subscriptions last: microseconds of the day, as epochs are. Of two
        copies of one session, the one revised later has the right subscriptions."""
        self.gate: Callable[[Item], bool] | None = None
        """While it moves: returns whether to queue a message here."""
        self.given: int | None = None
        """Number of queued messages that were given to the target of a move; None: no move has begun."""
        self.move = ""
        """Token of that move."""
        self.moves: tuple[str, ...] = ()
        """Tokens of the latest moves that brought it here with all that their sources had."""
        self.succeeded = False
        """Another node has all of it but what is queued here, which is still to be offered to that one."""
        self.former = False
        """Its client has begun another one since, and must be told that this one is new."""
        self.departed = False
        """It has ended here, and goes on at another node."""
        self.once: Once | None = None
        """Messages of QoS 2 that it has taken, if it outlives its connection."""
        self.version = V4
        self.username: str | None = None
        self.checked: object = None
        """Rules of the ACL by which it was checked last; None: by none, or on another node."""
        self.channel: Any = None
        self.expiry = 0
        self.expires_at: float | None = None
        self.out: list[bytes] = []
        """Packets to write at the end of this turn."""
        self.inflight: dict[int, bytes] = {}
        self.message_ids: dict[int, int] | None = None
        """Ids of messages in flight that have one, by packet identifier; of messages that the client
        published, by its negative."""
        self.window = 0
        self.receive_maximum = 0
        self.max_packet = 0
        self.alias_maximum = 0
        self._aliases: TopicAliases | None = None
        self.last_id = 0
        """Packet identifier that was assigned last."""
        self.resend: list[bytes] | None = None
        self.queue = _EMPTY
        self.queued_bytes = 0
        self.incoming: dict[int, bool] = {}
        """Packet identifiers of QoS 2 publishes that the client has not released."""
        self.passing: dict[int, list[Callable[[bool], object]]] = {}
        """Those whose messages are not safe at all receivers yet, with the callbacks that wait for that."""
        self.doubtful: dict[int, None] = {}  # An empty set takes three times as much room.
        """Those of which that is not known, since the session has moved or its node has died."""
        self.subscriptions: dict[str, tuple[Subscription, int | None]] = {}

    # The connection.

    def attach(
        self,
        channel: object,
        *,
        version: int,
        receive_maximum: int,
        max_packet: int = 0,
        alias_maximum: int = 0,
    ) -> None:
        """Attach a connection; :meth:`send_again` then has its unacknowledged packets ([MQTT-4.4.0-1])."""
        if version != self.version and (self.inflight or self.queue):
            self._translate(version)
        self.version = version
        self.channel = channel
        self.receive_maximum = self.window = receive_maximum
        self.max_packet = max_packet
        self.alias_maximum = alias_maximum
        self._aliases = TopicAliases(alias_maximum, max_packet) if alias_maximum else None
        self.expires_at = None
        self.given = None
        if self.epoch:
            # A copy that another node has may have given the next identifiers already: see ``end_halves``.
            self.last_id = self.epoch % 65535
        self.out.clear()

    def detach(self) -> None:
        """Detach the connection; packets that were not acknowledged stay in flight."""
        self.channel = None
        self.window = 0
        self.out.clear()
        self._aliases = None
        self.resend = None

    def pause(self) -> None:
        """Close the window, as the socket is full."""
        self.window = 0

    def send_again(self, now: Clock) -> tuple[list[bytes], int]:
        """Return the packets in flight, up to the window, and how many are too large for the client now."""
        large: list[int] = []
        if self.max_packet:
            # The client takes less than it did before: as if they had been sent ([MQTT-3.1.2-25]).
            large = [n for n, packet in self.inflight.items() if len(packet) > self.max_packet]
            for packet_id in large:
                self.withdraw(packet_id)
        again = list(self.inflight.values())
        # The client may allow less in flight than it did before: the rest waits ([MQTT-3.3.4-9]).
        self.resend = again[: self.window - 1 : -1] or None
        return [sent_again(packet, self.version, now()) for packet in again[: self.window]], len(large)

    # Journalled: what survives the node changes here.

    def assign(self, head: bytes, tail: bytes, message_id: int) -> bytes:
        """Put a PUBLISH of QoS 1 or 2 in flight under the next packet identifier; return it to be sent."""
        inflight = self.inflight
        packet_id = self.last_id + 1
        if packet_id > 65535:
            packet_id = 1
        while packet_id in inflight:
            packet_id = packet_id + 1 if packet_id < 65535 else 1
        self.last_id = packet_id
        packet = inflight[packet_id] = head + PACKET_ID[packet_id] + tail
        if message_id != NO_ID:
            self._identify(packet_id, message_id)
        if self._aliases is None:
            return packet
        return self._aliases.shorten(head, PACKET_ID[packet_id], tail)

    def keep(self, packet_id: int, packet: bytes, message_id: int = NO_ID) -> None:
        """Put ``packet`` in flight under an identifier, in place of any other."""
        self._identify(packet_id, message_id)
        self.inflight[packet_id] = packet

    def _identify(self, key: int, message_id: int) -> None:
        if message_id != NO_ID:
            if self.message_ids is None:
                self.message_ids = {}
            self.message_ids[key] = message_id

    def settle(self, packet_id: int) -> None:
        """Remove what is in flight under an identifier."""
        del self.inflight[packet_id]

    def append(self, item: Item, size: int) -> None:
        """Queue a message."""
        if self.queue is _EMPTY:
            self.queue = deque()
        self.queue.append(item)
        self.queued_bytes += size

    def popleft(self) -> Item:
        """Remove and return the oldest message of the queue."""
        item = self.queue.popleft()
        self.queued_bytes -= len(item[0]) + len(item[1]) + ITEM
        return item

    def refill(self, items: Iterable[Item]) -> None:
        """Replace the queue."""
        self.queue = deque(items) or _EMPTY
        self.queued_bytes = sum(len(head) + len(tail) + ITEM for head, tail, _ in self.queue)

    def unreleased(self, packet_id: int, message_id: int, *, doubtful: bool = False) -> None:
        """Note that the client has published a message of QoS 2, with that id, and not released it."""
        # Identifiers of packets to the client and from it are told apart by their sign.
        self._identify(-packet_id, message_id)
        self.incoming[packet_id] = True
        if doubtful:
            self.doubtful[packet_id] = None

    def release(self, packet_id: int) -> bool:
        """Take a PUBREL; False: no message of QoS 2 has this identifier."""
        self.doubtful.pop(packet_id, None)
        if self.message_ids:
            self.message_ids.pop(-packet_id, None)
        return self.incoming.pop(packet_id, None) is not None

    def subscribe(self, wanted: Subscription, identifier: int | None) -> None:
        """Add a subscription; the router has it already, or gets it next."""
        self.subscriptions[wanted.filter] = wanted, identifier

    def unsubscribe(self, topic_filter: str) -> bool:
        """Remove a subscription; False: there is none."""
        return self.subscriptions.pop(topic_filter, None) is not None

    def remember(self) -> Once:
        """Return the memory of QoS 2 messages that it has taken; make it if there is none."""
        if self.once is None:
            self.once = Once()
        return self.once

    # Towards the client.

    def encoded(
        self, message: Message, qos: int, *, retain: bool, identifiers: tuple[int, ...], now: Clock
    ) -> tuple[bytes, bytes] | str:
        """Return head and tail of a message for this client, or the reason why it is dropped."""
        if self.channel is None and not qos:
            return "offline"
        parts = message.parts(self.version, qos << 1 | retain, identifiers, now())
        if parts is None:
            return "expired"
        if self.max_packet and len(parts[0]) + len(parts[1]) + (2 if qos else 0) > self.max_packet:
            # As if it had been sent ([MQTT-3.1.2-25]).
            return "too_large"
        return parts

    def drain(self, now: Clock) -> Drained:
        """Send from the queue while the window has room."""
        packets: list[bytes] = []
        sent: list[tuple[int, Tracked]] = []
        lost: list[Lost] = []
        inflight, window, resend, queue = self.inflight, self.window, self.resend, self.queue
        while resend and len(inflight) - len(resend) < window:
            packets.append(sent_again(resend.pop(), self.version, now()))
        while queue and len(inflight) < window:
            head, queued, message = self.popleft()
            tail = queued
            if message is not None:
                parts = message.parts(self.version, head[0] & 7, self._identifiers(head, tail), now())
                if parts is None:
                    lost.append((queued, "expired"))
                    continue
                head, tail = parts
            if self.max_packet and len(head) + len(tail) + 2 > self.max_packet:
                lost.append((queued, "too_large"))
                continue
            message_id = NO_ID
            if isinstance(queued, Tracked):
                message_id = queued.message_id
                sent.append((head[0], queued))
            packets.append(self.assign(head, tail, message_id))
            if message is not None:
                self.expires(message)
        return Drained(packets, sent, lost)

    def expires(self, message: Message) -> None:
        """Keep the expiry of the message sent last: when sent again it carries the interval that is left."""
        if message.expires_at is not None:
            self.keep(self.last_id, Expiring.of(self.inflight[self.last_id], message.expires_at))

    def _identifiers(self, head: bytes, tail: bytes) -> tuple[int, ...]:
        """Return the subscription identifiers with which a message was queued."""
        if self.version == V4:
            return ()
        properties: Properties = read_publish(head + b"\0\1" + tail, V5).properties
        return properties.subscription_identifiers

    def make_room(self, item: Item, *, limit: int, max_bytes: int, room: int) -> tuple[bool, list[Lost]]:
        """Drop messages to make room for ``item``; return whether it fits now, and what was dropped.

        ``limit`` in messages; ``max_bytes`` of this queue; ``room``: bytes left in all queues of the node.
        """
        lost: list[Lost] = []
        size = len(item[0]) + len(item[1]) + ITEM
        over = len(self.queue) >= limit
        room += self.queued_bytes
        while over or self.queued_bytes + size > max_bytes or self.queued_bytes + size > room:
            reason = "queue_full" if self.queued_bytes + size <= room else "node_queue_full"
            if not self.queue or self.keep_oldest or self.gate is not None:
                lost.append((item[1], reason))
                return False, lost
            if self.given:
                self.given -= 1
            lost.append((self.popleft()[1], reason))
            over = False
        return True, lost

    def withdraw(self, packet_id: int) -> int:
        """Remove what is in flight under an identifier; return its message id, or :data:`NO_ID`."""
        self.settle(packet_id)
        return self.message_ids.pop(packet_id, NO_ID) if self.message_ids else NO_ID

    def _translate(self, version: int) -> None:
        """Convert all stored packets to the other protocol version, with which the client came back."""
        old = self.version
        for packet_id, packet in self.inflight.items():
            if packet[0] != 0x62:
                stored = PACKET_ID[packet_id].join(convert(packet, old, version))
                self.keep(packet_id, Expiring.of(stored, expiry_of(packet)))
        self.refill(
            [(*convert(head + b"\0\1" + tail, old, version), message) for head, tail, message in self.queue]
        )

    # Of QoS 2.

    def admit(self, message_id: int) -> bool:
        """Return whether a message of QoS 2 is new to this session, and remember it; see ``qos2``."""
        return message_id == NO_ID or not self.expiry or self.remember().admit(message_id)

    def admits_item(self, item: Item) -> bool:
        """Do the same for a message that was queued elsewhere, of any QoS."""
        return item[0][0] >> 1 & 3 != 2 or self.admit(message_id_in(item[1]))

    def message_id_of(self, packet_id: int) -> int:
        """Return the id of the QoS 2 message that the client published under a packet identifier."""
        return self.message_ids.get(-packet_id, NO_ID) if self.message_ids else NO_ID

    def not_passed(self, packet_id: int) -> None:
        """Note that a publish did not reach all its receivers: a repetition of it is routed again."""
        if self.passing.pop(packet_id, None) is not None and packet_id in self.incoming:
            self.doubtful[packet_id] = None

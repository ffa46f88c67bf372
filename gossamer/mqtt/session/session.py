"""A session: what a server keeps of one client, whether the client is there or not (MQTT 5.0, 4.1).

Pure: it decides what bytes go to the client and appends them to ``out``; who writes them is the channel's
business. The clock is passed in where time matters.

Rules: 1. ``inflight`` holds, by packet identifier and in the order of sending, the very packet to send
again after a reconnect: a PUBLISH until it is acknowledged, then, for QoS 2, its PUBREL.  2. ``window`` is
how many may be in flight *now*: the client's receive maximum, or 0 while nobody is connected or its socket
is full. So one comparison on the publish path covers flow control, back-pressure and absence.  3. While
anything is queued the window is full or closed: order is kept.  4. The queue is bounded; at the bound the
oldest message goes, or the new one where ``keep_oldest`` says so, and is counted. It is bounded in messages,
in bytes, and in the bytes of all queues of the node together (``pressure``).  5. QoS 0 is never queued:
it is for clients that are there.  6. Whatever is stored is free of topic aliases, which end with a connection
([MQTT-3.3.2-7]).

``plain`` says whether the fan-out may hand this session packets that were encoded for all; a session that
limits the packet size or uses topic aliases is served message by message.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Protocol

from gossamer.mqtt.codec.encoder import PACKET_ID, convert, encode, publish_parts, read_publish
from gossamer.mqtt.codec.packets import V4, V5, Pubrel, Subscription
from gossamer.mqtt.codec.properties import Properties
from gossamer.mqtt.flow.backpressure import FAR_BEHIND, ITEM, Pressure
from gossamer.mqtt.flow.wide_fanout import Wide
from gossamer.mqtt.messages.message import Message
from gossamer.mqtt.messages.message_ids import NO_IDENT, Tracked, ident_in, is_recorded
from gossamer.mqtt.messages.ports import TrailLike
from gossamer.mqtt.session.expiry import Expiring, expiry_of, sent_again
from gossamer.mqtt.session.qos2 import Once
from gossamer.routes import Delivery

__all__ = ["Hub", "Item", "Session"]

Item = tuple[bytes, bytes, Message | None]
"""A queued message: head and tail of its PUBLISH, and itself where time will change its encoding."""


class Hub(Protocol):
    """Whoever flushes sessions that have something to write, and counts what they drop."""

    def touch(self, session: Session) -> None: ...

    @property
    def pressure(self) -> Pressure: ...
    @property
    def wide(self) -> Wide: ...
    def now(self) -> float: ...
    def where(self) -> str | None: ...
    def dropped(self, reason: str, count: int = 1) -> None: ...

    @property
    def trail(self) -> TrailLike | None: ...


# An idle session has no queue of its own: an empty deque takes more room than all the rest.
_EMPTY: deque[Item] = deque(maxlen=0)


def _closed(_item: Item) -> bool:
    return False


class Session:
    """The state of one client; see the module's rules."""

    __slots__ = (
        "__weakref__",
        "_aliases",
        "alias_maximum",
        "behind",
        "born",
        "channel",
        "clean",
        "client_id",
        "deadline",
        "delivered",
        "doubtful",
        "epoch",
        "expires_at",
        "expiry",
        "gate",
        "given",
        "hub",
        "idents",
        "incoming",
        "inflight",
        "keep_oldest",
        "last_id",
        "lost",
        "max_packet",
        "max_queued",
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
        "username",
        "version",
        "waiting",
        "will_at",
        "will_due",
        "window",
    )

    def __init__(
        self, client_id: str, *, hub: Hub, max_queued: int = 10_000, keep_oldest: bool = False
    ) -> None:
        self.client_id = client_id
        self.hub = hub
        self.max_queued = max_queued
        self.keep_oldest = keep_oldest
        self.epoch = 0
        self.born = 0
        """Its first epoch; it keeps that wherever it goes."""
        self.clean = True
        """It began with nothing because its client wanted that."""
        self.revised = 0
        """When its client changed its subscriptions last: microseconds of the day, as epochs are. Of two
        copies of one session, the one where that was later says what it is subscribed to."""
        self.gate: Callable[[Item], bool] | None = None
        """While it moves: whether a message is this node's to queue."""
        self.given: int | None = None
        """How many of the queued messages another node has been given that was to take the session."""
        self.move = ""
        """The move in which they were given."""
        self.moves: tuple[str, ...] = ()
        """The latest moves that brought it where it is, each with all that its source had."""
        self.once: Once | None = None
        """Of a session that outlives its connection: which messages of QoS 2 it has taken."""
        self.version = V4
        self.username: str | None = None
        self.channel: Any = None
        self.expiry = 0
        self.expires_at: float | None = None
        self.deadline: Any = None
        self.will_due: Any = None
        self.will_at: float | None = None
        self.out: list[bytes] = []
        self.inflight: dict[int, bytes] = {}
        self.idents: dict[int, int] | None = None
        """Of what is in flight and recorded, the identifiers (``idents``)."""
        self.window = 0
        self.receive_maximum = 0
        self.max_packet = 0
        self.alias_maximum = 0
        self._aliases: dict[bytes, int] | None = None
        self.last_id = 0
        """The packet identifier that was given last."""
        self.resend: list[bytes] | None = None
        self.queue = _EMPTY
        self.queued_bytes = 0
        self.incoming: dict[int, bool] = {}
        self.passing: dict[int, list[Callable[[bool], object]]] = {}
        """Of these, whose messages are not safe everywhere yet, and who waits until they are."""
        self.doubtful: set[int] = set()
        """Of these, where that is not known: the session has been elsewhere, or its node has died since."""
        self.subscriptions: dict[str, tuple[Subscription, int | None]] = {}
        self.delivered = 0
        self.lost = 0
        """Messages for it that were dropped, since it is here."""
        self.behind = False
        self.waiting: list[Any] | None = None

    def __repr__(self) -> str:
        return f"<session {self.client_id!r}>"

    @property
    def store(self) -> Any:
        """Where a session is kept that survives its node; see ``durable``."""
        return None

    @property
    def online(self) -> bool:
        """Whether its client is connected."""
        return self.channel is not None

    @property
    def ready(self) -> bool:
        """Whether a message would go to the client at once."""
        return len(self.inflight) < self.window

    @property
    def plain(self) -> bool:
        return not self.max_packet and not self.alias_maximum

    @property
    def shape(self) -> tuple[int, bool]:
        """What the fan-out's compiled plans assume of this session."""
        return self.version, self.plain

    # The connection comes and goes.

    def attach(
        self,
        channel: object,
        *,
        version: int,
        receive_maximum: int,
        max_packet: int = 0,
        alias_maximum: int = 0,
    ) -> None:
        """A connection took the session: its unacknowledged packets go out again ([MQTT-4.4.0-1])."""
        if version != self.version and (self.inflight or self.queue):
            self._translate(version)
        self.version = version
        self.channel = channel
        self.receive_maximum = self.window = receive_maximum
        self.max_packet = max_packet
        self.alias_maximum = alias_maximum
        self._aliases = {} if alias_maximum else None
        self.expires_at = None
        self.given = None
        if self.epoch:
            # A copy that another node has may have given the next identifiers already: see ``end_halves``.
            self.last_id = self.epoch % 65535
        self.out.clear()

    def resume(self) -> None:
        """Send again what was in flight, then what waited; after CONNACK."""
        inflight = self.inflight
        if self.max_packet:
            # The client takes less than it did before: as if they had been sent ([MQTT-3.1.2-25]).
            for packet_id in [n for n, packet in inflight.items() if len(packet) > self.max_packet]:
                self.withdraw(packet_id)
                self.dropped("too_large")
        again = list(inflight.values())
        for packet in again[: self.window]:
            self.push(sent_again(packet, self.version, self.hub.now()))
        # The client may allow less in flight than it did before: the rest waits ([MQTT-3.3.4-9]).
        self.resend = again[: self.window - 1 : -1] or None
        self.pump()

    def detach(self) -> None:
        """The connection is gone; what was not acknowledged stays in flight."""
        self.channel = None
        self.window = 0
        self.out.clear()
        self._aliases = None
        self.resend = None

    def pause(self) -> None:
        """The socket is full."""
        self.window = 0

    def unpause(self) -> None:
        self.window = self.receive_maximum
        self.pump()

    # What survives the node; see ``durable``.

    def save(self) -> None:
        """One of the session's own values has changed."""

    def revise(self, at: int) -> None:
        """Its client changed its subscriptions at that time."""
        self.revised = max(self.revised, at)
        self.save()

    def forget(self) -> None:
        """The session is over."""
        self.gate = _closed
        self.queue = _EMPTY
        self._weigh()

    # Outbound.

    @property
    def owes_connack(self) -> bool:
        """Whether the client waits for CONNACK still."""
        return False

    def push(self, packet: bytes) -> None:
        """Have ``packet`` written at the end of this turn."""
        out = self.out
        if not out:
            self.hub.touch(self)
        out.append(packet)

    def deliver(self, message: Message, delivery: Delivery) -> None:
        """Take one message by one subscription; what the dispatcher calls off the hot path."""
        if message.publisher is self:
            if delivery.no_local:
                return
            delivery = delivery.own or delivery
        # A share group gives a message once more to a member that is subscribed besides.
        if delivery.qos == 2 and self.hub.where() is not None and not self.admits(message):
            return
        self.take(
            message,
            qos=min(message.qos, delivery.qos),
            retain=message.retain and delivery.retain_as_published,
            identifiers=delivery.identifiers,
        )

    def admits(self, message: Message) -> bool:
        """Whether a message is new to this session, as far as that matters: see ``once``."""
        if message.qos != 2 or self._admit(message.ident):
            return True
        self.hub.dropped("duplicate")
        return False

    def admits_item(self, item: Item) -> bool:
        """The same of a message that was queued elsewhere."""
        return item[0][0] >> 1 & 3 != 2 or self._admit(ident_in(item[1]))

    def _admit(self, ident: int) -> bool:
        if ident == NO_IDENT or not self.expiry:
            return True
        return self.remember().admit(ident)

    def remember(self) -> Once:
        """Which messages of QoS 2 it has taken, from now on."""
        if self.once is None:
            self.once = self.new_once()
        return self.once

    def new_once(self) -> Once:
        """The first message of QoS 2 is about to be remembered."""
        return Once()

    def take(
        self,
        message: Message,
        *,
        qos: int,
        retain: bool,
        identifiers: tuple[int, ...] = (),
        stored: bool = False,
    ) -> None:
        """Send ``message``, or queue it. Also the way retained messages come, which were ``stored``."""
        if self.channel is None and not qos:
            self._drop("offline", message.ident)
            return
        parts = message.parts(self.version, qos << 1 | retain, identifiers, self.hub.now())
        if parts is None:
            self._drop("expired", message.ident)
            return
        head, tail = parts
        if self.max_packet and len(head) + len(tail) + (2 if qos else 0) > self.max_packet:
            # As if it had been sent ([MQTT-3.1.2-25]).
            self._drop("too_large", message.ident)
            return
        ident = message.ident if is_recorded(message.ident) or (qos == 2 and not stored) else NO_IDENT
        trail = self.hub.trail if is_recorded(ident) else None
        if not qos:
            self.push(self._aliased(head, tail, None) or head + tail)
        elif len(self.inflight) < self.window:
            self._send_message(message, head, tail, ident if trail is None else NO_IDENT)
        else:
            if ident != NO_IDENT:
                tail = Tracked.of(tail, ident, None if trail is None else trail.share, stored=stored)
            self.enqueue(head, tail, message if message.expires_at is not None else None)
            return
        if trail is not None:
            trail.sent(self, message.ident, qos, retain, trail.share, stored)

    def dropped(self, reason: str, count: int = 1) -> None:
        """Messages for it go; counted here and on the node."""
        self.lost += count
        self.hub.dropped(reason, count)

    def tell_lost(self, tail: bytes, reason: str) -> None:
        """A queued message goes, and it may be one that is recorded."""
        if type(tail) is Tracked and self.hub.trail is not None and is_recorded(tail.ident):
            self.hub.trail.lost(tail.ident, self, reason)

    def _drop(self, reason: str, ident: int) -> None:
        """A message is not delivered; who it is, where that is recorded."""
        self.dropped(reason)
        if is_recorded(ident) and self.hub.trail is not None:
            self.hub.trail.lost(ident, self, reason)

    def unreleased(self, packet_id: int, ident: int, *, doubtful: bool = False) -> None:
        """The client has published a message of QoS 2, which is known as ``ident``."""
        if ident != NO_IDENT:
            if self.idents is None:
                self.idents = self.new_idents()
            # Identifiers of packets to the client and from it are told apart by their sign.
            self.idents[-packet_id] = ident
        self.incoming[packet_id] = True
        if doubtful:
            self.doubtful.add(packet_id)

    def passed(self, packet_id: int) -> None:
        """A message of QoS 2 that the client published is safe everywhere."""
        for waiting in self.passing.pop(packet_id, ()):
            waiting(True)

    def ident_of(self, packet_id: int) -> int:
        """Who a message of QoS 2 is that the client published."""
        return self.idents.get(-packet_id, NO_IDENT) if self.idents else NO_IDENT

    def new_idents(self) -> dict[int, int]:
        """The first message that is recorded is about to be remembered."""
        return {}

    def released(self, packet_id: int) -> None:
        """The client has its last word of such a message."""
        self.doubtful.discard(packet_id)
        self._finished(-packet_id)

    def send(self, head: bytes, tail: bytes, ident: int = NO_IDENT) -> None:
        """Send a PUBLISH of QoS 1 or 2 that the window has room for; ``ident`` where no recorder notes it."""
        inflight = self.inflight
        packet_id = self.last_id + 1
        if packet_id > 65535:
            packet_id = 1
        while packet_id in inflight:
            packet_id = packet_id + 1 if packet_id < 65535 else 1
        self.last_id = packet_id
        identifier = PACKET_ID[packet_id]
        packet = inflight[packet_id] = head + identifier + tail
        if ident != NO_IDENT:
            if self.idents is None:
                self.idents = self.new_idents()
            self.idents[packet_id] = ident
        self.push(packet if self._aliases is None else self._aliased(head, tail, identifier) or packet)

    def send_all(self, head: bytes, tails: Sequence[bytes]) -> None:
        """Send PUBLISHes of QoS 1 that begin alike while the window has room, and queue the others."""
        inflight = self.inflight
        room = self.window - len(inflight)
        if room < len(tails):
            for tail in tails[max(0, room) :]:
                self.enqueue(head, tail)
            if room <= 0:
                return
            tails = tails[:room]
        packet_id = self.last_id
        out = self.out
        if not out:
            self.hub.touch(self)
        for tail in tails:
            packet_id += 1
            while packet_id > 65535 or packet_id in inflight:
                packet_id = packet_id + 1 if packet_id < 65535 else 1
            packet = inflight[packet_id] = head + PACKET_ID[packet_id] + tail
            out.append(packet)
        self.last_id = packet_id

    def _send_message(self, message: Message, head: bytes, tail: bytes, ident: int) -> None:
        """The same of a message that may expire."""
        self.send(head, tail, ident)
        if message.expires_at is not None:
            # Sent again, it is to say what is left; what does not expire pays nothing for that.
            packet_id = self.last_id
            self.inflight[packet_id] = Expiring.of(self.inflight[packet_id], message.expires_at)

    def enqueue(self, head: bytes, tail: bytes, message: Message | None = None) -> None:
        """Keep a message of QoS 1 or 2 for later; ``message`` where time will change its encoding."""
        gate = self.gate
        if gate is not None and not gate((head, tail, message)):
            if self.once is not None:
                # It is another node's to queue, so this session has not taken it.
                self.once.release((ident_in(tail),))
            return
        queue = self.queue
        if queue is _EMPTY:
            queue = self.queue = self._new_queue()
        pressure = self.hub.pressure
        length = len(queue) + 1
        limit = self.max_queued
        size = len(head) + len(tail) + ITEM
        before = self.queued_bytes
        after = before + size
        if self.channel is not None:
            # It is being served: others are made to wait for it before anything is lost.
            if length * 2 == limit or before <= pressure.congested_at < after:
                pressure.congest(self)
            elif length == limit * FAR_BEHIND or before <= pressure.flooded_at < after:
                pressure.flood(self)
            limit *= 2 * FAR_BEHIND
        if (
            length > limit or after > pressure.max_session or pressure.queued + size > pressure.max_node
        ) and not self._make_room(size, limit):
            self.tell_lost(tail, "queue_full")
            return
        queue.append((head, tail, message))
        self.queued_bytes += size
        pressure.queued += size

    def _make_room(self, size: int, limit: int) -> bool:
        """Something must go before ``size`` more bytes are queued; whether it is the oldest."""
        queue = self.queue
        pressure = self.hub.pressure
        over = len(queue) >= limit
        if self.channel is not None and pressure.overrun(self):
            self.hub.dropped("slow_consumer_closed")
        while over or self.queued_bytes + size > pressure.max_session or not pressure.has_room(size):
            self.dropped("queue_full" if pressure.has_room(size) else "node_queue_full")
            if not queue or self.keep_oldest or self.gate is not None:
                return False
            if self.given:
                self.given -= 1
            head, tail, _ = queue.popleft()
            self.tell_lost(tail, "queue_full")
            self._lighter(len(head) + len(tail) + ITEM)
            over = False
        return True

    def _lighter(self, size: int) -> None:
        self.queued_bytes -= size
        self.hub.pressure.queued -= size

    def _weigh(self) -> None:
        """The queue is another one."""
        size = sum(len(head) + len(tail) + ITEM for head, tail, _ in self.queue)
        self._lighter(self.queued_bytes - size)

    def refill(self, items: Iterable[Item]) -> None:
        """Have just these messages queued."""
        self.queue = deque(items)
        self._weigh()

    def shed(self, items: Collection[Item]) -> None:
        """These are another node's now; some may have left the queue already."""
        gone = set(map(id, items))
        if self.once is not None:
            self.once.release(ident_in(tail) for _, tail, _ in items)
        while self.queue and id(self.queue[0]) in gone:
            head, tail, _ = self.queue.popleft()
            self._lighter(len(head) + len(tail) + ITEM)

    def _new_queue(self) -> deque[Item]:
        return deque()

    def pump(self) -> None:
        """Send from the queue while the window has room."""
        queue = self.queue
        self.delivered += 1
        resend = self.resend
        while resend and len(self.inflight) - len(resend) < self.window:
            self.push(sent_again(resend.pop(), self.version, self.hub.now()))
        freed = 0
        while queue and len(self.inflight) < self.window:
            head, tail, message = queue.popleft()
            freed += len(head) + len(tail) + ITEM
            queued = tail
            if message is not None:
                identifiers = () if self.version == V4 else _identifiers(head, tail)
                parts = message.parts(self.version, head[0] & 7, identifiers, self.hub.now())
                if parts is None:
                    self.dropped("expired")
                    self.tell_lost(queued, "expired")
                    continue
                head, tail = parts
            if self.max_packet and len(head) + len(tail) + 2 > self.max_packet:
                self.dropped("too_large")
                self.tell_lost(queued, "too_large")
                continue
            ident = ident_in(queued)
            trail = self.hub.trail if is_recorded(ident) else None
            unrecorded = ident if trail is None else NO_IDENT
            if message is None:
                self.send(head, tail, unrecorded)
            else:
                self._send_message(message, head, tail, unrecorded)
            if trail is not None and isinstance(queued, Tracked):
                qos, retain = head[0] >> 1 & 3, bool(head[0] & 1)
                trail.sent(self, ident, qos, retain, queued.share, queued.stored)
        if freed:
            self._lighter(freed)
        if (
            self.behind
            and self.window
            and len(queue) * 4 < self.max_queued
            and self.queued_bytes * 2 <= self.hub.pressure.congested_at
        ):
            self.hub.pressure.relieve(self)

    def acked(self, packet_id: int) -> bool:
        """PUBACK; False where no QoS 1 message with this identifier is in flight."""
        packet = self.inflight.get(packet_id)
        if packet is None or packet[0] & 0xF6 != 0x32:
            return False
        del self.inflight[packet_id]
        self._finished(packet_id)
        self.pump()
        return True

    def received(self, packet_id: int, reason: int = 0) -> None:
        """PUBREC: the client owns the message now; answer PUBREL ([MQTT-4.3.3-4])."""
        packet = self.inflight.get(packet_id)
        if packet is None or packet[0] & 0xF6 == 0x32:
            self.push(encode(Pubrel(packet_id, 0x92 if self.version == V5 else 0), self.version))
        elif reason >= 0x80:
            del self.inflight[packet_id]
            self._finished(packet_id)
            self.pump()
        else:
            release = self.inflight[packet_id] = b"\x62\x02" + PACKET_ID[packet_id]
            self.push(release)

    def withdraw(self, packet_id: int) -> None:
        """What is in flight under an identifier is not any more, and was not acknowledged either."""
        del self.inflight[packet_id]
        if self.idents:
            self.idents.pop(packet_id, None)

    def end_halves(self, packet_ids: Iterable[int]) -> None:
        """Have the client end what it has begun to take from another copy of this session.

        It would take the next message of QoS 2 that gets one of these identifiers for a repetition.
        """
        for packet_id in packet_ids:
            if packet_id not in self.inflight:
                release = self.inflight[packet_id] = b"\x62\x02" + PACKET_ID[packet_id]
                if self.channel is not None:
                    self.push(release)

    def completed(self, packet_id: int) -> bool:
        """PUBCOMP; False where no such message waits for it."""
        packet = self.inflight.get(packet_id)
        if packet is None or packet[0] != 0x62:
            return False
        del self.inflight[packet_id]
        self._finished(packet_id)
        self.pump()
        return True

    def _finished(self, packet_id: int) -> None:
        """The last acknowledgement came."""
        ident = self.idents.pop(packet_id, NO_IDENT) if self.idents else NO_IDENT
        if is_recorded(ident) and self.hub.trail is not None:
            role = "subscriber" if packet_id > 0 else "publisher"
            self.hub.trail.acknowledged(self, (ident,), role)

    def _aliased(self, head: bytes, tail: bytes, packet_id: bytes | None) -> bytes | None:
        """The packet with a topic alias ([MQTT-3.3.2-11]); None where aliases do not help."""
        aliases = self._aliases
        if aliases is None:
            return None
        publish = read_publish(head + (packet_id or b"") + tail, V5)
        alias = aliases.get(publish.topic)
        topic = b""
        if alias is None:
            if len(aliases) >= self.alias_maximum:
                return None
            alias = aliases[publish.topic] = len(aliases) + 1
            topic = publish.topic
        fields = {name: getattr(publish.properties, name) for name in publish.properties.__struct_fields__}
        fields["topic_alias"] = alias
        head, tail = publish_parts(
            topic, publish.payload, flags=head[0] & 0x0F, version=V5, properties=Properties(**fields)
        )
        packet = head + (packet_id or b"") + tail
        # Announcing an alias makes a packet longer, perhaps too long.
        if self.max_packet and len(packet) > self.max_packet:
            aliases.pop(publish.topic, None)
            return None
        return packet

    def _translate(self, version: int) -> None:
        """The client came back with the other protocol version: store its messages in that."""
        old = self.version
        for packet_id, packet in self.inflight.items():
            if packet[0] != 0x62:
                head, tail = convert(packet, old, version)
                stored = head + PACKET_ID[packet_id] + tail
                self.inflight[packet_id] = Expiring.of(stored, expiry_of(packet))
        self.refill(
            [(*convert(head + b"\0\1" + tail, old, version), message) for head, tail, message in self.queue]
        )


def _identifiers(head: bytes, tail: bytes) -> tuple[int, ...]:
    """The subscription identifiers with which a message of 5.0 was queued."""
    found: tuple[int, ...] = read_publish(head + b"\0\1" + tail, V5).properties.subscription_identifiers
    return found

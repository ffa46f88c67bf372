"""A session: what a server keeps of one client, whether the client is there or not (MQTT 5.0, 4.1).

:class:`~gossamer.mqtt.session.state.SessionState` decides what goes to the client; here that is carried out.
Packets are appended to ``out``, and the fan-out notes a session that has any, to write them at the end of the
turn. What the client does not get is counted, and reported to the flow recorder. What is queued is bounded in
bytes as well, for this session and in all queues of the node together, and whoever publishes is made to wait
for a session that is behind (``pressure``).

``plain`` says whether the fan-out may hand this session packets that were encoded for all; a session that
limits the packet size or uses topic aliases is served message by message.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from gossamer.mqtt.codec.encoder import PACKET_ID, encode
from gossamer.mqtt.codec.packets import V5, Pubrel
from gossamer.mqtt.flow.backpressure import FAR_BEHIND, ITEM, Pressure
from gossamer.mqtt.flow.wide_fanout import Wide
from gossamer.mqtt.messages.message import Message
from gossamer.mqtt.messages.message_ids import NO_ID, Tracked, is_recorded, message_id_in
from gossamer.mqtt.messages.ports import FlowRecorderLike
from gossamer.mqtt.session.state import Item, Lost, SessionState
from gossamer.routes import Delivery

if TYPE_CHECKING:
    from gossamer.mqtt.session.store import SessionStore


class FanoutLike(Protocol):
    """Fan-out as a session sees it: flushes sessions with output, and counts what they drop."""

    def touch(self, session: Session) -> None: ...

    @property
    def pressure(self) -> Pressure: ...
    @property
    def wide(self) -> Wide: ...
    def now(self) -> float: ...
    def where(self) -> str | None: ...
    def dropped(self, reason: str, count: int = 1) -> None: ...

    @property
    def recorder(self) -> FlowRecorderLike | None: ...


def _closed(_item: Item) -> bool:
    return False


class Session(SessionState):
    """Session of one client, in memory alone."""

    __slots__ = ("behind", "deadline", "delivered", "fanout", "lost", "waiting", "will_at", "will_due")

    store: SessionStore | None = None
    """Where a session is kept that survives its node; see ``durable``."""

    def __init__(
        self, client_id: str, *, fanout: FanoutLike, max_queued: int = 10_000, keep_oldest: bool = False
    ) -> None:
        super().__init__(client_id, max_queued=max_queued, keep_oldest=keep_oldest)
        self.fanout = fanout
        self.deadline: Any = None
        self.will_due: Any = None
        self.will_at: float | None = None
        self.delivered = 0
        """Grows whenever the client has made progress."""
        self.lost = 0
        """Messages for it that were dropped, since it is here."""
        self.behind = False
        self.waiting: list[object] | None = None

    def __repr__(self) -> str:
        return f"<session {self.client_id!r}>"

    # What share groups choose their members by.

    @property
    def online(self) -> bool:
        """Return whether its client is connected."""
        return self.channel is not None

    @property
    def ready(self) -> bool:
        """Return whether a message would go to the client at once."""
        return len(self.inflight) < self.window

    @property
    def plain(self) -> bool:
        return not self.max_packet and not self.alias_maximum

    @property
    def shape(self) -> tuple[int, bool]:
        """Properties of this session that the fan-out's compiled plans depend on."""
        return self.version, self.plain

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
        self.refill(())

    # What goes to the client.

    def push(self, packet: bytes) -> None:
        """Have ``packet`` written at the end of this turn."""
        out = self.out
        if not out:
            self.fanout.touch(self)
        out.append(packet)

    def push_all(self, packets: list[bytes]) -> None:
        """Have these written at the end of this turn."""
        out = self.out
        if packets and not out:
            self.fanout.touch(self)
        out += packets

    def send(self, head: bytes, tail: bytes, message_id: int = NO_ID) -> None:
        """Send a PUBLISH of QoS 1 or 2 that the window has room for."""
        out = self.out
        if not out:
            self.fanout.touch(self)
        out.append(self.assign(head, tail, message_id))

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
            self.fanout.touch(self)
        # As ``assign`` does: a call for each is a tenth of what a message costs.
        for tail in tails:
            packet_id += 1
            while packet_id > 65535 or packet_id in inflight:
                packet_id = packet_id + 1 if packet_id < 65535 else 1
            packet = inflight[packet_id] = head + PACKET_ID[packet_id] + tail
            out.append(packet)
        self.last_id = packet_id

    def resume(self) -> None:
        """Send again what was in flight, then what waited; after CONNACK."""
        packets, too_large = self.send_again(self.fanout.now)
        if too_large:
            self.dropped("too_large", too_large)
        self.push_all(packets)
        self.pump()

    def unpause(self) -> None:
        """The socket takes more again."""
        self.window = self.receive_maximum
        self.pump()

    def pump(self) -> None:
        """Send from the queue while the window has room."""
        self.delivered += 1
        if self.resend or self.queue:
            before = self.queued_bytes
            packets, sent, lost = self.drain(self.fanout.now)
            self._weighed(before)
            self.push_all(packets)
            self._lose(lost)
            recorder = self.fanout.recorder
            if sent and recorder is not None:
                for flags, tail in sent:
                    if is_recorded(tail.message_id):
                        qos, retain = flags >> 1 & 3, bool(flags & 1)
                        recorder.sent(self, tail.message_id, qos, retain, tail.share, tail.stored)
        if (
            self.behind
            and self.window
            and len(self.queue) * 4 < self.max_queued
            and self.queued_bytes * 2 <= self.fanout.pressure.congested_at
        ):
            self.fanout.pressure.relieve(self)

    def deliver(self, message: Message, delivery: Delivery) -> None:
        """Take one message by one subscription; what the dispatcher calls off the hot path."""
        if message.publisher is self:
            if delivery.no_local:
                return
            delivery = delivery.own or delivery
        # A share group gives a message once more to a member that is subscribed besides.
        if delivery.qos == 2 and self.fanout.where() is not None and not self.admits(message):
            return
        self.take(
            message,
            qos=min(message.qos, delivery.qos),
            retain=message.retain and delivery.retain_as_published,
            identifiers=delivery.identifiers,
        )

    def admits(self, message: Message) -> bool:
        """Return whether a message is new to this session, as far as that matters: see ``qos2``."""
        if message.qos != 2 or self.admit(message.id):
            return True
        self.fanout.dropped("duplicate")
        return False

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
        parts = self.encoded(message, qos, retain=retain, identifiers=identifiers, now=self.fanout.now)
        if isinstance(parts, str):
            self.dropped(parts)
            self._tell_lost(message.id, parts)
            return
        head, tail = parts
        message_id = message.id if is_recorded(message.id) or (qos == 2 and not stored) else NO_ID
        recorder = self.fanout.recorder if is_recorded(message_id) else None
        if not qos:
            self.push(head + tail if self._aliases is None else self._aliases.shorten(head, b"", tail))
        elif len(self.inflight) < self.window:
            self.send(head, tail, message_id)
            self.expires(message)
        else:
            if message_id != NO_ID:
                tail = Tracked.of(
                    tail, message_id, None if recorder is None else recorder.share, stored=stored
                )
            self.enqueue(head, tail, message if message.expires_at is not None else None)
            return
        if recorder is not None:
            recorder.sent(self, message.id, qos, retain, recorder.share, stored)

    # What waits.

    def enqueue(self, head: bytes, tail: bytes, message: Message | None = None) -> None:
        """Keep a message of QoS 1 or 2 for later; ``message`` where time will change its encoding."""
        item = head, tail, message
        gate = self.gate
        if gate is not None and not gate(item):
            if self.once is not None:
                # It is another node's to queue, so this session has not taken it.
                self.once.release((message_id_in(tail),))
            return
        pressure = self.fanout.pressure
        length = len(self.queue) + 1
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
        if length > limit or after > pressure.max_session or pressure.queued + size > pressure.max_node:
            if self.channel is not None and pressure.overrun(self):
                self.fanout.dropped("slow_consumer_closed")
            room = pressure.max_node - pressure.queued
            fits, lost = self.make_room(item, limit=limit, max_bytes=pressure.max_session, room=room)
            self._weighed(before)
            self._lose(lost)
            if not fits:
                return
        self.append(item, size)
        pressure.queued += size

    def refill(self, items: Iterable[Item]) -> None:
        before = self.queued_bytes
        super().refill(items)
        self._weighed(before)

    def shed(self, items: Collection[Item]) -> None:
        """These are another node's now; some may have left the queue already."""
        gone = set(map(id, items))
        if self.once is not None:
            self.once.release(message_id_in(tail) for _, tail, _ in items)
        before = self.queued_bytes
        while self.queue and id(self.queue[0]) in gone:
            self.popleft()
        self._weighed(before)

    def _weighed(self, before: int) -> None:
        """The queue had so many bytes."""
        self.fanout.pressure.queued += self.queued_bytes - before

    # What is lost.

    def dropped(self, reason: str, count: int = 1) -> None:
        """Messages for it go; counted here and on the node."""
        self.lost += count
        self.fanout.dropped(reason, count)

    def tell_lost(self, tail: bytes, reason: str) -> None:
        """A queued message goes, and it may be one that is recorded."""
        self._tell_lost(message_id_in(tail), reason)

    def _tell_lost(self, message_id: int, reason: str) -> None:
        recorder = self.fanout.recorder
        if recorder is not None and is_recorded(message_id):
            recorder.lost(message_id, self, reason)

    def _lose(self, lost: list[Lost]) -> None:
        for tail, reason in lost:
            self.dropped(reason)
            self.tell_lost(tail, "queue_full" if reason == "node_queue_full" else reason)

    # What the client acknowledges.

    def acked(self, packet_id: int) -> bool:
        """PUBACK; False where no QoS 1 message with this identifier is in flight."""
        packet = self.inflight.get(packet_id)
        if packet is None or packet[0] & 0xF6 != 0x32:
            return False
        self._finished(packet_id)
        return True

    def received(self, packet_id: int, reason: int = 0) -> None:
        """PUBREC: the client owns the message now; answer PUBREL ([MQTT-4.3.3-4])."""
        packet = self.inflight.get(packet_id)
        if packet is None or packet[0] & 0xF6 == 0x32:
            self.push(encode(Pubrel(packet_id, 0x92 if self.version == V5 else 0), self.version))
        elif reason >= 0x80:
            self._finished(packet_id)
        else:
            self.push(self._pubrel(packet_id))

    def completed(self, packet_id: int) -> bool:
        """PUBCOMP; False where no such message waits for it."""
        packet = self.inflight.get(packet_id)
        if packet is None or packet[0] != 0x62:
            return False
        self._finished(packet_id)
        return True

    def end_halves(self, packet_ids: Iterable[int]) -> None:
        """Have the client end what it has begun to take from another copy of this session.

        It would take the next message of QoS 2 that gets one of these identifiers for a repetition.
        """
        for packet_id in packet_ids:
            if packet_id not in self.inflight:
                release = self._pubrel(packet_id)
                if self.channel is not None:
                    self.push(release)

    def _pubrel(self, packet_id: int) -> bytes:
        """The client has, or may have, taken a message of QoS 2: PUBREL is in flight now."""
        release = b"\x62\x02" + PACKET_ID[packet_id]
        self.keep(packet_id, release)
        return release

    def _finished(self, packet_id: int) -> None:
        """The last acknowledgement came: there is room for another message."""
        self._tell_acknowledged(self.withdraw(packet_id), "subscriber")
        self.pump()

    # What the client publishes with QoS 2.

    def release(self, packet_id: int) -> bool:
        message_id = self.message_id_of(packet_id)
        known = super().release(packet_id)
        self._tell_acknowledged(message_id, "publisher")
        return known

    def passed(self, packet_id: int) -> None:
        """A message of QoS 2 that the client published is safe everywhere."""
        for waiting in self.passing.pop(packet_id, ()):
            waiting(True)

    def _tell_acknowledged(self, message_id: int, role: str) -> None:
        recorder = self.fanout.recorder
        if recorder is not None and is_recorded(message_id):
            recorder.acknowledged(self, (message_id,), role)

"""A session: state that a server keeps of one client, connected or not (MQTT 5.0, 4.1).

:class:`~gossamer.mqtt.session.state.SessionState` decides what goes to the client; here that is carried out.
Packets are appended to ``out``, and the fan-out notes a session that has any, to write them at the end of the
turn. Messages that are dropped are counted, and reported to the flow recorder. The queue is bounded in bytes
too, for this session and for all of the node together, and publishers wait for a session that is behind
(``backpressure``).

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

    __slots__ = (
        *("behind", "deadline", "delivered", "fanout", "lost", "waiting", "will_at", "will_due", "written"),
    )

    store: SessionStore | None = None
    """Store of a session that survives its node; see ``durable``."""

    def __init__(
        self, client_id: str, *, fanout: FanoutLike, max_queued: int = 10_000, keep_oldest: bool = False
    ) -> None:
        super().__init__(client_id, max_queued=max_queued, keep_oldest=keep_oldest)
        self.fanout = fanout
        self.deadline: Any = None
        self.will_due: Any = None
        self.will_at: float | None = None
        self.delivered = 0
        """Count of the client's progress."""
        self.lost = 0
        """Messages for it that were dropped while it was on this node."""
        self.behind = False
        self.waiting: list[object] | None = None
        self.written: float | None = None
        """Turn in which a packet was last written at once; see ``publish.lone``."""

    def __repr__(self) -> str:
        return f"<session {self.client_id!r}>"

    # Properties by which share groups choose a member.

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

    # State that survives the node; see ``durable``.

    def save(self) -> None:
        """Write the session's own row, where it has one; call it when one of its values has changed."""

    def revise(self, at: int) -> None:
        """Note that the client changed its subscriptions at that time, in microseconds of the day."""
        self.revised = max(self.revised, at)
        self.save()

    def forget(self) -> None:
        """Empty the queue of a session that has ended, and queue nothing more."""
        self.gate = _closed
        self.refill(())

    # Output.

    def push(self, packet: bytes) -> None:
        """Write ``packet`` at the end of this turn."""
        out = self.out
        if not out:
            self.fanout.touch(self)
        out.append(packet)

    def push_all(self, packets: list[bytes]) -> None:
        """Write ``packets`` at the end of this turn."""
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
        """Send ``message``, or queue it; ``stored``: it is a retained message that answers a subscription."""
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

    # The queue.

    def enqueue(self, head: bytes, tail: bytes, message: Message | None = None) -> None:
        """Queue a message of QoS 1 or 2; ``message`` if it expires, and so is encoded again when sent."""
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
            # Its client is connected: publishers wait for it before anything is dropped.
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
        """Remove items that another node has now; some may have left the queue already."""
        gone = set(map(id, items))
        if self.once is not None:
            self.once.release(message_id_in(tail) for _, tail, _ in items)
        before = self.queued_bytes
        while self.queue and id(self.queue[0]) in gone:
            self.popleft()
        self._weighed(before)

    def _weighed(self, before: int) -> None:
        """Account for a change of the queue, which had ``before`` bytes."""
        self.fanout.pressure.queued += self.queued_bytes - before

    # Losses.

    def dropped(self, reason: str, count: int = 1) -> None:
        """Count messages for it that are dropped, here and on the node."""
        self.lost += count
        self.fanout.dropped(reason, count)

    def tell_lost(self, tail: bytes, reason: str) -> None:
        """Report a queued message that is dropped to the flow recorder, if it is recorded."""
        self._tell_lost(message_id_in(tail), reason)

    def _tell_lost(self, message_id: int, reason: str) -> None:
        recorder = self.fanout.recorder
        if recorder is not None and is_recorded(message_id):
            recorder.lost(message_id, self, reason)

    def _lose(self, lost: list[Lost]) -> None:
        for tail, reason in lost:
            self.dropped(reason)
            self.tell_lost(tail, "queue_full" if reason == "node_queue_full" else reason)

    # Acknowledgements of the client.

    def acked(self, packet_id: int) -> bool:
        """Take a PUBACK; False: no QoS 1 message with this identifier is in flight."""
        packet = self.inflight.get(packet_id)
        if packet is None or packet[0] & 0xF6 != 0x32:
            return False
        self._finished(packet_id)
        return True

    def received(self, packet_id: int, reason: int = 0) -> None:
        """Take a PUBREC: the client owns the message now; answer PUBREL ([MQTT-4.3.3-4])."""
        packet = self.inflight.get(packet_id)
        if packet is None or packet[0] & 0xF6 == 0x32:
            self.push(encode(Pubrel(packet_id, 0x92 if self.version == V5 else 0), self.version))
        elif reason >= 0x80:
            self._finished(packet_id)
        else:
            self.push(self._pubrel(packet_id))

    def completed(self, packet_id: int) -> bool:
        """Take a PUBCOMP; False: no message waits for it."""
        packet = self.inflight.get(packet_id)
        if packet is None or packet[0] != 0x62:
            return False
        self._finished(packet_id)
        return True

    def end_halves(self, packet_ids: Iterable[int]) -> None:
        """Send PUBREL for QoS 2 exchanges that the client has begun with another copy of this session.

        Otherwise it would take the next message with one of these packet identifiers for a duplicate.
        """
        for packet_id in packet_ids:
            if packet_id not in self.inflight:
                release = self._pubrel(packet_id)
                if self.channel is not None:
                    self.push(release)

    def _pubrel(self, packet_id: int) -> bytes:
        """Put PUBREL in flight, as the client has, or may have, taken a message of QoS 2; return it."""
        release = b"\x62\x02" + PACKET_ID[packet_id]
        self.keep(packet_id, release)
        return release

    def _finished(self, packet_id: int) -> None:
        """End the exchange of a message after its last acknowledgement, and send the next one."""
        self._tell_acknowledged(self.withdraw(packet_id), "subscriber")
        self.pump()

    # Publishes of the client with QoS 2.

    def release(self, packet_id: int) -> bool:
        message_id = self.message_id_of(packet_id)
        known = super().release(packet_id)
        self._tell_acknowledged(message_id, "publisher")
        return known

    def passed(self, packet_id: int) -> None:
        """Answer the publish of a QoS 2 message that is safe at all its receivers."""
        for waiting in self.passing.pop(packet_id, ()):
            waiting(True)

    def _tell_acknowledged(self, message_id: int, role: str) -> None:
        recorder = self.fanout.recorder
        if recorder is not None and is_recorded(message_id):
            recorder.acknowledged(self, (message_id,), role)

"""Fan-out: runs of publishes from the read loop go to the sockets of this node, by the plan of their route.

1. QoS 0, no properties: packets that follow one another in a read and have one plan are *one* slice of
bytes, appended to each subscriber of the publisher's version. Others get the slice re-encoded once. 2. QoS
1, no properties: head and tails once per run; per subscriber and message a packet identifier and one join. 3.
Everything else (QoS 2, RETAIN, properties, subscription identifiers, no local, Python subscribers, sessions
that limit packets) becomes a :class:`Message` and is delivered one by one.

Rules: 1. Nothing is written here (but for what is alone in its read, see ``lone``): a session that got its
first bytes in this turn is noted, and all are
flushed together at the end of the turn, one write a socket. Above :data:`FLUSHED` sessions the rest follows
in the next turns: order per session is kept, and new output joins the waiting one.  2. Order per publisher
and subscriber is the order of arrival.  3. A slice is never decoded again: it was checked when its topic was
resolved.  4. Recorded reads come through the other sink (``recording``), which calls this one.

Rejected: a task, a queue or an object per message; a write per message; copying a packet per subscriber.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import repeat

from gossamer.mqtt.codec.encoder import publish_parts
from gossamer.mqtt.codec.framing import frame, topic_in
from gossamer.mqtt.codec.packets import V4, V5
from gossamer.mqtt.codec.wire import MAX_VARINT
from gossamer.mqtt.flow.backpressure import Pressure
from gossamer.mqtt.flow.fence import Fence
from gossamer.mqtt.flow.wide_fanout import SLICE, Wide
from gossamer.mqtt.messages.message import Message
from gossamer.mqtt.messages.message_ids import NO_ID, is_recorded
from gossamer.mqtt.messages.ports import FlowRecorderLike
from gossamer.mqtt.publish.lone import flush
from gossamer.mqtt.publish.plan import Plan
from gossamer.mqtt.session.session import Session
from gossamer.routes import Delivery, Route

FLUSHED = 1024
"""Sockets written to in one turn: a write costs the loop about 10 µs, and other sockets must be read."""
DELIVERIES = 10_000
"""Deliveries that one read of a publisher may cause in one turn; the rest of it waits for the next."""


class Fanout:
    """Delivers messages to sessions, and flushes those that got any once per turn of the loop."""

    __slots__ = (
        *("_scheduled", "bytes_received", "bytes_sent", "drops", "fence", "now", "origin", "owe", "pressure"),
        *("received", "received1", "received2", "recorder", "remote_clients", "sent", "sent1", "sent2"),
        *("slowed", "touched", "wide"),
    )

    def __init__(
        self,
        *,
        call_later: Callable[[float, Callable[[], None]], object],
        now: Callable[[], float],
    ) -> None:
        self.now = now
        self._scheduled = False
        self.origin: str | None = ""
        """Node whose messages are being delivered; blank: this one. None: a share group's."""
        self.fence: Fence | None = None
        """Checked before input of a client is taken."""
        self.owe: Callable[[object, Message, int, str], None] | None = None
        """Called as ``owe(session, message, qos, group)`` with deliveries to members of groups (``owed``)."""
        self.touched: list[Session] = []
        self.recorder: FlowRecorderLike | None = None
        """Flow recorder, while messages are recorded."""
        self.remote_clients: set[object] = set()
        """Python clients, which publish and subscribe here without a session; for the recorder."""
        self.pressure = Pressure(call_later)
        self.wide = Wide(self)
        self.drops: Counter[str] = Counter()
        self.received = 0
        self.received1 = 0
        """QoS 1 publishes of this node's clients; ``received2``: those of QoS 2."""
        self.received2 = 0
        self.sent = 0
        self.sent1 = 0
        """QoS 1 publishes among those sent."""
        self.sent2 = 0
        self.slowed = 0
        self.bytes_sent = 0
        self.bytes_received = 0

    def dropped(self, reason: str, count: int = 1) -> None:
        self.drops[reason] += count

    def lose(self, message: Message, reason: str) -> None:
        """Count and report ``message`` as dropped."""
        self.drops[reason] += 1
        if self.recorder is not None and is_recorded(message.id):
            self.recorder.lost(message.id, None, reason)

    def chosen(self, message: Message, group: str, node: str | None) -> None:
        """Report that ``message`` goes to a member of a share group at ``node``; None: here."""
        if self.recorder is not None and is_recorded(message.id):
            self.recorder.chosen(message, group, node)

    def take(self, qos: int) -> None:
        """Count a message that a client of this node, or a program here, has published."""
        self.received += 1
        if qos == 1:
            self.received1 += 1
        elif qos:
            self.received2 += 1

    def where(self) -> str | None:
        return self.origin

    def touch(self, session: Session) -> None:
        """Flush ``session``, which has output, at the end of this turn."""
        self.touched.append(session)
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self.flush)

    def schedule(self) -> None:
        """Flush at the end of this turn; the kernel notes sessions by itself."""
        self._scheduled = True
        asyncio.get_running_loop().call_soon(self.flush)

    def flush(self) -> None:
        """Write the output of sessions, one join and one write each; at most :data:`FLUSHED` in a turn."""
        touched = self.touched
        if len(touched) > FLUSHED:
            self.touched = touched[FLUSHED:]
            del touched[FLUSHED:]
            asyncio.get_running_loop().call_soon(self.flush)
        else:
            self._scheduled = False
            self.touched = []
        recorder = self.recorder
        for session in touched if recorder is not None else flush(self, touched):
            out = session.out
            if not out:
                continue
            channel = session.channel
            if channel is None:
                session.dropped("offline", sum(map(_count_qos0, out)))
                out.clear()
                if recorder is not None:
                    recorder.failed[session] = "offline"
                continue
            try:
                self.bytes_sent += channel.write_out(out)
            except Exception as error:  # noqa: BLE001 - the others must still be flushed
                channel.crash(error)
        if recorder is not None and (recorder.busy or recorder.failed) and not self.touched:
            recorder.settle()

    # Speed 1.

    def run0(
        self,
        plan: Plan,
        _head: bytes,
        chunk: bytes,
        count: int,
        version: int,
        publisher: object = None,
        marks: bytes = b"",
        message_ids: Sequence[int] = (),
    ) -> None:
        """Deliver ``count`` whole QoS 0 publishes without flags or properties, back to back in ``chunk``.

        ``marks`` go before them to other nodes; ``message_ids`` are their ids, if they are recorded.
        """
        self.received += count
        if self.wide.jobs:
            self.wide.mind(plan.sessions)
        mine, other = (plan.v4, plan.v5) if version == V4 else (plan.v5, plan.v4)
        sole = mine.sole
        if sole is not None:
            out = sole.out
            if not out:
                self.touch(sole)
            out.append(chunk)
            self.sent += count
            return
        touch = self.touch
        for session in mine.everyone:
            out = session.out
            if not out:
                touch(session)
            out.append(chunk)
        if other.everyone:
            converted = _converted(chunk, version)
            for session in other.everyone:
                out = session.out
                if not out:
                    touch(session)
                out.append(converted)
        self.sent += count * (len(mine.everyone) + len(other.everyone))
        if plan.peers:
            record = marks + (chunk if version == V4 else _converted(chunk, version))
            for peer in plan.peers:
                peer.append(record)
        if plan.special:
            named: Iterable[int] = message_ids or repeat(NO_ID)
            for (topic, payload), message_id in zip(_each(chunk, version), named, strict=False):
                message = Message(topic, payload, publisher=publisher)
                message.id = message_id
                self.hand_out(plan, message)
        elif not (mine.everyone or other.everyone or plan.peers):
            self.drops["no_subscribers"] += count

    # Speed 2.

    def run1(
        self, plan: Plan, head: bytes, tails: Sequence[bytes], version: int, publisher: object = None
    ) -> Sequence[int]:
        """Deliver QoS 1 publishes without flags or properties, all with ``head``, to sessions of this node.

        Returns their ids if they are recorded, which here they are not; the other sink returns them.
        """
        self.received += len(tails)
        if self.wide.jobs:
            self.wide.mind(plan.sessions)
        mine = plan.v4 if version == V4 else plan.v5
        if mine.pure:
            sent = len(mine.qos1) * len(tails)
            self.sent += sent
            self.sent1 += sent
            for session in mine.qos1:
                session.send_all(head, tails)
            return ()
        for sessions, qos, first, rest in forms(plan, head, tails, version) if plan.breadth else ():
            self.count_sent(sessions, qos, len(rest))
            if qos and len(sessions) > SLICE:
                for tail in rest:
                    self.wide.spread(sessions, partial(_give, first, (tail,)))
            elif qos:
                for session in sessions:
                    session.send_all(first, rest)
            else:
                packets = b"".join([first + tail for tail in rest])
                for session in sessions:
                    session.push(packets)
        if plan.special:
            for tail in tails:
                self.hand_out(plan, message_of(head, tail, version, publisher))
        elif not (plan.sessions or plan.peers):
            self.drops["no_subscribers"] += len(tails)
        return ()

    def count_sent(self, sessions: Sequence[Session], qos: int, count: int) -> None:
        """Count ``count`` messages to each of ``sessions``."""
        sent = len(sessions) * count
        self.sent += sent
        if qos:
            self.sent1 += sent

    # Speed 3.

    def hand_out(self, plan: Plan, message: Message) -> None:
        """Deliver to receivers that need a message of their own."""
        self.sent += len(plan.special)
        self._deliver(plan.special, message)

    def _deliver(self, deliveries: Sequence[Delivery], message: Message) -> None:
        if len(deliveries) > SLICE and not is_recorded(message.id):
            self.wide.spread(deliveries, partial(self.give, message))
            return
        for delivery in deliveries:
            self.give(message, delivery)

    def give(self, message: Message, delivery: Delivery) -> None:
        """Deliver to one subscriber, counted by QoS."""
        if message.qos and delivery.qos:
            if message.qos == 1 or delivery.qos == 1:
                self.sent1 += 1
            else:
                self.sent2 += 1
        delivery.subscriber.deliver(message, delivery)

    def message(self, route: Route, message: Message) -> None:
        """Deliver any message to every subscriber of this node."""
        deliveries = route.deliveries
        self.sent += len(deliveries)
        if self.wide.jobs:
            self.wide.mind(delivery.subscriber for delivery in deliveries)
        self._deliver(deliveries, message)
        if not (deliveries or route.peers or route.groups):
            self.lose(message, "no_subscribers")

    def member(self, delivery: Delivery, message: Message, group: str) -> None:
        """Deliver to the member of a share group that was chosen."""
        self.sent += 1
        if self.wide.jobs:
            self.wide.mind((delivery.subscriber,))
        recorder = self.recorder
        if recorder is not None:
            recorder.share = group
        origin, self.origin = self.origin, None
        try:
            self.give(message, delivery)
            if self.owe is not None and message.qos and delivery.qos:
                self.owe(delivery.subscriber, message, min(message.qos, delivery.qos), group)
        finally:
            self.origin = origin
            if recorder is not None:
                recorder.share = None


def _give(head: bytes, tails: Sequence[bytes], session: Session) -> None:
    session.send_all(head, tails)


def forms(
    plan: Plan, head: bytes, tails: Sequence[bytes], version: int
) -> Iterator[tuple[tuple[Session, ...], int, bytes, Sequence[bytes]]]:
    """Yield the forms of a run of QoS 1 here: for each the sessions, their QoS, head and tails."""
    topic = topic_in(head)
    for wanted, audience in ((V4, plan.v4), (V5, plan.v5)):
        if not audience.everyone:
            continue
        ends = tails
        if wanted != version:
            ends = [b"\0" + tail for tail in tails] if wanted == V5 else [tail[1:] for tail in tails]
        payload = ends[0] if wanted == V4 else ends[0][1:]
        if audience.qos1:
            first = head if wanted == version else publish_parts(topic, payload, flags=2, version=wanted)[0]
            yield audience.qos1, 1, first, ends
        if audience.qos0:
            yield audience.qos0, 0, publish_parts(topic, payload, flags=0, version=wanted)[0], ends


def message_of(head: bytes, tail: bytes, version: int, publisher: object) -> Message:
    """Return the message of a QoS 1 publish without flags or properties."""
    return Message(topic_in(head), tail if version == V4 else tail[1:], qos=1, publisher=publisher)


def _count_qos0(data: bytes) -> int:
    """Count the QoS 0 publishes in a piece of output; other pieces hold none."""
    if data[0] & 0xF6 != 0x30:
        return 0
    return sum(1 for _ in _frames(data))


def drop_qos0(out: list[bytes]) -> tuple[list[bytes], int]:
    """Return ``out`` without its QoS 0 publishes, and how many these were."""
    kept = [piece for piece in out if piece[0] & 0xF6 != 0x30]
    return kept, sum(map(_count_qos0, out))


def _frames(chunk: bytes) -> Iterator[tuple[int, int]]:
    """Yield (start of the topic length, stop) of each packet in a chunk of whole packets."""
    pos, end = 0, len(chunk)
    while pos < end:
        at, pos = frame(chunk, pos, end, MAX_VARINT + 5)
        yield at, pos


def _each(chunk: bytes, version: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield topic and payload of each QoS 0 publish."""
    skip = 2 if version == V4 else 3
    for at, stop in _frames(chunk):
        topic_stop = at + 2 + (chunk[at] << 8 | chunk[at + 1])
        yield chunk[at + 2 : topic_stop], chunk[topic_stop + skip - 2 : stop]


def _converted(chunk: bytes, version: int) -> bytes:
    """Return QoS 0 publishes of ``version`` in the other one."""
    out: list[bytes] = []
    for topic, payload in _each(chunk, version):
        out += publish_parts(topic, payload, flags=0, version=V5 if version == V4 else V4)
    return b"".join(out)

"""From a route to the sockets: compiled plans, and the publish path's three speeds.

A route says who gets a topic; a :class:`Plan` says the same in the terms of the wire, and is made once per
route: which sessions take MQTT 3.1.1 and which 5.0, with which QoS, and who needs a message of its own. A
route is replaced when anything about it changes, and its plan with it.

1. QoS 0, no properties: packets that follow one another in a read and have one plan are *one* slice of
bytes, appended to each subscriber of the publisher's version. Others get the slice re-encoded once. 2. QoS
1, no properties: head and tail once per message; per subscriber a packet identifier and one join. 3.
Everything else (QoS 2, RETAIN, properties, subscription identifiers, no local, Python subscribers, sessions
that limit packets) becomes a :class:`Message` and is delivered one by one.

Rules: 1. Nothing is written here: a session that got its first bytes in this turn is noted, and all are
flushed together at the end of the turn, one write a socket. Above :data:`FLUSHED` sessions the rest follows
in the next turns: order per session is kept, and what comes meanwhile joins what waits.
2. Order per publisher and subscriber is the
order of arrival. 3. A slice handed on is never looked into again: what makes it valid was checked when its
topic was resolved.

Rejected: a task, a queue or an object per message; a write per message; copying a packet per subscriber.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any

from gossamer.mqtt.codec.encoder import publish_parts
from gossamer.mqtt.codec.packets import V4
from gossamer.mqtt.flow.backpressure import Pressure
from gossamer.mqtt.flow.wide_fanout import SLICE, Wide
from gossamer.mqtt.messages.message import Message
from gossamer.mqtt.messages.message_ids import NO_IDENT, is_recorded
from gossamer.mqtt.session.session import Session

if TYPE_CHECKING:
    from gossamer.mqtt.flow.fence import Fence
    from gossamer.mqtt.messages.ports import ForwarderLike, TrailLike
    from gossamer.routes import Route

__all__ = ["DELIVERIES", "FLUSHED", "Fanout", "Plan", "compile_plan", "drop_qos0"]

FLUSHED = 1024
"""Sockets written to in one turn: a write costs the loop about 10 µs, and others want to be read."""
DELIVERIES = 10_000
"""Deliveries that one read of a publisher may cause in one turn; what else it brought waits for the next."""


class Plan:
    """One route, by what the wire needs; see the module.

    It does not know its route: without a cycle a route is gone in the moment in which the last topic that has
    it leaves the cache, and nobody finds it, with a plan that is void by then.
    """

    __slots__ = (
        "all4",
        "all5",
        "alone",
        "deliveries",
        "facts",
        "groups",
        "is_wide",
        "nobody",
        "peers",
        "pure4",
        "pure5",
        "q0_4",
        "q0_5",
        "q1_4",
        "q1_5",
        "sessions",
        "sole4",
        "sole5",
        "special",
        "waits",
    )

    def __init__(
        self, deliveries: tuple[Any, ...], peers: tuple[ForwarderLike, ...], groups: tuple[Any, ...]
    ) -> None:
        lists: dict[tuple[int, bool], list[Session]] = {(v, q): [] for v in (4, 5) for q in (False, True)}
        special: list[Any] = []
        stores: set[Any] = set()
        for delivery in deliveries:
            session = delivery.subscriber
            if delivery.qos and isinstance(session, Session) and session.store is not None:
                stores.add(session.store)
            if (
                isinstance(session, Session)
                and session.plain
                and not (delivery.no_local or delivery.identifiers or delivery.own)
            ):
                lists[session.version, delivery.qos > 0].append(session)
            else:
                special.append(delivery)
        self.deliveries = deliveries
        self.nobody = False
        """No subscription in the cluster matches, as far as this node knows."""
        self.q0_4 = tuple(lists[4, False])
        self.q1_4 = tuple(lists[4, True])
        self.q0_5 = tuple(lists[5, False])
        self.q1_5 = tuple(lists[5, True])
        self.all4 = self.q0_4 + self.q1_4
        self.all5 = self.q0_5 + self.q1_5
        self.special = tuple(special)
        # Not every subscriber can be behind: some are plain functions.
        others = tuple(d.subscriber for d in special if hasattr(d.subscriber, "behind"))
        self.sessions = self.all4 + self.all5 + others
        self.peers = peers
        # Who must have a message of QoS 1 or 2 before it is acknowledged: other nodes, and the disc.
        self.waits: tuple[ForwarderLike, ...] = self.peers + tuple(stores)
        # One that is out only after some turns is waited for as well.
        widest = max((self.q1_4, self.q1_5, self.all4 + self.all5 if len(special) > SLICE else ()), key=len)
        self.is_wide = len(widest) > SLICE
        if self.is_wide:
            self.waits += (widest[0].hub.wide,)
        # Share groups: somebody else for each message, so such topics have no fast path.
        self.groups = groups
        other = bool(self.special or self.waits)
        # Subscribers of one version only, and of QoS 1 or more: the publisher's packet serves them all.
        self.pure4 = bool(self.q1_4) and not (other or self.q0_4 or self.all5)
        self.pure5 = bool(self.q1_5) and not (other or self.q0_5 or self.all4)
        self.alone: Plan | None = None
        self.facts: Any = None
        """What a recorder knows of it."""
        # One session and nobody else, as it is for most topics of most devices.
        one = not (self.special or self.peers) and len(self.all4) + len(self.all5) == 1
        self.sole4 = self.all4[0] if one and self.all4 else None
        self.sole5 = self.all5[0] if one and self.all5 else None

    def local(self) -> Plan:
        """The same plan without the peers: for what a peer sent."""
        if not self.peers:
            return self
        if self.alone is None:
            self.alone = Plan(self.deliveries, (), ())
        return self.alone


def compile_plan(route: Route) -> Plan:
    """The route's plan, made now if nobody made it yet."""
    plan = route.plan
    if plan is None:
        plan = route.plan = Plan(route.deliveries, tuple(route.peers), route.groups)
        # A node that is down, and wants it, is nobody's peer.
        plan.nobody = not (plan.deliveries or plan.peers or plan.groups or route.mask)
    return plan  # type: ignore[no-any-return]


class Fanout:
    """Hands messages to sessions, and flushes those that got any once per turn of the loop."""

    __slots__ = (
        "_call_soon",
        "_now",
        "_scheduled",
        "bytes_received",
        "bytes_sent",
        "drops",
        "fence",
        "guests",
        "origin",
        "owe",
        "pressure",
        "received",
        "received1",
        "received2",
        "sent",
        "sent1",
        "sent2",
        "slowed",
        "touched",
        "trail",
        "wide",
    )

    def __init__(
        self,
        *,
        call_soon: Callable[[Callable[[], None]], object],
        call_later: Callable[[float, Callable[[], None]], object],
        now: Callable[[], float],
    ) -> None:
        self._call_soon = call_soon
        self._now = now
        self._scheduled = False
        self.origin: str | None = ""
        """The node whose messages are being dispatched; blank: this one. None: a share group's."""
        self.fence: Fence | None = None
        """Asked before what a client sent is taken."""
        self.owe: Callable[[Any, Message, int, str], None] | None = None
        """Told of what members of share groups are given (``owed``)."""
        self.touched: list[Session] = []
        self.trail: TrailLike | None = None
        """Told what happens to messages while that is recorded."""
        self.guests: set[Any] = set()
        """Who publishes and subscribes here without a session: Python clients, for whoever records."""
        self.pressure = Pressure(call_later)
        self.wide = Wide(self, call_soon)
        self.drops: Counter[str] = Counter()
        self.received = 0
        self.received1 = 0
        """Of what clients of this node sent, as ``received2``: that of QoS 1."""
        self.received2 = 0
        self.sent = 0
        self.sent1 = 0
        """Of all that were sent: those of QoS 1."""
        self.sent2 = 0
        self.slowed = 0
        self.bytes_sent = 0
        self.bytes_received = 0

    def now(self) -> float:
        return self._now()

    def dropped(self, reason: str, count: int = 1) -> None:
        self.drops[reason] += count

    def where(self) -> str | None:
        return self.origin

    def touch(self, session: Session) -> None:
        """``session`` has something to write; see that it is flushed this turn."""
        self.touched.append(session)
        if not self._scheduled:
            self._scheduled = True
            self._call_soon(self.flush)

    def flush(self) -> None:
        """One join and one write for every session that got something; so many in a turn."""
        touched = self.touched
        if len(touched) > FLUSHED:
            self.touched = touched[FLUSHED:]
            del touched[FLUSHED:]
            self._call_soon(self.flush)
        else:
            self._scheduled = False
            self.touched = []
        trail = self.trail
        for session in touched:
            out = session.out
            if not out:
                continue
            channel = session.channel
            if channel is None:
                session.dropped("offline", sum(map(_count_qos0, out)))
                out.clear()
                if trail is not None:
                    trail.failed[session] = "offline"
                continue
            try:
                self.bytes_sent += channel.write_out(out)
            except Exception as error:  # noqa: BLE001 - the others must still be flushed
                channel.crash(error)
        if trail is not None and (trail.busy or trail.failed) and not self.touched:
            trail.settle()

    # Speed 1.

    def run(self, plan: Plan, chunk: bytes, count: int, version: int, publisher: object = None) -> None:
        """``count`` whole QoS 0 publishes without flags or properties, back to back in ``chunk``."""
        self.received += count
        if self.wide.jobs:
            self.wide.mind(plan.sessions)
        trail = self.trail
        kept = None
        if trail is not None and (trail.marks if publisher is None else trail.live):
            kept = trail.run(plan, chunk, count, version, publisher)
        sole = plan.sole4 if version == V4 else plan.sole5
        if sole is not None:
            out = sole.out
            if not out:
                self.touch(sole)
            out.append(chunk)
            self.sent += count
            return
        touch = self.touch
        same, other = (plan.all4, plan.all5) if version == V4 else (plan.all5, plan.all4)
        for session in same:
            out = session.out
            if not out:
                touch(session)
            out.append(chunk)
        if other:
            converted = _to_v5(chunk) if version == V4 else _to_v4(chunk)
            for session in other:
                out = session.out
                if not out:
                    touch(session)
                out.append(converted)
        self.sent += count * (len(same) + len(other))
        if plan.peers:
            record = chunk if version == V4 else _to_v4(chunk)
            if kept and trail is not None:
                record = trail.marks_for(kept) + record
            for peer in plan.peers:
                peer.append(record)
        if plan.special:
            idents = repeat(NO_IDENT) if not kept or trail is None else trail.spread(kept, count)
            for (topic, payload), ident in zip(_each(chunk, version), idents, strict=False):
                message = Message(topic, payload, publisher=publisher)
                message.ident = ident
                self.hand_out(plan, message)
        elif not (same or other or plan.peers):
            self.drops["no_subscribers"] += count

    # Speed 2.

    def one(
        self,
        plan: Plan,
        head: bytes,
        tail: bytes,
        version: int,
        publisher: object,
        ident: int = NO_IDENT,
    ) -> None:
        """One QoS 1 publish without flags or properties, to the sessions of this node."""
        if self.wide.jobs:
            self.wide.mind(plan.sessions)
        trail = self.trail if ident != NO_IDENT else None
        length_end = 2 if head[1] < 0x80 else 3 if head[2] < 0x80 else 4 if head[3] < 0x80 else 5
        topic = head[length_end + 2 :]
        payload = tail if version == V4 else tail[1:]
        for wanted, acked, fired in ((4, plan.q1_4, plan.q0_4), (5, plan.q1_5, plan.q0_5)):
            if acked:
                parts = (head, tail)
                if wanted != version:
                    parts = publish_parts(topic, payload, flags=2, version=wanted)
                self.sent += len(acked)
                self.sent1 += len(acked)
                if trail is not None:
                    trail.hand(acked, *parts, ident)
                    acked = ()
                elif len(acked) > SLICE:
                    self.wide.spread(acked, partial(_give, parts))
                    acked = ()
                for session in acked:
                    if len(session.inflight) < session.window:
                        session.send(*parts)
                    else:
                        session.enqueue(*parts)
            if fired:
                packet = b"".join(publish_parts(topic, payload, flags=0, version=wanted))
                self.sent += len(fired)
                for session in fired:
                    session.push(packet)
                    if trail is not None:
                        trail.sent(session, ident, 0, False, None, False)
        if plan.special:
            message = Message(topic, payload, qos=1, publisher=publisher)
            message.ident = ident
            self.hand_out(plan, message)
        elif not (plan.sessions or plan.peers):
            self.drops["no_subscribers"] += 1

    # Speed 3.

    def hand_out(self, plan: Plan, message: Message) -> None:
        """To those that need a message of their own."""
        self.sent += len(plan.special)
        self._deliver(plan.special, message)

    def _deliver(self, deliveries: Sequence[Any], message: Message) -> None:
        if len(deliveries) > SLICE and not is_recorded(message.ident):
            self.wide.spread(deliveries, partial(self.give, message))
            return
        for delivery in deliveries:
            self.give(message, delivery)

    def give(self, message: Message, delivery: Any) -> None:
        """To one subscriber, counted by QoS."""
        if message.qos and delivery.qos:
            if message.qos == 1 or delivery.qos == 1:
                self.sent1 += 1
            else:
                self.sent2 += 1
        delivery.subscriber.deliver(message, delivery)

    def message(self, route: Route, message: Message) -> None:
        """To every subscriber of this node, whatever the message is like."""
        deliveries = route.deliveries
        self.sent += len(deliveries)
        if self.wide.jobs:
            self.wide.mind(delivery.subscriber for delivery in deliveries)
        self._deliver(deliveries, message)
        if not (deliveries or route.peers or route.groups):
            self.drops["no_subscribers"] += 1
            if is_recorded(message.ident) and self.trail is not None:
                self.trail.lost(message.ident, None, "no_subscribers")

    def member(self, delivery: Any, message: Message, group: str) -> None:
        """To the one member of a share group whose turn it is; nobody else will get it."""
        self.sent += 1
        if self.wide.jobs:
            self.wide.mind((delivery.subscriber,))
        trail = self.trail
        if trail is not None:
            trail.share = group
        origin, self.origin = self.origin, None
        try:
            self.give(message, delivery)
            if self.owe is not None and message.qos and delivery.qos:
                self.owe(delivery.subscriber, message, min(message.qos, delivery.qos), group)
        finally:
            self.origin = origin
            if trail is not None:
                trail.share = None


def _give(parts: tuple[bytes, bytes], session: Session) -> None:
    if len(session.inflight) < session.window:
        session.send(*parts)
    else:
        session.enqueue(*parts)


def _count_qos0(data: bytes) -> int:
    """QoS 0 publishes in a piece of output; pieces of anything else hold none."""
    if data[0] & 0xF6 != 0x30:
        return 0
    return sum(1 for _ in _frames(data))


def drop_qos0(out: list[bytes]) -> tuple[list[bytes], int]:
    """What must be sent of ``out``, and how many QoS 0 publishes were left out."""
    kept = [piece for piece in out if piece[0] & 0xF6 != 0x30]
    return kept, sum(map(_count_qos0, out))


def _frames(chunk: bytes) -> Any:
    """(start of the topic length, stop) of each packet in a chunk of whole packets."""
    pos = 0
    end = len(chunk)
    while pos < end:
        at = pos + 1
        length = chunk[at]
        if length > 0x7F:
            length &= 0x7F
            shift = 7
            while True:
                at += 1
                byte = chunk[at]
                length |= (byte & 0x7F) << shift
                if byte < 0x80:
                    break
                shift += 7
        at += 1
        pos = at + length
        yield at, pos


def _each(chunk: bytes, version: int) -> Any:
    """Topic and payload of each QoS 0 publish."""
    skip = 2 if version == V4 else 3
    for at, stop in _frames(chunk):
        topic_stop = at + 2 + (chunk[at] << 8 | chunk[at + 1])
        yield chunk[at + 2 : topic_stop], chunk[topic_stop + skip - 2 : stop]


def _to_v5(chunk: bytes) -> bytes:
    out: list[bytes] = []
    for topic, payload in _each(chunk, 4):
        out += publish_parts(topic, payload, flags=0, version=5)
    return b"".join(out)


def _to_v4(chunk: bytes) -> bytes:
    out: list[bytes] = []
    for topic, payload in _each(chunk, 5):
        out += publish_parts(topic, payload, flags=0, version=4)
    return b"".join(out)

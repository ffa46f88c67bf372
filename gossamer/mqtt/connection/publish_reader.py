"""What a client sends: whole reads taken apart, handed on, and acknowledged.

``publish.runs`` finds the publishes and acknowledgements that need no codec, a sink delivers them; anything
else goes through the codec to ``handlers``.

Rules: 1. The order of arrival is the order of effect, also when a malformed packet ends the connection.  2.
Acknowledgements go in the order of the publishes; those of neighbours are one piece of output, or, where they
wait for the same peers, one record and one entry.  3. A read whose publishes fan out widely is taken in
parts, one a turn of the loop; what is left keeps its place in front of the next read.  4. Whether a read is
recorded is decided before its first packet (``publish.recording``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gossamer.mqtt.codec.encoder import publish_parts
from gossamer.mqtt.codec.framing import frame, topic_in
from gossamer.mqtt.codec.packets import V4, V5
from gossamer.mqtt.codec.reasons import ReasonCode
from gossamer.mqtt.connection.handlers import unexpected_ack
from gossamer.mqtt.messages.message_ids import NO_IDENT
from gossamer.mqtt.publish.fanout import DELIVERIES, Fanout
from gossamer.mqtt.publish.recording import Recording
from gossamer.mqtt.publish.runs import PUBACK, QOS0, Run, runs

if TYPE_CHECKING:
    from gossamer.mqtt.connection.channel import Channel
    from gossamer.mqtt.publish.plan import Plan

__all__ = ["take"]

_NOBODY = bytes((ReasonCode.NO_MATCHING_SUBSCRIBERS,))


def take(channel: Channel, data: bytes) -> int:
    """Take every whole packet of ``data``; the position where a partial one starts."""
    hub, session, version = channel.hub, channel.session, channel.version
    sink = hub if hub.trail is None else _sink(channel)
    answers: _Answers | None = None
    plan: Plan | None = None
    enough = hub.sent + DELIVERIES
    pos, end = 0, len(data)
    acked = False
    try:
        while pos < end and not channel.more:
            for run in runs(data, pos, version, channel.max_packet, channel.cache_get, channel.plan_of):
                kind, found, head, start, pos, count = run
                if kind == PUBACK:
                    _acked(channel, data, start, pos)
                    acked = True
                    continue
                plan = found
                if kind == QOS0:
                    sink.run0(plan, head, data[start:pos], count, version, session)
                else:
                    if plan.is_wide or plan.breadth * count > DELIVERIES:
                        run = _part(run, enough - hub.sent)
                        pos = run[4]
                        # Behind one that is wide it goes on once that is out.
                        channel.more = plan.is_wide or run[5] < count
                    if answers is None:
                        answers = _Answers(channel)
                    answers.publish(data, run, sink)
                if hub.sent >= enough or channel.more:
                    # Wide fan-outs: others want the loop too.
                    channel.more = True
                    break
            else:
                if pos == end:
                    break
                at, stop = frame(data, pos, end, channel.max_packet)
                if at == 0 or stop > end:
                    break
                if answers is not None:
                    answers.flush()
                channel.service.handle(channel, data[pos], data[at:stop])
                pos = stop
                if not channel.is_up:
                    return end
                channel.more = hub.sent >= enough or bool(hub.wide.jobs)
    finally:
        if answers is not None:
            answers.flush()
        if sink is not hub and hub.trail is not None:
            hub.trail.live = False
    if acked and (session.queue or session.resend):
        session.pump()
    if pos:
        channel.seen = hub.now()
    pressure = hub.pressure
    if (pressure.behind or pressure.peers) and plan is not None:
        pressure.hold_up(channel, plan.sessions, plan.peers)
    return pos


class _Answers:
    """The acknowledgements of a read, in the order of its publishes; neighbours go together."""

    __slots__ = ("_acks", "_channel", "_idents", "_plan", "_records")

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._plan: Plan | None = None
        """Whose peers have to have the messages first; None: nobody."""
        self._acks: list[bytes] = []
        self._records: list[bytes] = []
        self._idents: list[int] = []

    def publish(self, data: bytes, run: Run, sink: Fanout | Recording) -> None:
        """Hand on a run of QoS 1, and note its acknowledgements."""
        _, plan, head, start, stop, count = run
        channel = self._channel
        v5 = channel.version == V5
        waits = plan if plan.waits else None
        if waits is not self._plan:
            if self._acks:
                self.flush()
            self._plan = waits
        first, last = b"\x40\x02", b""
        if v5 and plan.nobody:
            first, last = b"\x40\x03", _NOBODY
        size = (stop - start) // count
        left = size - len(head)
        acks: list[bytes] = []
        tails: list[bytes] = []
        for at in range(start + len(head), stop, size):
            acks.append(first + data[at : at + 2] + last)
            tails.append(data[at + 2 : at + left])
        channel.hub.received1 += count
        self._idents += sink.run1(plan, head, tails, channel.version, channel.session)
        self._acks += acks
        if waits is not None:
            # Without properties it goes as 3.1.1, which the other side reads as fast.
            self._records.append(_to_v4(head, acks, tails) if v5 else data[start:stop])

    def flush(self) -> None:
        """Have out what is noted."""
        acks, plan, channel = self._acks, self._plan, self._channel
        if not acks:
            return
        self._acks = []
        idents, self._idents = self._idents, []
        if plan is None:
            channel.acknowledge(b"".join(acks), len(acks), idents)
            return
        records, self._records = self._records, []
        trail = channel.hub.trail
        if idents and trail is not None:
            records.insert(0, trail.marks_of(idents))
        channel.forward(plan.waits, b"".join(records), b"".join(acks), len(acks), idents)


def _to_v4(head: bytes, acks: list[bytes], tails: list[bytes]) -> bytes:
    """A run of QoS 1 of MQTT 5.0 without properties as one of 3.1.1."""
    first, _ = publish_parts(topic_in(head), tails[0][1:], flags=2, version=V4)
    return b"".join([first + ack[2:4] + tail[1:] for ack, tail in zip(acks, tails, strict=True)])


def _sink(channel: Channel) -> Fanout | Recording:
    """Who takes this read: the fan-out, or what records it too."""
    hub, session = channel.hub, channel.session
    trail = hub.trail
    if trail is None or not next(trail.arrivals, True):
        return hub
    trail.begin()
    if session.idents is None and session.subscriptions:
        # It may acknowledge what it is about to be sent by itself.
        session.idents = session.new_idents()
    return Recording(hub, trail)


def _part(run: Run, left: int) -> Run:
    """As many publishes of a run of QoS 1 as may be handed on in this turn; one at least."""
    kind, plan, head, start, stop, count = run
    most = 1 if plan.is_wide else min(count, max(1, -(-left // plan.breadth)))
    return kind, plan, head, start, start + (stop - start) // count * most, most


def _acked(channel: Channel, data: bytes, start: int, stop: int) -> None:
    """PUBACKs without a reason."""
    session = channel.session
    inflight, idents = session.inflight, session.idents
    told: list[int] = []
    try:
        for at in range(start + 2, stop, 4):
            packet_id = data[at] << 8 | data[at + 1]
            packet = inflight.get(packet_id)
            if packet is None or packet[0] & 0xF6 != 0x32:
                unexpected_ack(channel, packet_id)
                continue
            del inflight[packet_id]
            if idents:
                told.append(idents.pop(packet_id, NO_IDENT))
    finally:
        if told and channel.hub.trail is not None:
            channel.hub.trail.acknowledged(session, told, "subscriber")

"""Reader of what a client sends: whole reads are taken apart, handed on, and acknowledged.

``publish.runs`` finds the publishes and acknowledgements that need no codec, a sink delivers them; anything
else goes through the codec to ``handlers``.

Rules: 1. The order of arrival is the order of effect, also when a malformed packet ends the connection.  2.
Acknowledgements go in the order of the publishes; those of neighbours are one piece of output, or, where they
wait for the same peers, one record and one entry.  3. A read whose publishes fan out widely is taken in
parts, one a turn of the loop; what is left keeps its place in front of the next read.  4. Whether a read is
recorded is decided before its first packet (``publish.recording``).
"""

from __future__ import annotations

from gossamer.mqtt.codec.encoder import publish_parts
from gossamer.mqtt.codec.framing import frame, topic_in
from gossamer.mqtt.codec.packets import V4, V5
from gossamer.mqtt.codec.reasons import ReasonCode
from gossamer.mqtt.connection.channel import Channel
from gossamer.mqtt.connection.handlers import unexpected_ack
from gossamer.mqtt.connection.pipe import UP
from gossamer.mqtt.messages.message_ids import NO_ID
from gossamer.mqtt.messages.ports import ForwarderLike
from gossamer.mqtt.publish.fanout import DELIVERIES, Fanout
from gossamer.mqtt.publish.plan import Plan
from gossamer.mqtt.publish.recording import Recording
from gossamer.mqtt.publish.runs import QOS0, runs
from gossamer.mqtt.tenants.tenant import TenantSink

_NOBODY = bytes((ReasonCode.NO_MATCHING_SUBSCRIBERS,))


def take(channel: Channel, data: bytes) -> int:
    """Take every whole packet of ``data``; the position where a partial one starts.

    With ``runs`` the hot loop of a node, and long because a call for each step costs a message alone in its
    read, as most are, a tenth of its time.
    """
    fanout, session = channel.fanout, channel.session
    v5 = channel.version == V5
    tenant = channel.tenant
    sink = fanout if fanout.recorder is None and tenant is None else _sink(channel)
    inflight, message_ids = session.inflight, session.message_ids
    durable = session.store is not None
    enough = fanout.sent + DELIVERIES
    received = fanout.received
    plan: Plan | None = None
    # Acknowledgements that are not out yet, and the peers that have to have the messages first.
    acks: list[bytes] = []
    waits: tuple[ForwarderLike, ...] = ()
    records: list[bytes] = []
    ack_ids: list[int] = []
    acked = False
    acked_ids: list[int] = []
    pos, end = 0, len(data)
    try:
        while pos < end and not channel.more:
            for kind, found, head, start, stop, count in runs(data, pos, channel, most=enough - fanout.sent):
                pos = stop
                if found is None:
                    acked = True
                    for at in range(start + 2, pos, 4):
                        packet_id = data[at] << 8 | data[at + 1]
                        packet = inflight.get(packet_id)
                        if packet is None or packet[0] & 0xF6 != 0x32:
                            unexpected_ack(channel, packet_id)
                            continue
                        if durable:
                            session.settle(packet_id)
                        else:
                            del inflight[packet_id]
                        if message_ids:
                            acked_ids.append(message_ids.pop(packet_id, NO_ID))
                    continue
                plan = found
                if kind == QOS0:
                    sink.run0(plan, head, data[start:pos], count, channel.version, session)
                else:
                    size = (pos - start) // count
                    if plan.is_wide or plan.breadth * count > DELIVERIES:
                        most = _most(plan, count, enough - fanout.sent)
                        # Behind one that is wide it goes on once that is out.
                        channel.more = plan.is_wide or most < count
                        count, pos = most, start + size * most
                    if acks and waits != plan.waits:
                        _answer(channel, waits, acks, records, ack_ids)
                        acks, records, ack_ids = [], [], []
                    body = len(head) + 2
                    left = size - body
                    first, last = (b"\x40\x03", _NOBODY) if v5 and plan.nobody else (b"\x40\x02", b"")
                    made: list[bytes] = []
                    tails: list[bytes] = []
                    # The payload may be empty.
                    for at in range(start + body, pos + 1, size):
                        made.append(first + data[at - 2 : at] + last)
                        tails.append(data[at : at + left])
                    fanout.received1 += count
                    ack_ids += sink.run1(plan, head, tails, channel.version, session)
                    acks += made
                    waits = plan.waits
                    if waits:
                        # Without properties it goes as 3.1.1, which the other side reads as fast.
                        record = _to_v4(head, made, tails) if v5 else data[start:pos]
                        records.append(record if tenant is None else tenant.records(record, V4))
                if fanout.sent >= enough or channel.more:
                    # Wide fan-outs: others want the loop too.
                    channel.more = True
                    break
            else:
                if pos == end:
                    break
                at, stop = frame(data, pos, end, channel.max_packet)
                if at == 0 or stop > end:
                    break
                if acks:
                    _answer(channel, waits, acks, records, ack_ids)
                    acks, records, ack_ids = [], [], []
                channel.service.handle(channel, data[pos], data[at:stop])
                pos = stop
                if channel.phase != UP:
                    return end
                channel.more = fanout.sent >= enough or bool(fanout.wide.jobs)
    finally:
        if acks:
            _answer(channel, waits, acks, records, ack_ids)
        if fanout.recorder is not None and sink is not fanout:
            fanout.recorder.live = False
        if acked_ids and fanout.recorder is not None:
            fanout.recorder.acknowledged(session, acked_ids, "subscriber")
    if acked and (session.queue or session.resend):
        session.pump()
    if acked and channel.consumers is not None:
        channel.consumers.send()
    if tenant is not None and fanout.received != received:
        tenant.pace(channel, fanout.received - received)
    pressure = fanout.pressure
    if (pressure.behind or pressure.peers) and plan is not None:
        pressure.hold_up(channel, plan.sessions, plan.peers)
    return pos


def _answer(
    channel: Channel,
    waits: tuple[ForwarderLike, ...],
    acks: list[bytes],
    records: list[bytes],
    message_ids: list[int],
) -> None:
    """Acknowledge publishes, once the peers that ``waits`` names have them."""
    recorder = channel.fanout.recorder
    if message_ids and waits and recorder is not None:
        records.insert(0, recorder.marks_of(message_ids))
    channel.acknowledge(b"".join(acks), len(acks), message_ids, waits, b"".join(records))


def _to_v4(head: bytes, acks: list[bytes], tails: list[bytes]) -> bytes:
    """A run of QoS 1 of MQTT 5.0 without properties as one of 3.1.1."""
    first, _ = publish_parts(topic_in(head), tails[0][1:], flags=2, version=V4)
    return b"".join([first + ack[2:4] + tail[1:] for ack, tail in zip(acks, tails, strict=True)])


def _sink(channel: Channel) -> Fanout | Recording | TenantSink:
    """Choose the sink of this read: the fan-out, or what records it too."""
    fanout, session, tenant = channel.fanout, channel.session, channel.tenant
    recorder = fanout.recorder
    if recorder is None or not next(recorder.arrivals, True):
        return fanout if tenant is None else tenant.sink
    recorder.begin()
    if session.message_ids is None and session.subscriptions:
        # It may acknowledge what it is about to be sent by itself.
        session.message_ids = {}
    return Recording(fanout, recorder)


def _most(plan: Plan, count: int, left: int) -> int:
    """As many publishes of a run of QoS 1 as may be handed on in this turn; one at least."""
    return 1 if plan.is_wide else min(count, max(1, -(-left // plan.breadth)))

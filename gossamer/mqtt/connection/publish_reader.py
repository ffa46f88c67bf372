"""The loop that takes whole reads apart: the publish path from bytes to plans.

Its shape is its speed. It looks at each packet once, in place; PUBLISH of QoS 0 and 1 without flags or
properties, and PUBACK, are served here, anything else goes through the codec to ``handlers``.

Rules: 1. A publish that begins like the one before it, up to the end of its topic, has its length and its
plan. 2. QoS 0 publishes that follow one another under one plan are one run, handed on as one slice.  3.
Acknowledgements of a read are one piece of output, those that wait for peers one record and one entry.  4.
Before anything is done out of line, what came before it is handed on: the order of arrival is the order of
effect, also when a malformed packet ends the connection. 5. A read whose publishes fan out widely is taken
in parts, one a turn of the loop; what is left keeps its place in front of the next read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from gossamer.mqtt.codec.errors import violation
from gossamer.mqtt.codec.framing import frame
from gossamer.mqtt.codec.packets import V4, V5
from gossamer.mqtt.codec.reasons import ReasonCode
from gossamer.mqtt.connection.handlers import unexpected_ack
from gossamer.mqtt.messages.message_ids import NO_IDENT
from gossamer.mqtt.messages.records import V5_MARK
from gossamer.mqtt.publish.fanout import DELIVERIES, Plan, compile_plan

if TYPE_CHECKING:
    from gossamer.mqtt.connection.channel import Channel
    from gossamer.mqtt.messages.ports import TrailLike
    from gossamer.mqtt.session.session import Session

__all__ = ["take"]

_NOBODY = bytes((ReasonCode.NO_MATCHING_SUBSCRIBERS,))


def take(channel: Channel, data: bytes) -> int:
    """Take every whole packet of ``data``; the position where a partial one starts."""
    hub = channel.hub
    cache_get = channel.cache_get
    session = channel.session
    inflight = session.inflight
    v5 = channel.version == V5
    skip = 1 if v5 else 0
    version = V5 if v5 else V4
    end = len(data)
    pos = 0
    # The last publish: how its packet began, up to the topic's end, and how long it was.
    prefix = b""
    total = 0
    pure = False
    sinks: tuple[Session, ...] = ()
    plan: Plan | None = None
    qos = 0
    # The run of QoS 0 publishes under way.
    run: Plan | None = None
    run_start = 0
    run_count = 0
    # Publishes of QoS 1 that peers, or the disc, must have before they are acknowledged; those that wait for
    # nobody are acknowledged now.
    far: list[bytes] = []
    far_acks: list[bytes] = []
    far_plan: Plan | None = None
    acks: list[bytes] = []
    acked = False
    # Messages of QoS 1 that were taken and are not counted yet.
    taken = 0
    # While messages are recorded: whether those of this read are, and the identifiers of those that are
    # acknowledged in it.
    trail = hub.trail
    if trail is not None:
        if next(trail.arrivals, True):
            trail.begin()
            if session.idents is None and session.subscriptions:
                # It may acknowledge what it is about to be sent by itself.
                session.idents = session.new_idents()
        else:
            trail = None
    idents = session.idents
    ident = NO_IDENT
    far_idents: list[int] = []
    ack_idents: list[int] = []
    acked_idents: list[int] = []
    # Of QoS 1 that is recorded and for nobody but sinks with so much room: how many were sent, not told yet.
    kept = room = 0
    tail = b""
    enough = hub.sent + DELIVERIES
    try:
        while pos < end:
            if total and data.startswith(prefix, pos):
                stop = pos + total
                if stop > end:
                    break
                if not qos:
                    run_count += 1
                    pos = stop
                    continue
            else:
                at = pos + 2
                if at > end:
                    break
                first = data[pos]
                length = data[pos + 1]
                if length > 0x7F:
                    at, stop = frame(data, pos, end, channel.max_packet)
                    if at == 0:
                        break
                else:
                    stop = at + length
                if stop > end:
                    break
                if kept:
                    ack_idents += cast("TrailLike", trail).ran(
                        cast("Plan", plan), sinks, prefix, tail, kept, version, session
                    )
                    kept = 0
                fast = first == 0x30 or first == 0x32
                if fast:
                    topic_end = at + 2 + (data[at] << 8 | data[at + 1]) if stop - at > 2 else end
                    body = topic_end + (first & 2)
                    # Topic aliases and properties are for the codec, and so are topics of the server.
                    fast = (
                        body + skip <= stop
                        and topic_end > at + 2
                        and data[at + 2] != 0x24
                        and not (v5 and data[body])
                    )
                if fast:
                    topic = data[at + 2 : topic_end]
                    route = cache_get(topic)
                    if route is None:
                        route = channel.shared.publishing.resolve(topic)
                    plan = route.plan or compile_plan(route)
                    fast = not plan.groups
                    if hub.wide.jobs:
                        hub.wide.mind(plan.sessions)
                if fast:
                    plan = cast("Plan", plan)
                    qos = first & 2
                    total = stop - pos
                    if not qos:
                        prefix = data[pos : topic_end + skip]
                        if plan is not run or not run_count:
                            if run is not None and run_count:
                                hub.run(run, data[run_start:pos], run_count, version, session)
                                run_count = 0
                                if hub.sent >= enough:
                                    # Wide fan-outs: others want the loop too.
                                    channel.more = True
                                    break
                            run = plan
                            run_start = pos
                            run_count = 0
                        elif trail is not None:
                            trail.mixed = True
                        run_count += 1
                        pos = stop
                        continue
                    prefix = data[pos:topic_end]
                    pure = plan.pure5 if v5 else plan.pure4
                    sinks = plan.q1_5 if v5 else plan.q1_4
                    if trail is not None and pure:
                        room = min([sink.window - len(sink.inflight) for sink in sinks], default=0)
                elif first == 0x40 and stop - at == 2:
                    if run_count:
                        hub.run(cast("Plan", run), data[run_start:pos], run_count, version, session)
                        run_count = 0
                    packet_id = data[at] << 8 | data[at + 1]
                    packet = inflight.get(packet_id)
                    if packet is not None and packet[0] & 0xF6 == 0x32:
                        del inflight[packet_id]
                        acked = True
                        if idents:
                            acked_idents.append(idents.pop(packet_id, NO_IDENT))
                    else:
                        unexpected_ack(channel, packet_id)
                    pos = stop
                    continue
                else:
                    if run_count:
                        hub.run(cast("Plan", run), data[run_start:pos], run_count, version, session)
                        run_count = 0
                    if far:
                        _forward(channel, far_plan, far, far_acks, far_idents)
                        far, far_acks, far_idents = [], [], []
                    if acks:
                        channel.acknowledge(b"".join(acks), len(acks), ack_idents)
                        acks, ack_idents = [], []
                    total = 0
                    channel.service.handle(channel, first, data[at:stop])
                    pos = stop
                    if not channel.is_up:
                        return end
                    if hub.sent >= enough or hub.wide.jobs:
                        channel.more = True
                        break
                    continue
            # One publish of QoS 1.
            if run_count:
                hub.run(cast("Plan", run), data[run_start:pos], run_count, version, session)
                run_count = 0
            at = pos + len(prefix)
            identifier = data[at : at + 2]
            at += 2
            if identifier == b"\0\0":
                raise violation("MQTT-2.2.1-3" if v5 else "MQTT-2.3.1-1", "packet identifier is 0")
            if v5 and data[at]:
                # Same size and topic as the one before it, but with properties.
                total = 0
                continue
            tail = data[at:stop]
            if trail is None:
                taken += 1
            else:
                hub.received += 1
                hub.received1 += 1
                if pure and room > 0:
                    room -= 1
                    kept += 1
                    for sink in sinks:
                        sink.send(prefix, tail)
                    hub.sent += len(sinks)
                    hub.sent1 += len(sinks)
                    acks.append(b"\x40\x02" + identifier)
                    pos = stop
                    if hub.sent >= enough:
                        channel.more = True
                        break
                    continue
                if kept:
                    # Those before this one are told as the last that were received.
                    hub.received -= 1
                    ack_idents += trail.ran(cast("Plan", plan), sinks, prefix, tail, kept, version, session)
                    hub.received += 1
                    kept = 0
                ident = trail.one(cast("Plan", plan), prefix, tail, version, session)
            if pure:
                if trail is None:
                    for sink in sinks:
                        if len(sink.inflight) < sink.window:
                            sink.send(prefix, tail)
                        else:
                            sink.enqueue(prefix, tail)
                else:
                    trail.hand(sinks, prefix, tail, ident)
                    ack_idents.append(ident)
                hub.sent += len(sinks)
                hub.sent1 += len(sinks)
                acks.append(b"\x40\x02" + identifier)
            else:
                plan = cast("Plan", plan)
                hub.one(plan, prefix, tail, version, session, ident)
                if plan.waits:
                    if plan.is_wide:
                        # It goes on once this one is out.
                        enough = 0
                    if acks:
                        channel.acknowledge(b"".join(acks), len(acks), ack_idents)
                        acks, ack_idents = [], []
                    if far and far_plan is not plan:
                        _forward(channel, far_plan, far, far_acks, far_idents)
                        far, far_acks, far_idents = [], [], []
                    far_plan = plan
                    if v5:
                        far.append(V5_MARK)
                    far.append(data[pos:stop])
                    far_acks.append(b"\x40\x02" + identifier)
                    if trail is not None:
                        far_idents.append(ident)
                else:
                    if far:
                        _forward(channel, far_plan, far, far_acks, far_idents)
                        far, far_acks, far_idents = [], [], []
                    if trail is not None:
                        ack_idents.append(ident)
                    if v5 and plan.nobody:
                        acks.append(b"\x40\x03" + identifier + _NOBODY)
                    else:
                        acks.append(b"\x40\x02" + identifier)
            pos = stop
            if hub.sent >= enough:
                channel.more = True
                break
    finally:
        if kept:
            ack_idents += cast("TrailLike", trail).ran(
                cast("Plan", plan), sinks, prefix, tail, kept, version, session
            )
        hub.received += taken
        hub.received1 += taken
        if run_count:
            hub.run(cast("Plan", run), data[run_start:pos], run_count, version, session)
        if far:
            _forward(channel, far_plan, far, far_acks, far_idents)
        if acks:
            channel.acknowledge(b"".join(acks), len(acks), ack_idents)
        if trail is not None:
            trail.live = False
        if acked_idents and hub.trail is not None:
            hub.trail.acknowledged(session, acked_idents, "subscriber")
    if acked and (session.queue or session.resend):
        session.pump()
    if pos:
        channel.seen = hub.now()
    if hub.pressure and plan is not None:
        hub.pressure.hold_up(channel, plan.sessions, plan.peers)
    return pos


def _forward(
    channel: Channel, plan: Plan | None, records: list[bytes], acks: list[bytes], idents: list[int]
) -> None:
    trail = channel.hub.trail
    if idents and trail is not None:
        records.insert(0, trail.marks_of(idents))
    channel.forward(cast("Plan", plan).waits, b"".join(records), b"".join(acks), len(acks), idents)

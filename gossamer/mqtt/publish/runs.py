"""The read loop: bytes to runs of packets that begin alike, for clients and for peers.

A publisher sends packet after packet to one topic, a subscriber PUBACK after PUBACK. Of packets that begin
alike and have one size only the first is decoded; how many follow is found by comparing prefixes. The caller
(``connection.publish_reader`` for clients, ``inbound`` for peers) does its work once a run.

Rules: 1. Only PUBLISH of QoS 0 and 1 without flags or properties, and PUBACK without a reason.  2. Publishes
of QoS 0 to several topics with one plan are one run.  3. Nothing is raised: runs end before the first packet
that is something else, is not whole, or is malformed, and the codec reports what is wrong with it.

Rejected: a call for each packet; a generator, which is resumed once more than it has runs; two loops, one
with acknowledgements and one without.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

from gossamer.mqtt.codec.errors import MqttProtocolError
from gossamer.mqtt.codec.framing import frame
from gossamer.mqtt.codec.packets import V5
from gossamer.mqtt.publish.plan import Plan
from gossamer.routes import Route

QOS0, QOS1, PUBACK = 0x30, 0x32, 0x40

Run = tuple[int, "Plan | None", bytes, int, int, int]
"""Kind, plan (None for PUBACK), common prefix (empty where packets differ), start, stop, number of packets.

The prefix of a publish reaches to the end of its topic, or to the empty properties for QoS 0 of MQTT 5.0.
"""


class Source(Protocol):
    """Origin of a read: a client's channel, or the forwards of peers."""

    version: int
    max_packet: int
    cache_get: Callable[[bytes], Route | None]
    """Returns the route of a topic that is in the cache."""
    plan_of: Callable[[bytes], Plan | None]
    """Returns the plan of any topic; None: it is not a topic name."""


def runs(data: bytes, pos: int, source: Source, *, local: bool = False, most: float = math.inf) -> list[Run]:
    """Return the runs of ``data`` from ``pos`` on, of about ``most`` deliveries; ``local``: to this node."""
    found: list[Run] = []
    end = len(data)
    skip = 1 if source.version == V5 else 0
    # Plan of a QoS 0 run that may continue with another topic.
    held: Plan | None = None
    alike, since, many = b"", pos, 0
    while pos + 1 < end and most > 0:
        start, first, length = pos, data[pos], data[pos + 1]
        at, stop = (pos + 2, pos + 2 + length) if length < 0x80 else _long(data, pos, end, source)
        if stop > end:
            break
        plan: Plan | None = None
        if first & 0xFD == QOS0:
            topic_end = at + 2 + (data[at] << 8 | data[at + 1]) if stop - at > 2 else end + 1
            body = topic_end + (first & 2)
            # Topic aliases and properties are for the codec, and so are topics of the server.
            if body + skip > stop or topic_end == at + 2 or data[at + 2] == 0x24 or (skip and data[body]):
                break
            route = source.cache_get(data[at + 2 : topic_end])
            plan = (None if route is None else route.plan) or source.plan_of(data[at + 2 : topic_end])
            if local and plan is not None and (plan.peers or plan.groups):
                plan = plan.local()
            if plan is None or plan.groups:
                break
            prefix = data[pos:topic_end] if first == QOS1 else data[pos : topic_end + skip]
        elif first == PUBACK and length == 2:
            prefix = b"\x40\x02"
        else:
            break
        size = stop - pos
        pos = stop
        while pos < end and data.startswith(prefix, pos):
            pos += size
        if pos > end:
            pos -= size
        count = (pos - start) // size
        if first == QOS0 and plan is held:
            alike, many = b"", many + count
            continue
        if held is not None:
            found.append((QOS0, held, alike, since, start, many))
            most -= held.breadth * many
            held = None
        if first == QOS0:
            held, alike, since, many = plan, prefix, start, count
            continue
        if first == QOS1 and plan is not None:
            at = start + len(prefix)
            if 0 in data[at + 1 : pos : size] or (skip and any(data[at + 2 : pos : size])):
                count = _good(data, at, size, count, skip)
                pos = start + count * size
                if not count:
                    break
            most -= plan.breadth * count
        found.append((first, plan, prefix, start, pos, count))
    if held is not None:
        found.append((QOS0, held, alike, since, pos, many))
    return found


def _long(data: bytes, pos: int, end: int, source: Source) -> tuple[int, int]:
    """Return where the body of a packet over 127 bytes starts and stops; beyond ``end`` if malformed."""
    try:
        at, stop = frame(data, pos, end, source.max_packet)
    except MqttProtocolError:
        at = stop = 0
    return (at, stop) if at else (pos, end + 1)


def _good(data: bytes, at: int, size: int, count: int, skip: int) -> int:
    """Count the packets before the first with packet identifier 0, or with properties."""
    for number in range(count):
        place = at + number * size
        if data[place : place + 2] == b"\0\0" or (skip and data[place + 2]):
            return number
    return count

"""Packet summary: a line about bytes of a connection, for traces.

Rules: 1. Names of packets, topics and lengths: no payload, no user name, no password is ever shown, whatever
the packet.  2. Any bytes make a line; nothing raises.  3. The length of a line is bounded.
"""

from __future__ import annotations

from gossamer.mqtt.codec.errors import MqttProtocolError
from gossamer.mqtt.codec.framing import frame
from gossamer.mqtt.codec.wire import MAX_VARINT
from gossamer.supervisor import SafeText

NAMES = (
    *("RESERVED", "CONNECT", "CONNACK", "PUBLISH", "PUBACK", "PUBREC", "PUBREL", "PUBCOMP"),
    *("SUBSCRIBE", "SUBACK", "UNSUBSCRIBE", "UNSUBACK", "PINGREQ", "PINGRESP", "DISCONNECT", "AUTH"),
)
PACKETS = 5
"""Packets in a line; the others up to ``LOOK`` are counted."""
LOOK = 1000
TOPIC = 60


def glance(data: bytes) -> SafeText:
    """Return a summary such as ``PUBLISH a/b qos=1 27 bytes, PINGREQ, … 3 more``."""
    parts: list[str] = []
    more = pos = 0
    end = len(data)
    while pos < end:
        try:
            start, stop = frame(data, pos, end, MAX_VARINT + 5)
        except MqttProtocolError:
            parts.append(f"{end - pos} bytes that are no packet")
            break
        if start == 0 or stop > end:
            parts.append(f"{end - pos} bytes of a {NAMES[data[pos] >> 4]}")
            break
        if len(parts) < PACKETS:
            parts.append(_named(data, pos, start, stop))
        else:
            more += 1
            if more == LOOK:
                break
        pos = stop
    if more:
        parts.append(f"… {more}{' or' if more == LOOK else ''} more")
    return SafeText(", ".join(parts))


def _named(data: bytes, pos: int, start: int, stop: int) -> str:
    kind = data[pos] >> 4
    if kind != 3:
        return NAMES[kind] if stop == start else f"{NAMES[kind]} {stop - pos} bytes"
    size = int.from_bytes(data[start : start + 2], "big")
    topic = data[start + 2 : min(start + 2 + size, start + 2 + TOPIC, stop)].decode(errors="replace")
    cut = "…" if size > TOPIC else ""
    flags = (
        f" qos={data[pos] >> 1 & 3}"
        + (" retain" if data[pos] & 1 else "")
        + (" dup" if data[pos] & 8 else "")
    )
    return f"PUBLISH {topic}{cut}{flags} {stop - pos} bytes"

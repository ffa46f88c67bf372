"""MQTT packets as bytes, for the judge alone: written from the standard, 3.1.1 and 5, no I/O.

It shares nothing with the codec of the product, so a mistake there cannot hide itself here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

__all__ = ["Kind", "Packet", "Publish", "Reader", "Will", "ack", "connect", "disconnect", "ping", "publish"]
__all__ += ["parse_ack", "parse_connack", "parse_disconnect", "parse_publish", "parse_suback", "subscribe"]
__all__ += ["EXPIRY", "REASON", "USER_PROPERTY", "unsubscribe"]


class Kind:
    """Packet types (MQTT 5.0, 2.1.2)."""

    CONNECT, CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP = range(1, 8)
    SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK, PINGREQ, PINGRESP, DISCONNECT, AUTH = range(8, 16)


EXPIRY, SESSION_EXPIRY, WILL_DELAY, REASON, USER_PROPERTY = 0x02, 0x11, 0x18, 0x1F, 0x26
_SIZES = {
    **dict.fromkeys((0x01, 0x17, 0x19, 0x24, 0x25, 0x28, 0x29, 0x2A), 1),
    **dict.fromkeys((0x13, 0x21, 0x22, 0x23), 2),
    **dict.fromkeys((0x02, 0x11, 0x18, 0x27), 4),
}
Properties = Mapping[int, object]


@dataclass(frozen=True, slots=True)
class Packet:
    kind: int
    flags: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Publish:
    topic: str
    payload: bytes
    qos: int
    dup: bool
    retain: bool
    packet_id: int
    properties: Properties = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Will:
    topic: str
    payload: bytes
    qos: int = 2
    delay: int = 0
    expiry: int = 0
    """Seconds from its publication on; 0: none."""


class Reader:
    """Cuts a stream of bytes into packets."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[Packet]:
        self._data += data
        while (cut := _cut(self._data)) is not None:
            start, end = cut
            packet = Packet(self._data[0] >> 4, self._data[0] & 15, bytes(self._data[start:end]))
            del self._data[:end]
            yield packet


def _cut(data: bytearray) -> tuple[int, int] | None:
    """Where the body of the first packet begins and ends; None: it is not all there."""
    size = 0
    for place in range(4):
        if len(data) < place + 2:
            return None
        byte = data[place + 1]
        size |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            end = place + 2 + size
            return (place + 2, end) if len(data) >= end else None
    raise ValueError("a remaining length of more than four bytes")


def _frame(kind: int, flags: int, body: bytes) -> bytes:
    return bytes([kind << 4 | flags]) + _varint(len(body)) + body


def _varint(value: int) -> bytes:
    out = bytearray()
    while True:
        value, low = value >> 7, value & 0x7F
        out.append(low | (0x80 if value else 0))
        if not value:
            return bytes(out)


def _text(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack(">H", len(raw)) + raw


def _numbers(version: int, properties: Mapping[int, int]) -> bytes:
    if version < 5:
        return b""
    body = b"".join(
        bytes([key]) + value.to_bytes(_SIZES[key], "big") for key, value in properties.items() if value
    )
    return _varint(len(body)) + body


def connect(
    *,
    version: int,
    client_id: str,
    clean: bool,
    keep_alive: int,
    expiry: int,
    will: Will | None,
) -> bytes:
    flags = 0x02 if clean else 0
    body = _text(client_id)
    if will is not None:
        flags |= 0x04 | will.qos << 3
        body += (
            _numbers(version, {WILL_DELAY: will.delay, EXPIRY: will.expiry})
            + _text(will.topic)
            + _text(will.payload)
        )
    head = _text("MQTT") + bytes([version, flags]) + struct.pack(">H", keep_alive)
    return _frame(Kind.CONNECT, 0, head + _numbers(version, {SESSION_EXPIRY: expiry}) + body)


def publish(
    *, version: int, topic: str, payload: bytes, qos: int, packet_id: int, dup: bool, retain: bool
) -> bytes:
    body = _text(topic) + (struct.pack(">H", packet_id) if qos else b"") + _numbers(version, {}) + payload
    return _frame(Kind.PUBLISH, dup << 3 | qos << 1 | retain, body)


def ack(kind: int, packet_id: int) -> bytes:
    return _frame(kind, 2 if kind == Kind.PUBREL else 0, struct.pack(">H", packet_id))


def subscribe(*, version: int, packet_id: int, topic_filter: str, qos: int) -> bytes:
    head = struct.pack(">H", packet_id) + _numbers(version, {})
    return _frame(Kind.SUBSCRIBE, 2, head + _text(topic_filter) + bytes([qos]))


def unsubscribe(*, version: int, packet_id: int, topic_filter: str) -> bytes:
    head = struct.pack(">H", packet_id) + _numbers(version, {})
    return _frame(Kind.UNSUBSCRIBE, 2, head + _text(topic_filter))


def ping() -> bytes:
    return _frame(Kind.PINGREQ, 0, b"")


def disconnect(*, version: int, code: int = 0) -> bytes:
    return _frame(Kind.DISCONNECT, 0, bytes([code]) if version == 5 and code else b"")


def parse_connack(packet: Packet) -> tuple[bool, int]:
    """Session present, and the reason code."""
    return bool(packet.body[0] & 1), packet.body[1]


def parse_publish(version: int, packet: Packet) -> Publish:
    topic, at = _take_text(packet.body, 0)
    qos, packet_id = packet.flags >> 1 & 3, 0
    if qos:
        packet_id = int.from_bytes(packet.body[at : at + 2], "big")
        at += 2
    properties: Properties = {}
    if version == 5:
        properties, at = _take_properties(packet.body, at)
    return Publish(
        topic=topic.decode(),
        payload=packet.body[at:],
        qos=qos,
        dup=bool(packet.flags & 8),
        retain=bool(packet.flags & 1),
        packet_id=packet_id,
        properties=properties,
    )


def parse_ack(packet: Packet) -> tuple[int, int]:
    """Packet identifier and reason code of PUBACK, PUBREC, PUBREL, PUBCOMP."""
    return int.from_bytes(packet.body[:2], "big"), packet.body[2] if len(packet.body) > 2 else 0


def parse_suback(version: int, packet: Packet) -> tuple[int, int, str]:
    """Packet identifier, reason code, and whatever was said besides (reason string, user properties)."""
    packet_id, at, said = int.from_bytes(packet.body[:2], "big"), 2, ""
    if version == 5:
        properties, at = _take_properties(packet.body, at)
        said = "; ".join(str(properties[key]) for key in (REASON, USER_PROPERTY) if key in properties)
    return packet_id, packet.body[at] if len(packet.body) > at else 0, said


def parse_disconnect(packet: Packet) -> int:
    return packet.body[0] if packet.body else 0


def _take_text(body: bytes, at: int) -> tuple[bytes, int]:
    size = int.from_bytes(body[at : at + 2], "big")
    return body[at + 2 : at + 2 + size], at + 2 + size


def _take_varint(body: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = body[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def _take_properties(body: bytes, at: int) -> tuple[Properties, int]:
    """Properties by identifier, those that may repeat as a list; and where they end."""
    size, at = _take_varint(body, at)
    end = at + size
    found: dict[int, object] = {}
    while at < end:
        key = body[at]
        at += 1
        if key in _SIZES:
            found[key] = int.from_bytes(body[at : at + _SIZES[key]], "big")
            at += _SIZES[key]
        elif key == 0x0B:
            found[key], at = _take_varint(body, at)
        elif key == USER_PROPERTY:
            name, at = _take_text(body, at)
            value, at = _take_text(body, at)
            pairs = found.setdefault(key, [])
            assert isinstance(pairs, list)
            pairs.append((name.decode(), value.decode()))
        else:
            raw, at = _take_text(body, at)
            found[key] = raw.decode(errors="replace")
    return found, end

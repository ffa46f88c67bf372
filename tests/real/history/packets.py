"""MQTT packets as bytes, for the judge alone: written from the standard, 3.1.1 and 5, no I/O.

It shares nothing with the codec of the product, so a mistake there cannot hide itself here; properties and
lengths are paho's.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from paho.mqtt.packettypes import PacketTypes as Kind
from paho.mqtt.properties import Properties, VariableByteIntegers


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
    return bytes([kind << 4 | flags]) + bytes(VariableByteIntegers.encode(len(body))) + body


def _text(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack(">H", len(raw)) + raw


def _properties(version: int, kind: int, **values: object) -> bytes:
    """Those that have a value, by paho's names."""
    if version < 5:
        return b""
    properties = Properties(kind)
    for name, value in values.items():
        if value:
            setattr(properties, name, value)
    return bytes(properties.pack())


def connect(
    *,
    version: int,
    client_id: str,
    clean: bool,
    keep_alive: int,
    expiry: int,
    window: int,
    will: Will | None,
) -> bytes:
    flags = 0x02 if clean else 0
    body = _text(client_id)
    if will is not None:
        flags |= 0x04 | will.qos << 3
        expires = {"WillDelayInterval": will.delay, "MessageExpiryInterval": will.expiry}
        body += _properties(version, Kind.WILLMESSAGE, **expires)
        body += _text(will.topic) + _text(will.payload)
    head = _text("MQTT") + bytes([version, flags]) + struct.pack(">H", keep_alive)
    head += _properties(version, Kind.CONNECT, SessionExpiryInterval=expiry, ReceiveMaximum=window)
    return _frame(Kind.CONNECT, 0, head + body)


def publish(
    version: int, payload: bytes, *, topic: str, qos: int, packet_id: int, dup: bool, retain: bool
) -> bytes:
    body = _text(topic) + (struct.pack(">H", packet_id) if qos else b"") + b"\0" * (version == 5) + payload
    return _frame(Kind.PUBLISH, dup << 3 | qos << 1 | retain, body)


def ack(kind: int, packet_id: int) -> bytes:
    return _frame(kind, 2 if kind == Kind.PUBREL else 0, struct.pack(">H", packet_id))


def subscribe(*, version: int, packet_id: int, topic_filter: str, qos: int | None) -> bytes:
    """SUBSCRIBE; UNSUBSCRIBE without a ``qos``."""
    head = struct.pack(">H", packet_id) + b"\0" * (version == 5) + _text(topic_filter)
    if qos is None:
        return _frame(Kind.UNSUBSCRIBE, 2, head)
    return _frame(Kind.SUBSCRIBE, 2, head + bytes([qos]))


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
    if version == 5:
        size, head = VariableByteIntegers.decode(packet.body[at:])
        at += head + size
    return Publish(
        topic=topic.decode(),
        payload=packet.body[at:],
        qos=qos,
        dup=bool(packet.flags & 8),
        retain=bool(packet.flags & 1),
        packet_id=packet_id,
    )


def parse_ack(packet: Packet) -> tuple[int, int]:
    """Packet identifier and reason code of PUBACK, PUBREC, PUBREL, PUBCOMP."""
    return int.from_bytes(packet.body[:2], "big"), packet.body[2] if len(packet.body) > 2 else 0


def parse_suback(version: int, packet: Packet) -> tuple[int, int, str]:
    """Packet identifier, reason code, and whatever was said besides (reason string, user properties)."""
    packet_id, at, said = int.from_bytes(packet.body[:2], "big"), 2, ""
    if version == 5:
        properties = Properties(packet.kind)
        _, size = properties.unpack(packet.body[at:])
        at += size
        named = (getattr(properties, name, None) for name in ("ReasonString", "UserProperty"))
        said = "; ".join(str(value) for value in named if value)
    return packet_id, packet.body[at] if len(packet.body) > at else 0, said


def parse_disconnect(packet: Packet) -> int:
    return packet.body[0] if packet.body else 0


def _take_text(body: bytes, at: int) -> tuple[bytes, int]:
    size = int.from_bytes(body[at : at + 2], "big")
    return body[at + 2 : at + 2 + size], at + 2 + size

"""Properties of MQTT 5.0 (section 2.2.2): one table has each property's identifier, type and packets.

Rules: 1. An unknown identifier, or one that the packet may not carry, is malformed.  2. A property that may
come once and comes twice is a protocol error.  3. User properties keep their order; so do subscription
identifiers. 4. Absent is ``None``; :data:`NONE` is the value of "no properties" and is shared.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from gossamer.mqtt.codec.errors import MqttProtocolError, malformed, violation
from gossamer.mqtt.codec.reasons import ReasonCode
from gossamer.mqtt.codec.wire import Reader, encode_binary, encode_string, encode_varint

WILL = 16
"""The "packet type" of will properties, which live inside CONNECT."""

CONNECT, CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP, SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK = range(
    1, 12
)
DISCONNECT, AUTH = 14, 15


class Properties(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Every property MQTT 5.0 knows; a packet uses those that belong to it."""

    payload_format: int | None = None
    message_expiry: int | None = None
    content_type: str | None = None
    response_topic: str | None = None
    correlation_data: bytes | None = None
    subscription_identifiers: tuple[int, ...] = ()
    session_expiry: int | None = None
    assigned_client_id: str | None = None
    server_keep_alive: int | None = None
    authentication_method: str | None = None
    authentication_data: bytes | None = None
    request_problem_information: int | None = None
    will_delay: int | None = None
    request_response_information: int | None = None
    response_information: str | None = None
    server_reference: str | None = None
    reason_string: str | None = None
    receive_maximum: int | None = None
    topic_alias_maximum: int | None = None
    topic_alias: int | None = None
    maximum_qos: int | None = None
    retain_available: int | None = None
    user: tuple[tuple[str, str], ...] = ()
    maximum_packet_size: int | None = None
    wildcard_available: int | None = None
    subscription_identifiers_available: int | None = None
    shared_available: int | None = None


NONE = Properties()


def _bit(reader: Reader, what: str) -> int:
    value = reader.u8(what)
    if value > 1:
        raise violation("MQTT 2.2.2.2", f"{what} is {value}, expected 0 or 1")
    return value


def _positive(read: Callable[[Reader, str], int]) -> Callable[[Reader, str], int]:
    def reader_of(reader: Reader, what: str) -> int:
        value = read(reader, what)
        if value == 0:
            raise violation("MQTT 2.2.2.2", f"{what} is 0, expected at least 1")
        return value

    return reader_of


def _alias(reader: Reader, what: str) -> int:
    value = reader.u16(what)
    if value == 0:
        raise MqttProtocolError(ReasonCode.TOPIC_ALIAS_INVALID, "MQTT-3.3.2-8", "topic alias is 0")
    return value


def _pair(reader: Reader, what: str) -> tuple[str, str]:
    return reader.string(what), reader.string(what)


_u8, _u16, _u32 = (partial(int.to_bytes, length=length) for length in (1, 2, 4))

_REASON = (CONNACK, PUBACK, PUBREC, PUBREL, PUBCOMP, SUBACK, UNSUBACK, DISCONNECT, AUTH)
_ALL = (CONNECT, PUBLISH, SUBSCRIBE, UNSUBSCRIBE, WILL, *_REASON)

_Row = tuple[int, str, Callable[[Reader, str], Any], Callable[[Any], bytes], tuple[int, ...]]
_TABLE: tuple[_Row, ...] = (
    (0x01, "payload_format", _bit, _u8, (PUBLISH, WILL)),
    (0x02, "message_expiry", Reader.u32, _u32, (PUBLISH, WILL)),
    (0x03, "content_type", Reader.string, encode_string, (PUBLISH, WILL)),
    (0x08, "response_topic", Reader.string, encode_string, (PUBLISH, WILL)),
    (0x09, "correlation_data", Reader.binary, encode_binary, (PUBLISH, WILL)),
    (0x0B, "subscription_identifiers", _positive(Reader.varint), encode_varint, (PUBLISH, SUBSCRIBE)),
    (0x11, "session_expiry", Reader.u32, _u32, (CONNECT, CONNACK, DISCONNECT)),
    (0x12, "assigned_client_id", Reader.string, encode_string, (CONNACK,)),
    (0x13, "server_keep_alive", Reader.u16, _u16, (CONNACK,)),
    (0x15, "authentication_method", Reader.string, encode_string, (CONNECT, CONNACK, AUTH)),
    (0x16, "authentication_data", Reader.binary, encode_binary, (CONNECT, CONNACK, AUTH)),
    (0x17, "request_problem_information", _bit, _u8, (CONNECT,)),
    (0x18, "will_delay", Reader.u32, _u32, (WILL,)),
    (0x19, "request_response_information", _bit, _u8, (CONNECT,)),
    (0x1A, "response_information", Reader.string, encode_string, (CONNACK,)),
    (0x1C, "server_reference", Reader.string, encode_string, (CONNACK, DISCONNECT)),
    (0x1F, "reason_string", Reader.string, encode_string, _REASON),
    (0x21, "receive_maximum", _positive(Reader.u16), _u16, (CONNECT, CONNACK)),
    (0x22, "topic_alias_maximum", Reader.u16, _u16, (CONNECT, CONNACK)),
    (0x23, "topic_alias", _alias, _u16, (PUBLISH,)),
    (0x24, "maximum_qos", _bit, _u8, (CONNACK,)),
    (0x25, "retain_available", _bit, _u8, (CONNACK,)),
    (0x27, "maximum_packet_size", _positive(Reader.u32), _u32, (CONNECT, CONNACK)),
    (0x28, "wildcard_available", _bit, _u8, (CONNACK,)),
    (0x29, "subscription_identifiers_available", _bit, _u8, (CONNACK,)),
    (0x2A, "shared_available", _bit, _u8, (CONNACK,)),
    (0x26, "user", _pair, lambda pair: encode_string(pair[0]) + encode_string(pair[1]), _ALL),
)
_BY_ID = {row[0]: (row[1], row[2], frozenset(row[4])) for row in _TABLE}
_WRITERS = tuple((bytes((row[0],)), row[1], row[3]) for row in _TABLE)
_REPEATED = frozenset({"user", "subscription_identifiers"})


def decode_properties(reader: Reader, packet: int) -> Properties:
    """Read the property length and the properties of ``packet`` (a control packet type, or :data:`WILL`)."""
    length = reader.varint("property length")
    if length == 0:
        return NONE
    stop = reader.pos + length
    if stop > reader.end:
        raise malformed("MQTT 2.2.2.1", f"property length {length} exceeds the packet")
    inner = Reader(reader.data, reader.pos, stop)
    reader.pos = stop
    found: dict[str, Any] = {}
    while inner.pos < stop:
        identifier = inner.varint("property identifier")
        row = _BY_ID.get(identifier)
        if row is None:
            raise malformed("MQTT 2.2.2.2", f"unknown property identifier 0x{identifier:02X}")
        name, read, packets = row
        if packet not in packets:
            raise malformed("MQTT 2.2.2.2", f"property {name} does not belong to this packet")
        value = read(inner, name)
        if name in _REPEATED:
            if name == "subscription_identifiers" and packet == SUBSCRIBE and name in found:
                raise violation("MQTT 3.8.2.1.2", "subscription identifier comes twice")
            found.setdefault(name, []).append(value)
        elif name in found:
            raise violation("MQTT 2.2.2.2", f"property {name} comes twice")
        else:
            found[name] = value
    for name in _REPEATED & found.keys():
        found[name] = tuple(found[name])
    if "authentication_data" in found and "authentication_method" not in found:
        raise violation("MQTT 3.1.2.11.10", "authentication data comes without an authentication method")
    return Properties(**found)


def encode_properties(properties: Properties) -> bytes:
    """Property length and properties; a single zero byte where there are none ([MQTT-2.2.2-1])."""
    if properties is NONE:
        return b"\0"
    out: list[bytes] = []
    for identifier, name, write in _WRITERS:
        value = getattr(properties, name)
        if value is None or value == ():
            continue
        if name in _REPEATED:
            for item in value:
                out.append(identifier)
                out.append(write(item))
        else:
            out.append(identifier)
            out.append(write(value))
    body = b"".join(out)
    return encode_varint(len(body)) + body

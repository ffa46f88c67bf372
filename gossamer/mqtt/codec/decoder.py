"""Bytes to packets, for both versions and both directions: one function a packet type, chosen by a table.

Rules: 1. Whatever the bytes, the outcome is a packet or :class:`MqttProtocolError`, nothing else.  2. Every
error has the statement that was broken, in the numbering of the version in use; where the standard numbers
none, the section.  3. The syntax of topic names and filters is checked here, since it is part of a packet's
validity: a wrong one is malformed (0x81). "Topic name invalid" and "topic filter invalid" are for names that
are well-formed and yet not accepted; that, and matching, is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable

import gossamer.mqtt.codec.packets as p
from gossamer.mqtt.codec.errors import MqttProtocolError, malformed, violation
from gossamer.mqtt.codec.packets import V4, V5, Packet
from gossamer.mqtt.codec.properties import NONE, WILL, Properties, decode_properties
from gossamer.mqtt.codec.reasons import (
    AUTH_REASONS,
    CONNACK_REASONS,
    DISCONNECT_REASONS,
    PUBACK_REASONS,
    PUBREL_REASONS,
    SUBACK_REASONS,
    UNSUBACK_REASONS,
    ReasonCode,
)
from gossamer.mqtt.codec.wire import Reader, text
from gossamer.tenants import bare_topic

# Flags the fixed header must carry (table 2-2 of both versions); PUBLISH has its own.
_FLAGS = {1: 0, 2: 0, 4: 0, 5: 0, 6: 2, 7: 0, 8: 2, 9: 0, 10: 2, 11: 0, 12: 0, 13: 0, 14: 0, 15: 0}
_FLAG_STATEMENT = {
    6: ("MQTT-3.6.1-1", "MQTT-3.6.1-1"),
    8: ("MQTT-3.8.1-1", "MQTT-3.8.1-1"),
    10: ("MQTT-3.10.1-1", "MQTT-3.10.1-1"),
    14: ("MQTT-3.14.1-1", "MQTT-3.14.1-1"),
    15: ("MQTT-2.2.2-2", "MQTT-3.15.1-1"),
}

_SHARE = "$share/"


def decode(first: int, body: bytes, version: int) -> Packet:
    """Return the packet whose fixed header starts with ``first`` and whose remaining bytes are ``body``.

    ``version`` is 4 or 5; CONNECT has its own.
    """
    kind = first >> 4
    flags = first & 0x0F
    if kind == 3:
        return decode_publish(flags, body, version)
    if first == 0x82:
        return _subscribe(body, version)
    want = _FLAGS.get(kind)
    if want is None or (kind == 15 and version != V5):
        raise malformed("MQTT-2.2.2-2" if version == V4 else "MQTT 2.1.2", f"packet type {kind} is reserved")
    if flags != want:
        v4, v5 = _FLAG_STATEMENT.get(kind, ("MQTT-2.2.2-2", "MQTT-2.1.3-1"))
        raise malformed(v5 if version == V5 else v4, f"packet type {kind} has flags {flags}, expected {want}")
    return _DECODERS[kind](Reader(body), version)


def connect_version(packet: bytes) -> int:
    """Return the version of a CONNECT, of which only the start need be there and readable."""
    return V5 if b"\0\4MQTT\5" in packet[2:12] else V4


def decode_publish(flags: int, body: bytes, version: int, *, inside: bool = False) -> p.Publish:
    """Return a PUBLISH; ``inside``: it is a record, whose topic may be one of a tenant."""
    qos = flags >> 1 & 3
    dup = bool(flags & 8)
    if qos == 3:
        raise malformed("MQTT-3.3.1-4", "PUBLISH with both QoS bits set")
    if dup and qos == 0:
        raise malformed("MQTT-3.3.1-2", "PUBLISH of QoS 0 with DUP set")
    reader = Reader(body)
    topic = reader.binary("topic name")
    check_topic_name(bare_topic(topic) if inside else topic, "topic name")
    packet_id = _packet_id(reader, version) if qos else None
    properties = decode_properties(reader, 3) if version == V5 else NONE
    if version == V5:
        if not topic and properties.topic_alias is None:
            raise violation("MQTT 3.3.2.1", "PUBLISH with neither topic name nor topic alias")
        _check_response_topic(properties.response_topic)
    elif not topic:
        raise malformed("MQTT-4.7.3-1", "PUBLISH with an empty topic name")
    return p.Publish(
        topic=topic,
        payload=reader.rest(),
        qos=qos,
        retain=bool(flags & 1),
        dup=dup,
        packet_id=packet_id,
        properties=properties,
    )


def check_topic_name(topic: bytes, what: str) -> None:
    """Check that a topic name is well-formed, without wildcards. It may be empty, for an alias."""
    text(topic, what, "MQTT-3.3.2-1")
    if b"+" in topic or b"#" in topic:
        raise malformed("MQTT-3.3.2-2", f"{what} contains a wildcard character")


def check_filter(topic_filter: str, version: int) -> None:
    """Check the syntax of a topic filter; whether this node accepts it is decided elsewhere."""
    if not topic_filter:
        raise malformed("MQTT-4.7.3-1", "topic filter is empty")
    if version == V5 and topic_filter.startswith(_SHARE):
        group, slash, body = topic_filter[len(_SHARE) :].partition("/")
        if not group:
            raise malformed("MQTT-4.8.2-1", "shared subscription without a share name")
        if not slash or not body or "+" in group or "#" in group:
            raise malformed("MQTT-4.8.2-2", "share name is not followed by a filter, or has a wildcard")
        topic_filter = body
    if "#" not in topic_filter and "+" not in topic_filter:
        return
    levels = topic_filter.split("/")
    last = len(levels) - 1
    for position, level in enumerate(levels):
        if "#" in level and (level != "#" or position != last):
            raise malformed(
                "MQTT-4.7.1-1" if version == V5 else "MQTT-4.7.1-2", "# stands elsewhere than alone and last"
            )
        if "+" in level and level != "+":
            raise malformed(
                "MQTT-4.7.1-2" if version == V5 else "MQTT-4.7.1-3", "+ does not take a whole level"
            )


def _check_response_topic(topic: str | None) -> None:
    if topic is not None and ("+" in topic or "#" in topic):
        raise violation("MQTT-3.3.2-14", "response topic contains a wildcard character")


def _packet_id(reader: Reader, version: int) -> int:
    value = reader.u16("packet identifier")
    if value == 0:
        raise violation("MQTT-2.2.1-3" if version == V5 else "MQTT-2.3.1-1", "packet identifier is 0")
    return value


def _outcome(reader: Reader, kind: int, name: str) -> tuple[int, Properties]:
    """Read the reason code and properties at the end of a packet of 5.0; both may be left out."""
    if not reader.left():
        return 0, NONE
    allowed, statement = _REASONS[kind]
    reason = reader.u8("reason code")
    if reason not in allowed:
        raise malformed(statement, f"{name} with reason code 0x{reason:02X}")
    return reason, decode_properties(reader, kind) if reader.left() else NONE


def _connect(reader: Reader, _version: int) -> p.Connect:
    name = reader.string("protocol name")
    if name not in ("MQTT", "MQIsdp"):
        raise MqttProtocolError(
            ReasonCode.UNSUPPORTED_PROTOCOL_VERSION,
            "MQTT-3.1.2-1",
            f"protocol name is {name[:32]!r}, expected 'MQTT'",
        )
    version = reader.u8("protocol level")
    if name == "MQIsdp" or version not in (V4, V5):
        raise MqttProtocolError(
            ReasonCode.UNSUPPORTED_PROTOCOL_VERSION,
            "MQTT-3.1.2-2",
            f"protocol level is {version}, expected 4 or 5",
        )
    flags = reader.u8("connect flags")
    if flags & 1:
        raise malformed("MQTT-3.1.2-3", "reserved connect flag is set")
    _check_will_flags(flags, version)
    if version == V4 and flags & 0x40 and not flags & 0x80:
        raise malformed("MQTT-3.1.2-22", "password flag without user name flag")
    keep_alive = reader.u16("keep alive")
    properties = decode_properties(reader, 1) if version == V5 else NONE
    client_id = reader.string("client identifier")
    will = _will(reader, flags, version) if flags & 4 else None
    username = reader.string("user name") if flags & 0x80 else None
    password = reader.binary("password") if flags & 0x40 else None
    reader.finish("CONNECT")
    return p.Connect(
        client_id=client_id,
        version=version,
        clean_start=bool(flags & 2),
        keep_alive=keep_alive,
        username=username,
        password=password,
        will=will,
        properties=properties,
    )


def _check_will_flags(flags: int, version: int) -> None:
    qos = flags >> 3 & 3
    if flags & 4:
        if qos == 3:
            raise malformed("MQTT-3.1.2-14" if version == V4 else "MQTT-3.1.2-12", "will QoS is 3")
    elif qos:
        raise malformed("MQTT-3.1.2-13" if version == V4 else "MQTT-3.1.2-11", "will QoS without a will")
    elif flags & 0x20:
        raise malformed("MQTT-3.1.2-15" if version == V4 else "MQTT-3.1.2-13", "will retain without a will")


def _will(reader: Reader, flags: int, version: int) -> p.Will:
    properties = decode_properties(reader, WILL) if version == V5 else NONE
    topic = reader.binary("will topic")
    check_topic_name(topic, "will topic")
    if not topic:
        raise malformed("MQTT-4.7.3-1", "will topic is empty")
    _check_response_topic(properties.response_topic)
    return p.Will(
        topic=topic,
        payload=reader.binary("will payload"),
        qos=flags >> 3 & 3,
        retain=bool(flags & 0x20),
        properties=properties,
    )


def _connack(reader: Reader, version: int) -> p.Connack:
    flags = reader.u8("connect acknowledge flags")
    if flags & 0xFE:
        raise malformed("MQTT-3.2.2-1", "reserved connect acknowledge flags are set")
    reason = reader.u8("reason code")
    if reason > 5 if version == V4 else reason not in CONNACK_REASONS:
        raise malformed(
            "MQTT-3.2.2-8" if version == V5 else "MQTT-3.2.2-6", f"CONNACK with reason 0x{reason:02X}"
        )
    if reason and flags:
        raise violation("MQTT-3.2.2-6" if version == V5 else "MQTT-3.2.2-4", "session present in a refusal")
    properties = decode_properties(reader, 2) if version == V5 else NONE
    reader.finish("CONNACK")
    return p.Connack(session_present=bool(flags), reason=reason, properties=properties)


def _ack(kind: int, build: type[p.Puback]) -> Callable[[Reader, int], Packet]:
    name = build.__name__.upper()

    def decoder(reader: Reader, version: int) -> p.Puback:
        packet_id = _packet_id(reader, version)
        reason, properties = (0, NONE) if version == V4 else _outcome(reader, kind, name)
        reader.finish(name)
        return build(packet_id, reason, properties)

    return decoder


def _subscribe(body: bytes, version: int) -> p.Subscribe:
    """Decode SUBSCRIBE, without a call for each field: clients come back with thousands of filters."""
    packet_id = body[0] << 8 | body[1] if len(body) > 2 else 0
    pos, properties = 2, NONE
    if not packet_id or (version == V5 and body[2]):
        reader = Reader(body)
        packet_id = _packet_id(reader, version)
        if version == V5:
            properties = decode_properties(reader, 8)
        pos = reader.pos
    elif version == V5:
        pos = 3
    end = len(body)
    found: list[p.Subscription] = []
    while pos < end:
        start = pos + 2
        pos = start + int.from_bytes(body[pos:start])
        if pos >= end:
            # One of them says what is missing.
            reader = Reader(body, start - 2)
            reader.binary("topic filter")
            reader.u8("subscription options")
        topic_filter = text(body[start:pos], "topic filter")
        check_filter(topic_filter, version)
        options = body[pos]
        pos += 1
        if version == V5:
            found.append(_with_options(topic_filter, options))
            continue
        if options > 2:
            raise malformed(
                "MQTT-3-8.3-4", f"subscription options are 0x{options:02X}, expected a QoS of 0 to 2"
            )
        found.append(p.Subscription(topic_filter, options))
    if not found:
        raise violation(
            "MQTT-3.8.3-2" if version == V5 else "MQTT-3.8.3-3", "SUBSCRIBE without a topic filter"
        )
    return p.Subscribe(packet_id=packet_id, subscriptions=tuple(found), properties=properties)


def _with_options(topic_filter: str, options: int) -> p.Subscription:
    qos, handling = options & 3, options >> 4 & 3
    if options & 0xC0:
        raise malformed("MQTT-3.8.3-5", "reserved subscription options are set")
    if qos == 3:
        raise violation("MQTT 3.8.3.1", "maximum QoS is 3")
    if handling == 3:
        raise violation("MQTT 3.8.3.1", "retain handling is 3")
    no_local = bool(options & 4)
    if no_local and topic_filter.startswith(_SHARE):
        raise violation("MQTT-3.8.3-4", "no local on a shared subscription")
    return p.Subscription(topic_filter, qos, no_local, bool(options & 8), handling)


def _suback(reader: Reader, version: int) -> p.Suback:
    packet_id = _packet_id(reader, version)
    properties = decode_properties(reader, 9) if version == V5 else NONE
    reasons = tuple(reader.rest())
    if not reasons:
        raise malformed("MQTT-3.8.4-6" if version == V5 else "MQTT-3.8.4-5", "SUBACK without a reason code")
    if not SUBACK_REASONS[version].issuperset(reasons):
        raise malformed("MQTT-3.9.3-2", "SUBACK with an unknown reason code")
    return p.Suback(packet_id=packet_id, reasons=reasons, properties=properties)


def _unsubscribe(reader: Reader, version: int) -> p.Unsubscribe:
    packet_id = _packet_id(reader, version)
    properties = decode_properties(reader, 10) if version == V5 else NONE
    filters: list[str] = []
    while reader.left():
        filters.append(reader.string("topic filter"))
        check_filter(filters[-1], version)
    if not filters:
        raise violation("MQTT-3.10.3-2", "UNSUBSCRIBE without a topic filter")
    return p.Unsubscribe(packet_id=packet_id, filters=tuple(filters), properties=properties)


def _unsuback(reader: Reader, version: int) -> p.Unsuback:
    packet_id = _packet_id(reader, version)
    if version == V4:
        reader.finish("UNSUBACK")
        return p.Unsuback(packet_id=packet_id)
    properties = decode_properties(reader, 11)
    reasons = tuple(reader.rest())
    if not reasons or not UNSUBACK_REASONS.issuperset(reasons):
        raise malformed("MQTT-3.11.3-2", "UNSUBACK with a missing or unknown reason code")
    return p.Unsuback(packet_id=packet_id, reasons=reasons, properties=properties)


def _empty(build: type[p.Pingreq | p.Pingresp]) -> Callable[[Reader, int], Packet]:
    def decoder(reader: Reader, _version: int) -> p.Pingreq | p.Pingresp:
        reader.finish(build.__name__.upper())
        return build()

    return decoder


def _disconnect(reader: Reader, version: int) -> p.Disconnect:
    reason, properties = (0, NONE) if version == V4 else _outcome(reader, 14, "DISCONNECT")
    reader.finish("DISCONNECT")
    return p.Disconnect(reason=reason, properties=properties)


def _auth(reader: Reader, _version: int) -> p.Auth:
    reason, properties = _outcome(reader, 15, "AUTH")
    reader.finish("AUTH")
    return p.Auth(reason=reason, properties=properties)


_REASONS = {
    4: (PUBACK_REASONS, "MQTT-3.4.2-1"),
    5: (PUBACK_REASONS, "MQTT-3.5.2-1"),
    6: (PUBREL_REASONS, "MQTT-3.6.2-1"),
    7: (PUBREL_REASONS, "MQTT-3.7.2-1"),
    14: (DISCONNECT_REASONS, "MQTT-3.14.2-1"),
    15: (AUTH_REASONS, "MQTT-3.15.2-1"),
}

_DECODERS: dict[int, Callable[[Reader, int], Packet]] = {
    1: _connect,
    2: _connack,
    4: _ack(4, p.Puback),
    5: _ack(5, p.Pubrec),
    6: _ack(6, p.Pubrel),
    7: _ack(7, p.Pubcomp),
    9: _suback,
    10: _unsubscribe,
    11: _unsuback,
    12: _empty(p.Pingreq),
    13: _empty(p.Pingresp),
    14: _disconnect,
    15: _auth,
}

"""Packets to bytes, for both versions.

A PUBLISH is also encoded in two parts, head and tail, between which a packet identifier goes: the parts of
one message are shared by all its subscribers of one version and QoS, and only the identifier differs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

import gossamer.mqtt.codec.packets as p
from gossamer.errors import UsageError
from gossamer.mqtt.codec.decoder import decode_publish
from gossamer.mqtt.codec.framing import frame
from gossamer.mqtt.codec.packets import V5, Packet
from gossamer.mqtt.codec.properties import NONE, Properties, encode_properties
from gossamer.mqtt.codec.wire import MAX_VARINT, encode_binary, encode_string, encode_varint

PACKET_ID: list[bytes] = [n.to_bytes(2, "big") for n in range(65536)]
"""Every packet identifier as two bytes, made once: cheaper than making one per message."""


def publish_parts(
    topic: bytes, payload: bytes, *, flags: int, version: int, properties: Properties = NONE
) -> tuple[bytes, bytes]:
    """Return head and tail of a PUBLISH; ``flags`` are the low four bits of its first byte.

    QoS 0: the packet is ``head + tail``. Above: ``head + packet identifier + tail``.
    """
    tail = payload
    if version == V5:
        tail = (b"\0" if properties is NONE else encode_properties(properties)) + payload
    length = 2 + len(topic) + len(tail)
    if flags & 6:
        length += 2
    if length < 0x80:
        # As most are: without calls.
        return bytes((0x30 | flags, length, 0, len(topic))) + topic, tail
    return bytes((0x30 | flags,)) + encode_varint(length) + encode_binary(topic), tail


def encode(packet: Packet, version: int) -> bytes:
    """Return the bytes of ``packet`` in protocol ``version``; CONNECT uses its own."""
    return _ENCODERS[type(packet)](packet, version)


def _frame(first: int, body: bytes) -> bytes:
    size = len(body)
    return (bytes((first, size)) if size < 0x80 else bytes((first,)) + encode_varint(size)) + body


def _connect(packet: p.Connect, _version: int) -> bytes:
    version = packet.version
    flags = 2 if packet.clean_start else 0
    will = packet.will
    payload = encode_string(packet.client_id)
    if will is not None:
        flags |= 4 | will.qos << 3 | (0x20 if will.retain else 0)
        if version == V5:
            payload += encode_properties(will.properties)
        payload += encode_binary(will.topic) + encode_binary(will.payload)
    if packet.username is not None:
        flags |= 0x80
        payload += encode_string(packet.username)
    if packet.password is not None:
        flags |= 0x40
        payload += encode_binary(packet.password)
    head = b"\0\4MQTT" + bytes((version, flags)) + PACKET_ID[packet.keep_alive]
    if version == V5:
        head += encode_properties(packet.properties)
    return _frame(0x10, head + payload)


def _connack(packet: p.Connack, version: int) -> bytes:
    body = bytes((packet.session_present, packet.reason))
    if version == V5:
        body += encode_properties(packet.properties)
    return _frame(0x20, body)


def _publish(packet: p.Publish, version: int) -> bytes:
    flags = packet.qos << 1 | packet.retain | (8 if packet.dup else 0)
    head, tail = publish_parts(
        packet.topic, packet.payload, flags=flags, version=version, properties=packet.properties
    )
    if packet.qos:
        return head + PACKET_ID[packet.packet_id or 0] + tail
    return head + tail


def _outcome(packet: p.Puback | p.Disconnect | p.Auth) -> bytes:
    """Return reason code and properties; defaults at the end of a packet are left out."""
    if packet.properties is NONE:
        return bytes((packet.reason,)) if packet.reason else b""
    return bytes((packet.reason,)) + encode_properties(packet.properties)


def _ack(first: int) -> Callable[[p.Puback, int], bytes]:
    def encoder(packet: p.Puback, version: int) -> bytes:
        body = PACKET_ID[packet.packet_id]
        return _frame(first, body + _outcome(packet) if version == V5 else body)

    return encoder


def _subscribe(packet: p.Subscribe, version: int) -> bytes:
    body = PACKET_ID[packet.packet_id]
    if version == V5:
        body += encode_properties(packet.properties)
    for item in packet.subscriptions:
        options = item.qos
        if version == V5:
            options |= item.no_local << 2 | item.retain_as_published << 3 | item.retain_handling << 4
        body += encode_string(item.filter) + bytes((options,))
    return _frame(0x82, body)


def _suback(packet: p.Suback, version: int) -> bytes:
    body, reasons = PACKET_ID[packet.packet_id], bytes(packet.reasons)
    if version == V5:
        return _frame(0x90, body + encode_properties(packet.properties) + reasons)
    return _frame(0x90, body + reasons.translate(_FAILURES))


_FAILURES = bytes(min(reason, 0x80) for reason in range(256))
"""3.1.1 has one for all."""


def _unsubscribe(packet: p.Unsubscribe, version: int) -> bytes:
    body = PACKET_ID[packet.packet_id]
    if version == V5:
        body += encode_properties(packet.properties)
    return _frame(0xA2, body + b"".join(encode_string(item) for item in packet.filters))


def _unsuback(packet: p.Unsuback, version: int) -> bytes:
    body = PACKET_ID[packet.packet_id]
    if version == V5:
        body += encode_properties(packet.properties) + bytes(packet.reasons)
    return _frame(0xB0, body)


def _disconnect(packet: p.Disconnect, version: int) -> bytes:
    return _frame(0xE0, _outcome(packet) if version == V5 else b"")


def _auth(packet: p.Auth, version: int) -> bytes:
    if version != V5:
        raise UsageError(f"AUTH does not exist in protocol version {version}; it needs version 5")
    return _frame(0xF0, _outcome(packet))


_ENCODERS: dict[type, Callable[[Any, int], bytes]] = {
    p.Connect: _connect,
    p.Connack: _connack,
    p.Publish: _publish,
    p.Puback: _ack(0x40),
    p.Pubrec: _ack(0x50),
    p.Pubrel: _ack(0x62),
    p.Pubcomp: _ack(0x70),
    p.Subscribe: _subscribe,
    p.Suback: _suback,
    p.Unsubscribe: _unsubscribe,
    p.Unsuback: _unsuback,
    p.Pingreq: lambda _packet, _version: b"\xc0\0",
    p.Pingresp: lambda _packet, _version: b"\xd0\0",
    p.Disconnect: _disconnect,
    p.Auth: _auth,
}


LONGEST = 300
"""Most characters of a reason string, which may quote input of clients."""

Answer: TypeAlias = p.Connack | p.Disconnect | p.Auth | p.Puback | p.Suback | p.Unsuback


def explained(packet: Answer, why: str, asked: Properties) -> bytes:
    """Return ``packet`` with ``why`` as reason string, for a 5.0 client with properties ``asked`` in CONNECT.

    CONNACK and DISCONNECT may always have one, other packets only if the client requests problem information
    ([MQTT-3.1.2-29]). It is left out if the packet would exceed the client's maximum ([MQTT-3.2.2-19],
    [MQTT-3.4.2-2] and others); from a refusal or failure, so are all properties ([MQTT-3.2.2-20]). Empty: the
    packet is too large all the same ([MQTT-3.1.2-24]).
    """
    always = isinstance(packet, p.Connack | p.Disconnect)
    if why and (always or asked.request_problem_information != 0):
        properties = msgspec.structs.replace(packet.properties, reason_string=why[:LONGEST])
        data = encode(msgspec.structs.replace(packet, properties=properties), V5)
        if fits(data, asked):
            return data
    data = encode(packet, V5)
    if fits(data, asked):
        return data
    if isinstance(packet, p.Connack | p.Disconnect) and packet.reason >= 0x80:
        # What it says besides is of less use than the reason itself.
        data = encode(msgspec.structs.replace(packet, properties=NONE), V5)
    return data if fits(data, asked) else b""


def fits(data: bytes, asked: Properties) -> bool:
    """Return whether a client with these properties takes a packet of this size."""
    return asked.maximum_packet_size is None or len(data) <= asked.maximum_packet_size


def read_publish(packet: bytes, version: int) -> p.Publish:
    """Decode a whole PUBLISH packet."""
    start, stop = frame(packet, 0, len(packet), MAX_VARINT + 5)
    return decode_publish(packet[0] & 0x0F, packet[start:stop], version)


def convert(packet: bytes, old: int, new: int) -> tuple[bytes, bytes]:
    """Return head and tail of the same PUBLISH in version ``new``."""
    publish = read_publish(packet, old)
    properties = publish.properties if new == V5 else NONE
    return publish_parts(
        publish.topic, publish.payload, flags=packet[0] & 0x0F, version=new, properties=properties
    )

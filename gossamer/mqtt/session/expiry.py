"""Expiry of a PUBLISH in flight: sent again, it carries the interval that is left ([MQTT-3.3.2-6]).

The moment of expiry is part of the stored packet, so it ends with the packet wherever that is removed, and
packets without expiry, nearly all, are plain bytes.

Rule: a message that was sent does not expire ([MQTT-4.4.0-1], [MQTT-3.3.2-5]): once its time is over it is
sent again with an interval of 0.
"""

from __future__ import annotations

import msgspec

from gossamer.mqtt.codec.encoder import PACKET_ID, publish_parts, read_publish
from gossamer.mqtt.codec.packets import V5
from gossamer.mqtt.messages.message import interval_left


class Expiring(bytes):
    """A stored PUBLISH; ``expires_at`` is on the monotonic clock of the node."""

    expires_at: float

    @classmethod
    def of(cls, packet: bytes, expires_at: float | None) -> bytes:
        """Return ``packet`` with its moment of expiry; unchanged for None."""
        if expires_at is None:
            return packet
        made = cls(packet)
        made.expires_at = expires_at
        return made


def expiry_of(packet: bytes) -> float | None:
    """Return the moment at which a stored packet expires; None: never."""
    return packet.expires_at if isinstance(packet, Expiring) else None


def sent_again(packet: bytes, version: int, now: float) -> bytes:
    """Return a packet in flight as it is sent after a reconnect: PUBREL unchanged, PUBLISH with DUP set."""
    if packet[0] == 0x62:
        return packet
    expires_at = expiry_of(packet)
    if expires_at is None or version != V5:
        return bytes((packet[0] | 8,)) + packet[1:]
    publish = read_publish(packet, version)
    left = max(0, interval_left(expires_at, now))
    properties = msgspec.structs.replace(publish.properties, message_expiry=left)
    head, tail = publish_parts(
        publish.topic, publish.payload, flags=packet[0] & 0x0F | 8, version=version, properties=properties
    )
    return head + PACKET_ID[publish.packet_id or 0] + tail

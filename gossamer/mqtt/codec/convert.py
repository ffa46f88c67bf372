"""A PUBLISH that is stored in one protocol version, for a client that has come back with the other."""

from __future__ import annotations

from typing import Any

from gossamer.mqtt.codec.decoder import decode_publish
from gossamer.mqtt.codec.encoder import publish_parts
from gossamer.mqtt.codec.framing import frame
from gossamer.mqtt.codec.packets import V5
from gossamer.mqtt.codec.properties import NONE
from gossamer.mqtt.codec.wire import MAX_VARINT

__all__ = ["convert", "read_publish"]


def read_publish(packet: bytes, version: int) -> Any:
    """What a whole packet carries."""
    start, stop = frame(packet, 0, len(packet), MAX_VARINT)
    return decode_publish(packet[0] & 0x0F, packet[start:stop], version)


def convert(packet: bytes, old: int, new: int) -> tuple[bytes, bytes]:
    """Head and tail of the same PUBLISH in version ``new``."""
    publish = read_publish(packet, old)
    properties = publish.properties if new == V5 else NONE
    return publish_parts(
        publish.topic, publish.payload, flags=packet[0] & 0x0F, version=new, properties=properties
    )

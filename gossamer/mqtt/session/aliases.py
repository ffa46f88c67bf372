"""Topic aliases towards a client: a topic is sent once, and from then on its number ([MQTT-3.3.2-11])."""

from __future__ import annotations

import msgspec

from gossamer.mqtt.codec.encoder import publish_parts, read_publish
from gossamer.mqtt.codec.packets import V5


class TopicAliases:
    """The aliases of one connection, at most ``maximum``; packets of at most ``max_packet`` bytes, 0: any."""

    __slots__ = ("_max_packet", "_maximum", "_numbers")

    def __init__(self, maximum: int, max_packet: int) -> None:
        self._maximum = maximum
        self._max_packet = max_packet
        self._numbers: dict[bytes, int] = {}

    def shorten(self, head: bytes, identifier: bytes, tail: bytes) -> bytes:
        """Return a PUBLISH with an alias, perhaps a new one; unchanged if none is left, or it is too long."""
        plain = head + identifier + tail
        publish = read_publish(plain, V5)
        alias = self._numbers.get(publish.topic)
        topic = b""
        if alias is None:
            topic = publish.topic
            alias = len(self._numbers) + 1
            if alias > self._maximum:
                return plain
        properties = msgspec.structs.replace(publish.properties, topic_alias=alias)
        head, tail = publish_parts(
            topic, publish.payload, flags=head[0] & 0x0F, version=V5, properties=properties
        )
        packet = head + identifier + tail
        # An alias that is announced, or is longer than its topic, makes a packet longer, perhaps too long.
        if self._max_packet and len(packet) > self._max_packet:
            return plain
        if topic:
            self._numbers[topic] = alias
        return packet

"""An application message off the hot path: with properties, retained, delayed, or for a Python subscriber.

Plain QoS 0 and 1 publishes never become one of these; their bytes are copied (see ``fanout``). A message
keeps its encodings, so that a hundred subscribers of one version and QoS cost one.

Rules: 1. ``topic`` is as inside (:mod:`gossamer.tenants`); each packet to a client has it bare.  2.
``expires_at`` is on the monotonic clock of the node. A subscriber gets the interval that is left
([MQTT-3.3.2-6]); a message without expiry encodes the same at any time, and only such encodings are kept.
"""

from __future__ import annotations

import math

import msgspec

from gossamer.mqtt.codec.encoder import publish_parts
from gossamer.mqtt.codec.packets import V5, Publish
from gossamer.mqtt.codec.properties import NONE, Properties
from gossamer.mqtt.messages.message_ids import NO_ID
from gossamer.tenants import bare_topic


def interval_left(expires_at: float, now: float) -> int:
    """Return the seconds that are left, rounded up, below 1 if none are; never more than were given.

    A sum of floats may be off by the last bit, which must not become a second.
    """
    return math.ceil(round(expires_at - now, 6))


class Message:
    """One application message on its way to its subscribers."""

    __slots__ = (
        *("_parts", "expires_at", "id", "payload", "properties", "publisher", "qos", "refusal", "retain"),
        "topic",
    )

    def __init__(
        self,
        topic: bytes,
        payload: bytes,
        *,
        qos: int = 0,
        retain: bool = False,
        properties: Properties = NONE,
        publisher: object = None,
        expires_at: float | None = None,
    ) -> None:
        self.topic = topic
        self.payload = payload
        self.qos = qos
        self.retain = retain
        self.properties = properties
        self.publisher = publisher
        self.expires_at = expires_at
        self.refusal: tuple[int, str] | None = None
        """Reason code and reason with which a queue has refused it."""
        self.id = NO_ID
        """Its id, if it has one (``message_ids``)."""
        self._parts: dict[tuple[int, int, tuple[int, ...]], tuple[bytes, bytes]] | None = None

    @classmethod
    def of(cls, packet: Publish, *, topic: bytes, publisher: object, now: float) -> Message:
        """Return the message of ``packet``; ``topic`` is its topic with any alias resolved."""
        properties = strip(packet.properties)
        expiry = properties.message_expiry
        return cls(
            topic,
            packet.payload,
            qos=packet.qos,
            retain=packet.retain,
            properties=properties,
            publisher=publisher,
            expires_at=None if expiry is None else now + expiry,
        )

    def parts(
        self, version: int, flags: int, identifiers: tuple[int, ...], now: float
    ) -> tuple[bytes, bytes] | None:
        """Return head and tail of the PUBLISH (see ``publish_parts``); None: the message has expired."""
        if version != V5:
            identifiers = ()
        if self.expires_at is not None:
            left = self.expires_at - now
            if left <= 0:
                return None
            return self._encode(version, flags, identifiers, max(1, interval_left(self.expires_at, now)))
        if self._parts is None:
            self._parts = {}
        key = (version, flags, identifiers)
        found = self._parts.get(key)
        if found is None:
            found = self._parts[key] = self._encode(version, flags, identifiers, None)
        return found

    def _encode(
        self, version: int, flags: int, identifiers: tuple[int, ...], expiry: int | None
    ) -> tuple[bytes, bytes]:
        properties = NONE
        if version == V5:
            properties = self.properties
            if identifiers or expiry is not None:
                properties = msgspec.structs.replace(
                    properties, subscription_identifiers=identifiers, message_expiry=expiry
                )
        topic = bare_topic(self.topic)
        return publish_parts(topic, self.payload, flags=flags, version=version, properties=properties)


def strip(properties: Properties) -> Properties:
    """Return ``properties`` without those of one connection: topic alias, subscription identifiers."""
    if properties is NONE or (properties.topic_alias is None and not properties.subscription_identifiers):
        return properties
    rest = msgspec.structs.replace(properties, topic_alias=None, subscription_identifiers=())
    return NONE if rest == NONE else rest

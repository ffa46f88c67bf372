"""The control packets of MQTT 3.1.1 and 5.0 as values.

One class a packet, for both versions: fields of 5.0 alone (properties, reason codes) have their defaults in
3.1.1. Topics are ``bytes`` in PUBLISH, since that is the key of the route cache; filters are ``str``. Field
names are the standard's.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from gossamer.mqtt.codec.properties import NONE, Properties

V4 = 4
"""Protocol level of MQTT 3.1.1."""
V5 = 5
"""Protocol version of MQTT 5.0."""


class Will(msgspec.Struct, frozen=True, kw_only=True):
    """Message that the server publishes when its client's connection ends without DISCONNECT."""

    topic: bytes
    payload: bytes
    qos: int = 0
    retain: bool = False
    properties: Properties = NONE


class Connect(msgspec.Struct, frozen=True, kw_only=True):
    client_id: str
    version: int = V4
    clean_start: bool = True
    keep_alive: int = 60
    username: str | None = None
    password: bytes | None = None
    will: Will | None = None
    properties: Properties = NONE

    def __repr__(self) -> str:  # the password never reaches a log
        return f"Connect(client_id={self.client_id!r}, version={self.version}, username={self.username!r})"


class Connack(msgspec.Struct, frozen=True, kw_only=True):
    """``reason`` is a reason code in 5.0 and a return code in 3.1.1."""

    session_present: bool = False
    reason: int = 0
    properties: Properties = NONE


class Publish(msgspec.Struct, frozen=True, kw_only=True):
    topic: bytes
    payload: bytes = b""
    qos: int = 0
    retain: bool = False
    dup: bool = False
    packet_id: int | None = None
    properties: Properties = NONE


class Puback(msgspec.Struct, frozen=True):
    packet_id: int
    reason: int = 0
    properties: Properties = NONE


class Pubrec(Puback, frozen=True):
    pass


class Pubrel(Puback, frozen=True):
    pass


class Pubcomp(Puback, frozen=True):
    pass


class Subscription(msgspec.Struct, frozen=True):
    """One filter of a SUBSCRIBE with its options (MQTT 5.0, 3.8.3.1)."""

    filter: str
    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0


class Subscribe(msgspec.Struct, frozen=True, kw_only=True):
    packet_id: int
    subscriptions: tuple[Subscription, ...]
    properties: Properties = NONE


class Suback(msgspec.Struct, frozen=True, kw_only=True):
    packet_id: int
    reasons: tuple[int, ...]
    properties: Properties = NONE


class Unsubscribe(msgspec.Struct, frozen=True, kw_only=True):
    packet_id: int
    filters: tuple[str, ...]
    properties: Properties = NONE


class Unsuback(msgspec.Struct, frozen=True, kw_only=True):
    """``reasons`` is empty in 3.1.1, which has none."""

    packet_id: int
    reasons: tuple[int, ...] = ()
    properties: Properties = NONE


class Pingreq(msgspec.Struct, frozen=True):
    pass


class Pingresp(msgspec.Struct, frozen=True):
    pass


class Disconnect(msgspec.Struct, frozen=True, kw_only=True):
    reason: int = 0
    properties: Properties = NONE


class Auth(msgspec.Struct, frozen=True, kw_only=True):
    reason: int = 0
    properties: Properties = NONE


Packet: TypeAlias = (
    Connect
    | Connack
    | Publish
    | Puback
    | Pubrec
    | Pubrel
    | Pubcomp
    | Subscribe
    | Suback
    | Unsubscribe
    | Unsuback
    | Pingreq
    | Pingresp
    | Disconnect
    | Auth
)

"""Reason strings: what the broker adds, for people, to a reason code.

Rules: 1. In CONNACK and DISCONNECT they may always come, elsewhere only if the client did not ask for silence
(request problem information 0, [MQTT-3.1.2-29]).  2. A string that would make its packet larger than the
client takes is left out ([MQTT-3.2.2-19], [MQTT-3.4.2-2] and their like), other properties with it where they
do not fit either ([MQTT-3.2.2-20]).  3. A packet that is too large even so is not sent ([MQTT-3.1.2-24]).
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from gossamer.mqtt.codec.encoder import encode
from gossamer.mqtt.codec.packets import V5, Auth, Connack, Disconnect, Puback, Suback, Unsuback
from gossamer.mqtt.codec.properties import NONE, Properties

__all__ = ["LONGEST", "explained", "fits"]

LONGEST = 300
"""Characters of a reason string; what clients sent may be in it."""

Answer: TypeAlias = Connack | Disconnect | Auth | Puback | Suback | Unsuback


def explained(packet: Answer, why: str, asked: Properties) -> bytes:
    """``packet`` for a 5.0 client that asked for ``asked`` in CONNECT; empty if it takes nothing so large."""
    always = isinstance(packet, Connack | Disconnect)
    if why and (always or asked.request_problem_information != 0):
        properties = msgspec.structs.replace(packet.properties, reason_string=why[:LONGEST])
        data = encode(msgspec.structs.replace(packet, properties=properties), V5)
        if fits(data, asked):
            return data
    data = encode(packet, V5)
    if fits(data, asked):
        return data
    if isinstance(packet, Connack | Disconnect) and packet.reason >= 0x80:
        # What it says besides is of less use than the reason itself.
        data = encode(msgspec.structs.replace(packet, properties=NONE), V5)
    return data if fits(data, asked) else b""


def fits(data: bytes, asked: Properties) -> bool:
    """Whether a client with these properties takes a packet of this size."""
    return asked.maximum_packet_size is None or len(data) <= asked.maximum_packet_size

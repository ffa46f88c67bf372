"""Protocol errors of a client, with the reason code and the statement of the standard that it broke.

A channel ends its connection for one as the standard requires (MQTT 5.0: DISCONNECT or CONNACK with the
reason code; 3.1.1: close), and affects no other.
"""

from __future__ import annotations

from gossamer.errors import PeerError
from gossamer.mqtt.codec.reasons import ReasonCode


class MqttProtocolError(PeerError):
    """A packet that the standard forbids.

    ``statement`` is the normative statement, as ``MQTT-3.1.0-1``; a section, if no numbered one applies.
    """

    def __init__(self, reason: ReasonCode, statement: str, detail: str) -> None:
        self.reason = reason
        self.statement = statement
        self.detail = detail
        super().__init__(
            f"{detail} [{statement}]; reason code 0x{reason:02X} ({reason.name.lower().replace('_', ' ')})"
        )


def malformed(statement: str, detail: str) -> MqttProtocolError:
    """Return the error for bytes that cannot be read as a packet (reason code 0x81)."""
    return MqttProtocolError(ReasonCode.MALFORMED_PACKET, statement, detail)


def violation(statement: str, detail: str) -> MqttProtocolError:
    """Return the error for a readable packet that may not be sent, or not now (reason code 0x82)."""
    return MqttProtocolError(ReasonCode.PROTOCOL_ERROR, statement, detail)

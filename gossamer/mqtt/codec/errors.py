"""Errors of a client on the wire, with the reason code and the statement of the standard it broke.

Both are :class:`~gossamer.errors.PeerError`. A channel that meets one ends its connection as the standard
says (MQTT 5.0: DISCONNECT or CONNACK with the reason code; 3.1.1: close) and touches nothing else.
"""

from __future__ import annotations

from gossamer.errors import PeerError
from gossamer.mqtt.codec.reasons import ReasonCode


class MqttProtocolError(PeerError):
    """A packet that the standard forbids.

    ``statement`` is the normative statement, as ``MQTT-3.1.0-1``, or the section where it has no number.
    """

    def __init__(self, reason: ReasonCode, statement: str, detail: str) -> None:
        self.reason = reason
        self.statement = statement
        self.detail = detail
        super().__init__(
            f"{detail} [{statement}]; reason code 0x{reason:02X} ({reason.name.lower().replace('_', ' ')})"
        )


def malformed(statement: str, detail: str) -> MqttProtocolError:
    """Bytes that cannot be read as a packet (reason code 0x81)."""
    return MqttProtocolError(ReasonCode.MALFORMED_PACKET, statement, detail)


def violation(statement: str, detail: str) -> MqttProtocolError:
    """A readable packet that may not be sent, or not now (reason code 0x82)."""
    return MqttProtocolError(ReasonCode.PROTOCOL_ERROR, statement, detail)

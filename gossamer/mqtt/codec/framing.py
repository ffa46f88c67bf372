"""Cut a byte stream into control packets: fixed header, remaining length, body.

Rules: 1. Nothing is copied until a packet is whole.  2. A packet longer than ``max_packet_size`` is refused
on its header, before its body is stored ([MQTT-3.2.2-15]).  3. Memory held for a partial packet is at most
one packet.

:func:`frame` is the step that the channel's loop shares; :class:`Framer` is the same for clients and tests.
"""

from __future__ import annotations

from gossamer.mqtt.codec.errors import MqttProtocolError, malformed
from gossamer.mqtt.codec.reasons import ReasonCode
from gossamer.mqtt.codec.wire import MAX_VARINT


def frame(data: bytes, pos: int, end: int, limit: int) -> tuple[int, int]:
    """Return where the body of the packet at ``pos`` starts and stops.

    ``stop`` beyond ``end``: the packet is not whole yet. ``(0, 0)``: nor is its fixed header.

    Raises:
        MqttProtocolError: the length is malformed, or the packet exceeds ``limit`` bytes in all.
    """
    value = 0
    shift = 0
    at = pos + 1
    while True:
        if at >= end:
            return 0, 0
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 21:
            raise malformed("MQTT 2.1.4", "remaining length is longer than four bytes")
    stop = at + value
    if stop - pos > limit:
        raise MqttProtocolError(
            ReasonCode.PACKET_TOO_LARGE,
            "MQTT-3.2.2-15",
            f"packet of {stop - pos} bytes, the limit is {limit}",
        )
    return at, stop


def topic_in(head: bytes) -> bytes:
    """Return the topic of a PUBLISH, of which ``head`` is all up to the topic's end, or more."""
    at = 2 if head[1] < 0x80 else frame(head, 0, len(head), MAX_VARINT + 5)[0]
    return head[at + 2 : at + 2 + (head[at] << 8 | head[at + 1])]


class Framer:
    """Incremental framing: feed bytes as they come, take whole packets as (first byte, body)."""

    __slots__ = ("_buffer", "_limit")

    def __init__(self, *, max_packet_size: int = MAX_VARINT + 5) -> None:
        self._buffer = bytearray()
        self._limit = max_packet_size

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        self._buffer += data
        whole = bytes(self._buffer)
        packets: list[tuple[int, bytes]] = []
        pos = 0
        end = len(whole)
        while pos < end:
            start, stop = frame(whole, pos, end, self._limit)
            if start == 0 or stop > end:
                break
            packets.append((whole[pos], whole[start:stop]))
            pos = stop
        del self._buffer[:pos]
        return packets

"""The primitive types of MQTT: integers, strings, binary data, variable byte integers, and a bounded reader.

Rules: 1. A :class:`Reader` never reads past its end: running out raises the protocol error that names what
was being read.  2. Strings are well-formed UTF-8 without U+0000 ([MQTT-1.5.4-1], [MQTT-1.5.4-2]; in 3.1.1
[MQTT-1.5.3-1], [MQTT-1.5.3-2]); U+FEFF is kept ([MQTT-1.5.4-3]).  3. A variable byte integer takes at most
four bytes and no more than it needs ([MQTT-1.5.5-1]; 3.1.1 does not ask for the latter, and no client sends
it).
"""

from __future__ import annotations

from gossamer.errors import UsageError
from gossamer.mqtt.codec.errors import malformed

MAX_VARINT = 268_435_455
_TOO_LONG = "{} is {} long, expected at most {}; shorten it"


def encode_varint(value: int) -> bytes:
    """Variable byte integer (MQTT 5.0, 1.5.5)."""
    if value < 0x80:
        return bytes((value,))
    if value > MAX_VARINT:
        raise UsageError(_TOO_LONG.format("packet", value, MAX_VARINT))
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_binary(value: bytes) -> bytes:
    """Two bytes of length, then the data."""
    if len(value) > 0xFFFF:
        raise UsageError(_TOO_LONG.format("string or binary field", len(value), 0xFFFF))
    return len(value).to_bytes(2, "big") + value


def encode_string(value: str) -> bytes:
    """Two bytes of length, then UTF-8."""
    return encode_binary(value.encode())


def text(data: bytes, what: str, statement: str = "MQTT-1.5.4-1") -> str:
    """Check and decode a UTF-8 encoded string."""
    try:
        value = data.decode()
    except UnicodeDecodeError:
        raise malformed(statement, f"{what} is not well-formed UTF-8") from None
    if "\0" in value:
        raise malformed("MQTT-1.5.4-2", f"{what} contains U+0000")
    return value


class Reader:
    """Reads one packet's body from front to back."""

    __slots__ = ("data", "end", "pos")

    def __init__(self, data: bytes, pos: int = 0, end: int | None = None) -> None:
        self.data = data
        self.pos = pos
        self.end = len(data) if end is None else end

    def left(self) -> int:
        return self.end - self.pos

    def u8(self, what: str) -> int:
        pos = self.pos
        if pos >= self.end:
            raise malformed("MQTT 2.1.4", f"packet ends where {what} is expected")
        self.pos = pos + 1
        return self.data[pos]

    def u16(self, what: str) -> int:
        pos = self.pos
        if pos + 2 > self.end:
            raise malformed("MQTT 2.1.4", f"packet ends inside {what}")
        self.pos = pos + 2
        data = self.data
        return data[pos] << 8 | data[pos + 1]

    def u32(self, what: str) -> int:
        return self.u16(what) << 16 | self.u16(what)

    def varint(self, what: str) -> int:
        value = 0
        for shift in (0, 7, 14, 21):
            byte = self.u8(what)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if byte == 0 and shift:
                    raise malformed("MQTT-1.5.5-1", f"{what} is not encoded in the fewest bytes")
                return value
        raise malformed("MQTT-1.5.5-1", f"{what} is longer than four bytes")

    def binary(self, what: str) -> bytes:
        length = self.u16(what)
        pos = self.pos
        stop = pos + length
        if stop > self.end:
            raise malformed("MQTT 1.5.6", f"{what} says {length} bytes, the packet has {self.end - pos} left")
        self.pos = stop
        return bytes(self.data[pos:stop])

    def string(self, what: str) -> str:
        return text(self.binary(what), what)

    def rest(self) -> bytes:
        pos = self.pos
        self.pos = self.end
        return bytes(self.data[pos : self.end])

    def finish(self, what: str) -> None:
        if self.pos != self.end:
            raise malformed("MQTT 2.1.4", f"{what} has {self.end - self.pos} bytes after its last field")

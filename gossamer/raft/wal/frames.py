"""Frames of a segment: how a write is told from one that was torn, and both from damage.

A frame is a head of 12 bytes, the length of its body, the body's checksum and the head's, then the body, and
ones up to the end of the sector. A sync follows each frame, so when the process or the power goes at most the
last one is torn. Of a torn write any sector may be missing: the file ends before it, or it reads as zeros.

Rules: 1. What looks torn is cut only at the very end of the last segment; anything else that does not fit its
checksum is damage, and the place is named.  2. Checksums begin with the place of the frame, so that one that
was read from elsewhere does not fit.  3. No sector is all zeros that was written: it has a head, or ones at
its end, or is a part of a body, which is compressed where it has a sector of zeros.  4. A frame is torn only
if the file ends within it or one of its sectors is zeros; or a bit that flipped in a last frame that was
acknowledged would pass for a torn write, and be cut.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

import google_crc32c

from gossamer.raft.errors import DamagedLogError

SECTOR = 512
_HEAD = struct.Struct("<III")
_START = struct.Struct("<II")
_CHECK = struct.Struct("<I")
_PLACE = struct.Struct("<QQ")
_ZEROS = bytes(SECTOR)
_PLAIN, _COMPRESSED = b"p", b"z"


def crc32c(data: bytes, value: int = 0) -> int:
    """Return the CRC-32C (Castagnoli) of ``data``, going on from ``value``.

    ``zlib.crc32`` is another polynomial: it finds every error of up to five bits in records of 33 bytes at
    most, this one in records of 655 (Koopman, "32-Bit Cyclic Redundancy Codes for Internet Applications").
    """
    return int(google_crc32c.extend(value, data))


def seal(body: bytes, segment: int, offset: int) -> bytes:
    """Return the frame of a body that is written at ``offset`` of a segment, the start of a sector."""
    body = _COMPRESSED + zlib.compress(body, 1) if _ZEROS in body else _PLAIN + body
    seed = _seed(segment, offset)
    start = _START.pack(len(body), crc32c(body, seed))
    frame = start + _CHECK.pack(crc32c(start, seed)) + body
    return frame + b"\xff" * (-len(frame) % SECTOR)


def _seed(segment: int, offset: int) -> int:
    return crc32c(_PLACE.pack(segment, offset))


class Frames:
    """Bodies of a segment in order, as an iterator, the last of them from ``last_start`` to ``end``.

    Iterating raises :class:`DamagedLogError` at what is neither a frame nor, where ``last``, torn.
    """

    def __init__(self, data: bytes, segment: int, name: str, *, last: bool) -> None:
        self._data = data
        self._segment = segment
        self._name = name
        self._last = last
        self.end = self.last_start = 0

    @property
    def torn(self) -> bool:
        """True if something is behind the last frame."""
        return self.end < len(self._data)

    def __iter__(self) -> Iterator[bytes]:
        while self.torn:
            length = self._length(self.end)
            if length is None:
                self._expect_torn_head()
                return
            end = self.end + _HEAD.size + length
            body = self._data[self.end + _HEAD.size : end]
            end += -end % SECTOR
            if not self._whole(body, end):
                return
            self.last_start, self.end = self.end, end
            yield zlib.decompress(body[1:]) if body[:1] == _COMPRESSED else body[1:]

    def _length(self, at: int) -> int | None:
        """Return the length of the body of a frame, None where no head is."""
        start = self._data[at : at + _START.size]
        if len(self._data) - at < _HEAD.size:
            return None
        (check,) = _CHECK.unpack_from(self._data, at + _START.size)
        length: int = _START.unpack(start)[0]
        return length if crc32c(start, _seed(self._segment, at)) == check else None

    def _expect_torn_head(self) -> None:
        sector = self._data[self.end : self.end + SECTOR]
        missing = len(sector) < SECTOR or sector == _ZEROS
        # A frame behind it would have been written after this one was synced.
        behind = range(self.end + SECTOR, len(self._data), SECTOR)
        if not (self._last and missing and all(self._length(at) is None for at in behind)):
            raise self._damage("a head that does not fit its checksum")

    def _whole(self, body: bytes, end: int) -> bool:
        """Return whether a frame is whole; False if it is torn."""
        size = len(self._data)
        if end > size:
            if self._last:
                return False
            raise self._damage(f"{size - self.end} B, where the file ends")
        if crc32c(body, _seed(self._segment, self.end)) == _START.unpack_from(self._data, self.end)[1]:
            return True
        sectors = range(self.end, end, SECTOR)
        if self._last and end == size and any(self._data[at : at + SECTOR] == _ZEROS for at in sectors):
            return False
        raise self._damage("a body that does not fit its checksum")

    def _damage(self, got: str) -> DamagedLogError:
        expected = "a frame that was written there"
        return DamagedLogError(f"{self._name}, byte {self.end}", got=got, expected=expected)

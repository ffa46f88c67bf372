"""CRC-32C (Castagnoli), the checksum of records.

``zlib.crc32`` is another polynomial: it finds every error of up to five bits in records of 33 bytes at most,
this one in records of 655 (Koopman, "32-Bit Cyclic Redundancy Codes for Internet Applications", 2002).
Neither the standard library nor a dependency of gossamer has it.
"""

from __future__ import annotations

_POLYNOMIAL = 0x82F63B78
"""Reflected."""


def _entry(index: int) -> int:
    for _ in range(8):
        index = index >> 1 ^ (_POLYNOMIAL if index & 1 else 0)
    return index


_TABLE = tuple(map(_entry, range(256)))


def crc32c(data: bytes, value: int = 0) -> int:
    """Return the checksum of ``data``, going on from ``value``."""
    table = _TABLE
    value ^= 0xFFFFFFFF
    for byte in data:
        value = table[(value ^ byte) & 0xFF] ^ value >> 8
    return value ^ 0xFFFFFFFF

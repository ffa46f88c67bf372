"""Digest of one owner's rows at one position, applied in slices while writes continue.

The digest is the number of rows and the sum of each row's CRC-32: independent of order, computed entirely in
C, good against accidents (not against a malicious peer, which may write its own rows as it likes anyway).

Rules: 1. The digest is of the rows as they were when the sweep began. A writer that changes a row meanwhile
calls ``note`` first, and the sweep keeps the old value.  2. A slice is bounded, to keep the loop responsive.

Rejected: a digest updated at every write, which costs the hot path two hashes per row to find, once a minute,
that nothing is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable
from zlib import crc32

from gossamer.mnesia_like.values import Key, Value, encode

_GONE: Value = object()


class Sweep:
    """Digest under construction; ``done`` once ``step`` has read every row."""

    __slots__ = ("_keys", "_old", "_rows", "count", "number", "total")

    def __init__(self, rows: dict[Key, Value], number: int) -> None:
        self._rows = rows
        self._keys: list[Key] = list(rows)
        self._old: dict[Key, Value] = {}
        self.number = number
        self.count = len(rows)
        self.total = 0

    @property
    def done(self) -> bool:
        return not self._keys

    def note(self, keys: Iterable[Key]) -> None:
        """Save the old values of rows that are about to change."""
        old = self._old
        rows = self._rows
        for key in keys:
            if key not in old:
                old[key] = rows.get(key, _GONE)

    def step(self, budget: int) -> None:
        """Add at most ``budget`` rows to the digest."""
        keys = self._keys[-budget:]
        del self._keys[-budget:]
        old = self._old
        rows = self._rows
        if old:
            pairs = [(key, old[key] if key in old else rows[key]) for key in keys]
        else:
            pairs = [(key, rows[key]) for key in keys]
        self.total += sum(map(crc32, map(encode, pairs)))

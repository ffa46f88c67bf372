"""A digest of one owner's rows at one position, taken in slices while writes go on.

The digest is the number of rows and the sum of the CRC-32 of each: independent of order, computed wholly in
C, good against accidents (not a defence against a peer, who may write its own rows as it likes anyway).

Rules: 1. The digest is of the rows as they were when the sweep began. Whoever changes a row meanwhile calls
``note`` first, and the sweep keeps the old value.  2. A slice is bounded, so that the loop never waits long.

Rejected: a digest kept current at every write, which costs the hot path two hashes a row to find, once a
minute, that nothing is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable
from zlib import crc32

from gossamer.mnesia_like.values import Key, Value, encode

_GONE: Value = object()


class Sweep:
    """One digest in the making; ``done`` once ``step`` has seen every row."""

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
        """These rows are about to change."""
        old = self._old
        rows = self._rows
        for key in keys:
            if key not in old:
                old[key] = rows.get(key, _GONE)

    def step(self, budget: int) -> None:
        """Take in at most ``budget`` rows."""
        keys = self._keys[-budget:]
        del self._keys[-budget:]
        old = self._old
        rows = self._rows
        if old:
            pairs = [(key, old[key] if key in old else rows[key]) for key in keys]
        else:
            pairs = [(key, rows[key]) for key in keys]
        self.total += sum(map(crc32, map(encode, pairs)))

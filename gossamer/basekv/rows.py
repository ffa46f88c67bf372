"""Rows of a range in the order of their keys. A value that several rows of a batch have is kept once, and
counts once, for these and for all that get it later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, TypeAlias

from sortedcontainers import SortedDict

from gossamer.basekv.values import MAX_PAGE, Put, PutShared, Rows, Write

Stored: TypeAlias = list[tuple[bytes, bytes | int]]
"""Key and value of rows, or the value's place among those that several have."""


class RowStore:
    """Rows, and the bytes of their keys and values."""

    def __init__(self) -> None:
        self._rows: SortedDict[bytes, bytes] = SortedDict()
        self._shared: dict[bytes, list[Any]] = {}
        """Values that rows share: the object that they have, and how many do."""
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key; None: it is not there."""
        value: bytes | None = self._rows.get(key)
        return value

    def added(self, write: Write, values: list[bytes]) -> int:
        """Return the bytes that a write adds, as if it replaced nothing: whoever only deletes is never
        refused."""
        added = 0
        for operation in write.operations:
            match operation:
                case Put(key, value):
                    added += len(key) + (len(value) if value not in self._shared else 0)
                case PutShared(key, _):
                    added += len(key)
        new = {one.place for one in write.operations if isinstance(one, PutShared)}
        return added + sum(len(values[place]) for place in new if values[place] not in self._shared)

    def put(self, key: bytes, value: bytes, *, share: bool) -> None:
        """Set the value of a key; ``share``: others of the batch have it, too."""
        self.remove(key)
        found = self._shared.get(value)
        if found is None:
            self.bytes += len(value)
            if share:
                found = self._shared[value] = [value, 0]
        if found is not None:
            value, found[1] = found[0], found[1] + 1
        self._rows[key] = value
        self.bytes += len(key)

    def remove(self, key: bytes) -> None:
        """Remove a key, if it is there."""
        value = self._rows.pop(key, None)
        if value is None:
            return
        self.bytes -= len(key)
        found = self._shared.get(value)
        if found is not None and found[0] is value:
            found[1] -= 1
            if found[1]:
                return
            del self._shared[value]
        self.bytes -= len(value)

    def keys(self, start: bytes, end: bytes | None = None) -> Iterator[bytes]:
        """Return the keys from ``start`` up to ``end``, excluded."""
        return iter(self._rows.irange(start, end, inclusive=(True, False)))

    def page(self, start: bytes, end: bytes, limit: int) -> Rows:
        """Return rows in order, as many as an answer has."""
        rows: list[tuple[bytes, bytes]] = []
        size = 0
        for key in self.keys(start, end):
            value = self._rows[key]
            size += len(key) + len(value)
            if len(rows) == limit or (rows and size > MAX_PAGE):
                return Rows(rows, more=True)
            rows.append((key, value))
        return Rows(rows, more=False)

    def middle(self) -> bytes | None:
        """Return the key behind which half of the bytes of keys and values are; None: there are no rows."""
        half = sum(len(key) + len(value) for key, value in self._rows.items()) / 2
        for key, value in self._rows.items():
            half -= len(key) + len(value)
            if half < 0:
                return bytes(key)
        return None

    def image(self, start: bytes = b"") -> tuple[Stored, list[bytes]]:
        """Return the rows from a key on, and the values that several of them share, equal for equal rows."""
        keys = self.keys(start)
        ids = {id(value) for value, _ in self._shared.values()}
        rows = [(key, self._rows[key]) for key in keys]
        values = sorted({value for _, value in rows if id(value) in ids})
        places = {id(self._shared[value][0]): place for place, value in enumerate(values)}
        return [(key, places.get(id(value), value)) for key, value in rows], values

    def take(self, rows: Stored, values: list[bytes]) -> None:
        """Add rows of an image, whose keys are not there."""
        for key, value in rows:
            if isinstance(value, int):
                self.put(key, values[value], share=True)
            else:
                self.put(key, value, share=False)

    def restore(self, rows: Stored, values: list[bytes]) -> None:
        """Replace everything by an image."""
        self._rows = SortedDict((key, values[at] if isinstance(at, int) else at) for key, at in rows)
        counts = Counter(value for _, value in rows if isinstance(value, int))
        self._shared = {value: [value, counts[place]] for place, value in enumerate(values)}
        self.bytes = sum(map(len, values)) + sum(
            len(key) + (0 if isinstance(value, int) else len(value)) for key, value in rows
        )

    def cut(self, start: bytes) -> None:
        """Remove all rows from a key on."""
        gone: Iterable[bytes] = islice(self._rows, self._rows.bisect_left(start), None)
        for key in list(gone):
            self.remove(key)

"""State machine of a range: its rows in order, and which batch of each writer it had last.

Rules: 1. A batch of another version than the range's is refused.  2. A batch is done once (``raft.batches``).
3. A write is done whole or not at all.  4. A range holds :data:`MAX_RANGE` bytes; what would go beyond is
refused.  5. A value that several rows of a batch have is kept once, and counts once, for these and for all
that get it later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
from sortedcontainers import SortedDict

from gossamer.basekv.values import (
    MAX_PAGE,
    MAX_RANGE,
    Delete,
    DeleteRange,
    Done,
    Get,
    Moved,
    Put,
    PutShared,
    RangeInfo,
    Result,
    Rows,
    Scan,
    Value,
    Write,
    decode_batch,
    decode_question,
    encode,
)
from gossamer.raft import Writers


class _Image(msgspec.Struct, frozen=True, array_like=True):
    range: RangeInfo
    rows: list[tuple[bytes, bytes | int]]
    """Key and value, or the value's place in ``values``."""
    writers: list[tuple[bytes, int, list[Result]]]
    values: list[bytes] = []


_image = msgspec.msgpack.Decoder(_Image).decode


class RangeMachine:
    """Implements :class:`gossamer.raft.StateMachine`; results and answers are encoded ``Answer``."""

    released = False

    def __init__(self, info: RangeInfo) -> None:
        self.range = info
        self._rows: SortedDict[bytes, bytes] = SortedDict()
        self._writers: Writers[Result] = Writers()
        self._shared: dict[bytes, list[Any]] = {}
        """Values that rows share: the object that they have, and how many do."""
        self._bytes = 0

    def apply(self, index: int, request: bytes) -> object:
        """Do a batch."""
        batch = decode_batch(request)
        if batch.version != self.range.version:
            return encode(Moved(self.range))
        try:
            results = self._writers.known(batch.writer, batch.number)
        except LookupError:
            return encode(Done([], late=True))
        if results is None:
            results = [self._write(write, batch.values) for write in batch.writes]
            self._writers.done(batch.writer, batch.number, results)
        return encode(Done(results))

    def _write(self, write: Write, values: list[bytes]) -> Result:
        rows = self._rows
        if any(rows.get(one.key) != one.value for one in write.expected):
            return Result.UNEXPECTED
        added = self._added(write, values)
        if added and self._bytes + added > MAX_RANGE:
            return Result.FULL
        for operation in write.operations:
            match operation:
                case Put(key, value):
                    self._put(key, value, share=False)
                case PutShared(key, place):
                    self._put(key, values[place], share=True)
                case Delete(key):
                    self._remove(key)
                case DeleteRange(start, end):
                    for key in list(self._keys(start, end)):
                        self._remove(key)
        return Result.DONE

    def _added(self, write: Write, values: list[bytes]) -> int:
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

    def _put(self, key: bytes, value: bytes, *, share: bool) -> None:
        self._remove(key)
        found = self._shared.get(value)
        if found is None:
            self._bytes += len(value)
            if share:
                found = self._shared[value] = [value, 0]
        if found is not None:
            value, found[1] = found[0], found[1] + 1
        self._rows[key] = value
        self._bytes += len(key)

    def _remove(self, key: bytes) -> None:
        value = self._rows.pop(key, None)
        if value is None:
            return
        self._bytes -= len(key)
        found = self._shared.get(value)
        if found is not None and found[0] is value:
            found[1] -= 1
            if found[1]:
                return
            del self._shared[value]
        self._bytes -= len(value)

    def _keys(self, start: bytes, end: bytes) -> Iterator[bytes]:
        return iter(self._rows.irange(start, end, inclusive=(True, False)))

    def read(self, question: bytes) -> object:
        """Answer a question."""
        asked = decode_question(question)
        if asked.version != self.range.version:
            return encode(Moved(self.range))
        match asked:
            case Get(_, key):
                return encode(Value(self._rows.get(key)))
            case Scan(_, start, end, limit):
                return encode(self._page(start, end, limit))

    def _page(self, start: bytes, end: bytes, limit: int) -> Rows:
        rows: list[tuple[bytes, bytes]] = []
        size = 0
        for key in self._keys(start, end):
            value = self._rows[key]
            size += len(key) + len(value)
            if len(rows) == limit or (rows and size > MAX_PAGE):
                return Rows(rows, more=True)
            rows.append((key, value))
        return Rows(rows, more=False)

    def upkeep(self, leading_for: float, in_sync: int | None) -> list[bytes]:
        """Return nothing: no request is due by itself."""
        return []

    def snapshot(self) -> bytes:
        """Return the whole state."""
        values = [value for value, _ in self._shared.values()]
        places = {id(value): place for place, value in enumerate(values)}
        rows = [(key, places.get(id(value), value)) for key, value in self._rows.items()]
        return encode(_Image(self.range, rows, self._writers.rows(), values))

    def restore(self, data: bytes) -> None:
        """Take over a snapshot."""
        image = _image(data)
        self.range = image.range
        values = image.values
        self._rows = SortedDict(
            (key, values[value] if isinstance(value, int) else value) for key, value in image.rows
        )
        counts = Counter(value for _, value in image.rows if isinstance(value, int))
        self._shared = {value: [value, counts[place]] for place, value in enumerate(values)}
        self._bytes = sum(map(len, values)) + sum(
            len(key) + (0 if isinstance(value, int) else len(value)) for key, value in image.rows
        )
        self._writers = Writers(image.writers)

"""State machine of a range: its rows in order, and which batch of each writer it had last.

Rules: 1. A batch of another version than the range's is refused.  2. A batch that comes again is answered as
it was, and done once; one behind a later batch of its writer is not done.  3. A write is done whole or not at
all. 4. Writers are forgotten, those first that wrote least lately, beyond :data:`MAX_WRITERS`.  5. A range
holds :data:`MAX_RANGE` bytes; what would go beyond is refused.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

import msgspec
from sortedcontainers import SortedDict

from gossamer.basekv.values import (
    MAX_PAGE,
    MAX_RANGE,
    Batch,
    Delete,
    Done,
    Get,
    Moved,
    Operation,
    Put,
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

MAX_WRITERS = 10_000


class _Image(msgspec.Struct, frozen=True, array_like=True):
    range: RangeInfo
    rows: list[tuple[bytes, bytes]]
    writers: list[tuple[bytes, int, list[Result]]]


_image = msgspec.msgpack.Decoder(_Image).decode


class RangeMachine:
    """Implements :class:`gossamer.raft.StateMachine`; results and answers are encoded ``Answer``."""

    def __init__(self, info: RangeInfo) -> None:
        self.range = info
        self._rows: SortedDict[bytes, bytes] = SortedDict()
        self._writers: OrderedDict[bytes, tuple[int, list[Result]]] = OrderedDict()
        """Number and results of each writer's last batch."""
        self._bytes = 0

    def apply(self, index: int, request: bytes) -> object:
        """Do a batch."""
        batch = decode_batch(request)
        if batch.version != self.range.version:
            return encode(Moved(self.range))
        number, results = self._writers.get(batch.writer, (0, []))
        if batch.number < number:
            return encode(Done([], late=True))
        if batch.number > number:
            results = [self._write(write) for write in batch.writes]
            self._remember(batch, results)
        return encode(Done(results))

    def _remember(self, batch: Batch, results: list[Result]) -> None:
        self._writers[batch.writer] = batch.number, results
        self._writers.move_to_end(batch.writer)
        if len(self._writers) > MAX_WRITERS:
            self._writers.popitem(last=False)

    def _write(self, write: Write) -> Result:
        rows = self._rows
        if any(rows.get(one.key) != one.value for one in write.expected):
            return Result.UNEXPECTED
        puts = [operation for operation in write.operations if isinstance(operation, Put)]
        # As if they replaced nothing. Whoever only deletes is never refused.
        if puts and self._bytes + sum(len(put.key) + len(put.value) for put in puts) > MAX_RANGE:
            return Result.FULL
        for operation in write.operations:
            self._do(operation)
        return Result.DONE

    def _do(self, operation: Operation) -> None:
        match operation:
            case Put(key, value):
                self._remove(key)
                self._rows[key] = value
                self._bytes += len(key) + len(value)
            case Delete(key):
                self._remove(key)
            case _:
                for key in list(self._keys(operation.start, operation.end)):
                    self._remove(key)

    def _remove(self, key: bytes) -> None:
        value = self._rows.pop(key, None)
        if value is not None:
            self._bytes -= len(key) + len(value)

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

    def upkeep(self, leading_for: float) -> list[bytes]:
        """Return nothing: no request is due by itself."""
        return []

    def snapshot(self) -> bytes:
        """Return the whole state."""
        writers = [(writer, number, results) for writer, (number, results) in self._writers.items()]
        return encode(_Image(self.range, list(self._rows.items()), writers))

    def restore(self, data: bytes) -> None:
        """Take over a snapshot."""
        image = _image(data)
        self.range = image.range
        self._rows = SortedDict(image.rows)
        self._bytes = sum(len(key) + len(value) for key, value in image.rows)
        self._writers = OrderedDict((writer, (number, results)) for writer, number, results in image.writers)

"""State machine of a range: its rows in order, and which batch of each writer it had last.

Rules: 1. A batch of another version than the range's is refused.  2. A batch that comes again is answered as
it was, and done once; one behind a later batch of its writer is not done.  3. A write is done whole or not at
all. 4. Writers are forgotten, those first that wrote least lately, beyond :data:`MAX_WRITERS`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

import msgspec
from sortedcontainers import SortedDict

from gossamer.basekv.values import (
    Batch,
    Delete,
    Done,
    Get,
    Moved,
    Operation,
    Put,
    RangeInfo,
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
    writers: list[tuple[bytes, int, list[bool]]]


_image = msgspec.msgpack.Decoder(_Image).decode


class RangeMachine:
    """Implements :class:`gossamer.raft.StateMachine`; results and answers are encoded ``Answer``."""

    def __init__(self, info: RangeInfo) -> None:
        self.range = info
        self._rows: SortedDict[bytes, bytes] = SortedDict()
        self._writers: OrderedDict[bytes, tuple[int, list[bool]]] = OrderedDict()
        """Number and results of each writer's last batch."""

    def apply(self, index: int, request: bytes) -> object:
        """Do a batch."""
        batch = decode_batch(request)
        if batch.version != self.range.version:
            return encode(Moved(self.range))
        number, done = self._writers.get(batch.writer, (0, []))
        if batch.number < number:
            return encode(Done([], late=True))
        if batch.number > number:
            done = [self._write(write) for write in batch.writes]
            self._remember(batch, done)
        return encode(Done(done))

    def _remember(self, batch: Batch, done: list[bool]) -> None:
        self._writers[batch.writer] = batch.number, done
        self._writers.move_to_end(batch.writer)
        if len(self._writers) > MAX_WRITERS:
            self._writers.popitem(last=False)

    def _write(self, write: Write) -> bool:
        rows = self._rows
        if any(rows.get(one.key) != one.value for one in write.expected):
            return False
        for operation in write.operations:
            self._do(operation)
        return True

    def _do(self, operation: Operation) -> None:
        match operation:
            case Put(key, value):
                self._rows[key] = value
            case Delete(key):
                self._rows.pop(key, None)
            case _:
                for key in list(self._keys(operation.start, operation.end)):
                    del self._rows[key]

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
                rows: list[tuple[bytes, bytes]] = []
                for key in self._keys(start, end):
                    if len(rows) == limit:
                        return encode(Rows(rows, more=True))
                    rows.append((key, self._rows[key]))
                return encode(Rows(rows, more=False))

    def upkeep(self, leading_for: float) -> list[bytes]:
        """Return nothing: no request is due by itself."""
        return []

    def snapshot(self) -> bytes:
        """Return the whole state."""
        writers = [(writer, number, done) for writer, (number, done) in self._writers.items()]
        return encode(_Image(self.range, list(self._rows.items()), writers))

    def restore(self, data: bytes) -> None:
        """Take over a snapshot."""
        image = _image(data)
        self.range = image.range
        self._rows = SortedDict(image.rows)
        self._writers = OrderedDict((writer, (number, done)) for writer, number, done in image.writers)

"""What a range is, and what it is asked: as msgpack, in entries of its log and in questions to its leader.

A request names the range's *version* as its caller knows it. One of another version is answered with the
range as it is now (:class:`Moved`), so that nobody writes to a range that no longer has the key.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TypeAlias

import msgspec

MAX_KEY = 4096
MAX_VALUE = 131_072
MAX_OPERATIONS = 1000
MAX_WRITE = 512 * 1024
"""Bytes of a key and of a value; operations of one write, and bytes of it."""
MAX_PAGE = 64 * 1024
"""Bytes of rows that one answer has, unless a single row is longer: few enough to come in time over a slow
link, on which an answer that does not is asked for again, and again."""
MAX_RANGE = 32 * 2**20
"""Bytes of all keys and values of a range, which each replica has in memory and in its snapshots."""
SHARED = 64
"""Bytes from which on a value that several rows have is kept once."""


_KIND = "basekv/"


def kind_of(number: int) -> str:
    """Return the kind of the group of a range."""
    return f"{_KIND}{number}"


def number_of(kind: str) -> int | None:
    """Return the number of the range whose group is of this kind; None: it is no range's."""
    number = kind.removeprefix(_KIND)
    return int(number) if number != kind and number.isdecimal() else None


class RangeInfo(msgspec.Struct, frozen=True, array_like=True):
    """Range of the keys from ``start`` up to ``end``, excluded; None: to the last one."""

    number: int
    start: bytes
    end: bytes | None
    version: int = 1

    def has(self, key: bytes) -> bool:
        """Return whether a key is in it."""
        return self.start <= key and (self.end is None or key < self.end)


class Put(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """Set the value of a key."""

    key: bytes
    value: bytes


class Delete(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """Remove a key, if it is there."""

    key: bytes


class DeleteRange(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """Remove all keys from ``start`` up to ``end``, excluded."""

    start: bytes
    end: bytes


class PutShared(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """Set the value of a key to one that other rows of the batch have too: to that in this ``place`` of its
    values. See :func:`batch_of`."""

    key: bytes
    place: int


Operation: TypeAlias = Put | Delete | DeleteRange | PutShared


class Expect(msgspec.Struct, frozen=True, array_like=True):
    """Condition of a write: the value that a key has; None: it is not there."""

    key: bytes
    value: bytes | None


class Write(msgspec.Struct, frozen=True, array_like=True):
    """All operations, or, where one expectation does not hold, none."""

    operations: list[Operation]
    expected: list[Expect] = []


class Batch(msgspec.Struct, frozen=True, array_like=True):
    """Writes in order. ``number`` counts the batches of a ``writer``, who has one on its way at a time: one
    that comes twice is done once, and one that comes behind a later one is not done any more."""

    version: int
    writer: bytes
    number: int
    writes: list[Write]
    values: list[bytes] = []
    """Those of :class:`PutShared`."""


def batch_of(version: int, writer: bytes, number: int, writes: list[Write]) -> Batch:
    """Return a batch in which a value that several rows have is there once: a message for many sessions."""
    puts = [one for write in writes for one in write.operations if isinstance(one, Put)]
    counts = Counter(put.value for put in puts if len(put.value) >= SHARED)
    values = [value for value, count in counts.items() if count > 1]
    if values:
        places = {value: place for place, value in enumerate(values)}
        writes = [
            Write([_shared(one, places) for one in write.operations], write.expected) for write in writes
        ]
    return Batch(version, writer, number, writes, values)


def _shared(operation: Operation, places: Mapping[bytes, int]) -> Operation:
    if isinstance(operation, Put) and operation.value in places:
        return PutShared(operation.key, places[operation.value])
    return operation


class Result(enum.IntEnum):
    """What came of a write."""

    DONE = 0
    UNEXPECTED = 1
    """An expectation did not hold; nothing was done."""
    FULL = 2
    """The range would have more than :data:`MAX_RANGE` bytes; nothing was done."""


class Get(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """Question: the value of a key."""

    version: int
    key: bytes


class Scan(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """Question: the rows from ``start`` up to ``end``, excluded, in order, ``limit`` at most."""

    version: int
    start: bytes
    end: bytes
    limit: int


class GetPart(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """Question: a part of a range that is sealed for a merge."""

    merge: bytes
    position: int


class Middle(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """Question: the border that divides a range in halves. Answer: :class:`Value`; None: there is none."""

    version: int


Question: TypeAlias = Get | Scan | GetPart | Middle


class Done(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """Answer to a batch: what came of each write. ``late``: it came behind a later batch of its writer, and
    may have been done before that."""

    results: list[Result]
    late: bool = False


class Value(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """Answer to :class:`Get`."""

    value: bytes | None


class Rows(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """Answer to :class:`Scan`; ``more``: there are rows behind the last of these."""

    rows: list[tuple[bytes, bytes]]
    more: bool


class Moved(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """Answer to a request of another version: the range as it is, and those that have begun with keys of it,
    as they were then."""

    range: RangeInfo
    others: list[RangeInfo] = []


class Busy(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """Answer of a range whose keys are about to be another's: nothing was done; ask again in a moment."""


class Verdict(enum.IntEnum):
    """What came of a change of a range."""

    DONE = 0
    GOES_ON = 1
    NOT_INSIDE = 2
    """A border that is not within the range, or too long."""
    BUSY = 3
    """A merge is under way there."""
    NOT_NEIGHBOURS = 4
    TOO_LARGE = 5
    OVER = 6
    """There is no such merge (any more)."""


class Ruled(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """Answer to a change of a range; ``position`` of the part that is missing."""

    verdict: Verdict
    position: int = 0


class Part(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """Answer to :class:`GetPart`."""

    data: bytes
    last: bool


Answer: TypeAlias = Done | Value | Rows | Moved | Busy | Ruled | Part
encode = msgspec.msgpack.Encoder().encode
decode_batch: Callable[[bytes], Batch] = msgspec.msgpack.Decoder(Batch).decode
decode_question: Callable[[bytes], Question] = msgspec.msgpack.Decoder(Question).decode
decode_answer: Callable[[bytes], Answer] = msgspec.msgpack.Decoder(Answer).decode

"""Reading and writing, from any process of a node.

What was written is on the discs of a quorum. A read sees everything that was answered before it was asked,
wherever that was written; it costs a round trip to a quorum, and no write.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gossamer.basekv.errors import NotWrittenError
from gossamer.basekv.ranges import kind_of
from gossamer.basekv.server import BASEKV, Find, Learn, WriteRequest
from gossamer.basekv.values import (
    Answer,
    Delete,
    Expect,
    Get,
    Moved,
    Operation,
    RangeInfo,
    Rows,
    Scan,
    Value,
    Write,
    decode_answer,
    encode,
)
from gossamer.raft import PATIENCE, NotReadyError, read
from gossamer.supervisor import CallTimeout, call, cast

PAGE = 500
"""Rows that are asked for at once."""
_WAIT = 2 * PATIENCE


async def write(operations: Sequence[Operation], expected: Iterable[Expect] = ()) -> bool:
    """Do all operations, whose keys are of one range; or none, and return False, where an expectation fails.

    Raises:
        BadRowError: no range takes it.
        NotWrittenError: no quorum could be reached in time; it says what may have become of the write.
        RangeFullError: the range has no room; nothing was done.
    """
    asked = WriteRequest(Write(list(operations), list(expected)))
    try:
        answer = await call(BASEKV, asked, _WAIT)
    except CallTimeout:
        raise NotWrittenError("no quorum has answered", unknown=True) from None
    if isinstance(answer, Exception):
        raise answer
    return bool(answer)


async def delete(key: bytes) -> None:
    """Remove a key. Raises NotWrittenError."""
    await write([Delete(key)])


async def get(key: bytes, *, max_staleness: float = 0.0) -> bytes | None:
    """Return the value of a key; None: it is not there. Raises NotReadyError without a quorum.

    With ``max_staleness`` it may be the value of so many seconds ago: see :func:`gossamer.raft.read`.
    """
    while True:
        info = await call(BASEKV, Find(key))
        match await _ask(info, Get(info.version, key), max_staleness):
            case Value(value):
                return value
            case Moved(info):
                cast(BASEKV, Learn(info))


async def scan(
    start: bytes, end: bytes, limit: int | None = None, *, max_staleness: float = 0.0
) -> list[tuple[bytes, bytes]]:
    """Return the rows from ``start`` up to ``end``, excluded, in the order of their keys.

    Rows are read in pages, each as of the moment in which it is read, or with ``max_staleness`` as of so many
    seconds before at most. Raises NotReadyError without a quorum.
    """
    rows: list[tuple[bytes, bytes]] = []
    while start < end and (limit is None or len(rows) < limit):
        info: RangeInfo = await call(BASEKV, Find(start))
        border = end if info.end is None else min(end, info.end)
        page = PAGE if limit is None else min(PAGE, limit - len(rows))
        match await _ask(info, Scan(info.version, start, border, page), max_staleness):
            case Rows(found, more):
                rows += found
                start = found[-1][0] + b"\0" if more else border
            case Moved(info):
                cast(BASEKV, Learn(info))
    return rows


async def _ask(info: RangeInfo, question: Get | Scan, max_staleness: float) -> Answer:
    answer = await read(kind_of(info.number), encode(question), max_staleness=max_staleness)
    if not isinstance(answer, bytes):
        raise NotReadyError("read", f"the range answered with {type(answer).__name__}")
    return decode_answer(answer)

"""Reading and writing, from any process of a node.

What was written is on the discs of a quorum. A read sees everything that was answered before it was asked,
wherever that was written; it costs a round trip to a quorum, and no write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

from gossamer.basekv.errors import NotWrittenError
from gossamer.basekv.sending import ATTEMPT, PAUSE
from gossamer.basekv.server import BASEKV, Find, Learn, ListRanges, MergeFrom, SplitAt, WriteRequest
from gossamer.basekv.values import (
    Answer,
    Busy,
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
    kind_of,
)
from gossamer.raft import PATIENCE, NotReadyError, read
from gossamer.supervisor import CallTimeout, call, cast

PAGE = 500
"""Rows that are asked for at once."""
READ_PATIENCE = 5.0
"""Seconds in which a read is answered."""
_WAIT = 2 * PATIENCE


async def write(operations: Sequence[Operation], expected: Iterable[Expect] = ()) -> bool:
    """Do all operations, whose keys are of one range; or none, and return False, where an expectation fails.

    Ranges split. Keys that agree in their first 17 bytes are in one at any time; others may not be.

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
    found = await _ask(key, lambda info: Get(info.version, key), max_staleness)
    if not isinstance(found, Value):
        raise NotReadyError("read", f"the range answered with {type(found).__name__}")
    return found.value


async def scan(
    start: bytes, end: bytes, limit: int | None = None, *, max_staleness: float = 0.0
) -> list[tuple[bytes, bytes]]:
    """Return the rows from ``start`` up to ``end``, excluded, in the order of their keys.

    Rows are read in pages, each as of the moment in which it is read, or with ``max_staleness`` as of so many
    seconds before at most. Raises NotReadyError without a quorum.
    """
    rows: list[tuple[bytes, bytes]] = []
    border = end

    def page(info: RangeInfo) -> Scan:
        nonlocal border
        border = end if info.end is None else min(end, info.end)
        return Scan(info.version, start, border, PAGE if limit is None else min(PAGE, limit - len(rows)))

    while start < end and (limit is None or len(rows) < limit):
        found = await _ask(start, page, max_staleness)
        if not isinstance(found, Rows):
            raise NotReadyError("read", f"the range answered with {type(found).__name__}")
        rows += found.rows
        start = found.rows[-1][0] + b"\0" if found.more else border
    return rows


async def ranges() -> list[RangeInfo]:
    """Return the ranges as this node knows them, in the order of their keys."""
    found: list[RangeInfo] = await call(BASEKV, ListRanges())
    return found


async def split(key: bytes) -> RangeInfo:
    """Have the range of a key end before it, and another begin with it; return that one.

    Raises:
        BadRangeError: no range can be split there.
        NotWrittenError: no quorum has answered; it may be done yet.
    """
    return await _change(SplitAt(key))


async def merge(number: int) -> RangeInfo:
    """Have a range take over its neighbour on the right; return it as it is before that.

    Raises:
        BadRangeError: there is no such range, or it has no such neighbour.
        NotWrittenError: no quorum has answered; it may be done yet.
    """
    return await _change(MergeFrom(number))


async def _change(asked: SplitAt | MergeFrom) -> RangeInfo:
    try:
        answer = await call(BASEKV, asked, _WAIT)
    except CallTimeout:
        raise NotWrittenError("no quorum has answered", unknown=True) from None
    if not isinstance(answer, RangeInfo):
        raise answer
    return answer


async def _ask(key: bytes, make: Callable[[RangeInfo], Get | Scan], max_staleness: float) -> Answer:
    """Ask the range that has a key, whichever that is by now. Raises NotReadyError."""
    loop = asyncio.get_running_loop()
    until = loop.time() + READ_PATIENCE
    error = NotReadyError("read", "the range is about to be another's")
    while (left := until - loop.time()) > 0:
        info: RangeInfo = await call(BASEKV, Find(key))
        try:
            timeout = min(left, ATTEMPT)
            data = await read(
                kind_of(info.number), encode(make(info)), max_staleness=max_staleness, timeout=timeout
            )
        except NotReadyError as failed:
            # Its group may be gone, and its keys another's.
            error = failed
            continue
        match decode_answer(data):
            case Moved(range=now, others=others):
                cast(BASEKV, Learn([now, *others]))
                await asyncio.sleep(0 if now.version > info.version else PAUSE)
            case Busy():
                await asyncio.sleep(PAUSE)
            case answer:
                return answer
    raise error

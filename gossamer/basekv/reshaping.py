"""Splitting and merging ranges as somebody wants it: asks the ranges until one has taken it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from gossamer.basekv.changes import TOGETHER, Expect, Split
from gossamer.basekv.errors import BadRangeError
from gossamer.basekv.sending import PAUSE, AskRange, ask_range
from gossamer.basekv.values import Moved, RangeInfo, Ruled, Verdict
from gossamer.raft import PATIENCE, NotReadyError

NUMBER_BITS = 40
"""Of the numbers of ranges, which are drawn: so that two that begin at the same time have different ones."""
Learnt = Callable[[list[RangeInfo]], object]
"""Called with what an answer says of ranges."""
Reshape = Callable[[Learnt], Awaitable[RangeInfo]]


async def split_range(
    find: Callable[[bytes], RangeInfo],
    key: bytes,
    number: int,
    learnt: Learnt,
    *,
    ask: AskRange = ask_range,
) -> RangeInfo:
    """Split the range of a key there; return the new one. Raises BadRangeError, NotReadyError."""
    if len(key) > TOGETHER:
        expected = f"at most {TOGETHER}: keys that agree in so many stay together"
        raise BadRangeError(key.hex(), got=f"a border of {len(key)} bytes", expected=expected)
    loop = asyncio.get_running_loop()
    until = loop.time() + PATIENCE
    while loop.time() < until:
        info = find(key)
        if info.start == key:
            raise BadRangeError(key.hex(), got=f"the border of range {info.number}", expected="a key inside")
        answer = await ask(info.number, Split(info.version, key, number))
        if isinstance(answer, Moved):
            learnt([answer.range, *answer.others])
            for one in answer.others:
                if one.number == number:
                    return one
        elif answer == Ruled(Verdict.NOT_INSIDE):
            raise BadRangeError(key.hex(), got="no border inside", expected=f"a key in range {info.number}")
        await asyncio.sleep(PAUSE)
    raise NotReadyError("split", "a merge is under way there")


async def merge_ranges(
    ranges: Callable[[], list[RangeInfo]],
    number: int,
    merge: bytes,
    learnt: Learnt,
    *,
    ask: AskRange = ask_range,
) -> RangeInfo:
    """Have a range begin to take over its neighbour on the right; return it as it is. What leads it goes on
    with that. Raises BadRangeError, NotReadyError."""
    loop = asyncio.get_running_loop()
    until = loop.time() + PATIENCE
    while loop.time() < until:
        known = ranges()
        info = next((one for one in known if one.number == number), None)
        right = next((one for one in known if info is not None and one.start == info.end), None)
        if info is None:
            expected = f"one of {', '.join(str(one.number) for one in known)}"
            raise BadRangeError(str(number), got="a number that no range has", expected=expected)
        if right is None:
            raise BadRangeError(
                str(number), got="the last range", expected="one with a neighbour on its right"
            )
        asked = Expect(info.version, merge, right.number, right.start, right.version)
        answer = await ask(number, asked)
        if answer == Ruled(Verdict.DONE):
            return info
        if isinstance(answer, Moved):
            learnt([answer.range, *answer.others])
        await asyncio.sleep(PAUSE)
    raise NotReadyError("merge", "another one is under way there")

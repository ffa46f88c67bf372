"""A whole long list in the order of its keys, in bounded memory, without holding the loop.

The items are walked once, and the smallest are kept, in runs that are sorted. When all of them fit, that one
walk is enough; what does not fit is let go, and the next walk begins where this one had to stop.

Rules: 1. What is held is twice ``window`` items at most, and never what an item shows: that is made by
whoever takes it.  2. A turn of the loop sees ``STRIDE`` items at most.  Rejected: page after page, each of
them a walk over everything, which for 33,000 sessions took seconds.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from itertools import islice
from operator import itemgetter
from typing import TypeVar

from gossamer.api.peers.paging import STRIDE, Key, Listed, Walked

__all__ = ["WINDOW", "walk_in_order"]

T = TypeVar("T")

WINDOW = 50_000
"""Items that one walk gives for certain: 10 MB or so."""
_KEY: Callable[[Listed[object]], Key] = itemgetter(0)


async def walk_in_order(
    items: Callable[[], Iterable[Walked[T]]],
    *,
    above: Key = (),
    slice_of: int = 250,
    window: int = WINDOW,
) -> AsyncGenerator[list[Listed[T]], None]:
    """The items with keys above ``above``, in slices; ``items`` begins a walk anew each time."""
    floor, whole = above, False
    while not whole:
        found, whole = await _smallest(items(), floor, window)
        while part := list(islice(found, slice_of)):
            floor = part[-1][0]
            yield part


async def _smallest(items: Iterable[Walked[T]], floor: Key, window: int) -> tuple[Iterator[Listed[T]], bool]:
    """The ``window`` smallest items above ``floor``, or more, in order; and whether there are no others."""
    runs: list[list[Listed[T]]] = []
    count = 0
    ceiling: Key | None = None
    walk = iter(items)
    while chunk := list(islice(walk, STRIDE)):
        run = [
            item
            for item in chunk
            if item is not None and item[0] > floor and (ceiling is None or item[0] <= ceiling)
        ]
        run.sort(key=_KEY)
        runs.append(run)
        count += len(run)
        await asyncio.sleep(0)
        if count > 2 * window:
            merged = heapq.merge(*runs, key=_KEY)
            runs, count = [], 0
            while count < window:
                runs.append(list(islice(merged, min(STRIDE, window - count))))
                count += len(runs[-1])
                await asyncio.sleep(0)
            ceiling = runs[-1][-1][0]
    return heapq.merge(*runs, key=_KEY), ceiling is None

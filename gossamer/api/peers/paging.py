"""Long lists in the order of their keys, in pages or whole, in bounded memory, without holding the loop.

The items are walked once, and the smallest above a key are kept, in runs that are sorted; what an item shows
is made of those that are wanted. A page stays right while the list changes, since it begins above a key. For
a whole list one walk is enough when ``window`` holds it; what does not fit is let go, and the next walk
begins where this one had to stop.

Rules: 1. What is held is twice ``window`` items at most.  2. A turn of the loop sees ``STRIDE`` items at
most.  Rejected: offsets, which skip and repeat when items come and go between two requests; a whole list page
after page, each of them a walk over everything, which for 33,000 sessions took seconds.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import heapq
import json
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from typing import Any, TypeVar

from gossamer.errors import WrongValueError, mismatch
from gossamer.tenants import DEFAULT

T = TypeVar("T")

Key = tuple[str, ...]
Row = dict[str, Any]
"""An item as its node shows it."""
Listed = tuple[Key, Callable[[], T]]
"""An item of a long list: where it stands, and what makes it."""

Walked = Listed[T] | None
"""An item that a walk comes by; None is one that is not wanted, which costs a turn its time, too."""

STRIDE = 2000
"""Items that are walked in one turn of the loop: about a millisecond."""
_KEY: Callable[[Listed[object]], Key] = itemgetter(0)
_DIGITS = 20
_HIGHEST = 0x10FFFF
WINDOW = 50_000
"""Items that one walk gives for certain: 10 MB or so."""


async def page_of(
    items: Iterable[Walked[T]], *, limit: int, after: str | None = None
) -> tuple[tuple[T, ...], str | None]:
    """The next ``limit`` items in the order of their keys and the cursor for the rest, None at the end.

    Raises:
        WrongValueError: ``after`` was not made here.
    """
    smallest, _ = await _smallest(items, decode_cursor(after), limit + 1)
    found = list(islice(smallest, limit + 1))
    shown = tuple(show() for _, show in found[:limit])
    return shown, cursor_of(found[limit - 1][0]) if len(found) > limit else None


async def walk_in_order(
    items: Callable[[], Iterable[Walked[T]]],
    *,
    above: Key = (),
    slice_of: int = 250,
    window: int = WINDOW,
) -> AsyncGenerator[list[Listed[T]], None]:
    """Yield items with keys above ``above``, in slices; each call of ``items`` starts a new scan."""
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


def cursor_of(key: Key) -> str:
    """Return the cursor for the items above ``key``."""
    return base64.urlsafe_b64encode(json.dumps(key).encode()).decode()


def decode_cursor(cursor: str | None) -> Key:
    """The key that the items asked for are above.

    Raises:
        WrongValueError: it was not made here.
    """
    if cursor is None:
        return ()
    try:
        parts = json.loads(base64.b64decode(cursor.encode("ascii"), altchars=b"-_", validate=True))
    except (ValueError, UnicodeError, binascii.Error, RecursionError):
        raise _bad_cursor(cursor) from None
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        raise _bad_cursor(cursor)
    return tuple(parts)


def _bad_cursor(cursor: str) -> WrongValueError:
    return mismatch(WrongValueError, "after", repr(cursor[:60]), "the value of next of an earlier page")


def sort_key(value: str | float, *, descending: bool = False) -> str:
    """A text that sorts as ``value`` does; numbers to a thousandth, from 0 on."""
    if isinstance(value, str):
        folded = value.casefold()
        if not descending:
            return folded
        # The last letter for the first, and so on; what is longer comes first.
        return "".join(chr(_HIGHEST - ord(letter)) for letter in folded) + chr(_HIGHEST)
    number = min(max(0, int(value * 1000)), 10**_DIGITS - 1)
    return f"{10**_DIGITS - 1 - number if descending else number:0{_DIGITS}d}"


@dataclass(frozen=True, slots=True)
class ListOrder:
    """Order of the pages of a list: by the field ``sort``, then by what identifies an item, its name.

    Without ``sort`` it is the order of the names, letter by letter.
    """

    sort: str | None = None
    descending: bool = False

    def key(self, name: Key, value: str | float = "") -> Key:
        """Return the key of the item ``name``, whose field ``sort`` has this value."""
        return name if self.sort is None else (sort_key(value, descending=self.descending), *name)


@dataclass(frozen=True, slots=True)
class ClientSearch:
    """The clients that are wanted; parts are case-folded, and let all in where they are empty."""

    client: str | None = None
    """Exactly this identifier."""
    connected: bool | None = None
    part: str = ""
    """Part of the identifier."""
    user: str = ""
    """Part of the user name."""
    address: str = ""
    """Part of the address."""
    tenant: str | None = None
    """Exactly this tenant; None: of any."""

    def admits(self, client: str, *, connected: bool, user: str, address: str, tenant: str = "") -> bool:
        """Return whether a client matches."""
        return (
            self.tenant in (None, tenant or DEFAULT)
            and self.connected in (None, connected)
            and self.part in client.casefold()
            and self.user in user.casefold()
            and self.address in address.casefold()
        )

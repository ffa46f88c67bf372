"""Pages of long lists that stay right while the list changes.

A page is the ``limit`` smallest items above a key, found in one walk that holds ``limit`` items, lets others
have the loop in between, and makes what is shown only of those that are.  Rejected: offsets, which skip and
repeat when items come and go between two requests.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import heapq
import json
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from operator import itemgetter
from typing import TypeVar

from gossamer.errors import WrongValueError

__all__ = ["STRIDE", "Key", "Listed", "Walked", "cursor_of", "decode_cursor", "page_of"]

T = TypeVar("T")

Key = tuple[str, ...]
Listed = tuple[Key, Callable[[], T]]
"""An item of a long list: where it stands, and what makes it."""

Walked = Listed[T] | None
"""An item that a walk comes by; None is one that is not wanted, which costs a turn its time, too."""

STRIDE = 2000
"""Items that are walked in one turn of the loop: about a millisecond."""
_KEY: Callable[[Listed[object]], Key] = itemgetter(0)


async def page_of(
    items: Iterable[Walked[T]], *, limit: int, after: str | None = None
) -> tuple[tuple[T, ...], str | None]:
    """The next ``limit`` items in the order of their keys and the cursor for the rest, None at the end.

    Raises:
        WrongValueError: ``after`` was not made here.
    """
    floor = decode_cursor(after)
    walk = iter(items)
    found: list[Listed[T]] = []
    while chunk := list(islice(walk, STRIDE)):
        above: Iterator[Listed[T]] = (item for item in chunk if item is not None and item[0] > floor)
        found = heapq.nsmallest(limit + 1, (item for part in (found, above) for item in part), key=_KEY)
        await asyncio.sleep(0)
    shown = tuple(show() for _, show in found[:limit])
    return shown, cursor_of(found[limit - 1][0]) if len(found) > limit else None


def cursor_of(key: Key) -> str:
    """What ``after`` is to be for the items above ``key``."""
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
    return WrongValueError.about("after", repr(cursor[:60]), "the value of next of an earlier page")

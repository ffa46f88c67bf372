"""Pages of long lists that stay right while the list changes.

A page is the ``limit`` smallest items above a key, found in one walk that holds ``limit`` items. Rejected:
offsets, which skip and repeat when items come and go between two requests.
"""

from __future__ import annotations

import base64
import binascii
import heapq
import json
from collections.abc import Callable, Iterable
from typing import TypeVar

from gossamer.errors import UsageError

__all__ = ["BadCursorError", "page_of"]

T = TypeVar("T")

Key = tuple[str, ...]


class BadCursorError(UsageError):
    """``after`` is not what an earlier page gave as ``next``."""

    def __init__(self, *, got: str) -> None:
        self.got = got
        super().__init__(f"after: got {got[:60]!r}, expected the value of next of an earlier page")


def page_of(
    items: Iterable[T], *, key: Callable[[T], Key], limit: int, after: str | None = None
) -> tuple[tuple[T, ...], str | None]:
    """The next ``limit`` items in the order of ``key`` and the cursor for the rest, None at the end.

    Raises:
        BadCursorError: ``after`` was not made here.
    """
    if after is not None:
        floor = _decode(after)
        items = (item for item in items if key(item) > floor)
    found = heapq.nsmallest(limit + 1, items, key=key)
    if len(found) <= limit:
        return tuple(found), None
    return tuple(found[:limit]), _encode(key(found[limit - 1]))


def _encode(key: Key) -> str:
    return base64.urlsafe_b64encode(json.dumps(key).encode()).decode()


def _decode(cursor: str) -> Key:
    try:
        parts = json.loads(base64.b64decode(cursor.encode("ascii"), altchars=b"-_", validate=True))
    except (ValueError, UnicodeError, binascii.Error, RecursionError):
        raise BadCursorError(got=cursor) from None
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        raise BadCursorError(got=cursor)
    return tuple(parts)

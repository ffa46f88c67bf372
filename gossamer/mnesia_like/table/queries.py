"""Queries over more than one key: match, select, order.

For tables with one row per key. ``match`` compares with a pattern, in which ``ANY`` matches any value; of a
dict pattern only the named fields count. ``ordered_set`` tables keep their keys sorted, in Erlang's manner
across types: numbers, then text, then bytes, then tuples.

Rules: 1. Synchronous and from memory; a caller with a large table passes ``limit``.  2. Sorting is deferred
until order is needed, and costs one pass over the keys after each change: order suits tables that are read
more than written.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from gossamer.mnesia_like.definition import TableDef
from gossamer.mnesia_like.errors import BadTableError
from gossamer.mnesia_like.table.table import Table, TableOwner
from gossamer.mnesia_like.values import Key, Value


class _Any:
    def __repr__(self) -> str:
        return "ANY"


ANY = _Any()
"""Matches any value."""

_RANK: Mapping[type, int] = {int: 0, str: 1, bytes: 2, tuple: 3}


class Queries(Table):
    """Table with one row per key, and its queries."""

    # All keys in order, as of the change with that number.
    _keys: Sequence[Key] = ()
    _keys_at = -1

    def __init__(self, definition: TableDef, owner: TableOwner) -> None:
        super().__init__(definition, owner)
        self._rows: dict[Key, Value] = {}

    def read(self, key: Key, default: Value = None) -> Value:
        """Return the value of ``key``; of a bag the list of its values."""
        return self._rows.get(key, default)

    def rows(self) -> Mapping[Key, Value]:
        """Return all rows, not copied."""
        return self._rows

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, key: Key) -> bool:
        return key in self._rows

    def __iter__(self) -> Iterator[Key]:
        return iter(self._rows)

    def match(
        self, key: object = ANY, value: object = ANY, *, limit: int | None = None
    ) -> list[tuple[Key, Value]]:
        """Return the rows that match the patterns."""
        return self.select(lambda k, v: matches(key, k) and matches(value, v), limit=limit)

    def select(
        self, predicate: Callable[[Key, Value], bool], *, limit: int | None = None
    ) -> list[tuple[Key, Value]]:
        """Return the rows for which ``predicate(key, value)`` is true; in order, if the table has one."""
        rows = self.rows()
        keys = self._ordered() if self.definition.type == "ordered_set" else rows
        return list(islice(((k, rows[k]) for k in keys if predicate(k, rows[k])), limit))

    def first(self) -> Key | None:
        """Return the smallest key. As all methods below, raises BadTableError if the table has no order."""
        keys = self._ordered()
        return keys[0] if keys else None

    def last(self) -> Key | None:
        """Return the largest key."""
        keys = self._ordered()
        return keys[-1] if keys else None

    def next(self, key: Key) -> Key | None:
        """Return the key after ``key``, which need not exist."""
        keys = self._ordered()
        at = bisect_right(keys, rank(key), key=rank)
        return keys[at] if at < len(keys) else None

    def prev(self, key: Key) -> Key | None:
        """Return the key before ``key``, which need not exist."""
        keys = self._ordered()
        at = bisect_left(keys, rank(key), key=rank)
        return keys[at - 1] if at else None

    def range(self, low: Key, high: Key) -> list[tuple[Key, Value]]:
        """Return the rows from ``low`` up to but excluding ``high``, in order."""
        keys, rows = self._ordered(), self.rows()
        start, end = (bisect_left(keys, rank(key), key=rank) for key in (low, high))
        return [(key, rows[key]) for key in keys[start:end]]

    def _ordered(self) -> Sequence[Key]:
        if self.definition.type != "ordered_set":
            kind = self.definition.type
            raise BadTableError(self.name, option="type", got=kind, expected="ordered_set, for order")
        if self._keys_at != self.seq:
            rows = self.rows()
            # Timsort takes the part that is already sorted as one run.
            known = [key for key in self._keys if key in rows]
            if len(known) != len(rows):
                there = set(known)
                known += [key for key in rows if key not in there]
            self._keys = sorted(known, key=rank)
            self._keys_at = self.seq
        return self._keys


def matches(pattern: object, value: Value) -> bool:
    """Return whether a value matches the pattern."""
    if pattern is ANY:
        return True
    if isinstance(pattern, dict):
        return isinstance(value, dict) and all(
            name in value and matches(part, value[name]) for name, part in pattern.items()
        )
    if isinstance(pattern, list | tuple):
        return (
            isinstance(value, list | tuple)
            and len(pattern) == len(value)
            and all(map(matches, pattern, value))
        )
    return type(pattern) is type(value) and bool(pattern == value)


def rank(key: Key) -> Any:
    """Return the sort key of a table key."""
    if type(key) is tuple:
        return 3, tuple(map(rank, key))
    return _RANK[type(key)], key

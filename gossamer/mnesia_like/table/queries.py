"""Asking a table more than one key: match, select, fold, order, secondary indexes.

For tables with one row a key. ``match`` compares by shape with ``ANY`` for "whatever"; of a dict pattern
only the named fields count. ``ordered_set`` tables keep their keys sorted, in Erlang's manner across types:
numbers, then text, then bytes, then tuples.

Rules: 1. Synchronous and from memory; a caller with a large table passes ``limit`` or asks an index.
2. Sorting is put off until order is asked for, and costs one pass over the keys after each change: order
suits tables that are read more than written.  3. An index is
over one field of dict or list values, named, not computed: no user code runs inside a write.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, TypeVar

from gossamer.errors import UsageError
from gossamer.mnesia_like.exchange.replica import Change
from gossamer.mnesia_like.values import Key, Value

__all__ = ["ANY", "Index", "IndexExistsError", "NoSuchIndexError", "NotOrderedError", "Order", "Queries"]

T = TypeVar("T")
Field = str | int


class _Any:
    def __repr__(self) -> str:
        return "ANY"


ANY = _Any()
"""Matches whatever stands there."""

_RANK: Mapping[type, int] = {int: 0, str: 1, bytes: 2, tuple: 3}


class NoSuchIndexError(UsageError):
    """The table has no index over that field."""

    def __init__(self, table: str, field: Field) -> None:
        self.table = table
        self.field = field
        super().__init__(f"table {table!r} has no index over {field!r}; add_index({field!r}) makes one")


class IndexExistsError(UsageError):
    """The table has an index over that field already."""

    def __init__(self, table: str, field: Field) -> None:
        self.table = table
        self.field = field
        super().__init__(f"table {table!r} has an index over {field!r} already; use it")


class NotOrderedError(UsageError):
    """Order was asked of a table that keeps none."""

    def __init__(self, table: str, kind: str) -> None:
        self.table = table
        self.kind = kind
        super().__init__(f"table {table!r} is of type {kind}, expected ordered_set; create it with that type")


class Index:
    """Keys by the content of one field."""

    def __init__(self, field: Field, rows: Mapping[Key, Value]) -> None:
        self.field = field
        self._terms: dict[Key, Value] = {}
        self._keys: dict[Value, dict[Key, None]] = {}
        for key, value in rows.items():
            self._add(key, value)

    def find(self, term: Value) -> list[Key]:
        """Keys whose field is ``term``, in the order in which they came to it."""
        return list(self._keys.get(term, ()))

    def update(self, change: Change) -> None:
        """Rows changed."""
        for key in change.deleted:
            self._remove(key)
        for key, value in change.written.items():
            self._remove(key)
            self._add(key, value)

    def _add(self, key: Key, value: Value) -> None:
        term = _field_of(value, self.field)
        # Lists and dicts cannot be looked up.
        if term is not ANY and not isinstance(term, list | dict):
            self._terms[key] = term
            self._keys.setdefault(term, {})[key] = None

    def _remove(self, key: Key) -> None:
        term = self._terms.pop(key, ANY)
        if term is not ANY:
            keys = self._keys[term]
            del keys[key]
            if not keys:
                del self._keys[term]


class Order:
    """The keys of a table, sorted when that is asked for."""

    def __init__(self, rows: Mapping[Key, Value]) -> None:
        self._rows = rows
        self._sorted: list[Any] = []
        self._keys: list[Key] = []
        self._stale = True

    def update(self, change: Change) -> None:
        """Rows changed."""
        self._stale = True

    def keys(self) -> list[Key]:
        """All keys in order; do not change the list."""
        if self._stale:
            # Timsort takes what is in order already as one run.
            known = [key for key in self._keys if key in self._rows]
            if len(known) != len(self._rows):
                there = set(known)
                known += [key for key in self._rows if key not in there]
            self._keys = sorted(known, key=rank)
            self._sorted = [rank(key) for key in self._keys]
            self._stale = False
        return self._keys

    def after(self, key: Key) -> Key | None:
        """The next larger key."""
        keys = self.keys()
        at = bisect_right(self._sorted, rank(key))
        return keys[at] if at < len(keys) else None

    def before(self, key: Key) -> Key | None:
        """The next smaller key."""
        keys = self.keys()
        at = bisect_left(self._sorted, rank(key))
        return keys[at - 1] if at else None

    def between(self, low: Key, high: Key) -> list[Key]:
        """Keys from ``low`` up to but without ``high``."""
        keys = self.keys()
        return keys[bisect_left(self._sorted, rank(low)) : bisect_left(self._sorted, rank(high))]


class Queries:
    """What tables with one row a key can be asked. The table calls ``note`` with every change."""

    name: str
    _indexes: dict[Field, Index]
    _order: Order | None

    def rows(self) -> Mapping[Key, Value]:
        """All rows."""
        raise NotImplementedError

    def foldl(self, function: Callable[[T, Key, Value], T], initial: T) -> T:
        """``function(result so far, key, value)`` over all rows; in order, where the table has one."""
        result = initial
        for key, value in self._items():
            result = function(result, key, value)
        return result

    def match(self, key: Any = ANY, value: Any = ANY, *, limit: int | None = None) -> list[tuple[Key, Value]]:
        """Rows of that shape."""
        return self.select(lambda k, v: matches(key, k) and matches(value, v), limit=limit)

    def select(
        self, predicate: Callable[[Key, Value], bool], *, limit: int | None = None
    ) -> list[tuple[Key, Value]]:
        """Rows for which ``predicate(key, value)`` is true."""
        return list(islice(((k, v) for k, v in self._items() if predicate(k, v)), limit))

    def add_index(self, field: Field) -> None:
        """Index the rows by a field: a key of dict values, or a place in list values.

        Raises:
            IndexExistsError: there is one.
        """
        if field in self._indexes:
            raise IndexExistsError(self.name, field)
        self._indexes[field] = Index(field, self.rows())

    def del_index(self, field: Field) -> None:
        """Drop an index.

        Raises:
            NoSuchIndexError: there is none.
        """
        if self._indexes.pop(field, None) is None:
            raise NoSuchIndexError(self.name, field)

    def index_read(self, field: Field, term: Value) -> list[tuple[Key, Value]]:
        """Rows whose ``field`` is ``term``.

        Raises:
            NoSuchIndexError: there is no index over it.
        """
        index = self._indexes.get(field)
        if index is None:
            raise NoSuchIndexError(self.name, field)
        rows = self.rows()
        return [(key, rows[key]) for key in index.find(term)]

    def first(self) -> Key | None:
        """The smallest key. As all that follow, raises NotOrderedError where the table keeps no order."""
        keys = self._ordered().keys()
        return keys[0] if keys else None

    def last(self) -> Key | None:
        """The largest key."""
        keys = self._ordered().keys()
        return keys[-1] if keys else None

    def next(self, key: Key) -> Key | None:
        """The key after ``key``, which need not exist."""
        return self._ordered().after(key)

    def prev(self, key: Key) -> Key | None:
        """The key before ``key``, which need not exist."""
        return self._ordered().before(key)

    def range(self, low: Key, high: Key) -> list[tuple[Key, Value]]:
        """Rows from ``low`` up to but without ``high``, in order."""
        rows = self.rows()
        return [(key, rows[key]) for key in self._ordered().between(low, high)]

    def _note(self, change: Change) -> None:
        for index in self._indexes.values():
            index.update(change)
        if self._order is not None:
            self._order.update(change)

    def _items(self) -> Iterator[tuple[Key, Value]]:
        rows = self.rows()
        if self._order is None:
            return iter(rows.items())
        ordered = self._order.keys()
        return ((key, rows[key]) for key in ordered)

    def _ordered(self) -> Order:
        if self._order is None:
            raise NotOrderedError(self.name, "set")
        return self._order


def matches(pattern: Any, value: Value) -> bool:
    """Whether a value has the pattern's shape."""
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
    """A key's place in the order of all keys."""
    if type(key) is tuple:
        return 3, tuple(map(rank, key))
    return _RANK[type(key)], key


def _field_of(value: Value, field: Field) -> Value:
    if isinstance(value, dict) and field in value:
        return value[field]
    if isinstance(value, list) and isinstance(field, int) and -len(value) <= field < len(value):
        return value[field]
    return ANY

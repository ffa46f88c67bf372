"""Tables of one node alone: Erlang's ETS, with an optional copy on disc."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gossamer.mnesia_like.definition import TableDef
from gossamer.mnesia_like.table.queries import Queries
from gossamer.mnesia_like.table.table import TableOwner
from gossamer.mnesia_like.values import Key, Value, canonical, encode_key, encode_value, same

_MISSING: Any = object()


class LocalTable(Queries):
    """A table of this node alone."""

    def __init__(self, definition: TableDef, owner: TableOwner) -> None:
        super().__init__(definition, owner)
        self._bag = definition.type == "bag"

    def write(self, key: Key, value: Value) -> bool:
        """Set the row (of a bag: add a value); False where it was so already.

        Raises:
            BadKeyError, BadValueError, DiscError, UnavailableError: nothing changed.
        """
        encoded_key = encode_key(self.name, key, self.definition.max_key_bytes)
        old = self._rows.get(key, _MISSING)
        if self._bag:
            new: Value = self._added([] if old is _MISSING else old, value)
            if new is None:
                return False
        else:
            new = canonical(self.name, value)
        encoded = encode_value(self.name, new, self.definition.max_value_bytes)
        if same(old, new):
            return False
        if self._disc is not None:
            self._disc.check()
            self._disc.put(self.name, encoded_key, encoded)
        self._rows[key] = new
        self._changed({key: new}, ())
        return True

    def delete(self, key: Key) -> bool:
        """Remove the row; False where there was none.

        Raises:
            BadKeyError, DiscError, UnavailableError: nothing changed.
        """
        encoded_key = encode_key(self.name, key, self.definition.max_key_bytes)
        if key not in self._rows:
            return False
        if self._disc is not None:
            self._disc.check()
            self._disc.put(self.name, encoded_key, None)
        del self._rows[key]
        self._changed({}, (key,))
        return True

    def delete_object(self, key: Key, value: Value) -> bool:
        """Remove one value of a bag; False where it was not there."""
        old = self._rows.get(key, []) if self._bag else []
        left = self._without(old, value)
        if len(left) == len(old):
            return False
        self.check()
        self.install({key: [left] if left else []})
        return True

    def install(self, changes: Mapping[Key, list[Value]]) -> None:
        """Put rows in place (``[]``: deleted), all at once; that they may be was checked before."""
        written = {key: new[0] for key, new in changes.items() if new}
        deleted = [key for key, new in changes.items() if not new and key in self._rows]
        for key, value in written.items():
            self._to_disc(key, value)
        for key in deleted:
            self._to_disc(key, None, deleted=True)
            del self._rows[key]
        self._rows.update(written)
        if written or deleted:
            self._changed(written, deleted)

    def restore(self, rows: dict[Key, Value]) -> None:
        """Take over what the disc held; before anyone else uses the table."""
        self._rows.update(rows)

    def contents(self) -> Iterator[tuple[str, Key, Value]]:
        """``(owner, key, value)`` of every row; the owner is this node."""
        return ((self.node, key, value) for key, value in self._rows.items())

"""Tables of one node alone: Erlang's ETS, with an optional copy on disc."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gossamer.mnesia_like.definition import TableDef
from gossamer.mnesia_like.table.queries import Queries
from gossamer.mnesia_like.table.table import TableOwner, WriterTable
from gossamer.mnesia_like.values import Key, Value


class LocalTable(Queries, WriterTable):
    """Table of this node alone."""

    def __init__(self, definition: TableDef, owner: TableOwner) -> None:
        super().__init__(definition, owner)
        self._mine = self._rows

    def write(self, key: Key, value: Value) -> bool:
        """Set the row (of a bag: add a value); return False if nothing changed.

        Raises:
            BadRowError, DiscError, UnavailableError: nothing changed.
        """
        return self._write(key, value)

    def delete(self, key: Key) -> bool:
        """Remove the row; return False if there was none.

        Raises:
            BadRowError, DiscError, UnavailableError: nothing changed.
        """
        return self._delete(key)

    def delete_object(self, key: Key, value: Value) -> bool:
        """Remove one value of a bag; return False if it was not there. Raises as :meth:`write`."""
        return self._delete_object(key, value)

    def install(self, changes: Mapping[Key, list[Value]]) -> None:
        """Install validated rows (``[]``: deleted), all at once."""
        written = {key: new[0] for key, new in changes.items() if new}
        deleted = [key for key, new in changes.items() if not new and key in self._rows]
        if self._disc is not None:
            encode_key, encode_value = self.definition.encode_key, self.definition.encode_value
            for key, value in written.items():
                self._disc.put(self.name, encode_key(key), encode_value(value))
            for key in deleted:
                self._disc.put(self.name, encode_key(key), None)
        for key in deleted:
            del self._rows[key]
        self._rows.update(written)
        if written or deleted:
            self._changed(written, deleted)

    def restore(self, rows: dict[Key, Value]) -> None:
        """Load the rows from disc, before the table is used."""
        self._rows.update(rows)

    def contents(self) -> Iterator[tuple[str, Key, Value]]:
        """Yield ``(owner, key, value)`` of every row; the owner is this node."""
        return ((self.node, key, value) for key, value in self._rows.items())

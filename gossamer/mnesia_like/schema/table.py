"""The schema, itself a table: the cluster's tables, and the nodes that have copies of them.

It is a ``shared`` table with a copy on every node, so it can be read and changed on both sides of a split,
and merges afterwards like any other. It states the desired copies; ``keeper`` creates and drops them.

::

    "t"                    -> {"id": ..., "options": {...}, "everywhere": storage or None}
    ("t", "copy", node)    -> storage, or None: no copy
    ("t", "masters", node) -> [nodes]
    ("t", "gone", id)      -> True: created under that id, and deleted

Each copy is a row of its own, so that the decisions of both sides of a split about different nodes are kept.
A table's ``id`` identifies one creation of it: a node that was down while ``t`` was deleted and created again
finds its own id among those that are gone, and starts empty rather than bring old rows back. Where the ids
differ and are not gone, ``t`` was created twice: copies of equal definition take the winner's id and merge,
others are refused.

Rules: 1. Tables that each node's program creates for itself (``create_table`` without ``nodes``) are not in
the schema.  2. Only the store writes; the error for any other writer says how to.

Rejected: schema changes as transactions over all nodes, as in Mnesia: with one node down no table can be
created.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from gossamer.mnesia_like.definition import TableDef
from gossamer.mnesia_like.errors import BadTableError
from gossamer.mnesia_like.table.shared import SharedTable
from gossamer.mnesia_like.values import Key, Value

SCHEMA = "schema"
_HORIZON = 30 * 86_400.0
_REMEMBERED = 32


@dataclass(frozen=True, slots=True)
class TableEntry:
    """Table of the schema."""

    name: str
    id: str
    options: dict[str, Any]
    everywhere: str | None

    def definition(self, storage: str) -> TableDef:
        """Return the definition of a copy with that storage."""
        return TableDef(name=self.name, storage=storage, id=self.id, **self.options)


def schema_definition(*, disc: bool) -> TableDef:
    """Return the schema's own definition."""
    storage: Literal["disc_copies", "ram_copies"] = "disc_copies" if disc else "ram_copies"
    return TableDef(name=SCHEMA, replication="shared", storage=storage, tombstone_horizon=_HORIZON)


class SchemaTable(SharedTable):
    """Shared table that describes all others; only the store may write it."""

    def check(self) -> None:
        """Raise BadTableError: only the store writes here, by :meth:`put`."""
        use = "the store: use create_table, delete_table, add_table_copy, del_table_copy or set_master_nodes"
        raise BadTableError(SCHEMA, option="writer", got="a user of it", expected=use)

    # -- reading

    def names(self) -> list[str]:
        """Return the names of all tables of the schema."""
        return [key for key in self.rows() if type(key) is str]

    def entry(self, name: str) -> TableEntry | None:
        """Return a table's entry, or None."""
        row = self.read(name)
        if type(row) is not dict:
            return None
        return TableEntry(name, row["id"], _options(row["options"]), row["everywhere"])

    def storage_of(self, name: str, node: str) -> str | None:
        """Return the storage of ``node``'s copy; None: it has none."""
        key = (name, "copy", node)
        if key in self:
            storage: str | None = self.read(key)
            return storage
        entry = self.entry(name)
        return None if entry is None else entry.everywhere

    def copies(self, name: str) -> dict[str, str]:
        """Return the nodes named as holders of a copy, with its storage."""
        found = {key[2]: self.read(key) for key in self._keys_of(name, "copy")}
        return {node: storage for node, storage in found.items() if storage is not None}

    def masters(self, name: str, node: str) -> tuple[str, ...]:
        """Return the nodes from which ``node`` loads the table when it starts; none: all alike."""
        return tuple(self.read((name, "masters", node), ()))

    # -- writing, by the store

    def put(self, key: Key, value: Value) -> None:
        """Set a row.

        Raises:
            DiscError, UnavailableError: nothing changed.
        """
        super().check()
        if self.read(key, ...) != value:
            self._write(key, value)

    def add(self, entry: TableEntry) -> None:
        """Add a table, and remove the copies listed for an earlier one of its name."""
        self._remove_rows(self._keys_of(entry.name, "copy"))
        row = {"id": entry.id, "options": entry.options, "everywhere": entry.everywhere}
        self.put(entry.name, row)

    def remove(self, name: str) -> None:
        """Remove a table; its id is remembered in case it is created again."""
        entry = self.entry(name)
        if entry is not None:
            self.put((name, "gone", entry.id), True)
        # Ids begin with their time of creation.
        forgotten = sorted(self._keys_of(name, "gone"))[:-_REMEMBERED]
        self._remove_rows([*self._keys_of(name, "copy"), *self._keys_of(name, "masters"), name, *forgotten])

    def gone(self, name: str) -> set[str]:
        """Return the ids under which a table existed and was deleted."""
        return {key[2] for key in self._keys_of(name, "gone")}

    def _keys_of(self, name: str, kind: str) -> list[Key]:
        return [key for key in self.rows() if type(key) is tuple and key[:2] == (name, kind)]

    def _remove_rows(self, keys: Iterable[Key]) -> None:
        super().check()
        for key in keys:
            self._delete(key)


def _options(options: dict[str, object]) -> dict[str, object]:
    """Return the options that this release knows."""
    known = TableDef(name="t").options()
    return {option: value for option, value in options.items() if option in known}

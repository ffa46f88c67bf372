"""The schema: which tables the cluster has, and which nodes are to have copies of them, as a table itself.

It is a ``shared`` table with a copy on every node, so it is there, and can be changed, on both sides of a
split, and merges afterwards as any other. What it says is what shall be; ``keeper`` makes it so.

::

    "t"                    -> {"id": ..., "options": {...}, "everywhere": storage or None}
    ("t", "copy", node)    -> storage, or None: it shall have none
    ("t", "masters", node) -> [nodes]
    ("t", "gone", id)      -> True: made under that id, and deleted

Each copy is a row of its own, so that what two sides of a split decided of different nodes is both kept. A
table's ``id`` names one creation of it: a node that slept while ``t`` was deleted and made again finds its
own id among those that are gone, and begins anew rather than bring old rows back. Where the ids differ and
are not gone, ``t`` was made twice: copies of like definition take the winner's id and merge, others are
refused.

Rules: 1. Tables that each node's program makes for itself (``create_table`` without ``nodes``) do not stand
here: nobody else decides of them.  2. Only the store writes; whoever else tries is told how to.

Rejected: changes of the schema as transactions over all nodes, as in Mnesia: with one node down no table can
be made.
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
class Entry:
    """One table of the schema."""

    name: str
    id: str
    options: dict[str, Any]
    everywhere: str | None

    def definition(self, storage: str) -> TableDef:
        """As a copy of that storage has it."""
        return TableDef(name=self.name, storage=storage, id=self.id, **self.options)


def schema_definition(*, disc: bool) -> TableDef:
    """The schema's own definition."""
    storage: Literal["disc_copies", "ram_copies"] = "disc_copies" if disc else "ram_copies"
    return TableDef(name=SCHEMA, replication="shared", storage=storage, tombstone_horizon=_HORIZON)


class SchemaTable(SharedTable):
    """Shared table that describes all others; only the store may write it."""

    def check(self) -> None:
        """Raises BadTableError: only the store writes here, by :meth:`put`."""
        use = "the store: use create_table, delete_table, add_table_copy, del_table_copy or set_master_nodes"
        raise BadTableError(SCHEMA, option="writer", got="a user of it", expected=use)

    # -- what it says

    def names(self) -> list[str]:
        """All its tables."""
        return [key for key in self.rows() if type(key) is str]

    def entry(self, name: str) -> Entry | None:
        """What it says of a table."""
        row = self.read(name)
        if type(row) is not dict:
            return None
        return Entry(name, row["id"], _options(row["options"]), row["everywhere"])

    def storage_of(self, name: str, node: str) -> str | None:
        """Where ``node`` is to keep its copy; None: it is to have none."""
        key = (name, "copy", node)
        if key in self:
            storage: str | None = self.read(key)
            return storage
        entry = self.entry(name)
        return None if entry is None else entry.everywhere

    def copies(self, name: str) -> dict[str, str]:
        """Nodes that are named as holders of a copy, with its storage."""
        found = {key[2]: self.read(key) for key in self._keys_of(name, "copy")}
        return {node: storage for node, storage in found.items() if storage is not None}

    def masters(self, name: str, node: str) -> tuple[str, ...]:
        """Of which nodes ``node`` is to load the table when it starts; none: it is not told."""
        return tuple(self.read((name, "masters", node), ()))

    # -- what the store decides

    def put(self, key: Key, value: Value) -> None:
        """Set a row.

        Raises:
            DiscError, UnavailableError: nothing changed.
        """
        super().check()
        if self.read(key, ...) != value:
            self._write(key, value)

    def enter(self, entry: Entry) -> None:
        """Have a table; what was said of copies of an earlier one of its name is void."""
        self._remove(self._keys_of(entry.name, "copy"))
        row = {"id": entry.id, "options": entry.options, "everywhere": entry.everywhere}
        self.put(entry.name, row)

    def strike(self, name: str) -> None:
        """Have a table no more; its id is remembered, should it be made again."""
        entry = self.entry(name)
        if entry is not None:
            self.put((name, "gone", entry.id), True)
        # Ids begin with the time they were made at.
        forgotten = sorted(self._keys_of(name, "gone"))[:-_REMEMBERED]
        self._remove([*self._keys_of(name, "copy"), *self._keys_of(name, "masters"), name, *forgotten])

    def gone(self, name: str) -> set[str]:
        """Ids under which a table existed and was deleted."""
        return {key[2] for key in self._keys_of(name, "gone")}

    def _keys_of(self, name: str, kind: str) -> list[Key]:
        return [key for key in self.rows() if type(key) is tuple and key[:2] == (name, kind)]

    def _remove(self, keys: Iterable[Key]) -> None:
        super().check()
        for key in keys:
            self._delete(key)


def _options(options: dict[str, Any]) -> dict[str, Any]:
    """Those that this release knows."""
    known = TableDef(name="t").options()
    return {option: value for option, value in options.items() if option in known}

"""Owned tables: rows are ``(key, owner) -> value``, each written by its owner alone, read everywhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gossamer.mnesia_like.definition import TableDef
from gossamer.mnesia_like.replication.own_log import OwnLog
from gossamer.mnesia_like.replication.replica import Change
from gossamer.mnesia_like.table.table import ReplicatedTable, TableOwner, WriterTable
from gossamer.mnesia_like.values import Key, Value, encode


class OwnedTable(ReplicatedTable, WriterTable):
    """Table whose rows are ``(key, owner) -> value``; this node writes its own and stores everyone's."""

    def __init__(self, definition: TableDef, owner: TableOwner) -> None:
        super().__init__(definition, owner)
        self._state = self._replication.tables[definition.name]
        self._log: OwnLog = self._state.log
        self._mine = self._log.rows

    # -- reading

    def read(self, key: Key) -> dict[str, Value]:
        """Return the value of ``key`` for each owner that has one."""
        found = {}
        if key in self._log.rows:
            found[self.node] = self._log.rows[key]
        for owner, replica in self._state.replicas.items():
            if key in replica.rows:
                found[owner] = replica.rows[key]
        return found

    def rows(self, owner: str | None = None) -> Iterator[tuple[str, Key, Value]]:
        """Yield ``(owner, key, value)`` of every row, or of one owner's."""
        for name, rows in self._by_owner().items():
            if owner is None or owner == name:
                for key, value in rows.items():
                    yield name, key, value

    def rows_of(self, owner: str) -> Mapping[Key, Value]:
        """Return one owner's rows, not copied."""
        return self._by_owner().get(owner, {})

    def seen_of(self, owner: str) -> int:
        """Return the number of an owner's changes applied here, in its creation known here."""
        replica = self._state.replicas.get(owner)
        return 0 if replica is None else replica.position

    def contents(self) -> Iterator[tuple[str, Key, Value]]:
        """Yield ``(owner, key, value)`` of every row."""
        return self.rows()

    def owners(self) -> list[str]:
        """Return the nodes that own rows here, this one first."""
        return [name for name, rows in self._by_owner().items() if rows]

    def __len__(self) -> int:
        return len(self._log.rows) + sum(len(r.rows) for r in self._state.replicas.values())

    def __contains__(self, key: Key) -> bool:
        return key in self._log.rows or any(key in r.rows for r in self._state.replicas.values())

    # -- writing

    def write(self, key: Key, value: Value) -> int:
        """Set this node's row (of a bag: add a value); return the number for :meth:`visible`.

        Raises:
            BadRowError, DiscError, UnavailableError: nothing changed.
        """
        self._write(key, value)
        return self._log.position

    def delete(self, key: Key) -> int:
        """Remove this node's row; return the number for :meth:`visible`.

        Raises:
            BadRowError, DiscError, UnavailableError: nothing changed.
        """
        self._delete(key)
        return self._log.position

    def delete_object(self, key: Key, value: Value) -> int:
        """Remove a value of this node's bag; return the number for :meth:`visible`. Raises as ``write``."""
        self._delete_object(key, value)
        return self._log.position

    def absorb(self, change: Change) -> None:
        """Dispatch a change of a peer's rows."""
        self.dispatch(change)

    def restore(self, rows: dict[Key, Value]) -> None:
        """Load this node's rows from disc, before the table is used."""
        for key, value in rows.items():
            self._log.write(key, value, encode(key) + encode(value))
        if rows:
            self._owner.written(self)

    # -- inside

    def _by_owner(self) -> dict[str, dict[Key, Value]]:
        rows = {self.node: self._log.rows}
        for owner, replica in self._state.replicas.items():
            rows[owner] = replica.rows
        return rows

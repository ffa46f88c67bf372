"""What a user orders of the schema: tables made and deleted, copies added and dropped, masters named.

The store's face for ``schema_keeper``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, overload

from gossamer.mnesia_like.definition import TableDef
from gossamer.mnesia_like.errors import BadTableError
from gossamer.mnesia_like.schema.copies import AnyTable
from gossamer.mnesia_like.schema.keeper import SchemaKeeper
from gossamer.mnesia_like.table.local import LocalTable
from gossamer.mnesia_like.table.owned import OwnedTable
from gossamer.mnesia_like.table.shared import SharedTable

__all__ = ["SchemaOrders"]


class SchemaOrders:
    """The part of :class:`gossamer.mnesia_like.Store` that decides of tables."""

    node: str
    _keeper: SchemaKeeper

    @overload
    async def create_table(
        self,
        name: str,
        *,
        replication: Literal["owned"],
        nodes: Iterable[str] | str | None = None,
        timeout: float = 5.0,
        **options: Any,
    ) -> OwnedTable: ...

    @overload
    async def create_table(
        self,
        name: str,
        *,
        replication: Literal["shared"],
        nodes: Iterable[str] | str | None = None,
        timeout: float = 5.0,
        **options: Any,
    ) -> SharedTable: ...

    @overload
    async def create_table(
        self, name: str, *, replication: Literal["local"] = "local", **options: Any
    ) -> LocalTable: ...

    async def create_table(
        self,
        name: str,
        *,
        replication: Literal["local", "owned", "shared"] = "local",
        nodes: Iterable[str] | str | None = None,
        timeout: float = 5.0,
        **options: Any,
    ) -> AnyTable:
        """Create a table, or get the one there is of the same definition; see :class:`TableDef` for options.

        ``nodes``: who is to have a copy, this node among them; ``"all"``: every node, those that join later
        too. Nodes that are up are waited for, at most ``timeout`` seconds; others follow when they can be
        reached. None: this node makes a copy for itself, and shares rows with others who do the same.

        A table with a disc copy comes back with the rows that this node had written to it before.

        Raises:
            BadTableError: a definition that cannot be.
            TableExistsError: it exists with another definition.
            DiscError, UnavailableError: its disc copy cannot be read; the table was not created.
        """
        try:
            definition = TableDef(name=name, replication=replication, **options)
        except TypeError as error:
            raise BadTableError(
                name, option="an option", got=", ".join(options), expected=", ".join(TableDef.__slots__)
            ) from error
        return await self._keeper.create(definition, nodes, timeout)

    async def delete_table(self, name: str, *, timeout: float = 5.0) -> bool:
        """Delete a table of the schema everywhere, rows and all, and for good: a node that is away drops its
        copy when it hears of it. False: not every node that is up has done so within ``timeout`` seconds.

        Raises:
            NoSuchTableError: there is none.
            NotInSchemaError: each node has made it for itself.
            DiscError, UnavailableError: the disc cannot take it; nothing changed.
        """
        return await self._keeper.delete(name, timeout)

    async def add_table_copy(
        self,
        name: str,
        node: str | None = None,
        *,
        storage: Literal["ram_copies", "disc_copies"] = "ram_copies",
        timeout: float = 5.0,
    ) -> bool:
        """Have ``node`` (None: this one) keep a copy of a table of the schema.

        False: it has none within ``timeout`` seconds, and will make one when it can be reached.

        Raises:
            NoSuchTableError, NotInSchemaError: there is no such table, or not in the schema.
            TableExistsError: it has a copy with another storage.
            DiscError, UnavailableError: the disc cannot take it; nothing changed.
        """
        return await self._keeper.add(name, node or self.node, storage, timeout)

    async def del_table_copy(self, name: str, node: str | None = None, *, timeout: float = 5.0) -> bool:
        """Drop the copy of ``node`` (None: this one), from memory and disc; others keep theirs.

        Rows of a shared table that it held are taken over by the others. A table of the schema goes with its
        last copy. False: ``node`` still has it after ``timeout`` seconds; it drops it when it hears of it.

        Raises:
            NoSuchTableError: there is none.
            NotInSchemaError: another node has made it for itself.
            DiscError, UnavailableError, TimeoutError: its disc copy cannot be dropped; nothing changed.
        """
        return await self._keeper.remove(name, node or self.node, timeout)

    async def set_master_nodes(self, name: str, nodes: Iterable[str]) -> None:
        """When this node starts, load a shared table from ``nodes`` (none: from all alike).

        What its own disc holds is then only read until a master has answered, and forgotten where the master
        does not have it. :meth:`force_load_table` makes it count after all.

        Raises:
            NoSuchTableError: there is none.
            BadTableError: it is not shared.
            DiscError, UnavailableError: the disc cannot take it; nothing changed.
        """
        await self._keeper.masters(name, nodes)

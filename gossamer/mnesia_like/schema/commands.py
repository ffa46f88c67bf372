"""Schema commands: create and delete tables, add and drop copies, set master nodes.

Rule: a command is in effect once it is written to the schema here; waiting for the nodes that it names is a
separate step.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Literal, overload

from gossamer.mnesia_like.core import AnyTable, StoreCore
from gossamer.mnesia_like.definition import TableDef
from gossamer.mnesia_like.errors import BadTableError, TableExistsError
from gossamer.mnesia_like.events import CopyAdded, CopyDropped, TableCreated, TableDeleted
from gossamer.mnesia_like.schema.copies import Copies
from gossamer.mnesia_like.schema.keeper import SchemaKeeper
from gossamer.mnesia_like.schema.table import SCHEMA, TableEntry
from gossamer.mnesia_like.table.local import LocalTable
from gossamer.mnesia_like.table.owned import OwnedTable
from gossamer.mnesia_like.table.shared import SharedTable

_POLL_INTERVAL = 0.02


class SchemaCommands(StoreCore):
    """Part of :class:`gossamer.mnesia_like.Store` that creates, changes and deletes tables."""

    _copies: Copies
    _keeper: SchemaKeeper

    @overload
    async def create_table(
        self,
        name: str,
        *,
        replication: Literal["owned"],
        nodes: Iterable[str] | str | None = None,
        timeout: float = 5.0,
        **options: object,
    ) -> OwnedTable: ...

    @overload
    async def create_table(
        self,
        name: str,
        *,
        replication: Literal["shared"],
        nodes: Iterable[str] | str | None = None,
        timeout: float = 5.0,
        **options: object,
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
        """Create a table, or return the existing one of that definition; see :class:`TableDef` for options.

        ``nodes``: nodes that get a copy, this one among them; ``"all"``: every node, even those that join
        later. Nodes that are up are waited for, at most ``timeout`` seconds; others follow when they are
        reachable. None: this node creates a copy for itself, and shares rows with others that do the same.

        A table with a disc copy comes back with the rows that this node had written to it before.

        Raises:
            BadTableError: the definition is invalid.
            TableExistsError: it exists with another definition.
            DiscError, UnavailableError: its disc copy cannot be read; the table was not created.
        """
        try:
            definition = TableDef(name=name, replication=replication, **options)
        except TypeError as error:
            raise BadTableError(
                name, option="an option", got=", ".join(options), expected=", ".join(TableDef.__slots__)
            ) from error
        if name == SCHEMA:
            raise BadTableError(SCHEMA, option="name", got=SCHEMA, expected="another: the schema has it")
        async with self._copies.changing:
            if nodes is not None or self._copies.reachable:
                await self._copies.load_schema()
            table = await self._create(definition, nodes)
        if nodes is not None:
            await self._copies.schema.durable()
            there = self.replication.connected()
            wanted = [n for n in there if self._copies.schema.storage_of(name, n) is not None]
            await self._until(lambda: self._have(name, wanted), timeout)
        return table

    async def delete_table(self, name: str, *, timeout: float = 5.0) -> bool:
        """Delete a table of the schema everywhere, with its rows. A node that is down drops its copy when it
        reconnects. False: not every node that is up has done so within ``timeout`` seconds.

        Raises:
            NoSuchTableError: there is none.
            BadTableError: each node has created it for itself.
            DiscError, UnavailableError: the disc cannot take it; nothing changed.
        """
        async with self._copies.changing:
            self._entry(name)
            self._copies.schema.remove(name)
            await self._keeper.reconcile()
        await self._copies.schema.durable()
        return await self._until(lambda: not self.replication.holders(name), timeout)

    async def add_table_copy(
        self,
        name: str,
        node: str | None = None,
        *,
        storage: Literal["ram_copies", "disc_copies"] = "ram_copies",
        timeout: float = 5.0,
    ) -> bool:
        """Have ``node`` (None: this one) keep a copy of a table of the schema.

        False: it has none within ``timeout`` seconds, and will create one when it is reachable.

        Raises:
            NoSuchTableError, BadTableError: there is no such table, or not in the schema.
            TableExistsError: it has a copy with another storage.
            DiscError, UnavailableError: the disc cannot take it; nothing changed.
        """
        node = node or self.node
        async with self._copies.changing:
            entry = self._entry(name)
            before = self._copies.schema.storage_of(name, node)
            definition = entry.definition(storage)
            if before not in (None, storage):
                existing, asked = f"a copy of {before} on {node}", f"one of {storage}"
                raise TableExistsError(name, existing=existing, asked=asked)
            self._copies.schema.put((name, "copy", node), definition.storage)
            await self._keeper.reconcile()
        await self._copies.schema.durable()
        return await self._until(lambda: self._have(name, [node]), timeout)

    async def del_table_copy(self, name: str, node: str | None = None, *, timeout: float = 5.0) -> bool:
        """Drop the copy of ``node`` (None: this one) from memory and disc; others keep theirs.

        The others adopt the rows of a shared table that it held. A table of the schema is deleted with its
        last copy. False: ``node`` still has it after ``timeout`` seconds; it drops it when it reconnects.

        Raises:
            NoSuchTableError: there is none.
            BadTableError: another node has created it for itself.
            DiscError, UnavailableError, TimeoutError: its disc copy cannot be dropped; nothing changed.
        """
        node = node or self.node
        schema = self._copies.schema
        async with self._copies.changing:
            table = self.copies.get(name)
            if node == self.node and (
                name in self._keeper.conflicts
                or schema.entry(name) is None
                or (table and not table.definition.id)
            ):
                await self._drop_own(name)
                await self._keeper.reconcile()
                return True
            entry = self._entry(name)
            schema.put((name, "copy", node), None)
            if entry.everywhere is None and not schema.copies(name):
                schema.remove(name)
            await self._keeper.reconcile()
        await schema.durable()
        return await self._until(lambda: not self._have(name, [node]), timeout)

    async def set_master_nodes(self, name: str, nodes: Iterable[str]) -> None:
        """Set the nodes from which this node loads a shared table when it starts (none: from all alike).

        The rows of its own disc then serve reads until a master has answered, and are dropped if the master
        does not have them. :meth:`force_load_table` makes them count after all.

        Raises:
            NoSuchTableError: there is none.
            BadTableError: it is not shared.
            DiscError, UnavailableError: the disc cannot take it; nothing changed.
        """
        table = self.table(name)
        if table.definition.replication != "shared":
            raise BadTableError(
                name, option="master nodes", got=table.definition.replication, expected="a shared table"
            )
        self._copies.schema.put((name, "masters", self.node), list(nodes))
        await self._copies.schema.durable()

    # -- inside

    async def _create(self, definition: TableDef, nodes: Iterable[str] | str | None) -> AnyTable:
        name, node = definition.name, self.node
        schema, copies = self._copies.schema, self._copies
        entry = schema.entry(name)
        existing = self.copies.get(name)
        if existing is not None and (
            existing.definition != definition or (nodes is not None and name in self._keeper.conflicts)
        ):
            raise TableExistsError(name, existing=str(existing.definition), asked=str(definition))
        if entry is not None and definition.replication != "local":
            differences = definition.differences(entry.options)
            if differences:
                raise TableExistsError(
                    name, existing="another in the schema", asked=f"{definition} ({', '.join(differences)})"
                )
        if nodes is None:
            if existing is not None:
                return existing
            if entry is None or definition.replication == "local":
                table = await copies.make(definition)
                self.publish(TableCreated(name))
                self.publish(CopyAdded(name, node))
                return table
            nodes = (node,)
        self._write_down(definition, entry, nodes)
        await self._keeper.reconcile()
        return self.table(name)

    def _write_down(self, definition: TableDef, entry: TableEntry | None, nodes: Iterable[str] | str) -> None:
        name, node, schema = definition.name, self.node, self._copies.schema
        everyone = nodes == "all"
        named = [] if isinstance(nodes, str) else list(nodes)
        expected = ""
        if definition.replication == "local":
            expected = "None where replication is local"
        elif isinstance(nodes, str) and not everyone:
            expected = "a list of node names, or 'all'"
        elif not everyone and node not in named:
            expected = f"this node ({node}) among them"
        if expected:
            raise BadTableError(name, option="nodes", got=named or nodes, expected=expected)
        everywhere = definition.storage if everyone else None
        if entry is None:
            stamp = self.hlc.tick(self.clock.wall())
            entry = TableEntry(name, f"{stamp:016x}@{node}", definition.options(), everywhere)
            schema.add(entry)
        elif everywhere is not None and entry.everywhere is None:
            schema.put(name, {"id": entry.id, "options": entry.options, "everywhere": everywhere})
        for holder in named:
            schema.put((name, "copy", holder), definition.storage)

    async def _drop_own(self, name: str) -> None:
        if name in self.copies or name not in self._keeper.conflicts:
            await self._copies.drop(name)
            self.publish(CopyDropped(name, self.node))
            if self._copies.schema.entry(name) is None:
                self.publish(TableDeleted(name))
        else:
            # It exists on disc only, and is not the schema's.
            await self._copies.wipe(name)
        self._keeper.conflicts.pop(name, None)

    def _entry(self, name: str) -> TableEntry:
        entry = self._copies.schema.entry(name)
        if entry is None:
            if name not in self.copies:
                self.table(name)
            made = "the schema, by create_table with nodes; drop a node's own copy there by del_table_copy"
            raise BadTableError(name, option="maker", got="each node for itself", expected=made)
        return entry

    def _have(self, name: str, nodes: Iterable[str]) -> bool:
        there = self.replication.holders(name)
        if name in self.copies:
            there.append(self.node)
        return all(node in there for node in nodes)

    async def _until(self, condition: Callable[[], bool], seconds: float) -> bool:
        start = self.clock.monotonic()
        while not condition():  # bounded by the time
            if self.clock.monotonic() - start >= seconds:
                return False
            await asyncio.sleep(_POLL_INTERVAL)
        return True

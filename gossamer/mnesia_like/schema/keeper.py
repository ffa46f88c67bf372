"""Makes this node's copies what the schema says they shall be, and writes down what the user decides.

Every change of the schema, from here or from a peer, is followed by ``reconcile``: copies that shall be here
are made, those that shall not are dropped. What cannot be done now (no disc, a full one) is tried again.

How two schemas that know nothing of each other become one, table by table:

- only one has it: the other gets to know it;
- both have it, defined alike: one id wins, and the rows merge;
- both have it, defined otherwise: ``SchemaConflict``. Both copies stay as they are and apart, the differences
  are named, and whoever drops one of them (``del_table_copy``) gets the other.

Rules: 1. A copy made by ``create_table`` without ``nodes`` is never dropped by the schema.  2. A decision is
the schema's once it is written here; whether the nodes it names have followed is a wait of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Protocol

import structlog

from gossamer.clock import Clock, HybridLogicalClock
from gossamer.errors import GossamerError
from gossamer.mnesia_like.definition import TableDef
from gossamer.mnesia_like.errors import BadTableError, TableExistsError
from gossamer.mnesia_like.events import (
    CopyAdded,
    CopyDropped,
    SchemaConflict,
    SystemEvent,
    TableCreated,
    TableDeleted,
)
from gossamer.mnesia_like.replicate.replication import Replication
from gossamer.mnesia_like.schema.copies import AnyTable, Copies
from gossamer.mnesia_like.schema.table import SCHEMA, Entry, NotInSchemaError
from gossamer.supervisor import GenServer, self_pid, send_after

__all__ = ["SchemaKeeper", "SchemaServer"]

log = structlog.get_logger(__name__)

_POLL = 0.02
_RETRY = 1.0


class Keeping(Protocol):
    """What the keeper asks of the store."""

    node: str
    clock: Clock
    hlc: HybridLogicalClock
    replication: Replication

    def tell(self, event: SystemEvent) -> None: ...


class SchemaKeeper:
    """Reconciler of local table copies with the schema; also writes the user's changes to it.

    ``conflicts`` are tables defined otherwise elsewhere, with the differences.
    """

    def __init__(self, store: Keeping, copies: Copies, *, has_disc: bool) -> None:
        self.conflicts: dict[str, tuple[str, ...]] = {}
        self.known: dict[str, str] = {}
        self._store = store
        self._copies = copies
        self._schema = copies.schema
        self._has_disc = has_disc

    # -- what the user decides

    async def create(self, definition: TableDef, nodes: Iterable[str] | str | None, wait: float) -> AnyTable:
        """See ``Store.create_table``."""
        if definition.name == SCHEMA:
            raise BadTableError(SCHEMA, option="name", got=SCHEMA, expected="another: the schema has it")
        async with self._copies.changing:
            if nodes is not None or self._copies.reachable:
                await self._copies.load_schema()
            table = await self._create(definition, nodes)
        if nodes is not None:
            await self._schema.durable()
            there = self._store.replication.peers()
            wanted = [n for n in there if self._schema.storage_of(definition.name, n) is not None]
            await self._until(lambda: self._have(definition.name, wanted), wait)
        return table

    async def delete(self, name: str, wait: float) -> bool:
        """See ``Store.delete_table``."""
        async with self._copies.changing:
            self._entry(name)
            self._schema.strike(name)
            await self._reconcile()
        await self._schema.durable()
        return await self._until(lambda: not self._store.replication.holders(name), wait)

    async def add(self, name: str, node: str, storage: str, wait: float) -> bool:
        """See ``Store.add_table_copy``."""
        async with self._copies.changing:
            entry = self._entry(name)
            before = self._schema.storage_of(name, node)
            definition = entry.definition(storage)
            if before not in (None, storage):
                existing, asked = f"a copy of {before} on {node}", f"one of {storage}"
                raise TableExistsError(name, existing=existing, asked=asked)
            self._schema.put((name, "copy", node), definition.storage)
            await self._reconcile()
        await self._schema.durable()
        return await self._until(lambda: self._have(name, [node]), wait)

    async def remove(self, name: str, node: str, wait: float) -> bool:
        """See ``Store.del_table_copy``."""
        schema = self._schema
        async with self._copies.changing:
            table = self._copies.tables.get(name)
            if node == self._store.node and (
                name in self.conflicts or schema.entry(name) is None or (table and not table.definition.id)
            ):
                await self._drop_own(name)
                await self._reconcile()
                return True
            entry = self._entry(name)
            schema.put((name, "copy", node), None)
            if entry.everywhere is None and not schema.copies(name):
                schema.strike(name)
            await self._reconcile()
        await schema.durable()
        return await self._until(lambda: not self._have(name, [node]), wait)

    async def masters(self, name: str, nodes: Iterable[str]) -> None:
        """See ``Store.set_master_nodes``."""
        table = self._copies.get(name)
        if table.definition.replication != "shared":
            raise BadTableError(
                name, option="master nodes", got=table.definition.replication, expected="a shared table"
            )
        self._schema.put((name, "masters", self._store.node), list(nodes))
        await self._schema.durable()

    # -- making it so

    async def settle(self) -> bool:
        """Do what the schema says; False: something has to be tried again."""
        async with self._copies.changing:
            await self._copies.load_schema()
            return await self._reconcile()

    def pending(self) -> list[str]:
        """Tables that shall have a copy here and have none yet, in words."""
        schema, node = self._schema, self._store.node
        return [
            f"{name}: a copy is to be made here"
            for name in schema.names()
            if schema.storage_of(name, node) is not None
            and name not in self._copies.tables
            and name not in self.conflicts
        ]

    async def _reconcile(self) -> bool:
        done = True
        self._tell_changes()
        for name in [*self._copies.names(), *self._schema.names()]:
            try:
                await self._settle_one(name)
            except (GossamerError, TimeoutError) as error:
                done = False
                log.warning("table_not_settled", table=name, error=str(error), advice="it is tried again")
        for name, (_, made_as) in (await self._copies.on_disc()).items():
            here = name in self._copies.tables or name in self.conflicts
            if made_as and not here and self._schema.storage_of(name, self._store.node) is None:
                # It was deleted while this node was down.
                await self._copies.wipe(name)
        return done

    async def _settle_one(self, name: str) -> None:
        copies, schema, node = self._copies, self._schema, self._store.node
        entry = schema.entry(name)
        table = copies.tables.get(name)
        storage = schema.storage_of(name, node)
        if table is not None and not table.definition.id:
            if entry is not None and table.definition.replication != "local":
                # Made by this node for itself, and by others for all.
                await self._give_id(table, entry)
                if name not in self.conflicts and storage is None:
                    schema.put((name, "copy", node), table.definition.storage)
            return
        if table is not None:
            mine = table.definition.id
            if entry is None or storage is None or (mine != entry.id and mine in schema.gone(name)):
                await copies.drop(name)
                self.conflicts.pop(name, None)
                self._store.tell(CopyDropped(name, node))
                table = None
            elif mine != entry.id:
                await self._give_id(table, entry)
        if table is None and entry is not None and storage is not None:
            await self._make(entry, storage)

    async def _make(self, entry: Entry, storage: str) -> None:
        copies, name = self._copies, entry.name
        if storage == "disc_copies" and not self._has_disc:
            log.warning("copy_without_disc", table=name, advice="give this node a data directory")
            storage = "ram_copies"
        definition = entry.definition(storage)
        before = (await copies.on_disc()).get(name)
        if before is not None and before[1] != entry.id and before[1] in self._schema.gone(name):
            await copies.wipe(name)
        try:
            await copies.make(definition)
        except TableExistsError as error:
            self._conflict(name, [f"it is {error.existing}, in the schema {definition}"])
            return
        self.conflicts.pop(name, None)
        self._store.tell(CopyAdded(name, self._store.node))

    async def _give_id(self, table: AnyTable, entry: Entry) -> None:
        differences = table.definition.differences(entry.options)
        if differences:
            self._conflict(entry.name, differences)
            return
        self.conflicts.pop(entry.name, None)
        await self._copies.redefine(replace(table.definition, id=entry.id))

    def _conflict(self, name: str, differences: list[str]) -> None:
        if self.conflicts.get(name) != tuple(differences):
            self.conflicts[name] = tuple(differences)
            log.error(
                "schema_conflict",
                table=name,
                differences=differences,
                advice="del_table_copy on the nodes whose definition should give way",
            )
            self._store.tell(SchemaConflict(name, tuple(differences)))

    # -- inside

    async def _create(self, definition: TableDef, nodes: Iterable[str] | str | None) -> AnyTable:
        name, node = definition.name, self._store.node
        schema, copies = self._schema, self._copies
        entry = schema.entry(name)
        existing = copies.tables.get(name)
        if existing is not None and (
            existing.definition != definition or (nodes is not None and name in self.conflicts)
        ):
            raise TableExistsError(name, existing=_told(existing.definition), asked=_told(definition))
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
                self._store.tell(TableCreated(name))
                self._store.tell(CopyAdded(name, node))
                return table
            nodes = (node,)
        self._write_down(definition, entry, nodes)
        await self._reconcile()
        return copies.get(name)

    def _write_down(self, definition: TableDef, entry: Entry | None, nodes: Iterable[str] | str) -> None:
        name, node, schema = definition.name, self._store.node, self._schema
        named = [] if isinstance(nodes, str) else list(nodes)
        if definition.replication == "local":
            raise BadTableError(name, option="nodes", got=nodes, expected="None where replication is local")
        if isinstance(nodes, str) and nodes != "all":
            raise BadTableError(name, option="nodes", got=nodes, expected="a list of node names, or 'all'")
        if isinstance(nodes, str):
            named = []
        elif node not in named:
            raise BadTableError(name, option="nodes", got=named, expected=f"this node ({node}) among them")
        everywhere = definition.storage if isinstance(nodes, str) else None
        if entry is None:
            stamp = self._store.hlc.tick(self._store.clock.wall())
            entry = Entry(name, f"{stamp:016x}@{node}", definition.options(), everywhere)
            schema.enter(entry)
        elif everywhere is not None and entry.everywhere is None:
            schema.put(name, {"id": entry.id, "options": entry.options, "everywhere": everywhere})
        for holder in named:
            schema.put((name, "copy", holder), definition.storage)

    async def _drop_own(self, name: str) -> None:
        if name in self._copies.tables or name not in self.conflicts:
            await self._copies.drop(name)
            self._store.tell(CopyDropped(name, self._store.node))
            if self._schema.entry(name) is None:
                self._store.tell(TableDeleted(name))
        else:
            # It stands on disc alone, and is not the schema's.
            await self._copies.wipe(name)
        self.conflicts.pop(name, None)

    def _entry(self, name: str) -> Entry:
        entry = self._schema.entry(name)
        if entry is None:
            if name not in self._copies.tables:
                self._copies.get(name)
            raise NotInSchemaError(name, self._schema.names())
        return entry

    def _have(self, name: str, nodes: Iterable[str]) -> bool:
        there = self._store.replication.holders(name)
        if name in self._copies.tables:
            there.append(self._store.node)
        return all(node in there for node in nodes)

    def _tell_changes(self) -> None:
        now = {name: entry.id for name in self._schema.names() if (entry := self._schema.entry(name))}
        before, self.known = self.known, now
        for name in before.keys() - now.keys():
            self._store.tell(TableDeleted(name))
        for name in now.keys() - before.keys():
            self._store.tell(TableCreated(name))

    async def _until(self, condition: Callable[[], bool], seconds: float) -> bool:
        start = self._store.clock.monotonic()
        while not condition():  # bounded by the time
            if self._store.clock.monotonic() - start >= seconds:
                return False
            await asyncio.sleep(_POLL)
        return True


class SchemaServer(GenServer):
    """Runs the keeper whenever the schema has changed."""

    async def init(self, keeper: SchemaKeeper, copies: Copies) -> None:
        self._keeper = keeper
        self._rung = False
        me = self_pid()

        def changed(_: Any) -> None:
            if not self._rung:
                self._rung = True
                send_after(0.0, me, "settle")

        copies.schema.subscribe_batches(changed)
        await self._settle()

    async def handle_info(self, message: Any) -> None:
        if message == "settle":
            self._rung = False
            await self._settle()
        else:
            await super().handle_info(message)

    async def _settle(self) -> None:
        try:
            done = await self._keeper.settle()
        except (GossamerError, TimeoutError) as error:
            log.warning("schema_not_loaded", error=str(error), advice="it is tried again")
            done = False
        if not done:
            self._rung = True
            send_after(_RETRY, self_pid(), "settle")


def _told(definition: TableDef) -> str:
    return str(definition)

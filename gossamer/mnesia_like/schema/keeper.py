"""Reconciliation of this node's copies with the schema.

Every change of the schema, from here or from a peer, is followed by ``reconcile``: copies that belong here
are created, those that do not are dropped. What cannot be done now (no disc, a full one) is retried.

Two schemas that were created apart merge table by table:

- only one has it: the other adds it;
- both have it, defined alike: one id wins, and the rows merge;
- both have it, defined differently: ``SchemaConflict``. Both copies stay as they are and apart, the
  differences are reported, and a node that drops its own (``del_table_copy``) gets the other.

Rule: a copy created by ``create_table`` without ``nodes`` is never dropped by the schema.
"""

from __future__ import annotations

from dataclasses import replace

import structlog

from gossamer.errors import GossamerError
from gossamer.mnesia_like.core import AnyTable, StoreCore
from gossamer.mnesia_like.errors import TableExistsError
from gossamer.mnesia_like.events import (
    CopyAdded,
    CopyDropped,
    SchemaConflict,
    TableCreated,
    TableDeleted,
)
from gossamer.mnesia_like.schema.copies import Copies
from gossamer.mnesia_like.schema.table import TableEntry
from gossamer.supervisor import GenServer, self_pid, send_after

log = structlog.get_logger(__name__)

_RETRY_INTERVAL = 1.0


class SchemaKeeper:
    """Reconciler of local table copies with the schema.

    ``conflicts`` are tables that the schema defines differently, with the differences.
    """

    def __init__(self, core: StoreCore, copies: Copies) -> None:
        self.conflicts: dict[str, tuple[str, ...]] = {}
        self.schema = copies.schema
        self._core = core
        self._copies = copies
        self._known: dict[str, str] = {}

    async def run(self) -> bool:
        """Load the schema and reconcile the copies with it; False: something must be retried."""
        async with self._copies.changing:
            await self._copies.load_schema()
            return await self.reconcile()

    def pending(self) -> list[str]:
        """Describe the tables whose copy here is still missing."""
        schema, node = self.schema, self._core.node
        return [
            f"{name}: a copy is to be made here"
            for name in schema.names()
            if schema.storage_of(name, node) is not None
            and name not in self._core.copies
            and name not in self.conflicts
        ]

    async def reconcile(self) -> bool:
        """Reconcile as :meth:`run`, for a caller that changed the schema and holds the copies' lock."""
        done = True
        self._publish_changes()
        for name in [*self._core.tables(), *self.schema.names()]:
            try:
                await self._reconcile_one(name)
            except (GossamerError, TimeoutError) as error:
                done = False
                log.warning("table_not_reconciled", table=name, error=str(error), advice="it is tried again")
        for name, (_, made_as) in (await self._copies.on_disc()).items():
            here = name in self._core.copies or name in self.conflicts
            if made_as and not here and self.schema.storage_of(name, self._core.node) is None:
                # It was deleted while this node was down.
                await self._copies.wipe(name)
        return done

    async def _reconcile_one(self, name: str) -> None:
        copies, schema, node = self._copies, self.schema, self._core.node
        entry = schema.entry(name)
        table = self._core.copies.get(name)
        storage = schema.storage_of(name, node)
        if table is not None and not table.definition.id:
            if entry is not None and table.definition.replication != "local":
                # Created by this node for itself, and by others for all.
                await self._give_id(table, entry)
                if name not in self.conflicts and storage is None:
                    schema.put((name, "copy", node), table.definition.storage)
            return
        if table is not None:
            mine = table.definition.id
            if entry is None or storage is None or (mine != entry.id and mine in schema.gone(name)):
                await copies.drop(name)
                self.conflicts.pop(name, None)
                self._core.publish(CopyDropped(name, node))
                table = None
            elif mine != entry.id:
                await self._give_id(table, entry)
        if table is None and entry is not None and storage is not None:
            await self._make(entry, storage)

    async def _make(self, entry: TableEntry, storage: str) -> None:
        copies, name = self._copies, entry.name
        if storage == "disc_copies" and not copies.has_disc:
            log.warning("copy_without_disc", table=name, advice="give this node a data directory")
            storage = "ram_copies"
        definition = entry.definition(storage)
        before = (await copies.on_disc()).get(name)
        if before is not None and before[1] != entry.id and before[1] in self.schema.gone(name):
            await copies.wipe(name)
        try:
            await copies.make(definition)
        except TableExistsError as error:
            self._conflict(name, [f"it is {error.existing}, in the schema {definition}"])
            return
        self.conflicts.pop(name, None)
        self._core.publish(CopyAdded(name, self._core.node))

    async def _give_id(self, table: AnyTable, entry: TableEntry) -> None:
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
            self._core.publish(SchemaConflict(name, tuple(differences)))

    def _publish_changes(self) -> None:
        now = {name: entry.id for name in self.schema.names() if (entry := self.schema.entry(name))}
        before, self._known = self._known, now
        for name in before.keys() - now.keys():
            self._core.publish(TableDeleted(name))
        for name in now.keys() - before.keys():
            self._core.publish(TableCreated(name))


class SchemaServer(GenServer):
    """Runs the keeper whenever the schema changes."""

    async def init(self, keeper: SchemaKeeper) -> None:
        self._keeper = keeper
        self._scheduled = False
        me = self_pid()

        def changed(_: object) -> None:
            if not self._scheduled:
                self._scheduled = True
                send_after(0.0, me, "reconcile")

        keeper.schema.subscribe_batches(changed)
        await self._run_keeper()

    async def handle_info(self, message: object) -> None:
        if message == "reconcile":
            self._scheduled = False
            await self._run_keeper()
        else:
            await super().handle_info(message)

    async def _run_keeper(self) -> None:
        try:
            done = await self._keeper.run()
        except (GossamerError, TimeoutError) as error:
            log.warning("schema_not_loaded", error=str(error), advice="it is tried again")
            done = False
        if not done:
            self._scheduled = True
            send_after(_RETRY_INTERVAL, self_pid(), "reconcile")

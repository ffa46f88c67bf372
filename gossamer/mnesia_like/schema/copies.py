"""This node's copies of tables: created, loaded from disc, dropped, redefined.

Rules: 1. One change at a time, since each may wait for the disc.  2. A copy that cannot be created does not
exist: no half-made copy can be read.  3. Rows on disc of a table that was deleted, or created again,
meanwhile are dropped before a new copy is created.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from gossamer.errors import GossamerError
from gossamer.mnesia_like.core import AnyTable, StoreCore
from gossamer.mnesia_like.definition import TableDef
from gossamer.mnesia_like.disc.disc import DiscFile
from gossamer.mnesia_like.errors import DiscProcessMissingError, TableExistsError
from gossamer.mnesia_like.schema.table import SCHEMA, SchemaTable, schema_definition
from gossamer.mnesia_like.shared.shared import Shared
from gossamer.mnesia_like.table.local import LocalTable
from gossamer.mnesia_like.table.owned import OwnedTable
from gossamer.mnesia_like.table.shared import SharedTable
from gossamer.mnesia_like.values import Key, Value
from gossamer.supervisor import Pid, Runtime

T = TypeVar("T")

_LOAD_TIMEOUT = 300.0


class Copies:
    """Manager of this node's table copies; ``tables`` are the copies by name, including the schema's."""

    def __init__(self, core: StoreCore, *, has_disc: bool) -> None:
        self.changing = asyncio.Lock()
        self.has_disc = has_disc
        self.tables = core.copies
        self._core = core
        self._schema_loaded = not has_disc
        schema = self._assemble(schema_definition(disc=has_disc), 0.0)
        assert isinstance(schema, SchemaTable)  # noqa: S101
        self.schema: SchemaTable = schema

    async def load_schema(self) -> None:
        """Load the schema from disc, once.

        Raises:
            DiscError, UnavailableError: it cannot be read.
        """
        if not self._schema_loaded:
            self.schema.restore(await self._load(self.schema.definition))
            self._schema_loaded = True
            self._core.written(self.schema)

    @property
    def reachable(self) -> bool:
        """True if there is no disc, or its process runs."""
        return not self.has_disc or self._core.disc_writer.process is not None

    async def make(self, definition: TableDef) -> AnyTable:
        """Create a copy, with the rows of this node's disc copy.

        Raises:
            TableExistsError: the disc holds another table of that name; nothing changed.
            DiscError, UnavailableError: its disc copy cannot be read; nothing changed.
        """
        rows: dict[Key, Value] = {}
        if definition.storage == "disc_copies":
            rows = await self._load(definition)
        table = self._assemble(definition, self._core.clock.monotonic())
        if isinstance(table, SharedTable):
            masters = self.schema.masters(definition.name, self._core.node)
            table.restore(rows, () if self._core.node in masters else masters)
        else:
            table.restore(rows)
        return table

    async def rows_on_disc(self, definition: TableDef) -> dict[Key, Value]:
        """Load the rows on disc under a journal's name, and create them if there are none.

        Raises:
            TableExistsError: it is the name of a table.
            DiscError, UnavailableError: the disc cannot be read.
        """
        async with self.changing:
            existing = self.tables.get(definition.name)
            if existing is not None:
                raise TableExistsError(definition.name, existing=str(existing.definition), asked="a journal")
            return await self._load(definition)

    async def drop(self, name: str) -> None:
        """Drop a copy, from memory and disc.

        Raises:
            NoSuchTableError: there is none.
            DiscError, UnavailableError, TimeoutError: its disc copy cannot be dropped; nothing changed.
        """
        table = self._core.table(name)
        if table.definition.storage == "disc_copies":
            await table.durable()
            await self._ask(name, lambda file: file.drop(name))
        del self.tables[name]
        if table.definition.replication != "local":
            core = self._core
            core.perform(core.replication.drop(name))

    async def redefine(self, definition: TableDef) -> None:
        """Give a copy another id, or limits; its rows stay.

        Raises:
            DiscError, UnavailableError: the disc cannot be written; nothing changed.
        """
        table = self._core.table(definition.name)
        if definition.storage == "disc_copies":
            await table.durable()
            await self._load(definition)
        table.definition = definition
        core = self._core
        core.perform(core.replication.redefine(definition))

    async def on_disc(self) -> dict[str, tuple[str, str]]:
        """Return each table's row shape and id on disc; empty without a disc."""
        return await self._ask(SCHEMA, DiscFile.catalogue) if self.has_disc else {}

    async def wipe(self, name: str) -> None:
        """Drop the rows on disc of a table that has no copy in memory."""
        await self._ask(name, lambda file: file.drop(name))

    async def copy_disc(self, path: Path) -> int:
        """See ``Store.copy_disc``."""
        self._process(SCHEMA)
        queue = self._core.queue
        await queue.durable(queue.ticket, _LOAD_TIMEOUT)
        return await self._ask(SCHEMA, lambda file: file.copy_to(path))

    # -- inside

    def _assemble(self, definition: TableDef, now: float) -> AnyTable:
        core = self._core
        name = definition.name
        if definition.replication == "local":
            self.tables[name] = LocalTable(definition, core)
            return self.tables[name]
        state, actions = core.replication.create(definition, now)
        if definition.replication == "owned":
            self.tables[name] = OwnedTable(definition, core)
        else:
            core.replication.transactions.shared[name] = Shared(
                state, node=core.node, clock=core.hlc, creation=core.replication.creation
            )
            kind = SchemaTable if name == SCHEMA else SharedTable
            self.tables[name] = kind(definition, core)
        core.perform(actions)
        return self.tables[name]

    async def _load(self, definition: TableDef) -> dict[Key, Value]:
        return await self._ask(definition.name, lambda file: file.open_table(definition))

    async def _ask(self, table: str, request: Callable[[DiscFile], T]) -> T:
        runtime, pid = self._process(table)
        answer = await runtime.call(pid, request, timeout=_LOAD_TIMEOUT)
        if isinstance(answer, GossamerError):
            raise answer
        found: T = answer
        return found

    def _process(self, table: str) -> tuple[Runtime, Pid]:
        process = self._core.disc_writer.process
        if process is None:
            raise DiscProcessMissingError(table, configured=self.has_disc)
        return process

"""This node's copies of tables: made, found on disc, dropped, given another definition.

Rules: 1. One change at a time, since each may wait for the disc.  2. A copy that cannot be made is not there:
nothing half made can be read.  3. What the disc holds of a table that was deleted, or made again, meanwhile
is dropped before a new copy is made of it.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from gossamer.clock import Clock, HybridLogicalClock
from gossamer.errors import UnavailableError
from gossamer.mnesia_like.definition import TableDef
from gossamer.mnesia_like.disc.queue import DiscQueue
from gossamer.mnesia_like.errors import BackupExistsError, DiscError, NoSuchTableError, TableExistsError
from gossamer.mnesia_like.exchange.exchange import Action
from gossamer.mnesia_like.replicate.replication import Replication
from gossamer.mnesia_like.schema.table import SCHEMA, SchemaTable, schema_definition
from gossamer.mnesia_like.server import Catalogue, CopyTo, DiscHandle, Doorbell, Drop, Load
from gossamer.mnesia_like.shared.shared import Shared
from gossamer.mnesia_like.table.local import LocalTable
from gossamer.mnesia_like.table.owned import OwnedTable
from gossamer.mnesia_like.table.shared import SharedTable
from gossamer.mnesia_like.table.table import TableOwner

__all__ = ["AnyTable", "Copies", "DiscProcessMissingError"]

AnyTable = LocalTable | OwnedTable | SharedTable

_LOAD_TIMEOUT = 300.0


class DiscProcessMissingError(UnavailableError):
    """A table with a disc copy was asked of a store whose disc process does not run."""

    def __init__(self, table: str, *, configured: bool) -> None:
        self.table = table
        self.configured = configured
        what = "start the store's child_spec() first" if configured else "make the store with disc=Disc(path)"
        super().__init__(f"table {table!r} keeps a disc copy and no disc process runs; {what}")


class CopyOwner(Protocol):
    """What the copies ask of the store."""

    node: str
    clock: Clock
    hlc: HybridLogicalClock
    replication: Replication
    queue: DiscQueue
    disc_bell: Doorbell

    def perform(self, actions: list[Action]) -> None: ...


class Copies:
    """Manager of this node's table copies; ``tables`` are the copies by name, including the schema's."""

    def __init__(self, owner: CopyOwner, face: TableOwner, disc: DiscHandle | None) -> None:
        self.changing = asyncio.Lock()
        self.tables: dict[str, AnyTable] = {}
        self._owner = owner
        self._face = face
        self._disc = disc
        self._schema_loaded = disc is None
        schema = self._assemble(schema_definition(disc=disc is not None), 0.0)
        assert isinstance(schema, SchemaTable)  # noqa: S101
        self.schema: SchemaTable = schema

    async def load_schema(self) -> None:
        """Take over what the disc holds of the schema, once.

        Raises:
            DiscError, UnavailableError: it cannot be read.
        """
        if not self._schema_loaded:
            self.schema.restore(await self._ask(SCHEMA, Load(self.schema.definition)))
            self._schema_loaded = True
            self._face.written(self.schema)

    @property
    def reachable(self) -> bool:
        """Whether the disc, if there is one, can be asked."""
        return self._disc is None or self._owner.disc_bell.process is not None

    def get(self, name: str) -> AnyTable:
        """A copy.

        Raises:
            NoSuchTableError: there is none.
        """
        try:
            return self.tables[name]
        except KeyError:
            raise NoSuchTableError(name, self.names()) from None

    def names(self) -> list[str]:
        """All but the schema, in the order in which they were made."""
        return [name for name in self.tables if name != SCHEMA]

    async def make(self, definition: TableDef) -> AnyTable:
        """Make a copy, with the rows that this node had written to its disc copy before.

        Raises:
            TableExistsError: the disc holds another table of that name; nothing changed.
            DiscError, UnavailableError: its disc copy cannot be read; nothing changed.
        """
        rows: dict[Any, Any] = {}
        if definition.storage == "disc_copies":
            rows = await self._ask(definition.name, Load(definition))
        table = self._assemble(definition, self._owner.clock.monotonic())
        if isinstance(table, SharedTable):
            masters = self.schema.masters(definition.name, self._owner.node)
            table.restore(rows, () if self._owner.node in masters else masters)
        else:
            table.restore(rows)
        return table

    async def rows_on_disc(self, definition: TableDef) -> dict[Any, Any]:
        """What the disc holds under a name that is no table's; there is room for it afterwards.

        Raises:
            TableExistsError: it is the name of a table.
            DiscError, UnavailableError: the disc cannot be read.
        """
        async with self.changing:
            existing = self.tables.get(definition.name)
            if existing is not None:
                raise TableExistsError(definition.name, existing=str(existing.definition), asked="a journal")
            rows: dict[Any, Any] = await self._ask(definition.name, Load(definition))
            return rows

    async def drop(self, name: str) -> None:
        """Drop a copy, from memory and disc.

        Raises:
            NoSuchTableError: there is none.
            DiscError, UnavailableError, TimeoutError: its disc copy cannot be dropped; nothing changed.
        """
        table = self.get(name)
        if table.definition.storage == "disc_copies":
            await table.durable()
            await self._ask(name, Drop(name))
        del self.tables[name]
        if table.definition.replication != "local":
            owner = self._owner
            owner.perform(owner.replication.drop(name, owner.clock.monotonic()))

    async def redefine(self, definition: TableDef) -> None:
        """Give a copy another id, or limits; its rows stay.

        Raises:
            DiscError, UnavailableError: the disc cannot be told; nothing changed.
        """
        table = self.get(definition.name)
        if definition.storage == "disc_copies":
            await table.durable()
            await self._ask(definition.name, Load(definition))
        table.definition = definition
        owner = self._owner
        owner.perform(owner.replication.redefine(definition, owner.clock.monotonic()))

    async def on_disc(self) -> dict[str, tuple[str, str]]:
        """Of each table on disc the shape of its rows and the id it was made under; empty without a disc."""
        if self._disc is None:
            return {}
        found: dict[str, tuple[str, str]] = await self._ask(SCHEMA, Catalogue())
        return found

    async def wipe(self, name: str) -> None:
        """Drop what the disc holds of a table that has no copy in memory."""
        await self._ask(name, Drop(name))

    async def copy_disc(self, path: Path) -> int:
        """See ``Store.copy_disc``."""
        size: int = await self._ask(SCHEMA, CopyTo(path))
        return size

    # -- inside

    def _assemble(self, definition: TableDef, now: float) -> AnyTable:
        owner = self._owner
        name = definition.name
        common: dict[str, Any] = {"node": owner.node, "disc": owner.queue, "owner": self._face}
        if definition.replication == "local":
            self.tables[name] = LocalTable(definition, **common)
            return self.tables[name]
        state, actions = owner.replication.create(definition, now)
        common["visible"] = functools.partial(owner.replication.visible, name)
        common["behind"] = functools.partial(owner.replication.behind, name)
        if definition.replication == "owned":
            self.tables[name] = OwnedTable(definition, state, **common)
        else:
            core = Shared(
                state,
                node=owner.node,
                clock=owner.hlc,
                horizon=definition.tombstone_horizon,
                creation=owner.replication.creation,
            )
            owner.replication.transactions.shared[name] = core
            kind: Callable[..., SharedTable] = SchemaTable if name == SCHEMA else SharedTable
            reach = functools.partial(owner.replication.reach, name)
            common["safe"] = functools.partial(owner.replication.safe, name)
            self.tables[name] = kind(definition, core, clock=owner.clock, reach=reach, **common)
        owner.perform(actions)
        return self.tables[name]

    async def _ask(self, table: str, request: Load | Drop | Catalogue | CopyTo) -> Any:
        process = self._owner.disc_bell.process
        if process is None:
            raise DiscProcessMissingError(table, configured=self._disc is not None)
        runtime, pid = process
        answer = await runtime.call(pid, request, timeout=_LOAD_TIMEOUT)
        if isinstance(answer, BackupExistsError | DiscError | TableExistsError):
            raise answer
        return answer

"""The store: all tables of one node, and the processes that keep them.

A store is made before its processes run and outlives each of them; ``child_spec`` is what a supervisor
starts. Tables without peers and without disc work before that. A table with a disc copy needs the disc
process, since creating it reads what the disc holds.

Rule: starting never hangs. ``wait_for_tables`` is bounded and says what is missing; the tables can be used
with what they hold meanwhile.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar, overload

import structlog

from gossamer.clock import Clock, HybridLogicalClock, SystemClock
from gossamer.errors import UnavailableError
from gossamer.mnesia_like import copying, info
from gossamer.mnesia_like.disc import Disc
from gossamer.mnesia_like.discqueue import DiscQueue
from gossamer.mnesia_like.errors import (
    BadTableError,
    DiscError,
    NoSuchTableError,
    TableExistsError,
    TablesNotLoadedError,
)
from gossamer.mnesia_like.journal import Journal
from gossamer.mnesia_like.link import ReplicationLink
from gossamer.mnesia_like.local_table import LocalTable
from gossamer.mnesia_like.owned_table import OwnedTable
from gossamer.mnesia_like.replication import Action, Confirmed, Installed, Replication, Report, Send, Wake
from gossamer.mnesia_like.schema import TableDef
from gossamer.mnesia_like.server import DiscHandle, DiscServer, Doorbell, Drop, Load, Replicator
from gossamer.mnesia_like.shared import Shared
from gossamer.mnesia_like.shared_table import SharedTable
from gossamer.mnesia_like.table import ReplicatedTable, Table, TableOwner
from gossamer.mnesia_like.transaction import Transaction, Transactor
from gossamer.supervisor import ChildSpec, Pid, Supervisor

__all__ = ["AnyTable", "DiscProcessMissingError", "Store"]

AnyTable = LocalTable | OwnedTable | SharedTable

T = TypeVar("T")
P = ParamSpec("P")

log = structlog.get_logger(__name__)

_POLL = 0.02
_LOAD_TIMEOUT = 300.0


class DiscProcessMissingError(UnavailableError):
    """A table with a disc copy was asked of a store whose disc process does not run."""

    def __init__(self, table: str, *, configured: bool) -> None:
        self.table = table
        self.configured = configured
        what = "start the store's child_spec() first" if configured else "make the store with disc=Disc(path)"
        super().__init__(f"table {table!r} keeps a disc copy and no disc process runs; {what}")


class Store(TableOwner):
    """See the module.

    ``tick`` in seconds: how often unanswered messages, purges and digests are looked after. ``executor`` runs
    what blocks (a thread of its own where None); ``replication`` are options of :class:`Replication`.
    """

    def __init__(
        self,
        *,
        node: str,
        creation: int,
        clock: Clock | None = None,
        link: ReplicationLink | None = None,
        disc: Disc | None = None,
        executor: Executor | None = None,
        tick: float = 0.5,
        disc_retry: float = 1.0,
        **replication: Any,
    ) -> None:
        self.node = node
        self.clock: Clock = clock or SystemClock()
        self.hlc = HybridLogicalClock()
        self.link = link
        self.tick = tick
        self.replication = Replication(node=node, creation=creation, **replication)
        self.queue = DiscQueue()
        self.replicator_bell = Doorbell()
        self.disc_bell = Doorbell()
        self._disc = None if disc is None else DiscHandle(disc, executor=executor, retry=disc_retry)
        self._transactor = Transactor(self, self.replication.transactions, seed=f"{node} {creation}")
        self.replication.transactions.refuses = self._refuses
        self._tables: dict[str, AnyTable] = {}
        self._creating = asyncio.Lock()

    # -- processes

    def child_spec(self, id: str = "mnesia_like") -> ChildSpec:  # noqa: A002 - the supervisor's word
        """The subtree that keeps the tables, for a supervisor to start."""
        return ChildSpec(id, functools.partial(self._start_link, id), type="supervisor")

    async def _start_link(self, name: str) -> Pid:
        children = [
            ChildSpec("replicator", functools.partial(Replicator.start_link, self, label="replicator"))
        ]
        if self._disc is not None:
            # First, and stopped last: what the others write on their way out still reaches the disc.
            start = functools.partial(DiscServer.start_link, self, self._disc, label="disc")
            children.insert(0, ChildSpec("disc", start))
        return await Supervisor.start_link(children, intensity=5, period=10.0, name=name, label="tables")

    def abandon(self) -> None:
        """After the runtime was halted: give up the disc copy without a last commit; for simulations.

        A killed process leaves no lock behind; a simulated one has to be told.
        """
        if self._disc is not None:
            self._disc.abandon()

    # -- tables

    @overload
    async def create_table(
        self, name: str, *, replication: Literal["owned"], **options: Any
    ) -> OwnedTable: ...

    @overload
    async def create_table(
        self, name: str, *, replication: Literal["shared"], **options: Any
    ) -> SharedTable: ...

    @overload
    async def create_table(
        self, name: str, *, replication: Literal["local"] = "local", **options: Any
    ) -> LocalTable: ...

    async def create_table(
        self, name: str, *, replication: Literal["local", "owned", "shared"] = "local", **options: Any
    ) -> AnyTable:
        """Create a table, or get the one there is of the same definition; see :class:`TableDef` for options.

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
        async with self._creating:
            existing = self._tables.get(name)
            if existing is not None:
                if existing.definition != definition:
                    raise TableExistsError(name, existing=str(existing.definition), asked=str(definition))
                return existing
            rows = await self._load(definition) if definition.storage == "disc_copies" else {}
            table = self._make(definition)
            self._tables[name] = table
            table.restore(rows)
            return table

    async def create_journal(self, name: str) -> tuple[Journal, dict[Any, Any]]:
        """Rows on disc without a copy in memory, and those that are there now; once for each name.

        Raises:
            BadTableError: a name that cannot be.
            TableExistsError: it is the name of a table.
            DiscError, UnavailableError: the disc cannot be read.
        """
        definition = TableDef(name=name, storage="disc_copies")
        async with self._creating:
            existing = self._tables.get(name)
            if existing is not None:
                raise TableExistsError(name, existing=str(existing.definition), asked="a journal")
            rows = await self._load(definition)
        return Journal(name, queue=self.queue, ring=self.disc_bell.ring), rows

    async def del_table_copy(self, name: str) -> None:
        """Drop this node's copy of a table, from memory and disc; peers keep theirs.

        Rows of a shared table that this node held are taken over by the others.

        Raises:
            NoSuchTableError: there is none.
            DiscError, UnavailableError, TimeoutError: its disc copy cannot be dropped; nothing changed.
        """
        async with self._creating:
            table = self.table(name)
            if table.definition.storage == "disc_copies":
                await table.durable()
                await self._ask_disc(name, Drop(name))
            del self._tables[name]
            if table.definition.replication != "local":
                self.perform(self.replication.drop(name, self.clock.monotonic()))

    def dump(self, name: str) -> list[tuple[str, Any, Any]]:
        """``(owner, key, value)`` of every row of a table here; of shared rows the owner wrote them last.

        Raises:
            NoSuchTableError: there is none.
        """
        table = self.table(name)
        if isinstance(table, OwnedTable):
            return list(table.rows())
        versions = table.core.versions if isinstance(table, SharedTable) else {}
        return [(versions[k][1] if k in versions else self.node, k, v) for k, v in table.rows().items()]

    def table(self, name: str) -> AnyTable:
        """A table that was created.

        Raises:
            NoSuchTableError: it was not.
        """
        try:
            return self._tables[name]
        except KeyError:
            raise NoSuchTableError(name, list(self._tables)) from None

    def tables(self) -> list[str]:
        """The names of all tables, in the order of their creation."""
        return list(self._tables)

    async def wait_for_tables(
        self, names: Iterable[str] | None = None, *, timeout: float = 10.0, peers: Iterable[str] = ()
    ) -> None:
        """Wait until the tables hold all rows of all peers that are up, and ``peers`` are up.

        Raises:
            NoSuchTableError: a name is not a table.
            TablesNotLoadedError: not within ``timeout`` seconds; it says what is missing of whom.
        """
        wanted = [t for t in map(self.table, names or self._tables) if isinstance(t, ReplicatedTable)]
        expected = list(peers)
        start = self.clock.monotonic()
        while True:  # bounded by the timeout
            up = self.replication.peers()
            missing = [f"{name} is not connected" for name in expected if name not in up]
            for table in wanted:
                missing += self.replication.not_loaded(table.name)
            if not missing:
                return
            if self.clock.monotonic() - start >= timeout:
                raise TablesNotLoadedError(missing, waited=timeout)
            await asyncio.sleep(_POLL)

    async def transaction(
        self,
        function: Callable[Concatenate[Transaction, P], Awaitable[T]],
        *args: Any,
        timeout: float = 15.0,
        sync: bool = False,
    ) -> T:
        """Run ``await function(tx, *args)`` as one transaction over shared tables; what it returned.

        It may run several times: it should do nothing but use ``tx``. ``sync``: come back when the rows are
        visible on all peers and on this node's disc, as Mnesia's ``sync_transaction``.

        Raises:
            TransactionAbortedError: the function said so. As with any exception of it, nothing changed.
            TransactionTimeoutError: it did not end within ``timeout`` seconds; nothing changed.
            TransactionRefusedError: a copy cannot be written; nothing changed.
            TransactionInDoubtError: it may or may not be in effect; the error says what to do.
        """
        return await self._transactor.run(function, args, timeout=timeout, sync=sync)

    async def backup(self, path: str | Path, tables: Iterable[str] | None = None) -> int:
        """Write what this node may write of its tables (of owned ones its own rows) to a file; its size.

        The rows are those of one moment; what is written meanwhile is not in it.

        Raises:
            NoSuchTableError: a name is not a table.
            DiscError: the file cannot be written; whatever stood under its name is as it was.
        """
        chosen = [self.table(name) for name in (self.tables() if tables is None else tables)]
        return await copying.backup(Path(path), self.node, self.clock.wall(), chosen)

    async def restore(self, path: str | Path, tables: Iterable[str] | None = None) -> dict[str, int]:
        """Write the rows of a backup again, as new writes; how many of each table.

        Rows that came after the backup stay. The file is checked, and the tables are found or created, before
        anything is written.

        Raises:
            NoSuchTableError: a name is not a table of the backup.
            TableExistsError: a table is defined otherwise here.
            DiscError: the file cannot be read, or is damaged.
        """
        return await copying.restore(Path(path), tables, self.create_table)

    def table_info(self, name: str) -> dict[str, Any]:
        """What an operator wants to know of one table.

        Raises:
            NoSuchTableError: there is none.
        """
        return info.table_info(self.table(name), self.replication)

    def system_info(self) -> dict[str, Any]:
        """What an operator wants to know of the store."""
        found = info.system_info(self.replication, self.queue, self.tables())
        found["disc"] = None if self._disc is None else {"path": str(self._disc.disc.path)} | found["disc"]
        return found

    # -- what tables and processes ask of the store

    def written(self, table: Table) -> None:
        """Rows of ``table`` were written in this turn."""
        if table.definition.replication != "local":
            self.replicator_bell.ring()
        if table.definition.storage == "disc_copies":
            self.disc_bell.ring()

    def transacting(self) -> None:
        """A transaction did something that others may have to know in this turn."""
        if self.replicator_bell.process is None:
            self.perform(self.replication.flush(self.clock.monotonic()))
        else:
            self.replicator_bell.ring()

    def perform(self, actions: list[Action]) -> None:
        """Carry out what the replication core decided, in order."""
        link = self.link
        for action in actions:
            if isinstance(action, Send):
                if link is not None:
                    link.send(action.peer, action.frame)
            elif isinstance(action, Wake):
                self._transactor.wake(action.number)
            elif isinstance(action, Report):
                log.info(action.event, **dict(action.fields))
            elif action.table not in self._tables:
                # It was dropped in this very turn.
                continue
            elif isinstance(action, Installed):
                self._shared_table(action.table).installed(action.keys, action.change)
            elif isinstance(action, Confirmed):
                self._replicated(action.table).confirmed()
            else:
                self._replicated(action.table).absorb(action)

    def returns(self, peer: str, creation: int) -> None:
        """``peer`` is up; under a new creation it has lost what it held."""
        for table in self._shared():
            replica = self.replication.tables[table.name].replicas.get(peer)
            if replica is not None and replica.creation not in (0, creation):
                table.adopt_from(peer)

    def leaves(self, peer: str) -> None:
        """``peer`` left for good."""
        for table in self._shared():
            table.adopt_from(peer)

    def housekeeping(self) -> None:
        """Some time passed."""
        for table in self._shared():
            table.tick()

    # -- inside

    def _shared(self) -> list[SharedTable]:
        return [table for table in self._tables.values() if isinstance(table, SharedTable)]

    def _shared_table(self, name: str) -> SharedTable:
        table = self._tables[name]
        assert isinstance(table, SharedTable)  # noqa: S101
        return table

    def _refuses(self, name: str) -> str:
        """Why this node could not write a table's rows now, if so."""
        if self._tables[name].definition.storage == "disc_copies":
            try:
                self.queue.check()
            except (DiscError, UnavailableError) as error:
                return str(error)
        return ""

    def _make(self, definition: TableDef) -> AnyTable:
        if definition.replication == "local":
            return LocalTable(definition, node=self.node, disc=self.queue, owner=self)
        state, actions = self.replication.create(definition, self.clock.monotonic())
        visible = functools.partial(self.replication.visible, definition.name)
        table: OwnedTable | SharedTable
        if definition.replication == "owned":
            table = OwnedTable(
                definition, state, node=self.node, disc=self.queue, owner=self, visible=visible
            )
        else:
            core = Shared(state, node=self.node, clock=self.hlc, horizon=definition.tombstone_horizon)
            self.replication.transactions.shared[definition.name] = core
            table = SharedTable(
                definition,
                core,
                node=self.node,
                clock=self.clock,
                disc=self.queue,
                owner=self,
                visible=visible,
                reach=functools.partial(self.replication.reach, definition.name),
            )
        self._tables[definition.name] = table
        self.perform(actions)
        return table

    async def _load(self, definition: TableDef) -> dict[Any, Any]:
        loaded: dict[Any, Any] = await self._ask_disc(definition.name, Load(definition))
        return loaded

    async def _ask_disc(self, table: str, request: Load | Drop) -> Any:
        process = self.disc_bell.process
        if process is None:
            raise DiscProcessMissingError(table, configured=self._disc is not None)
        runtime, pid = process
        answer = await runtime.call(pid, request, timeout=_LOAD_TIMEOUT)
        if isinstance(answer, DiscError):
            raise answer
        return answer

    def _replicated(self, name: str) -> OwnedTable | SharedTable:
        table = self._tables[name]
        assert isinstance(table, OwnedTable | SharedTable)  # noqa: S101
        return table

"""Store: all tables of one node, and the processes that maintain them.

A store is created before its processes run and outlives each of them; a supervisor starts ``child_spec``.
Tables without peers and without disc work before that. A table with a disc copy needs the disc process,
since creating it loads its rows.

Rule: starting never hangs. ``wait_for_tables`` is bounded and reports what is missing; the tables can be used
with the rows they have meanwhile.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from gossamer.clock import Clock
from gossamer.mnesia_like import backup
from gossamer.mnesia_like.core import ReplicationLink
from gossamer.mnesia_like.definition import TableDef
from gossamer.mnesia_like.disc.disc import Disc
from gossamer.mnesia_like.disc.queue import Journal
from gossamer.mnesia_like.disc.server import DiscHandle, DiscServer
from gossamer.mnesia_like.errors import TablesNotLoadedError
from gossamer.mnesia_like.events import Subscription, SystemEvent
from gossamer.mnesia_like.replicator import Replicator
from gossamer.mnesia_like.schema.commands import SchemaCommands
from gossamer.mnesia_like.schema.copies import Copies
from gossamer.mnesia_like.schema.keeper import SchemaKeeper, SchemaServer
from gossamer.mnesia_like.table.info import table_info
from gossamer.mnesia_like.table.shared import SharedTable
from gossamer.mnesia_like.table.table import ReplicatedTable
from gossamer.mnesia_like.transactions import Transaction, Transactor
from gossamer.mnesia_like.values import Key, Value
from gossamer.supervisor import ChildSpec, Pid, Supervisor

T = TypeVar("T")
P = ParamSpec("P")


class Store(SchemaCommands):
    """Tables of one node, replicated over ``link`` and stored on ``disc``, if given.

    ``tick`` is the interval of purges and digests in seconds. ``executor`` runs blocking calls (None: a
    thread of its own); ``replication`` are options of :class:`Replication`.
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
        **replication: object,
    ) -> None:
        super().__init__(node=node, creation=creation, clock=clock, link=link, tick=tick, **replication)
        self._disc = None if disc is None else DiscHandle(disc, executor=executor, retry=disc_retry)
        self._transactor = Transactor(self, seed=f"{node} {creation}")
        self._copies = Copies(self, has_disc=disc is not None)
        self._keeper = SchemaKeeper(self, self._copies)

    # -- processes

    def child_spec(self, id: str = "mnesia_like") -> ChildSpec:  # noqa: A002 - the supervisor's word
        """Return the spec of the subtree that maintains the tables."""
        return ChildSpec(id, partial(self._start_link, id), type="supervisor")

    async def _start_link(self, name: str) -> Pid:
        children = [
            ChildSpec("schema", partial(SchemaServer.start_link, self._keeper, label="schema")),
            ChildSpec("replicator", partial(Replicator.start_link, self, label="replicator")),
        ]
        if self._disc is not None:
            # Started first and stopped last: what the others write while they stop still reaches the disc.
            start = partial(DiscServer.start_link, self, self._disc, label="disc")
            children.insert(0, ChildSpec("disc", start))
        return await Supervisor.start_link(children, intensity=5, period=10.0, name=name, label="tables")

    def abandon(self) -> None:
        """Release the disc copy without a last commit, after the runtime was halted; for simulations.

        A killed process leaves no lock behind; a simulated one needs this call.
        """
        if self._disc is not None:
            self._disc.abandon()

    # -- tables

    async def create_journal(self, name: str) -> tuple[Journal, dict[Key, Value]]:
        """Create a journal, once per name: rows on disc without a copy in memory. Return it and its rows.

        Raises:
            BadTableError: the name is invalid.
            TableExistsError: it is the name of a table.
            DiscError, UnavailableError: the disc cannot be read.
        """
        rows = await self._copies.rows_on_disc(TableDef(name=name, storage="disc_copies"))
        return Journal(name, queue=self.queue, notify=self.disc_writer.notify), rows

    def force_load_table(self, name: str) -> None:
        """Declare a table loaded as it is: stop waiting for peers that have not answered.

        Raises:
            NoSuchTableError: there is none.
        """
        table = self.table(name)
        if isinstance(table, ReplicatedTable):
            self.replication.force_load(name)
        if isinstance(table, SharedTable):
            table.force_load()

    def subscribe(self, callback: Callable[[SystemEvent], None]) -> Subscription[SystemEvent]:
        """Subscribe to the store's system events; see ``events``."""
        return Subscription(self._subscriptions, callback, of="store")

    def dump(self, name: str) -> list[tuple[str, Key, Value]]:
        """Return ``(owner, key, value)`` of every row here; the owner of a shared row is its last writer.

        Raises:
            NoSuchTableError: there is none.
        """
        return list(self.table(name).contents())

    async def wait_for_tables(
        self,
        names: Iterable[str] | None = None,
        *,
        timeout: float = 10.0,
        peers: Iterable[str] | Callable[[], Iterable[str]] = (),
    ) -> None:
        """Wait until the tables hold all rows of all peers that are up, and ``peers`` are up; a function
        returns whom to wait for now.

        Raises:
            NoSuchTableError: a name is not a table.
            TablesNotLoadedError: not within ``timeout`` seconds; it says what is missing of which peer.
        """
        chosen = None if names is None else [self.table(name) for name in names]
        expected = peers if callable(peers) else list(peers).copy

        def missing() -> list[str]:
            up = self.replication.connected()
            lines = [f"{name} is not connected" for name in expected() if name not in up]
            lines += self._keeper.pending() if chosen is None else []
            for table in self.copies.values() if chosen is None else chosen:
                if isinstance(table, ReplicatedTable):
                    lines += self.replication.not_loaded(table.name)
                if isinstance(table, SharedTable) and table.core.waits_for:
                    lines.append(table.core.waits_for)
            return lines

        if not await self._until(lambda: not missing(), timeout):
            raise TablesNotLoadedError(missing(), waited=timeout)

    def ask_survivors(self, absent: Mapping[str, int]) -> None:
        """Ask peers for the shared rows of nodes that are down and that this one has not met, by creation.

        :meth:`wait_for_tables` then waits for their answers.
        """
        self.replication.ask_survivors(absent)
        self.flush_transactions()

    async def transaction(
        self,
        function: Callable[Concatenate[Transaction, P], Awaitable[T]],
        *args: object,
        timeout: float = 15.0,
    ) -> T:
        """Run ``await function(tx, *args)`` as one transaction over shared and local tables.

        Returns the function's result. It may run several times, so it should only use ``tx``.

        Raises:
            TransactionAbortedError: the function aborted. As with any exception of it, nothing changed.
            TransactionTimeoutError: it did not end within ``timeout`` seconds; nothing changed.
            TransactionRefusedError: a copy cannot be written; nothing changed.
            TransactionInDoubtError: it may or may not be in effect; the error says what to do.
            DiscError: the disc takes no writes; nothing changed.
        """
        return await self._transactor.run(function, args, timeout)

    async def backup(self, path: str | Path, tables: Iterable[str] | None = None) -> int:
        """Back up tables (of owned ones this node's own rows) to a file; return its size in bytes.

        The backup is a snapshot of one moment; later writes are not in it.

        Raises:
            NoSuchTableError: a name is not a table.
            DiscError: the file cannot be written; an existing file of its name is unchanged.
        """
        chosen = [self.table(name) for name in (self.tables() if tables is None else tables)]
        return await backup.backup(Path(path), chosen)

    async def copy_disc(self, path: str | Path) -> int:
        """Copy this node's disc copy to a file that a node can start from; return its size in bytes.

        It includes everything written before the call. Commits wait meanwhile; reads and writes do not.

        Raises:
            BackupExistsError: a file of that name exists; it is unchanged.
            DiscError, UnavailableError: it cannot be written, or no disc process runs.
        """
        return await self._copies.copy_disc(Path(path))

    async def restore(self, path: str | Path, tables: Iterable[str] | None = None) -> dict[str, int]:
        """Restore a backup by writing its rows as new; return the number of rows per table.

        Rows added after the backup stay. The file is checked, and the tables are found or created, before
        anything is written.

        Raises:
            NoSuchTableError: a name is not a table of the backup.
            TableExistsError: a table is defined differently here.
            DiscError: the file cannot be read, or is damaged.
        """
        return await backup.restore(Path(path), tables, self.create_table)

    def table_info(self, name: str) -> dict[str, Any]:
        """Return information about one table for operators.

        Raises:
            NoSuchTableError: there is none.
        """
        return table_info(self.table(name), self.replication)

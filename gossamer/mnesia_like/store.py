"""The store: all tables of one node, and the processes that keep them.

A store is made before its processes run and outlives each of them; ``child_spec`` is what a supervisor
starts. Tables without peers and without disc work before that. A table with a disc copy needs the disc
process, since creating it reads what the disc holds.

Rule: starting never hangs. ``wait_for_tables`` is bounded and says what is missing; the tables can be used
with what they hold meanwhile.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
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
    """Tables of one node, replicated over ``link`` and kept on ``disc``, where there is one.

    ``tick`` in seconds: how often purges and digests are looked after. ``executor`` runs what blocks (a
    thread of its own where None); ``replication`` are options of :class:`Replication`.
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
        """The subtree that keeps the tables, for a supervisor to start."""
        return ChildSpec(id, partial(self._start_link, id), type="supervisor")

    async def _start_link(self, name: str) -> Pid:
        children = [
            ChildSpec("schema", partial(SchemaServer.start_link, self._keeper, label="schema")),
            ChildSpec("replicator", partial(Replicator.start_link, self, label="replicator")),
        ]
        if self._disc is not None:
            # First, and stopped last: what the others write on their way out still reaches the disc.
            start = partial(DiscServer.start_link, self, self._disc, label="disc")
            children.insert(0, ChildSpec("disc", start))
        return await Supervisor.start_link(children, intensity=5, period=10.0, name=name, label="tables")

    def abandon(self) -> None:
        """After the runtime was halted: give up the disc copy without a last commit; for simulations.

        A killed process leaves no lock behind; a simulated one has to be told.
        """
        if self._disc is not None:
            self._disc.abandon()

    # -- tables

    async def create_journal(self, name: str) -> tuple[Journal, dict[Key, Value]]:
        """Rows on disc without a copy in memory, and those that are there now; once for each name.

        Raises:
            BadTableError: a name that cannot be.
            TableExistsError: it is the name of a table.
            DiscError, UnavailableError: the disc cannot be read.
        """
        rows = await self._copies.rows_on_disc(TableDef(name=name, storage="disc_copies"))
        return Journal(name, queue=self.queue, notify=self.disc_writer.notify), rows

    def force_load_table(self, name: str) -> None:
        """Take the table as loaded with what it holds: wait no longer for peers that have not answered.

        Raises:
            NoSuchTableError: there is none.
        """
        table = self.table(name)
        if isinstance(table, ReplicatedTable):
            self.replication.force_load(name)
        if isinstance(table, SharedTable):
            table.force_load()

    def subscribe(self, callback: Callable[[SystemEvent], None]) -> Subscription[SystemEvent]:
        """Call with everything that happens to the store as a whole; see ``events``."""
        return Subscription(self._subscriptions, callback, of="store")

    def dump(self, name: str) -> list[tuple[str, Key, Value]]:
        """``(owner, key, value)`` of every row of a table here; of shared rows the owner wrote them last.

        Raises:
            NoSuchTableError: there is none.
        """
        return list(self.table(name).contents())

    async def wait_for_tables(
        self, names: Iterable[str] | None = None, *, timeout: float = 10.0, peers: Iterable[str] = ()
    ) -> None:
        """Wait until the tables hold all rows of all peers that are up, and ``peers`` are up.

        Raises:
            NoSuchTableError: a name is not a table.
            TablesNotLoadedError: not within ``timeout`` seconds; it says what is missing of whom.
        """
        chosen = None if names is None else [self.table(name) for name in names]
        expected = list(peers)

        def missing() -> list[str]:
            up = self.replication.connected()
            lines = [f"{name} is not connected" for name in expected if name not in up]
            lines += self._keeper.pending() if chosen is None else []
            for table in self.copies.values() if chosen is None else chosen:
                if isinstance(table, ReplicatedTable):
                    lines += self.replication.not_loaded(table.name)
                if isinstance(table, SharedTable) and table.core.waits_for:
                    lines.append(table.core.waits_for)
            return lines

        if not await self._until(lambda: not missing(), timeout):
            raise TablesNotLoadedError(missing(), waited=timeout)

    async def transaction(
        self,
        function: Callable[Concatenate[Transaction, P], Awaitable[T]],
        *args: object,
        timeout: float = 15.0,
    ) -> T:
        """Run ``await function(tx, *args)`` as one transaction over shared and local tables; its result.

        It may run several times: it should do nothing but use ``tx``.

        Raises:
            TransactionAbortedError: the function said so. As with any exception of it, nothing changed.
            TransactionTimeoutError: it did not end within ``timeout`` seconds; nothing changed.
            TransactionRefusedError: a copy cannot be written; nothing changed.
            TransactionInDoubtError: it may or may not be in effect; the error says what to do.
            DiscError: the disc takes no writes; nothing changed.
        """
        return await self._transactor.run(function, args, timeout)

    async def backup(self, path: str | Path, tables: Iterable[str] | None = None) -> int:
        """Write what this node may write of its tables (of owned ones its own rows) to a file; its size.

        The rows are those of one moment; what is written meanwhile is not in it.

        Raises:
            NoSuchTableError: a name is not a table.
            DiscError: the file cannot be written; whatever stood under its name is as it was.
        """
        chosen = [self.table(name) for name in (self.tables() if tables is None else tables)]
        return await backup.backup(Path(path), chosen)

    async def copy_disc(self, path: str | Path) -> int:
        """Write all that this node has on disc to a file that a node can be started with; its size.

        What was written before the call is in it. Commits wait meanwhile; reads and writes do not.

        Raises:
            BackupExistsError: something stands under that name; it is as it was.
            DiscError, UnavailableError: it cannot be written, or no disc process runs.
        """
        return await self._copies.copy_disc(Path(path))

    async def restore(self, path: str | Path, tables: Iterable[str] | None = None) -> dict[str, int]:
        """Write the rows of a backup again, as new writes; how many of each table.

        Rows that came after the backup stay. The file is checked, and the tables are found or created, before
        anything is written.

        Raises:
            NoSuchTableError: a name is not a table of the backup.
            TableExistsError: a table is defined otherwise here.
            DiscError: the file cannot be read, or is damaged.
        """
        return await backup.restore(Path(path), tables, self.create_table)

    def table_info(self, name: str) -> dict[str, Any]:
        """What an operator wants to know of one table.

        Raises:
            NoSuchTableError: there is none.
        """
        return table_info(self.table(name), self.replication)

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
from typing import Any, Concatenate, ParamSpec, TypeVar

import structlog

from gossamer.clock import Clock, HybridLogicalClock, SystemClock
from gossamer.errors import UnavailableError
from gossamer.mnesia_like import copying
from gossamer.mnesia_like.definition import TableDef
from gossamer.mnesia_like.disc.disc import Disc
from gossamer.mnesia_like.disc.journal import Journal
from gossamer.mnesia_like.disc.queue import DiscQueue
from gossamer.mnesia_like.errors import DiscError, TablesNotLoadedError
from gossamer.mnesia_like.events import (
    CopyAdded,
    CopyDropped,
    Overload,
    StoreDown,
    StoreUp,
    SystemEvent,
    SystemEvents,
    SystemSubscription,
)
from gossamer.mnesia_like.link import ReplicationLink
from gossamer.mnesia_like.replicate.replication import (
    Action,
    Confirmed,
    Installed,
    Replication,
    Report,
    Rostered,
    Send,
    Wake,
)
from gossamer.mnesia_like.schema.copies import AnyTable, Copies
from gossamer.mnesia_like.schema.keeper import SchemaKeeper, SchemaServer
from gossamer.mnesia_like.schema.orders import SchemaOrders
from gossamer.mnesia_like.server import DiscHandle, DiscServer, Doorbell, Replicator
from gossamer.mnesia_like.shared.epochs import Observed
from gossamer.mnesia_like.table import info
from gossamer.mnesia_like.table.owned import OwnedTable
from gossamer.mnesia_like.table.shared import SharedTable
from gossamer.mnesia_like.table.table import ReplicatedTable, Table, TableOwner, guard
from gossamer.mnesia_like.transactions import Transaction, Transactor
from gossamer.supervisor import ChildSpec, Pid, Supervisor

__all__ = ["AnyTable", "Store"]

T = TypeVar("T")
P = ParamSpec("P")

log = structlog.get_logger(__name__)

_POLL = 0.02


class Store(SchemaOrders, TableOwner):
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
        **replication: Any,
    ) -> None:
        self.node = node
        # A later life begins at a larger number, however many changes this one sees.
        self.first_seq = creation << 20
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
        self._events = SystemEvents(guard)
        self._overloaded = False
        # Of shared tables on disc what is here, and the ticket under which that gets there.
        self._seen: dict[str, tuple[int, Observed]] = {}
        self._untold: set[str] = set()
        """Shared tables of which more is here than peers know to be safe."""
        self.queue.listeners.append(self._committed)
        self._copies = Copies(self, self, self._disc)
        self._tables = self._copies.tables
        self._keeper = SchemaKeeper(self, self._copies, has_disc=disc is not None)

    # -- processes

    def child_spec(self, id: str = "mnesia_like") -> ChildSpec:  # noqa: A002 - the supervisor's word
        """The subtree that keeps the tables, for a supervisor to start."""
        return ChildSpec(id, functools.partial(self._start_link, id), type="supervisor")

    async def _start_link(self, name: str) -> Pid:
        children = [
            ChildSpec("replicator", functools.partial(Replicator.start_link, self, label="replicator"))
        ]
        keep = functools.partial(SchemaServer.start_link, self._keeper, self._copies, label="schema")
        children.insert(0, ChildSpec("schema", keep))
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

    async def create_journal(self, name: str) -> tuple[Journal, dict[Any, Any]]:
        """Rows on disc without a copy in memory, and those that are there now; once for each name.

        Raises:
            BadTableError: a name that cannot be.
            TableExistsError: it is the name of a table.
            DiscError, UnavailableError: the disc cannot be read.
        """
        rows = await self._copies.rows_on_disc(TableDef(name=name, storage="disc_copies"))
        return Journal(name, queue=self.queue, ring=self.disc_bell.ring), rows

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

    def subscribe(self, callback: Callable[[SystemEvent], None]) -> SystemSubscription:
        """Call with everything that happens to the store as a whole; see ``events``."""
        return self._events.subscribe(callback)

    def tell(self, event: SystemEvent) -> None:
        """Pass an event on to those who subscribed to the store."""
        self._events.tell(event)

    def dump(self, name: str) -> list[tuple[str, Any, Any]]:
        """``(owner, key, value)`` of every row of a table here; of shared rows the owner wrote them last.

        Raises:
            NoSuchTableError: there is none.
        """
        return list(self.table(name).contents())

    def table(self, name: str) -> AnyTable:
        """A table that was created.

        Raises:
            NoSuchTableError: it was not.
        """
        return self._copies.get(name)

    def tables(self) -> list[str]:
        """The names of all tables here but the schema, in the order in which they were made."""
        return self._copies.names()

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
        start = self.clock.monotonic()
        while True:  # bounded by the timeout
            up = self.replication.peers()
            missing = [f"{name} is not connected" for name in expected if name not in up]
            wanted = self._copies.tables.values() if chosen is None else chosen
            missing += self._keeper.pending() if chosen is None else []
            for table in wanted:
                if not isinstance(table, ReplicatedTable):
                    continue
                missing += self.replication.not_loaded(table.name)
                if isinstance(table, SharedTable) and table.core.waits_for:
                    missing.append(table.core.waits_for)
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
        """Run ``await function(tx, *args)`` as one transaction over shared and local tables; its result.

        It may run several times: it should do nothing but use ``tx``. ``sync``: come back when the rows are
        visible on all peers and on this node's disc, as Mnesia's ``sync_transaction``.

        Raises:
            TransactionAbortedError: the function said so. As with any exception of it, nothing changed.
            TransactionTimeoutError: it did not end within ``timeout`` seconds; nothing changed.
            TransactionRefusedError: a copy cannot be written; nothing changed.
            TransactionInDoubtError: it may or may not be in effect; the error says what to do.
            DiscError: the disc takes no writes, nothing changed; or, with ``sync``, it is in effect and waits
                for this node's disc, which is tried again.
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
        """Carry out what the replication core decided, in order.

        Where one fails the others are carried out all the same, but for what peers are told, which may not be
        so: they begin anew.
        """
        for done, action in enumerate(actions, 1):
            try:
                self._carry_out(action)
            except Exception:
                self.renew()
                self.perform([other for other in actions[done:] if not isinstance(other, Send)])
                raise

    def renew(self) -> None:
        """Begin the sessions with all peers anew: something that they were to be told is lost."""
        if self.link is not None:
            for peer in list(self.link.peers()):
                self.link.renew(peer)

    def returns(self, peer: str, creation: int) -> None:
        """``peer`` is up; under a new creation it has lost what it held."""
        if self.replication.peers().get(peer) != creation:
            self.tell(StoreUp(peer, creation))
        for table in self._shared():
            replica = self.replication.tables[table.name].replicas.get(peer)
            if replica is not None and replica.creation not in (0, creation):
                table.adopt_from(peer)

    def leaves(self, peer: str, *, left: bool) -> None:
        """``peer`` is gone; ``left``: for good."""
        if peer in self.replication.peers():
            self.tell(StoreDown(peer, left))
        if not left:
            return
        for table in self._shared():
            table.adopt_from(peer)

    def housekeeping(self) -> None:
        """Some time passed."""
        busy = self.queue.waiting >= 0.8 * self.queue.bound
        if busy and not self._overloaded:
            self.tell(Overload("disc", f"{self.queue.waiting} rows wait, at most {self.queue.bound} may"))
        self._overloaded = busy
        for table in self._shared():
            table.tick()
            self._untold.add(table.name)
        self.testify()

    # -- inside

    def _carry_out(self, action: Action) -> None:
        if isinstance(action, Send):
            if self.link is not None:
                self.link.send(action.peer, action.session, action.frame)
        elif isinstance(action, Wake):
            self._transactor.wake(action.number)
        elif isinstance(action, Report):
            self._reported(action)
        elif isinstance(action, Rostered):
            for name in action.added:
                self.tell(CopyAdded(name, action.peer))
            for name in action.dropped:
                self.tell(CopyDropped(name, action.peer))
        elif action.table not in self._tables:
            # It was dropped in this very turn.
            return
        elif isinstance(action, Installed):
            self._shared_table(action.table).installed(action.keys, action.change)
        elif isinstance(action, Confirmed):
            self._replicated(action.table).confirmed()
        else:
            table = self._replicated(action.table)
            table.absorb(action)
            if isinstance(table, SharedTable):
                self._untold.add(table.name)

    def _reported(self, report: Report) -> None:
        fields = dict(report.fields)
        log.info(report.event, **fields)
        if report.event == "table_snapshot" and fields["behind"]:
            self.tell(Overload("peer", f"{fields['peer']} needs a snapshot of table {fields['table']!r}"))

    def testify(self) -> None:
        """Let peers know what of their rows is here for good, once it is."""
        now = self.clock.monotonic()
        for name in [name for name, (ticket, _) in self._seen.items() if ticket <= self.queue.committed]:
            self.perform(self.replication.testify(name, self._seen.pop(name)[1], now))
        for name in self._untold - self._seen.keys():
            self._untold.discard(name)
            if name not in self._tables:
                continue
            observed = self.replication.observe(name)
            ticket = self._shared_table(name).safe_at
            if ticket > self.queue.committed:
                self._seen[name] = ticket, observed
            else:
                self.perform(self.replication.testify(name, observed, now))

    def _committed(self) -> None:
        """The disc has more; runs in its process."""
        if self._seen:
            self.replicator_bell.ring()

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

    def _replicated(self, name: str) -> OwnedTable | SharedTable:
        table = self._tables[name]
        assert isinstance(table, OwnedTable | SharedTable)  # noqa: S101
        return table

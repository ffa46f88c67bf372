"""State shared by the parts of a store: tables, replication, the disc queue, and subscribers.

It is created before the store's processes run and outlives each of them, so that a crash and a restart cost
readers nothing: Erlang's table heirs, without the handover. The processes and the schema work on it; users
see :class:`gossamer.mnesia_like.Store`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import structlog

from gossamer.clock import Clock, HybridLogicalClock, SystemClock
from gossamer.errors import UnavailableError
from gossamer.mnesia_like.disc.queue import DiscQueue
from gossamer.mnesia_like.errors import DiscError, NoSuchTableError
from gossamer.mnesia_like.events import (
    CopyAdded,
    CopyDropped,
    Overload,
    StoreDown,
    StoreUp,
    Subscription,
    SystemEvent,
)
from gossamer.mnesia_like.replication.exchange import (
    Action,
    AttemptSignal,
    Confirmed,
    Installed,
    LogEvent,
    Send,
    TablesChanged,
)
from gossamer.mnesia_like.replication.replication import Replication
from gossamer.mnesia_like.schema.table import SCHEMA
from gossamer.mnesia_like.shared.epochs import Observed
from gossamer.mnesia_like.table.local import LocalTable
from gossamer.mnesia_like.table.owned import OwnedTable
from gossamer.mnesia_like.table.shared import SharedTable
from gossamer.mnesia_like.table.table import Table, TableOwner
from gossamer.supervisor import Pid, Runtime, self_pid

AnyTable = LocalTable | OwnedTable | SharedTable

FLUSH = "flush"
"""Message that a :class:`Notifier` sends."""

log = structlog.get_logger(__name__)


class ReplicationSink(Protocol):
    """Receiver of a link's events; every method returns at once and never raises."""

    def peer_up(self, name: str, creation: int, session: int) -> None:
        """``name`` is reachable."""

    def peer_down(self, name: str, *, left: bool, renewing: bool = False) -> None:
        """``name`` is unreachable; ``left``: it left the cluster and its rows may go at once.

        ``renewing``: it is still a member, and either comes up or is reported down once more.
        """

    def frame(self, peer: str, payload: bytes, done: Callable[[], None]) -> None:
        """Handle a frame of ``peer``; call ``done`` once it has taken effect."""


class ReplicationLink(Protocol):
    """Transport of replication frames."""

    def peers(self) -> Mapping[str, tuple[int, int]]:
        """Return the peers that are up, with their creations and sessions."""

    def renewing(self) -> set[str]:
        """Return the peers last reported down as ``renewing``."""

    def send(self, peer: str, session: int, frame: bytes) -> None:
        """Send without blocking; a frame for a session that is over is dropped."""

    def renew(self, peer: str) -> None:
        """Restart the session with ``peer`` at both ends, because something of it was lost here."""

    def attach(self, sink: ReplicationSink) -> None:
        """Report to ``sink`` from now on; frames that the previous sink did not finish come again."""


class Notifier:
    """Signals a process that something was written, once until it acknowledges."""

    def __init__(self) -> None:
        self._runtime: Runtime | None = None
        self._pid: Pid | None = None
        self._notified = False

    @property
    def process(self) -> tuple[Runtime, Pid] | None:
        """Attached process, if it is alive."""
        if self._runtime is None or self._pid is None or not self._runtime.alive(self._pid):
            return None
        return self._runtime, self._pid

    def attach(self) -> None:
        """Notify the running process from now on."""
        self._runtime, self._pid = Runtime.current(), self_pid()
        self._notified = False

    def notify(self) -> None:
        """Send ``FLUSH`` once, if a process is attached; one that attaches later checks for work itself."""
        if not self._notified and self._runtime is not None and self._pid is not None:
            self._notified = self._runtime.send(self._pid, FLUSH)

    def answer(self) -> None:
        """Acknowledge: the process checks for work now, and later writes notify it again."""
        self._notified = False


class StoreCore(TableOwner):
    """State of one node's store, and the operations that its parts need.

    ``tick`` is the interval of purges and digests in seconds; ``replication`` are options of
    :class:`Replication`.
    """

    def __init__(
        self,
        *,
        node: str,
        creation: int,
        clock: Clock | None,
        link: ReplicationLink | None,
        tick: float,
        **replication: Any,
    ) -> None:
        super().__init__(node)
        # A later creation starts at a larger number, however many changes this one sees.
        self.first_seq = creation << 20
        self.clock: Clock = clock or SystemClock()
        self.hlc = HybridLogicalClock()
        self.link = link
        self.tick = tick
        self.replication = Replication(node=node, creation=creation, **replication)
        self.replication.transactions.refuses = self._refuses
        self.queue: DiscQueue = DiscQueue()
        self.queue.listeners.append(self._committed)
        self.replicator = Notifier()
        self.disc_writer = Notifier()
        self.copies: dict[str, AnyTable] = {}
        """This node's tables by name, the schema's among them."""
        self.waiting: dict[int, asyncio.Future[None]] = {}
        """Future per transaction attempt, resolved when the attempt's state changes."""
        self._subscriptions: list[Subscription[SystemEvent]] = []
        self._overloaded = False
        # Shared tables with rows whose arrival is not yet reported to peers.
        self._unreported: dict[str, None] = {}
        # Of those with a disc copy: what is here, and the disc ticket that makes it durable.
        self._pending_reports: dict[str, tuple[int, Observed]] = {}

    # -- tables

    def table(self, name: str) -> AnyTable:
        """Return a table that was created.

        Raises:
            NoSuchTableError: there is none of that name.
        """
        try:
            return self.copies[name]
        except KeyError:
            raise NoSuchTableError(name, self.tables()) from None

    def tables(self) -> list[str]:
        """Return the names of all tables here except the schema, in creation order."""
        return [name for name in self.copies if name != SCHEMA]

    def written(self, table: Table) -> None:
        """Note that rows of ``table`` were written in this turn.

        Without peers nothing is sent: a peer that follows later has them sealed first.
        """
        if self.replication.peers and table.definition.replication != "local":
            self.replicator.notify()
        if table.definition.storage == "disc_copies":
            self.disc_writer.notify()

    # -- what transactions and the schema ask for

    def publish(self, event: SystemEvent) -> None:
        """Publish an event to the store's subscribers."""
        for subscription in tuple(self._subscriptions):
            subscription.notify(event)

    def flush_transactions(self) -> None:
        """Send what a transaction did, in this turn."""
        if self.replicator.process is None:
            self.perform(self.replication.flush())
        else:
            self.replicator.notify()

    def signal(self, attempt: int) -> None:
        """Resolve the future that waits for a transaction attempt's state."""
        future = self.waiting.pop(attempt, None)
        if future is not None and not future.done():
            future.set_result(None)

    # -- what the replicator asks for

    def perform(self, actions: list[Action]) -> None:
        """Carry out the replication core's actions in order.

        Where one fails the others are still carried out, except sends, which may no longer be true: all
        sessions restart.
        """
        for done, action in enumerate(actions, 1):
            try:
                self._carry_out(action)
            except Exception:
                self.renew()
                self.perform([other for other in actions[done:] if not isinstance(other, Send)])
                raise

    def renew(self) -> None:
        """Restart the sessions with all peers, because something to be sent was lost."""
        if self.link is not None:
            for peer in list(self.link.peers()):
                self.link.renew(peer)

    def before_peer_up(self, peer: str, creation: int) -> None:
        """Prepare for ``peer`` coming up; under a new creation it has lost the rows that it held."""
        if self.replication.connected().get(peer) != creation:
            self.publish(StoreUp(peer, creation))
        for table in self._shared():
            replica = self.replication.tables[table.name].replicas.get(peer)
            if replica is not None and replica.creation not in (0, creation):
                table.adopt_from(peer)

    def before_peer_down(self, peer: str, *, left: bool) -> None:
        """Prepare for ``peer`` going down; ``left``: permanently."""
        if peer in self.replication.connected():
            self.publish(StoreDown(peer, left))
        if not left:
            return
        for table in self._shared():
            table.adopt_from(peer)

    def housekeeping(self) -> None:
        """Run periodic work: overload events, shared tables' timers, and applied reports."""
        busy = self.queue.waiting >= 0.8 * self.queue.bound
        if busy and not self._overloaded:
            self.publish(Overload("disc", f"{self.queue.waiting} rows wait, at most {self.queue.bound} may"))
        self._overloaded = busy
        for table in self._shared():
            table.tick()
            self._unreported[table.name] = None
        self.report_applied()

    def report_applied(self) -> None:
        """Report to peers how many of their rows are here, on disc where the table is."""
        for name in [*self._pending_reports, *self._unreported]:
            seen = self._pending_reports.pop(name, None)
            if seen is None:
                self._unreported.pop(name, None)
                if name not in self.copies:
                    continue
                seen = self._shared_table(name).safe_at, self.replication.observe(name)
            ticket, observed = seen
            if ticket > self.queue.committed:
                self._pending_reports[name] = seen
            else:
                self.perform(self.replication.report_applied(name, observed))

    # -- inside

    def _carry_out(self, action: Action) -> None:
        if isinstance(action, Send):
            if self.link is not None:
                self.link.send(action.peer, action.session, action.frame)
        elif isinstance(action, AttemptSignal):
            self.signal(action.number)
        elif isinstance(action, LogEvent):
            self._reported(action)
        elif isinstance(action, TablesChanged):
            for name in action.added:
                self.publish(CopyAdded(name, action.peer))
            for name in action.dropped:
                self.publish(CopyDropped(name, action.peer))
        elif action.table not in self.copies:
            # The table was dropped in this turn.
            return
        elif isinstance(action, Installed):
            self._shared_table(action.table).installed(action.keys, action.change)
        else:
            table = self.copies[action.table]
            assert not isinstance(table, LocalTable)  # noqa: S101
            if isinstance(action, Confirmed):
                table.confirmed()
                return
            table.absorb(action)
            if isinstance(table, SharedTable):
                self._unreported[table.name] = None

    def _reported(self, report: LogEvent) -> None:
        fields = dict(report.fields)
        log.info(report.event, **fields)
        if report.event == "table_snapshot" and fields["behind"]:
            self.publish(Overload("peer", f"{fields['peer']} needs a snapshot of table {fields['table']!r}"))

    def _committed(self) -> None:
        """Handle a disc commit; runs in the disc process."""
        if self._pending_reports:
            self.replicator.notify()

    def _shared(self) -> list[SharedTable]:
        return [table for table in self.copies.values() if isinstance(table, SharedTable)]

    def _shared_table(self, name: str) -> SharedTable:
        table = self.copies[name]
        assert isinstance(table, SharedTable)  # noqa: S101
        return table

    def _refuses(self, name: str) -> str:
        """Return why this node cannot write a table's rows now; empty if it can."""
        if self.copies[name].definition.storage == "disc_copies":
            try:
                self.queue.check()
            except (DiscError, UnavailableError) as error:
                return str(error)
        return ""

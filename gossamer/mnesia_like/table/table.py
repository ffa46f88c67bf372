"""Base of all tables: read like a dict, written through, watched by callbacks.

Reads are synchronous, from this node's memory, of the objects that the owner process writes, as with
Erlang's tables; nothing on a hot path awaits a table. Writes are synchronous too: the row is in effect here
when the call returns; peers and disc get it with everything else of the same turn.

Rules: 1. A write that raises has changed nothing.  2. A subscriber is called in the writer's turn, after the
rows are in effect, and must not block.  3. A reader must not change a value: it is the row itself.
4. Changes are numbered, increasing through all creations of a node; the last few are kept, so that a
subscriber that was away continues where it was, or gets an error if it cannot.
"""

from __future__ import annotations

from asyncio import Future
from collections import deque
from collections.abc import Callable, Collection, Iterable
from functools import partial

from gossamer.clock import Clock
from gossamer.mnesia_like.definition import TableDef
from gossamer.mnesia_like.disc.queue import DiscQueue
from gossamer.mnesia_like.errors import BadRowError, HistoryLostError
from gossamer.mnesia_like.events import Subscription
from gossamer.mnesia_like.replication.own_log import OwnLog
from gossamer.mnesia_like.replication.replica import Change
from gossamer.mnesia_like.replication.replication import Replication
from gossamer.mnesia_like.values import COMPARABLE, SCALARS, Key, Value, canonical
from gossamer.mnesia_like.watermark import Watermark

TableEvent = tuple[str, str, Key, Value]
"""``("write" | "delete", owner, key, value)``; the value of a deleted row is None.

``("snapshot", "", None, None)``: discard earlier rows; all rows follow as writes.
"""

_MISSING: Value = object()

EventCallback = Callable[[list[TableEvent]], None]
BatchCallback = Callable[[Change], None]


class TableSubscription(Subscription[Change]):
    """Callback on a table; ``cancel`` ends it."""

    __slots__ = ("_seq", "_table", "own")

    def __init__(self, table: Table, callback: BatchCallback, *, own: bool) -> None:
        super().__init__(table._subscriptions, callback, of=f"table {table.name}")
        self._table = table
        self._seq = -1
        self.own = own
        table._own_subscribers += own

    @property
    def seq(self) -> int:
        """Number of the last change passed to the callback; continue ``from_seq`` here."""
        return self._table.seq if self._seq < 0 else self._seq

    def cancel(self) -> None:
        """End the subscription."""
        if self in self._table._subscriptions:
            self._seq = self._table.seq
            self._table._own_subscribers -= self.own
        super().cancel()


class Table:
    """Base of all tables: history and subscriptions."""

    def __init__(self, definition: TableDef, owner: TableOwner) -> None:
        self.definition = definition
        self.name = definition.name
        self.node = owner.node
        self._disc = owner.queue if definition.storage == "disc_copies" else None
        self._travels = definition.replication != "local" or self._disc is not None
        self._owner = owner
        self._subscriptions: list[TableSubscription] = []
        # Number of subscriptions that include this node's own writes.
        self._own_subscribers = 0
        self.seq = self._owner.first_seq
        self._keep = definition.history
        self._history: deque[tuple[str, dict[Key, Value], Collection[Key]]] = deque()
        self._history_rows = 0

    def subscribe(
        self, callback: EventCallback, *, from_seq: int | None = None, snapshot: bool = False
    ) -> TableSubscription:
        """Call ``callback`` with a list of events whenever rows change.

        ``from_seq``: first with the events after that change (see ``Subscription.seq``). If they are not
        kept, or ``from_seq`` is None, ``snapshot`` makes it begin with all rows.

        Raises:
            HistoryLostError: the changes after ``from_seq`` are not kept, and ``snapshot`` is False.
        """

        def expand(change: Change) -> None:
            owner = change.owner
            events: list[TableEvent] = [("write", owner, k, v) for k, v in change.written.items()]
            events += [("delete", owner, k, None) for k in change.deleted]
            callback(events)

        kept = from_seq is not None and self._kept(from_seq)
        if snapshot and not kept:
            from_seq = None
        subscription = self.subscribe_batches(expand, from_seq=from_seq)
        if snapshot and not kept:
            callback([("snapshot", "", None, None), *(("write", *row) for row in self.contents())])
        return subscription

    def subscribe_batches(
        self, callback: BatchCallback, *, from_seq: int | None = None, own: bool = True
    ) -> TableSubscription:
        """Subscribe as :meth:`subscribe`, without an object per row: for large tables.

        ``own`` False leaves out this node's own writes, a cost that shows at 200,000 rows a second.
        """
        if from_seq is not None and not self._kept(from_seq):
            newest = self.seq
            raise HistoryLostError(
                self.name, asked=from_seq, oldest=newest - len(self._history), newest=newest
            )
        subscription = TableSubscription(self, callback, own=own)
        missed = 0 if from_seq is None else self.seq - from_seq
        for owner, written, deleted in [*self._history][len(self._history) - missed :]:
            subscription.notify(Change(self.name, owner, written, deleted))
        return subscription

    def contents(self) -> Iterable[tuple[str, Key, Value]]:
        """Yield ``(owner, key, value)`` of every row."""
        raise NotImplementedError

    def __len__(self) -> int:
        """Return the number of rows."""
        raise NotImplementedError

    def dispatch(self, change: Change) -> None:
        """Number a change, keep it, and call all subscribers."""
        self._count(change.owner, change.written, change.deleted)
        for subscription in tuple(self._subscriptions):
            if subscription.own or change.owner != self.node:
                subscription.notify(change)

    def check(self) -> None:
        """Raise DiscError or UnavailableError if rows cannot be written now."""
        if self._disc is not None:
            self._disc.check()

    async def durable(self, timeout: float | None = 5.0) -> None:
        """Wait until everything written so far is on disc; at once for a table without a disc copy.

        Raises:
            DiscError: it could not be written; it is still retried.
            TimeoutError: not within ``timeout`` seconds.
        """
        if self._disc is not None:
            await self._disc.durable(self._disc.ticket, timeout)

    def _kept(self, seq: int) -> bool:
        return 0 <= self.seq - seq <= len(self._history)

    def _count(self, owner: str, written: dict[Key, Value], deleted: Collection[Key]) -> None:
        """Number a change, and keep it for subscribers that are away."""
        self.seq += 1
        keep = self._keep
        if keep:
            history = self._history
            history.append((owner, written, deleted))
            rows = self._history_rows + len(written) + len(deleted)
            while rows > keep:
                _, old, gone = history.popleft()
                rows -= len(old) + len(gone)
            self._history_rows = rows

    def _changed(self, written: dict[Key, Value], deleted: Collection[Key]) -> None:
        """Handle this node's own write: replicate it, number it, and call subscribers."""
        if self._travels:
            self._owner.written(self)
        if self._own_subscribers:
            self.dispatch(Change(self.name, self.node, written, deleted))
        else:
            self._count(self.node, written, deleted)


class WriterTable(Table):
    """Table whose rows only this node writes: a local table, or its part of an owned one."""

    def __init__(self, definition: TableDef, owner: TableOwner) -> None:
        super().__init__(definition, owner)
        self._bag = definition.type == "bag"
        self._mine: dict[Key, Value] = {}
        # Holds the rows and replicates them; None for a local table.
        self._log: OwnLog | None = None

    def _write(self, key: Key, value: Value) -> bool:
        """Set a row (of a bag: add a value); return False if nothing changed."""
        definition = self.definition
        encoded_key = definition.encode_key(key)
        old = self._mine.get(key, _MISSING)
        if type(value) not in SCALARS:
            value = canonical(self.name, value)
        if self._bag:
            there: list[Value] = self._mine.get(key, [])
            if _contains(there, value):
                return False
            value = [*there, value]
        encoded = definition.encode_value(value)
        # Comparing containers is costly; 0.0 and -0.0 are equal and not the same.
        if type(old) is type(value) and type(value) in COMPARABLE and old == value:
            return False
        self._set(key, value, encoded_key, encoded)
        return True

    def _delete(self, key: Key) -> bool:
        """Remove a row; return False if there was none."""
        encoded = self.definition.encode_key(key)
        if key not in self._mine:
            return False
        if self._disc is not None:
            self._disc.check()
            self._disc.put(self.name, encoded, None)
        if self._log is None:
            del self._mine[key]
        else:
            self._log.delete(key, encoded)
        self._changed({}, (key,))
        return True

    def _delete_object(self, key: Key, value: Value) -> bool:
        """Remove one value of a bag; return False if it was not there."""
        encoded = self.definition.encode_key(key)
        if not self._bag:
            kind = f"a table of type {self.definition.type}"
            raise BadRowError(self.name, where="delete_object", got=kind, expected="a table of type bag")
        old = self._mine.get(key, [])
        left = [other for other in old if not _contains([other], canonical(self.name, value))]
        if len(left) == len(old):
            return False
        if not left:
            return self._delete(key)
        self._set(key, left, encoded, self.definition.encode_value(left))
        return True

    def _set(self, key: Key, value: Value, encoded_key: bytes, encoded: bytes) -> None:
        if self._disc is not None:
            self._disc.check()
            self._disc.put(self.name, encoded_key, encoded)
        if self._log is None:
            self._mine[key] = value
        else:
            self._log.write(key, value, encoded_key + encoded)
        self._changed({key: value}, ())


def _contains(values: list[Value], value: Value) -> bool:
    """Return whether a bag's values contain one like this."""
    return any(type(other) is type(value) and bool(other == value) for other in values)


class TableOwner:
    """Interface of the store to its tables; sufficient itself for tables in memory without peers."""

    first_seq = 0
    """First number of a table's changes."""
    queue: DiscQueue | None = None
    clock: Clock
    replication: Replication

    def __init__(self, node: str) -> None:
        self.node = node

    def written(self, table: Table) -> None:
        """Note that rows of ``table`` were written in this turn."""


class ReplicatedTable(Table):
    """Table with peers; the store's ``replication`` tracks their positions."""

    def __init__(self, definition: TableDef, owner: TableOwner) -> None:
        super().__init__(definition, owner)
        self._replication = owner.replication
        self._visible = Watermark(partial(self._replication.visible, definition.name))

    def is_visible(self, number: int) -> bool:
        """Return whether every peer that is up and has the table has acknowledged ``number``."""
        return number <= self._visible.read()

    async def visible(self, number: int, timeout: float | None = 5.0) -> bool:
        """Wait until :meth:`is_visible`; return False after ``timeout`` seconds (None: no limit)."""
        return number <= self._visible.read() or await self._visible.reached(number, timeout)

    def behind(self, number: int) -> list[str]:
        """Return the peers that are up, have the table and have not acknowledged ``number``."""
        return self._replication.behind(self.name, number)

    def when_visible(self, number: int, timeout: float | None) -> Future[bool]:
        """Return a future of :meth:`is_visible`: True once it is, False after ``timeout`` seconds."""
        return self._visible.reached(number, timeout)

    def confirmed(self) -> None:
        """Wake waiters, after peers acknowledged more or went down."""
        self._visible.moved()

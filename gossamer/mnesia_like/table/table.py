"""Tables as their users see them: read like a dict, written through, watched by callbacks.

Reads are synchronous, from this node's memory, of the very objects that the owner process writes, as with
Erlang's tables; nothing on a hot path awaits a table. Writes are synchronous too: the row is in effect here
when the call returns; peers and disc get it with everything else of the same turn.

Rules: 1. A write that raises has changed nothing.  2. A subscriber is called in the writer's turn, after the
rows are in effect, and must not block.  3. Whoever gets a value must not change it: it is the row itself.
4. Changes are numbered, ever larger through all lives of a node; the last few are kept, so that a subscriber
that was away goes on where it was, or is told that it cannot.
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

``("snapshot", "", None, None)``: forget what you know, all rows follow as writes.
"""

_MISSING: Value = object()

EventCallback = Callable[[list[TableEvent]], None]
BatchCallback = Callable[[Change], None]


class TableSubscription(Subscription[Change]):
    """A callback on a table; ``cancel`` ends it."""

    __slots__ = ("_seq", "_table", "own")

    def __init__(self, table: Table, callback: BatchCallback, *, own: bool) -> None:
        super().__init__(table._subscriptions, callback, of=f"table {table.name}")
        self._table = table
        self._seq = -1
        self.own = own
        table._told_own += own

    @property
    def seq(self) -> int:
        """The number of the last change that the callback was told; go on ``from_seq`` here."""
        return self._table.seq if self._seq < 0 else self._seq

    def cancel(self) -> None:
        """Call no more."""
        if self in self._table._subscriptions:
            self._seq = self._table.seq
            self._table._told_own -= self.own
        super().cancel()


class Table:
    """What all tables have in common."""

    def __init__(self, definition: TableDef, owner: TableOwner) -> None:
        self.definition = definition
        self.name = definition.name
        self.node = owner.node
        self._disc = owner.queue if definition.storage == "disc_copies" else None
        self._travels = definition.replication != "local" or self._disc is not None
        self._owner = owner
        self._subscriptions: list[TableSubscription] = []
        # How many of them want to be told what this node itself writes.
        self._told_own = 0
        self.seq = self._owner.first_seq
        self._keep = definition.history
        self._history: deque[tuple[str, dict[Key, Value], Collection[Key]]] = deque()
        self._history_rows = 0

    def subscribe(
        self, callback: EventCallback, *, from_seq: int | None = None, snapshot: bool = False
    ) -> TableSubscription:
        """Call with a list of events whenever rows change.

        ``from_seq``: first with what came after that change (see ``Subscription.seq``). Where that is not
        kept any more, and where ``from_seq`` is None, ``snapshot`` has it begin with all rows.

        Raises:
            HistoryLostError: the changes after ``from_seq`` are not kept, and no snapshot is wanted.
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
        """As :meth:`subscribe`, without making an object for each row: for large tables.

        ``own`` False: not what this node itself writes, which a writer of 200,000 rows a second notices.
        """
        if from_seq is not None and not self._kept(from_seq):
            newest = self.seq
            raise HistoryLostError(
                self.name, asked=from_seq, oldest=newest - len(self._history), newest=newest
            )
        subscription = TableSubscription(self, callback, own=own)
        missed = 0 if from_seq is None else self.seq - from_seq
        for owner, written, deleted in [*self._history][len(self._history) - missed :]:
            subscription.tell(Change(self.name, owner, written, deleted))
        return subscription

    def contents(self) -> Iterable[tuple[str, Key, Value]]:
        """``(owner, key, value)`` of every row."""
        raise NotImplementedError

    def __len__(self) -> int:
        """How many rows there are."""
        raise NotImplementedError

    def dispatch(self, change: Change) -> None:
        """Number a change, keep it, and tell all subscribers."""
        self._count(change.owner, change.written, change.deleted)
        for subscription in tuple(self._subscriptions):
            if subscription.own or change.owner != self.node:
                subscription.tell(change)

    def check(self) -> None:
        """Raises DiscError or UnavailableError where rows cannot be written now."""
        if self._disc is not None:
            self._disc.check()

    async def durable(self, timeout: float | None = 5.0) -> None:
        """Wait until everything written so far is on disc; at once for a table without a disc copy.

        Raises:
            DiscError: it could not be written; it is still tried.
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
        """This node wrote: have the rows travel, number the change, and tell those who want to know."""
        if self._travels:
            self._owner.written(self)
        if self._told_own:
            self.dispatch(Change(self.name, self.node, written, deleted))
        else:
            self._count(self.node, written, deleted)


class WriterTable(Table):
    """A table whose rows here this node alone writes: a local one, and its part of an owned one."""

    def __init__(self, definition: TableDef, owner: TableOwner) -> None:
        super().__init__(definition, owner)
        self._bag = definition.type == "bag"
        self._mine: dict[Key, Value] = {}
        # What sends the rows to peers, and has them; of a local table there is none.
        self._log: OwnLog | None = None

    def _write(self, key: Key, value: Value) -> bool:
        """Set a row (of a bag: add a value); False where it was so already."""
        definition = self.definition
        encoded_key = definition.encode_key(key)
        old = self._mine.get(key, _MISSING)
        if type(value) not in SCALARS:
            value = canonical(self.name, value)
        if self._bag:
            there: list[Value] = self._mine.get(key, [])
            if _among(there, value):
                return False
            value = [*there, value]
        encoded = definition.encode_value(value)
        # Of a container that is costly to know; 0.0 and -0.0 are equal and not the same.
        if type(old) is type(value) and type(value) in COMPARABLE and old == value:
            return False
        self._set(key, value, encoded_key, encoded)
        return True

    def _delete(self, key: Key) -> bool:
        """Remove a row; False where there was none."""
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
        """Remove one value of a bag; False where it was not there."""
        encoded = self.definition.encode_key(key)
        if not self._bag:
            kind = f"a table of type {self.definition.type}"
            raise BadRowError(self.name, where="delete_object", got=kind, expected="a table of type bag")
        old = self._mine.get(key, [])
        left = [other for other in old if not _among([other], canonical(self.name, value))]
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


def _among(values: list[Value], value: Value) -> bool:
    """Whether a bag's values have one like this."""
    return any(type(other) is type(value) and bool(other == value) for other in values)


class TableOwner:
    """What a table asks of the store it belongs to; by itself enough for tables in memory without peers."""

    first_seq = 0
    """Where its changes are numbered from."""
    queue: DiscQueue | None = None
    clock: Clock
    replication: Replication

    def __init__(self, node: str) -> None:
        self.node = node

    def written(self, table: Table) -> None:
        """Rows of ``table`` were written in this turn."""


class ReplicatedTable(Table):
    """A table with peers; the store's ``replication`` has it, and knows how it stands with them."""

    def __init__(self, definition: TableDef, owner: TableOwner) -> None:
        super().__init__(definition, owner)
        self._replication = owner.replication
        self._visible = Watermark(partial(self._replication.visible, definition.name))

    def is_visible(self, number: int) -> bool:
        """Whether every peer that is up and has the table has applied ``number``, as far as it said."""
        return number <= self._visible.read()

    async def visible(self, number: int, timeout: float | None = 5.0) -> bool:
        """Wait until :meth:`is_visible`; False where that took longer than ``timeout`` seconds.

        None: wait as long as it takes.
        """
        return number <= self._visible.read() or await self._visible.reached(number, timeout)

    def behind(self, number: int) -> list[str]:
        """The peers that are up, have the table and have not said that they applied ``number``."""
        return self._replication.behind(self.name, number)

    def when_visible(self, number: int, timeout: float | None) -> Future[bool]:
        """Becomes True once :meth:`is_visible`; False where that takes more than ``timeout`` seconds."""
        return self._visible.reached(number, timeout)

    def confirmed(self) -> None:
        """Peers applied more, or are gone: wake those who waited for it."""
        self._visible.moved()

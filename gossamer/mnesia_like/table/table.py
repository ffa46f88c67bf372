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

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterable
from functools import partial

from gossamer.clock import Clock
from gossamer.mnesia_like.definition import TableDef
from gossamer.mnesia_like.disc.queue import DiscQueue
from gossamer.mnesia_like.errors import HistoryLostError
from gossamer.mnesia_like.events import Subscription
from gossamer.mnesia_like.replication.replica import Change
from gossamer.mnesia_like.replication.replication import Replication
from gossamer.mnesia_like.values import Key, Value, canonical, encode_key, encode_value

TableEvent = tuple[str, str, Key, Value]
"""``("write" | "delete", owner, key, value)``; the value of a deleted row is None.

``("snapshot", "", None, None)``: forget what you know, all rows follow as writes.
"""

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

    @property
    def subscribers(self) -> int:
        """How many callbacks are subscribed."""
        return len(self._subscriptions)

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

    def _to_disc(self, key: Key, value: Value, *, deleted: bool = False) -> None:
        if self._disc is not None:
            definition = self.definition
            encoded = None if deleted else encode_value(self.name, value, definition.max_value_bytes)
            self._disc.put(self.name, encode_key(self.name, key, definition.max_key_bytes), encoded)

    def _added(self, old: list[Value], value: Value) -> list[Value] | None:
        """A bag's values with one more; None where it is there already."""
        value = canonical(self.name, value)
        return None if any(map(partial(_alike, value), old)) else [*old, value]

    def _without(self, old: list[Value], value: Value) -> list[Value]:
        """A bag's values but this one."""
        value = canonical(self.name, value)
        return [v for v in old if not _alike(value, v)]


def _alike(one: Value, other: Value) -> bool:
    return type(one) is type(other) and bool(one == other)


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


class Watermark:
    """A number that grows, and those who wait until it has reached another; ``read`` tells how far it is."""

    def __init__(self, read: Callable[[], int]) -> None:
        self.read = read
        self._waiters: dict[int, asyncio.Future[None]] = {}

    async def reached(self, number: int, timeout: float | None) -> bool:
        """Wait for ``number``; False where that took longer than ``timeout`` seconds (None: no limit)."""
        if number <= self.read():
            return True
        seen: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def tell(there: bool) -> None:
            if not seen.done():
                seen.set_result(there)

        self.when(number, tell, timeout)
        return await seen

    def when(self, number: int, then: Callable[[bool], object], timeout: float | None) -> None:
        """Call ``then`` once ``number`` is reached; with False where ``timeout`` came first."""
        loop = asyncio.get_running_loop()
        future = self._waiters.get(number)
        if future is None:
            future = self._waiters[number] = loop.create_future()

        def there(_future: asyncio.Future[None]) -> None:
            if timer is not None:
                timer.cancel()
            then(True)

        def late() -> None:
            if future.done():
                return  # It was reached in this very turn, and ``there`` is on its way.
            future.remove_done_callback(there)
            try:
                reached = number <= self.read()
            except KeyError:
                reached = False  # The table was dropped meanwhile.
            then(reached)

        timer = None if timeout is None else loop.call_later(timeout, late)
        future.add_done_callback(there)

    def moved(self) -> None:
        """Wake those whose number is reached."""
        if self._waiters:
            there = self.read()
            for number in [n for n in self._waiters if n <= there]:
                future = self._waiters.pop(number)
                if not future.done():
                    future.set_result(None)


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
        return await self._visible.reached(number, timeout)

    def behind(self, number: int) -> list[str]:
        """The peers that are up, have the table and have not said that they applied ``number``."""
        return self._replication.behind(self.name, number)

    def when_visible(self, number: int, then: Callable[[bool], object], timeout: float | None) -> None:
        """Call ``then`` once :meth:`is_visible`; with False where that takes more than ``timeout`` s."""
        self._visible.when(number, then, timeout)

    def confirmed(self) -> None:
        """Peers applied more, or are gone: wake those who waited for it."""
        self._visible.moved()

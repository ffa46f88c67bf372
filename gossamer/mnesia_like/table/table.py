"""Tables as their users see them: read like a dict, written through, watched by callbacks.

Reads are synchronous, from this node's memory, of the very objects that the owner process writes, as with
Erlang's tables; nothing on a hot path awaits a table. Writes are synchronous too: the row is in effect here
when the call returns; peers and disc get it with everything else of the same turn.

Rules: 1. A write that raises has changed nothing.  2. A subscriber is called in the writer's turn, after the
rows are in effect, and must not block. One that was made in a process dies with it, and its exception
crashes that process; of any other, an exception is logged and ends the subscription.  3. Whoever gets a value
must not change it: it is the row itself.  4. Changes are numbered, ever larger through all lives of a node;
the last few are kept, so that a subscriber that was away goes on where it was, or is told that it cannot.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeVar

import structlog

from gossamer.errors import UnavailableError
from gossamer.mnesia_like.definition import TableDef
from gossamer.mnesia_like.disc.queue import DiscQueue
from gossamer.mnesia_like.exchange.replica import Change
from gossamer.mnesia_like.values import Key, Value, canonical, encode_key, encode_value
from gossamer.supervisor import NotInProcess, Runtime, guarded, self_pid

__all__ = [
    "BatchCallback",
    "EventCallback",
    "HistoryLostError",
    "ReplicatedTable",
    "Subscription",
    "Table",
    "TableEvent",
    "TableOwner",
    "Waiters",
    "guard",
    "reached",
    "wake",
    "without",
]

TableEvent = tuple[str, str, Key, Value]
"""``("write" | "delete", owner, key, value)``; the value of a deleted row is None.

``("snapshot", "", None, None)``: forget what you know, all rows follow as writes.
"""

EventCallback = Callable[[list[TableEvent]], None]
BatchCallback = Callable[[Change], None]

Waiters = dict[int, asyncio.Future[None]]
"""Of each number who waits until it is reached."""

T = TypeVar("T")

_MISSING: Any = object()

log = structlog.get_logger(__name__)


class HistoryLostError(UnavailableError):
    """Changes were asked for that the table does not keep any more, or never had."""

    def __init__(self, table: str, *, asked: int, oldest: int, newest: int) -> None:
        self.table = table
        self.asked = asked
        self.oldest = oldest
        self.newest = newest
        super().__init__(
            f"table {table!r} cannot go on after change {asked}, expected {oldest} to {newest}; subscribe "
            "with snapshot=True to be told all rows, or make the table with a longer history"
        )


class Subscription:
    """A callback on a table; ``cancel`` ends it."""

    __slots__ = ("_seq", "_table", "alive", "callback", "own")

    def __init__(self, table: Table, callback: BatchCallback, alive: Callable[[], bool], own: bool) -> None:
        self.own = own
        self._table = table
        self._seq = -1
        self.callback = callback
        self.alive = alive

    @property
    def seq(self) -> int:
        """The number of the last change that the callback was told; go on ``from_seq`` here."""
        return self._table.seq if self._seq < 0 else self._seq

    def cancel(self) -> None:
        """Call no more."""
        if self in self._table._subscriptions:
            self._seq = self._table.seq
            self._table._subscriptions.remove(self)
            self._table._told_own -= self.own


class Table:
    """What all tables have in common."""

    def __init__(
        self, definition: TableDef, *, node: str, disc: DiscQueue | None, owner: TableOwner | None
    ) -> None:
        self.definition = definition
        self.name = definition.name
        self.node = node
        self._disc = disc if definition.storage == "disc_copies" else None
        self._owner = owner or TableOwner()
        self._subscriptions: list[Subscription] = []
        # How many of them want to be told what this node itself writes.
        self._told_own = 0
        self.seq = self._owner.first_seq
        self._keep = definition.history
        self._history: deque[tuple[str, dict[Key, Value], Collection[Key]]] = deque()
        self._history_rows = 0

    def subscribe(
        self, callback: EventCallback, *, from_seq: int | None = None, snapshot: bool = False
    ) -> Subscription:
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
    ) -> Subscription:
        """As :meth:`subscribe`, without making an object for each row: for large tables.

        ``own`` False: not what this node itself writes, which a writer of 200,000 rows a second notices.
        """
        if from_seq is not None and not self._kept(from_seq):
            newest = self.seq
            raise HistoryLostError(
                self.name, asked=from_seq, oldest=newest - len(self._history), newest=newest
            )
        guarded, alive = self._owner.guard(callback)
        subscription = Subscription(self, guarded, alive, own)
        self._subscriptions.append(subscription)
        self._told_own += own
        missed = 0 if from_seq is None else self.seq - from_seq
        for owner, written, deleted in [*self._history][len(self._history) - missed :]:
            guarded(Change(self.name, owner, written, deleted))
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
            if not subscription.own and change.owner == self.node:
                continue
            if not subscription.alive():
                subscription.cancel()
                continue
            try:
                subscription.callback(change)
            except Exception:
                log.exception("table_subscriber_failed", table=self.name)
                subscription.cancel()

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

    def _to_disc(self, key: Key, value: Value, *, deleted: bool = False) -> None:
        if self._disc is not None:
            definition = self.definition
            encoded = None if deleted else encode_value(self.name, value, definition.max_value_bytes)
            self._disc.put(self.name, encode_key(self.name, key, definition.max_key_bytes), encoded)

    def _added(self, old: list[Value], value: Value) -> list[Value] | None:
        """A bag's values with one more; None where it is there already."""
        value = canonical(self.name, value)
        if any(type(value) is type(v) and value == v for v in old):
            return None
        return [*old, value]


class TableOwner:
    """What a table asks of the store it belongs to."""

    first_seq = 0
    """Where its changes are numbered from."""

    def written(self, table: Table) -> None:
        """Rows of ``table`` were written in this turn."""

    def guard(self, callback: BatchCallback) -> tuple[BatchCallback, Callable[[], bool]]:
        """The callback as it is to be called, and whether it still is."""
        return guard(callback)


class ReplicatedTable(Table):
    """A table with peers."""

    def __init__(
        self,
        definition: TableDef,
        *,
        node: str,
        disc: DiscQueue | None,
        owner: TableOwner | None,
        visible: Callable[[], int],
        behind: Callable[[int], list[str]],
    ) -> None:
        super().__init__(definition, node=node, disc=disc, owner=owner)
        self._visible = visible
        self.behind = behind
        """The peers that are up, have the table and have not said that they applied a number."""
        self._waiters: dict[int, asyncio.Future[None]] = {}

    def is_visible(self, number: int) -> bool:
        """Whether every peer that is up and has the table has applied ``number``, as far as it said."""
        return number <= self._visible()

    async def visible(self, number: int, timeout: float | None = 5.0) -> bool:
        """Wait until :meth:`is_visible`; False where that took longer than ``timeout`` seconds.

        None: wait as long as it takes.
        """
        return await reached(number, self._visible, self._waiters, timeout)

    def when_visible(self, number: int, then: Callable[[bool], object], timeout: float | None) -> None:
        """Call ``then`` once :meth:`is_visible`; with False where that takes more than ``timeout`` s."""
        when_reached(number, self._visible, self._waiters, then, timeout)

    def confirmed(self) -> None:
        """Peers applied more, or are gone: wake those who waited for it."""
        wake(self._waiters, self._visible)


async def reached(number: int, far: Callable[[], int], waiters: Waiters, timeout: float | None) -> bool:
    """Wait until ``far`` says that ``number`` is reached; False where that took longer than ``timeout``."""
    if number <= far():
        return True
    seen: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def tell(there: bool) -> None:
        if not seen.done():
            seen.set_result(there)

    when_reached(number, far, waiters, tell, timeout)
    return await seen


def when_reached(
    number: int,
    far: Callable[[], int],
    waiters: Waiters,
    then: Callable[[bool], object],
    timeout: float | None,
) -> None:
    """Call ``then`` once ``far`` says that ``number`` is reached; with False where ``timeout`` came first."""
    loop = asyncio.get_running_loop()
    future = waiters.get(number)
    if future is None:
        future = waiters[number] = loop.create_future()

    def there(_future: asyncio.Future[None]) -> None:
        if timer is not None:
            timer.cancel()
        then(True)

    def late() -> None:
        future.remove_done_callback(there)
        then(number <= far())

    timer = None if timeout is None else loop.call_later(timeout, late)
    future.add_done_callback(there)


def wake(waiters: Waiters, far: Callable[[], int]) -> None:
    """Wake whoever waited for what ``far`` has reached."""
    if waiters:
        there = far()
        for number in [n for n in waiters if n <= there]:
            future = waiters.pop(number)
            if not future.done():
                future.set_result(None)


def without(values: list[Value], value: Value) -> list[Value]:
    return [v for v in values if not (type(v) is type(value) and v == value)]


def guard(callback: Callable[[T], None]) -> tuple[Callable[[T], None], Callable[[], bool]]:
    """A subscriber's callback as it is to be called, and whether it still is."""
    try:
        pid, runtime = self_pid(), Runtime.current()
    except NotInProcess:
        return callback, lambda: True
    return guarded(callback), lambda: runtime.alive(pid)

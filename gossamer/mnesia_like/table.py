"""Tables as their users see them: read like a dict, written through, watched by callbacks.

Reads are synchronous, from this node's memory, of the very objects that the owner process writes, as with
Erlang's tables; nothing on a hot path awaits a table. Writes are synchronous too: the row is in effect here
when the call returns; peers and disc get it with everything else of the same turn.

Rules: 1. A write that raises has changed nothing.  2. A subscriber is called in the writer's turn, after the
rows are in effect, and must not block. One that was made in a process dies with it, and its exception
crashes that process; of any other, an exception is logged and ends the subscription.  3. Whoever gets a value
must not change it: it is the row itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import structlog

from gossamer.mnesia_like.discqueue import DiscQueue
from gossamer.mnesia_like.errors import BadValueError
from gossamer.mnesia_like.replica import Change
from gossamer.mnesia_like.replication import OwnedState
from gossamer.mnesia_like.schema import TableDef
from gossamer.mnesia_like.values import Key, Value, canonical, encode_key, encode_value, same
from gossamer.supervisor import NotInProcess, Runtime, guarded, self_pid

__all__ = [
    "BatchCallback",
    "EventCallback",
    "LocalTable",
    "OwnedTable",
    "Subscription",
    "Table",
    "TableEvent",
    "TableOwner",
]

TableEvent = tuple[str, str, Key, Value]
"""``("write" | "delete", owner, key, value)``; the value of a deleted row is None."""

EventCallback = Callable[[list[TableEvent]], None]
BatchCallback = Callable[[Change], None]

_MISSING: Any = object()

log = structlog.get_logger(__name__)


class Subscription:
    """A callback on a table; ``cancel`` ends it."""

    __slots__ = ("_table", "alive", "callback")

    def __init__(self, table: Table, callback: BatchCallback, alive: Callable[[], bool]) -> None:
        self._table = table
        self.callback = callback
        self.alive = alive

    def cancel(self) -> None:
        """Call no more."""
        if self in self._table._subscriptions:
            self._table._subscriptions.remove(self)


class Table:
    """What all tables have in common."""

    def __init__(self, definition: TableDef, *, node: str, disc: DiscQueue | None, owner: TableOwner) -> None:
        self.definition = definition
        self.name = definition.name
        self.node = node
        self._disc = disc if definition.storage == "disc_copies" else None
        self._owner = owner
        self._subscriptions: list[Subscription] = []

    def subscribe(self, callback: EventCallback) -> Subscription:
        """Call with a list of events whenever rows change."""

        def expand(change: Change) -> None:
            owner = change.owner
            events: list[TableEvent] = [("write", owner, k, v) for k, v in change.written.items()]
            events += [("delete", owner, k, None) for k in change.deleted]
            callback(events)

        return self.subscribe_batches(expand)

    def subscribe_batches(self, callback: BatchCallback) -> Subscription:
        """As :meth:`subscribe`, without making an object for each row: for large tables."""
        guarded, alive = self._owner.guard(callback)
        subscription = Subscription(self, guarded, alive)
        self._subscriptions.append(subscription)
        return subscription

    def dispatch(self, change: Change) -> None:
        """Tell all subscribers."""
        for subscription in tuple(self._subscriptions):
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

    def written(self, table: Table) -> None:
        """Rows of ``table`` were written in this turn."""

    def guard(self, callback: BatchCallback) -> tuple[BatchCallback, Callable[[], bool]]:
        """The callback as it is to be called, and whether it still is."""
        try:
            pid, runtime = self_pid(), Runtime.current()
        except NotInProcess:
            return callback, lambda: True
        return guarded(callback), lambda: runtime.alive(pid)


class LocalTable(Table):
    """A table of this node alone."""

    def __init__(
        self,
        definition: TableDef,
        *,
        node: str,
        disc: DiscQueue | None = None,
        owner: TableOwner | None = None,
    ) -> None:
        super().__init__(definition, node=node, disc=disc, owner=owner or TableOwner())
        self._rows: dict[Key, Value] = {}
        self._bag = definition.type == "bag"

    def read(self, key: Key, default: Value = None) -> Value:
        """The value of ``key``; of a bag the list of its values."""
        return self._rows.get(key, default)

    def rows(self) -> Mapping[Key, Value]:
        """All rows."""
        return self._rows

    def write(self, key: Key, value: Value) -> bool:
        """Set the row (of a bag: add a value); False where it was so already.

        Raises:
            BadKeyError, BadValueError, DiscError, UnavailableError: nothing changed.
        """
        encoded_key = encode_key(self.name, key, self.definition.max_key_bytes)
        old = self._rows.get(key, _MISSING)
        if self._bag:
            new: Value = self._added([] if old is _MISSING else old, value)
            if new is None:
                return False
        else:
            new = canonical(self.name, value)
        encoded = encode_value(self.name, new, self.definition.max_value_bytes)
        if same(old, new):
            return False
        if self._disc is not None:
            self._disc.check()
            self._disc.put(self.name, encoded_key, encoded)
        self._rows[key] = new
        self._tell({key: new}, ())
        return True

    def delete(self, key: Key) -> bool:
        """Remove the row; False where there was none.

        Raises:
            BadKeyError, DiscError, UnavailableError: nothing changed.
        """
        encoded_key = encode_key(self.name, key, self.definition.max_key_bytes)
        if key not in self._rows:
            return False
        if self._disc is not None:
            self._disc.check()
            self._disc.put(self.name, encoded_key, None)
        del self._rows[key]
        self._tell({}, (key,))
        return True

    def delete_object(self, key: Key, value: Value) -> bool:
        """Remove one value of a bag; False where it was not there."""
        old = self._rows.get(key)
        if not self._bag or old is None:
            return False
        left = _without(old, canonical(self.name, value))
        if len(left) == len(old):
            return False
        if not left:
            return self.delete(key)
        if self._disc is not None:
            self._disc.check()
        self._to_disc(key, left)
        self._rows[key] = left
        self._tell({key: left}, ())
        return True

    def restore(self, rows: dict[Key, Value]) -> None:
        """Take over what the disc held; before anyone else uses the table."""
        self._rows.update(rows)

    def _tell(self, written: dict[Key, Value], deleted: Iterable[Key]) -> None:
        if self._disc is not None:
            self._owner.written(self)
        if self._subscriptions:
            self.dispatch(Change(self.name, self.node, written, deleted))

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, key: Key) -> bool:
        return key in self._rows

    def __iter__(self) -> Iterator[Key]:
        return iter(self._rows)


class OwnedTable(Table):
    """A table whose rows are ``(key, owner) -> value``; this node writes its own and holds everyone's."""

    def __init__(
        self,
        definition: TableDef,
        state: OwnedState,
        *,
        node: str,
        disc: DiscQueue | None = None,
        owner: TableOwner | None = None,
        visible: Callable[[], int],
    ) -> None:
        super().__init__(definition, node=node, disc=disc, owner=owner or TableOwner())
        self._state = state
        self._log = state.log
        self._bag = definition.type == "bag"
        self._visible = visible
        self._waiters: dict[int, asyncio.Future[None]] = {}

    # -- reading

    def read(self, key: Key) -> dict[str, Value]:
        """The value of ``key`` of each owner that has one."""
        found = {}
        if key in self._log.rows:
            found[self.node] = self._log.rows[key]
        for owner, replica in self._state.replicas.items():
            if key in replica.rows:
                found[owner] = replica.rows[key]
        return found

    def rows(self, owner: str | None = None) -> Iterator[tuple[str, Key, Value]]:
        """``(owner, key, value)`` of every row, or of one owner's."""
        for name, rows in self._by_owner().items():
            if owner is None or owner == name:
                for key, value in rows.items():
                    yield name, key, value

    def rows_of(self, owner: str) -> Mapping[Key, Value]:
        """One owner's rows, as they are held."""
        return self._by_owner().get(owner, {})

    def owners(self) -> list[str]:
        """The nodes that own rows here, this one first."""
        return [name for name, rows in self._by_owner().items() if rows]

    def __len__(self) -> int:
        return len(self._log.rows) + sum(len(r.rows) for r in self._state.replicas.values())

    def __contains__(self, key: Key) -> bool:
        return key in self._log.rows or any(key in r.rows for r in self._state.replicas.values())

    # -- writing

    def write(self, key: Key, value: Value, *, owner: str | None = None) -> int:
        """Set this node's row (of a bag: add a value); the number for :meth:`visible`.

        Raises:
            BadKeyError, BadValueError, NotOwnerError, DiscError, UnavailableError: nothing changed.
        """
        log = self._log
        if owner is not None:
            log.check_owner(owner)
        if self._disc is not None:
            self._disc.check()
        if self._bag:
            new = self._added(self._old_bag(key), value)
            if new is None:
                return log.position
            value = new
        number = log.write(key, value)
        if number is None:
            return log.position
        self._to_disc(key, log.rows[key])
        self._owner.written(self)
        if self._subscriptions:
            self.dispatch(Change(self.name, self.node, {key: log.rows[key]}, ()))
        return number

    def delete(self, key: Key, *, owner: str | None = None) -> int:
        """Remove this node's row; the number for :meth:`visible`.

        Raises:
            BadKeyError, NotOwnerError, DiscError, UnavailableError: nothing changed.
        """
        log = self._log
        if owner is not None:
            log.check_owner(owner)
        if self._disc is not None:
            self._disc.check()
        number = log.delete(key)
        if number is None:
            return log.position
        self._to_disc(key, None, deleted=True)
        self._owner.written(self)
        if self._subscriptions:
            self.dispatch(Change(self.name, self.node, {}, (key,)))
        return number

    def delete_object(self, key: Key, value: Value) -> int:
        """Remove one value of this node's bag; the number for :meth:`visible`."""
        old = self._old_bag(key)
        left = _without(old, canonical(self.name, value))
        if len(left) == len(old):
            return self._log.position
        if not left:
            return self.delete(key)
        if self._disc is not None:
            self._disc.check()
        number = self._log.write(key, left)
        self._to_disc(key, left)
        self._owner.written(self)
        if self._subscriptions:
            self.dispatch(Change(self.name, self.node, {key: left}, ()))
        return self._log.position if number is None else number

    def is_visible(self, number: int) -> bool:
        """Whether every peer that is up and has the table has applied ``number``, as far as it said."""
        return number <= self._visible()

    async def visible(self, number: int, timeout: float = 5.0) -> bool:
        """Wait until :meth:`is_visible`; False where that took longer than ``timeout`` seconds."""
        if self.is_visible(number):
            return True
        future = self._waiters.get(number)
        if future is None:
            future = self._waiters[number] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(timeout):
                await asyncio.shield(future)
        except TimeoutError:
            return self.is_visible(number)
        return True

    def confirmed(self) -> None:
        """Peers applied more, or are gone: wake those who waited for it."""
        if self._waiters:
            reached = self._visible()
            for number in [n for n in self._waiters if n <= reached]:
                future = self._waiters.pop(number)
                if not future.done():
                    future.set_result(None)

    def restore(self, rows: dict[Key, Value]) -> None:
        """Own again what the disc held; before anyone else uses the table."""
        for key, value in rows.items():
            self._log.write(key, value)
        if rows:
            self._owner.written(self)

    # -- inside

    def _by_owner(self) -> dict[str, dict[Key, Value]]:
        rows = {self.node: self._log.rows}
        for owner, replica in self._state.replicas.items():
            rows[owner] = replica.rows
        return rows

    def _old_bag(self, key: Key) -> list[Value]:
        encode_key(self.name, key, self.definition.max_key_bytes)
        if not self._bag:
            raise BadValueError(
                self.name, where="delete_object", got="a table of type set", expected="a table of type bag"
            )
        old: list[Value] = self._log.rows.get(key, [])
        return old


def _without(values: list[Value], value: Value) -> list[Value]:
    return [v for v in values if not (type(v) is type(value) and v == value)]

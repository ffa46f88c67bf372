"""Transaction API: an async function whose writes happen all together or not at all.

``await store.transaction(move, "a", "b", 10)`` runs ``await move(tx, "a", "b", 10)``. ``tx`` reads its own
writes at once; other readers see them once the function has returned and all connected copies agreed.
It may touch ``shared`` tables and this node's ``local`` ones; the latter change in the same turn. An
attempt that loses a lock to an older transaction is restarted, so the function may run several times and
must only use ``tx``.

Rules: 1. A transaction ends after ``timeout`` seconds, whatever it waits for.  2. An exception that leaves
the function undoes everything and reaches the caller.  3. ``tx.transaction`` nests: the inner one's writes
are undone if it aborts, and the outer may continue; its locks stay until the end.

Rejected: running until it succeeds, Mnesia's default; a dead peer or a mistake in the function would hold
locks forever.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from gossamer.errors import TransportError, UnavailableError
from gossamer.mnesia_like.core import StoreCore
from gossamer.mnesia_like.errors import (
    BadRowError,
    BadTableError,
    TransactionAbortedError,
    TransactionInDoubtError,
    TransactionOverError,
    TransactionRefusedError,
    TransactionTimeoutError,
)
from gossamer.mnesia_like.table.local import LocalTable
from gossamer.mnesia_like.table.owned import OwnedTable
from gossamer.mnesia_like.table.queries import ANY, matches
from gossamer.mnesia_like.table.shared import SharedTable
from gossamer.mnesia_like.transaction.locks import WHOLE, Age
from gossamer.mnesia_like.transaction.participant import GONE, Attempt
from gossamer.mnesia_like.values import Key, Value, canonical

T = TypeVar("T")
P = ParamSpec("P")

MAX_BYTES = 4 * 1024 * 1024
"""Limit of the bytes that one transaction may write."""
_MIN_BACKOFF = 0.005
_MAX_BACKOFF = 0.25


class _Restart(BaseException):
    """The attempt is dead, restart it. Not an Exception, so that no function swallows it by accident."""


class Transaction:
    """Handle by which a transaction's function reads and writes; tables are given by name."""

    def __init__(self, transactor: Transactor, attempt: Attempt) -> None:
        self._transactor = transactor
        self._attempt = attempt
        self._over = False
        self._size = 0
        # One layer for each nested transaction, the innermost last.
        self._layers: list[dict[str, dict[Key, list[Value]]]] = [{}]
        # Per table: the rows read (of shared rows the version, of local ones the value itself), and for scans
        # the table's change count.
        self._reads: dict[str, dict[Key, Any]] = {}
        self._scans: dict[str, int] = {}

    async def read(self, table: str, key: Key, default: Value = None, *, write: bool = False) -> Value:
        """Return the value of ``key`` (of a local bag: the list of its values); with ``write`` under a write
        lock, for a row that will be written.

        Raises:
            NoSuchTableError, BadTableError, BadRowError, NoMajorityError
        """
        found = self._table(table)
        found.definition.encode_key(key)
        await self._lock(found, key, write=write)
        for layer in reversed(self._layers):
            if key in layer.get(table, ()):
                new = layer[table][key]
                return new[0] if new else default
        self._reads.setdefault(table, {}).setdefault(key, _state_of(found, key))
        return found.read(key, default)

    async def write(self, table: str, key: Key, value: Value) -> None:
        """Set a row; of a local bag: add a value.

        Raises:
            NoSuchTableError, BadTableError, BadRowError, NoMajorityError, DiscError
        """
        found = self._table(table)
        size = len(found.definition.encode_key(key))
        value = canonical(table, value)
        if found.definition.type == "bag":
            old = await self.read(table, key, [], write=True)
            value = old if any(type(v) is type(value) and v == value for v in old) else [*old, value]
        size += len(found.definition.encode_value(value))
        if self._size + size > MAX_BYTES:
            most = f"at most {MAX_BYTES} bytes; write in several, or without one"
            raise BadRowError(table, where="a transaction", got=f"{self._size + size} bytes", expected=most)
        await self._lock(found, key, write=True)
        self._size += size
        self._layers[-1].setdefault(table, {})[key] = [value]

    async def delete(self, table: str, key: Key) -> None:
        """Remove a row; raises as :meth:`write`."""
        if await self.read(table, key, GONE, write=True) is not GONE:
            self._layers[-1].setdefault(table, {})[key] = GONE

    async def select(self, table: str, predicate: Callable[[Key, Value], bool]) -> list[tuple[Key, Value]]:
        """Return rows for which ``predicate(key, value)`` is true, under a read lock of the whole table."""
        found = self._table(table)
        await self._lock(found, WHOLE, write=False)
        self._scans.setdefault(table, _changes_of(found))
        rows = dict(found.rows())
        for layer in self._layers:
            for key, new in layer.get(table, {}).items():
                if new:
                    rows[key] = new[0]
                else:
                    rows.pop(key, None)
        return [(key, value) for key, value in rows.items() if predicate(key, value)]

    async def match(self, table: str, key: object = ANY, value: object = ANY) -> list[tuple[Key, Value]]:
        """Return rows that match the patterns, under a read lock of the whole table."""
        return await self.select(table, lambda k, v: matches(key, k) and matches(value, v))

    async def transaction(
        self, function: Callable[Concatenate[Transaction, P], Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a nested transaction; an exception that leaves it, abort included, undoes its writes."""
        self._check()
        self._layers.append({})
        try:
            result = await function(self, *args, **kwargs)
        except BaseException:
            self._layers.pop()
            raise
        for table, rows in self._layers.pop().items():
            self._layers[-1].setdefault(table, {}).update(rows)
        return result

    def abort(self, reason: object) -> None:
        """Undo everything (of the innermost transaction) and raise TransactionAbortedError."""
        raise TransactionAbortedError(reason)

    # -- inside

    def _check(self) -> None:
        if self._over:
            raise TransactionOverError
        if self._attempt.state != "active":
            raise _Restart

    def _table(self, name: str) -> SharedTable | LocalTable:
        self._check()
        table = self._transactor.table(name)
        if isinstance(table, SharedTable) and (why := self._transactor.core.unready(name)):
            self._attempt.why = why
            raise _Restart
        return table

    async def _lock(self, table: SharedTable | LocalTable, key: Key, *, write: bool) -> None:
        owner = (self._transactor.store.node, self._attempt.number)
        if write:
            table.check()
        if self._transactor.core.locks.holds(owner, table.name, key, write=write):
            return
        self._transactor.core.lock(self._attempt, table.name, key, write=write)
        await self._transactor.wait(self._attempt)
        self._check()

    def _stale(self) -> str:
        """Describe a change since the reads; empty: there is none."""
        find = self._transactor.table
        for name, keys in self._reads.items():
            table = find(name)
            if any(_state_of(table, key) is not state for key, state in keys.items()):
                return f"a row of {name!r} changed after it was read"
        for name, changes in self._scans.items():
            if _changes_of(find(name)) != changes:
                return f"table {name!r} changed after it was read"
        return ""


def _state_of(table: SharedTable | LocalTable, key: Key) -> object:
    """Return an object that is another one once the row has changed."""
    return table.read(key, GONE) if isinstance(table, LocalTable) else table.core.versions.get(key)


def _changes_of(table: SharedTable | LocalTable) -> int:
    return table.seq if isinstance(table, LocalTable) else table.core.changes


class Transactor:
    """Runs transactions for a store."""

    def __init__(self, store: StoreCore, *, seed: str) -> None:
        self.store = store
        self.core = store.replication.transactions
        self._random = random.Random(seed)
        self._ages = 0

    async def run(self, function: Callable[..., Awaitable[T]], args: tuple[Any, ...], timeout: float) -> T:
        """See ``Store.transaction``."""
        age = self._age()
        attempts = 0
        attempt = None
        backoff = _MIN_BACKOFF
        try:
            async with asyncio.timeout(timeout) as limit:
                while True:  # bounded by the timeout
                    attempts += 1
                    attempt = self.core.begin(age)
                    tx = Transaction(self, attempt)
                    try:
                        result = await function(tx, *args)
                        await self._commit(tx)
                        break
                    except _Restart:
                        pass
                    finally:
                        tx._over = True
                        self.core.release(attempt)
                        self.store.flush_transactions()
                    await asyncio.sleep(backoff * (0.5 + self._random.random()))
                    backoff = min(2 * backoff, _MAX_BACKOFF)
        except TimeoutError:
            if not limit.expired():
                raise
            if attempt is not None and attempt.state == "voting":
                raise TransactionInDoubtError("no answer from " + ", ".join(sorted(attempt.voters))) from None
            why = "its function did not return" if attempt is None or not attempt.why else attempt.why
            raise TransactionTimeoutError(waited=timeout, attempts=attempts, why=why) from None
        return result

    async def wait(self, attempt: Attempt, *, decided: bool = False) -> None:
        """Wait until the attempt waits for nothing. ``decided``: it is committed; wait until its rows are on
        their way to disc and readers."""
        if not (attempt.waiting or decided):
            self.store.flush_transactions()
        while attempt.waiting or decided:
            future = asyncio.get_running_loop().create_future()
            self.store.waiting[attempt.number] = future
            self.store.flush_transactions()
            try:
                await future
            finally:
                self.store.waiting.pop(attempt.number, None)
            decided = False

    def table(self, name: str) -> SharedTable | LocalTable:
        """Return a table that transactions support.

        Raises:
            NoSuchTableError, BadTableError
        """
        table = self.store.table(name)
        if isinstance(table, OwnedTable):
            takes = "local or shared in a transaction; use the table's own read and write"
            raise BadTableError(name, option="replication", got="owned", expected=takes)
        return table

    # -- inside

    async def _commit(self, tx: Transaction) -> None:
        tx._check()
        changes = {table: keys for table, keys in tx._layers[0].items() if keys}
        found = {name: self.table(name) for name in changes}
        for table in found.values():
            table.check()
        rows = {name: keys for name, keys in changes.items() if isinstance(found[name], SharedTable)}
        reads = {n: keys for n, keys in tx._reads.items() if isinstance(self.table(n), SharedTable)}
        attempt = tx._attempt
        if why := tx._stale():
            attempt.why = why
            raise _Restart

        def objection() -> str:
            try:
                for table in found.values():
                    table.check()
            except (TransportError, UnavailableError) as error:
                return str(error)
            return ""

        def install_local() -> None:
            for name, table in found.items():
                if isinstance(table, LocalTable):
                    table.install(changes[name])

        attempt.objection, attempt.install_local = objection, install_local
        self.core.commit(attempt, rows, reads, self.store.clock.wall())
        await self.wait(attempt, decided=bool(rows) and attempt.state == "committed")
        if attempt.state == "committed":
            return
        if attempt.state == "lost":
            raise TransactionInDoubtError(f"most nodes of table {attempt.why!r} cannot be reached any more")
        if attempt.state == "refused":
            raise TransactionRefusedError(attempt.why)
        raise _Restart

    def _age(self) -> Age:
        self._ages = max(self._ages + 1, int(self.store.clock.wall() * 1_000_000))
        return self._ages, self.store.node

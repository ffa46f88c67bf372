"""API of shared tables: one row per key, the last written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import structlog

from gossamer.mnesia_like.definition import TableDef
from gossamer.mnesia_like.errors import NoMajorityError
from gossamer.mnesia_like.replication.replica import Change
from gossamer.mnesia_like.shared.shared import Shared
from gossamer.mnesia_like.shared.versions import Discarded, Version
from gossamer.mnesia_like.table.queries import Queries
from gossamer.mnesia_like.table.table import ReplicatedTable, TableOwner
from gossamer.mnesia_like.values import Key, Value, encode
from gossamer.mnesia_like.watermark import Watermark

log = structlog.get_logger(__name__)


class SharedTable(Queries, ReplicatedTable):
    """Table that every node may write."""

    def __init__(self, definition: TableDef, owner: TableOwner) -> None:
        super().__init__(definition, owner)
        self.core: Shared = self._replication.transactions.shared[definition.name]
        self._rows = self.core.rows
        self._on_discard: Callable[[list[Discarded]], None] | None = None
        self._clock = owner.clock
        self._safe = Watermark(partial(self._replication.safe, definition.name))

    # -- reading

    def version(self, key: Key) -> Version | None:
        """Return the version of ``key``'s row or tombstone; it changes with each write of any node."""
        return self.core.versions.get(key)

    def contents(self) -> Iterator[tuple[str, Key, Value]]:
        """Yield ``(owner, key, value)`` of every row; the owner is the node that wrote it last."""
        versions = self.core.versions
        return ((versions[key][1], key, value) for key, value in self._rows.items())

    # -- writing

    def write(self, key: Key, value: Value) -> int:
        """Set a row; return the number for :meth:`visible`.

        Raises:
            BadRowError, NoMajorityError, DiscError, UnavailableError: nothing changed.
        """
        self.check()
        return self._write(key, value)

    def _write(self, key: Key, value: Value) -> int:
        number, value = self.core.write(key, value, self._clock.wall())
        self._stored((key,))
        self._changed({key: value}, ())
        return number

    def delete(self, key: Key) -> int:
        """Remove a row; return the number for :meth:`visible`.

        Raises:
            BadRowError, NoMajorityError, DiscError, UnavailableError: nothing changed.
        """
        self.check()
        return self._delete(key)

    def retire(self, key: Key) -> int:
        """Remove the row's version that is here; a later write of any node stays.

        Raises:
            BadRowError, NoMajorityError, DiscError, UnavailableError: nothing changed.
        """
        self.check()
        return self._deleted(key, self.core.retire(key))

    def _delete(self, key: Key) -> int:
        return self._deleted(key, self.core.delete(key, self._clock.wall()))

    def _deleted(self, key: Key, number: int | None) -> int:
        if number is None:
            return self.core.position
        self._stored((key,))
        self._changed({}, (key,))
        return number

    def check(self) -> None:
        """Raise NoMajorityError, DiscError or UnavailableError if rows cannot be written now."""
        super().check()
        if self.definition.majority:
            reachable, nodes = self._replication.reachable_nodes(self.name)
            if 2 * reachable <= nodes:
                raise NoMajorityError(self.name, reachable=reachable, nodes=nodes)

    async def safe(self, number: int, timeout: float) -> bool:
        """Wait until every peer that is up and has the table has the write ``number`` on its disc, if it has
        one; return False after ``timeout`` seconds."""
        return await self._safe.reached(number, timeout)

    def confirmed(self) -> None:
        """Wake waiters for visible and for safe writes."""
        super().confirmed()
        self._safe.moved()

    def on_discard(self, callback: Callable[[list[Discarded]], None] | None) -> None:
        """Set the callback for versions that lose when a peer's rows are merged (None: no callback).

        It is called in the turn of the merge, must not block, and may keep the list.
        """
        self._on_discard = callback
        self.core.discarded = None if callback is None else []

    # -- called by the store

    def installed(self, keys: tuple[Key, ...], change: Change | None) -> None:
        """Store and dispatch rows that a transaction wrote."""
        self._owner.written(self)
        self._stored(keys)
        if change is not None:
            self.dispatch(change)

    def absorb(self, change: Change) -> None:
        """Merge a change of rows that a peer holds."""
        merged = self.core.merge(change, self._clock.monotonic(), self._clock.wall())
        self._owner.written(self)
        if self._disc is not None:
            self._stored(change.written)
        if merged is not None:
            self.dispatch(merged)
        lost = self.core.discarded
        if lost and self._on_discard is not None:
            self.core.discarded = []
            try:
                self._on_discard(lost)
            except Exception:
                log.exception("discard_callback_failed", table=self.name)

    def adopt_from(self, peer: str) -> None:
        """Adopt the rows of a peer that has lost them, or is gone."""
        self.core.adopt_from(peer, self._clock.monotonic())
        self._owner.written(self)

    def force_load(self) -> None:
        """Accept the rows from disc, and replicate them."""
        self.core.force_load(self._clock.monotonic())

    def tick(self) -> None:
        """Run periodic work: master nodes, orphans, tombstone collection."""
        dropped = self.core.drop_provisional()
        if dropped is not None:
            self._stored(dropped[0])
            self.dispatch(dropped[1])
        forgotten = self.core.tick(self._clock.monotonic())
        self._stored(forgotten)
        revived, self.core.revived = self.core.revived, []
        for change in revived:
            self.dispatch(change)
        if self.core.collector.unsaved and self._disc is not None:
            self.core.collector.unsaved = False
            self._disc.put(self.name, encode(None), encode(self.core.collector.epoch.packed()))
        self._owner.written(self)

    @property
    def safe_at(self) -> int:
        """Disc ticket that covers everything here now; 0 without a disc copy."""
        return 0 if self._disc is None else self._disc.ticket

    def restore(self, rows: dict[Key, Value], masters: tuple[str, ...] = ()) -> None:
        """Load the rows from disc, before the table is used."""
        self.core.restore(rows, self._clock.monotonic(), masters)

    # -- inside

    def _stored(self, keys: Iterable[Key]) -> None:
        """Queue the current rows for the disc, with versions and tombstones."""
        if self._disc is not None:
            for key in keys:
                packed = self.core.packed(key)
                self._disc.put(self.name, encode(key), None if packed is None else encode(packed))

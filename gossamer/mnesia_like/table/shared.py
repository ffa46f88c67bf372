"""The face of shared tables: one row a key, whoever wrote it last."""

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
    """A table that every node writes."""

    def __init__(self, definition: TableDef, owner: TableOwner) -> None:
        super().__init__(definition, owner)
        self.core: Shared = self._replication.transactions.shared[definition.name]
        self._rows = self.core.rows
        self._on_discard: Callable[[list[Discarded]], None] | None = None
        self._clock = owner.clock
        self._safe = Watermark(partial(self._replication.safe, definition.name))

    # -- reading

    def version(self, key: Key) -> Version | None:
        """What ``key`` was written as last, or removed as; another with each write, whoever makes it."""
        return self.core.versions.get(key)

    def contents(self) -> Iterator[tuple[str, Key, Value]]:
        """``(owner, key, value)`` of every row; the owner is who wrote it last."""
        versions = self.core.versions
        return ((versions[key][1], key, value) for key, value in self._rows.items())

    # -- writing

    def write(self, key: Key, value: Value) -> int:
        """Set a row; the number for :meth:`visible`.

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
        """Remove a row; the number for :meth:`visible`.

        Raises:
            BadRowError, NoMajorityError, DiscError, UnavailableError: nothing changed.
        """
        self.check()
        return self._delete(key)

    def retire(self, key: Key) -> int:
        """Remove a row as it stands here; whatever was written after that, anywhere, stays.

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
        """Raises NoMajorityError, DiscError or UnavailableError where rows cannot be written now."""
        super().check()
        if self.definition.majority:
            reachable, nodes = self._replication.reach(self.name)
            if 2 * reachable <= nodes:
                raise NoMajorityError(self.name, reachable=reachable, nodes=nodes)

    async def safe(self, number: int, timeout: float) -> bool:
        """Wait until every peer that is up and has the table holds the write ``number`` on its disc, where it
        has one; False where that took longer than ``timeout`` seconds."""
        return await self._safe.reached(number, timeout)

    def confirmed(self) -> None:
        """As of any table; peers have more on disc besides."""
        super().confirmed()
        self._safe.moved()

    def on_discard(self, callback: Callable[[list[Discarded]], None] | None) -> None:
        """Hand ``callback`` the versions that lose when a peer's rows are merged (None: nobody).

        It is called in the turn of the merge, must not block, and may keep what it gets.
        """
        self._on_discard = callback
        self.core.discarded = None if callback is None else []

    # -- what the store does with it

    def installed(self, keys: tuple[Key, ...], change: Change | None) -> None:
        """A transaction wrote rows."""
        self._owner.written(self)
        self._stored(keys)
        if change is not None:
            self.dispatch(change)

    def absorb(self, change: Change) -> None:
        """Rows that a peer holds changed."""
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
        """A peer comes back without what it held."""
        self.core.adopt_from(peer)
        self._owner.written(self)

    def force_load(self) -> None:
        """Whatever stands here counts, and is offered to peers."""
        self.core.force_load(self._clock.monotonic())

    def tick(self) -> None:
        """Time passed."""
        obeyed = self.core.obey()
        if obeyed is not None:
            self._stored(obeyed[0])
            self.dispatch(obeyed[1])
        forgotten = self.core.tick(self._clock.monotonic())
        self._stored(forgotten)
        revived, self.core.revived = self.core.revived, []
        for change in revived:
            self.dispatch(change)
        if self.core.burial.changed and self._disc is not None:
            self.core.burial.changed = False
            self._disc.put(self.name, encode(None), encode(self.core.burial.epoch.packed()))
        self._owner.written(self)

    @property
    def safe_at(self) -> int:
        """The ticket after whose commit all that is here now is on disc; 0: at once."""
        return 0 if self._disc is None else self._disc.ticket

    def restore(self, rows: dict[Key, Value], masters: tuple[str, ...] = ()) -> None:
        """Take over what the disc held; before anyone else uses the table."""
        self.core.restore(rows, self._clock.monotonic(), masters)

    # -- inside

    def _stored(self, keys: Iterable[Key]) -> None:
        """Put the rows as they now stand into the queue for the disc; versions and tombstones included."""
        if self._disc is not None:
            for key in keys:
                packed = self.core.packed(key)
                self._disc.put(self.name, encode(key), None if packed is None else encode(packed))

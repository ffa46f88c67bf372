"""Rows that both sides of a split wrote: losers are kept, and each table's policy decides the winners.

While this node holds a peer for dead, and until the heal, every shared table hands over what its merges
discard. Of a table that heals by ``lww`` what lost goes into the quarantine, where it was written since the
split. Of the others everything that the merge replaced is kept too, so that the coordinator can undo it:
``survivors`` sets rows back to what the survivors held, a merge function gets both sides' values. What the
coordinator decides it writes as a new version, which all nodes take over.

Rules: 1. No clock of another machine decides what a side wrote: a row of a minority's author that replaced
one of ours when we met was written behind the split, and of a row that lost to ours its author's own order of
writes tells. Our clock only thins out the quarantine of ``lww``, generously.  2. Where the
quarantine had to drop something of a table, its rows stay as the latest write left them, which is counted.
3. A merge function that raises leaves the row as it is, which is logged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import structlog
from msgspec.structs import replace

from gossamer.autoheal.quarantine import Kept, Quarantine, as_key
from gossamer.autoheal.storage import Settings
from gossamer.autoheal.values import DownRecord, HealPlan, Reconciled, Restart
from gossamer.clock import Clock, HybridLogicalClock
from gossamer.errors import UsageError
from gossamer.mnesia_like import Discarded, SharedTable, Store

log = structlog.get_logger(__name__)

SURVIVORS = "survivors"
SLACK = 15.0
"""Seconds before a death was declared that may belong to the split already."""
_SLICE = 2000
_NEVER = (0, "")

Merge = Callable[[Any, Any, Any], Any]
"""``(key, survivors' value, minority's value) -> value``, None where there is, or is to be, no row."""

_MERGES: dict[str, Merge] = {}


class UnknownTableError(UsageError):
    """A row cannot be replayed, since its table is not here."""

    def __init__(self, table: str) -> None:
        self.table = table
        super().__init__(f"{table}: no shared table of that name on this node; replay it where the table is")


def register_merge(name: str, merge: Merge) -> None:
    """Let tables created with ``heal=name`` heal by ``merge``; on every node, since any may coordinate."""
    _MERGES[name] = merge


class Discards:
    """Collector of discarded rows on one node, made once; ``store`` None: no tables."""

    def __init__(
        self, store: Store | None, quarantine: Quarantine, clock: Clock, *, restart: Restart = "store"
    ) -> None:
        self.quarantine = quarantine
        self._store = store
        self._clock = clock
        self._restart = restart
        self._marks: dict[str, DownRecord] = {}
        self._since: dict[str, tuple[int, dict[str, int]]] = {}
        self._dropped = 0

    # -- watching

    def watch(self, marks: dict[str, DownRecord]) -> None:
        """Collect versions discarded in merges with these peers, which are, or were, considered down."""
        store = self._store
        if store is None:
            return
        if not self._marks and marks:
            self._dropped = self.quarantine.dropped
        self._marks = marks
        for peer in self._since.keys() - marks.keys():
            del self._since[peer]
        for peer in marks.keys() - self._since.keys():
            # Ahead of all timestamps seen, whatever this machine's clock says.
            now = store.hlc.tick(self._clock.wall())
            self._since[peer] = now, {table.name: table.core.seen.get(peer, 0) for table in self._tables()}
        for table in self._tables():
            if bool(marks) != (table.core.discarded is not None):
                table.on_discard(partial(self._lost, table) if marks else None)

    def _lost(self, table: SharedTable, lost: list[Discarded]) -> None:
        now = self._clock.wall()
        policy = self._policy(table)
        for row in lost:
            mark = self._marks.get(row.peer)
            if mark is None or not self._concerns(row, mark, policy):
                continue
            kept = Kept(
                table=row.table,
                key=row.key,
                value=row.value,
                version=row.version,
                winner=row.winner,
                peer=row.peer,
                at=now,
                policy=policy,
                before=row.ours,
            )
            known = self.quarantine.rows.get(kept.id)
            if known is None or row.ours or not known.before:
                self.quarantine.keep(kept)

    def _concerns(self, row: Discarded, mark: DownRecord, policy: str) -> bool:
        """Return whether a losing row was written since the split, or is needed to undo one that was."""
        now, seen = self._since[row.peer]
        if not row.ours:
            return row.version[0] > seen.get(row.table, 0) and row.version[1] != row.winner[1]
        if policy != "lww":
            return True
        since = HybridLogicalClock.wall_of(now) - SLACK
        until = mark.met_wall + SLACK if mark.met else float("inf")
        written = HybridLogicalClock.wall_of(row.version[0])
        return row.version[1] != row.winner[1] and since <= written <= until

    # -- the coordinator

    async def reconcile(self, plan: HealPlan) -> Reconciled:
        """Decide about every row that both sides wrote, and write what was decided."""
        victims = set(plan.victims)
        restored = merged = left = 0
        tables = {table.name: table for table in self._tables()}
        for number, (name, key, kept) in enumerate(self._rows(victims)):
            if number % _SLICE == _SLICE - 1:
                await asyncio.sleep(0)
            table = tables.get(name)
            policy = "lww" if table is None else self._policy(table, plan.restart)
            if table is None or policy == "lww":
                continue
            if self.quarantine.dropped > self._dropped or policy not in (SURVIVORS, *_MERGES):
                left += 1
                continue
            try:
                wrote = self._decide(table, key, kept, policy, victims)
            except Exception:
                log.exception("heal_of_row_failed", table=name, policy=policy)
                left += 1
                continue
            restored += wrote and policy == SURVIVORS
            merged += wrote and policy != SURVIVORS
        if left:
            log.error("rows_left_to_the_latest_write", plan=plan.id, rows=left)
        # Where a loser was let go by its holder in time, some nodes have never seen it.
        quarantined = max(await self.settle(plan.id), plan.lost)
        return Reconciled(restored, merged, quarantined, left)

    @property
    def merges(self) -> bool:
        """True if merge functions decide about the rows of a table."""
        return any(self._policy(table) in _MERGES for table in self._tables())

    def lost_of(self, victims: Iterable[str]) -> list[Kept]:
        """Rows by these that lost here and wait for a merge function."""
        authors = set(victims)
        return [
            row
            for row in self.quarantine
            if not row.plan and row.policy in _MERGES and row.real and row.version[1] in authors
        ]

    def told(self, rows: Iterable[Kept]) -> None:
        """Keep rows that lost at another node where this one has not seen them."""
        for row in rows:
            if row.id not in self.quarantine.rows:
                key = as_key(row.key)
                self.quarantine.keep(replace(row, key=key, at=self._clock.wall(), before=False))

    async def settle(self, plan: str) -> int:
        """A heal is done: what still differs from its table belongs to that heal; how many rows."""
        tables = {table.name: table for table in self._tables()}
        count = 0
        for kept in [kept for kept in self.quarantine if not kept.plan]:
            table = tables.get(kept.table)
            if not kept.real or (table is not None and _value(table, kept.key) == kept.value):
                self.quarantine.take(kept.id)
            else:
                self.quarantine.keep(replace(kept, plan=plan))
                count += 1
        await self.quarantine.synced()
        return count

    @property
    def unsettled(self) -> int:
        """Rows that have lost and that no heal has settled."""
        tables = {table.name: table for table in self._tables()}
        return sum(
            kept.real and (kept.table not in tables or _value(tables[kept.table], kept.key) != kept.value)
            for kept in self.quarantine
            if not kept.plan
        )

    async def replay(self, id: str) -> Kept:  # noqa: A002 - the operator's word
        """Write a row of the quarantine again, as a new version, and take it out.

        Raises:
            NotInQuarantineError: there is none.
            UnknownTableError: its table is not here.
            UnavailableError: it cannot be written now.
        """
        kept = self.quarantine.get(id)
        table = next((table for table in self._tables() if table.name == kept.table), None)
        if table is None:
            raise UnknownTableError(kept.table)
        _write(table, kept.key, kept.value)
        self.quarantine.take(id)
        await self.quarantine.synced()
        return kept

    # -- inside

    def _tables(self) -> list[SharedTable]:
        store = self._store
        if store is None:
            return []
        tables = (store.table(name) for name in store.tables() if name != Settings.TABLE)
        return [table for table in tables if isinstance(table, SharedTable)]

    def _policy(self, table: SharedTable, restart: Restart = "store") -> str:
        # Where nodes restart as EMQX's do, the survivors' rows win in every table.
        return SURVIVORS if "node" in (restart, self._restart) else table.definition.heal

    def _rows(self, victims: set[str]) -> list[tuple[str, object, list[Kept]]]:
        """Return what the quarantine holds of this split, by row."""
        rows: dict[tuple[str, object], list[Kept]] = {}
        for kept in self.quarantine:
            if not kept.plan and victims & {kept.version[1], kept.winner[1], kept.peer}:
                rows.setdefault((kept.table, kept.key), []).append(kept)
        return [(table, key, kept) for (table, key), kept in rows.items()]

    def _decide(
        self, table: SharedTable, key: object, kept: list[Kept], policy: str, victims: set[str]
    ) -> bool:
        """Decide about a row; return whether it was rewritten."""
        version, current = table.core.versions.get(key, _NEVER), _value(table, key)
        before = [row for row in kept if row.before]
        lost = [row for row in kept if row.real and row.version[1] in victims]
        if version == _NEVER and before:
            # The deletion that won is known to all and forgotten already.
            version = max(row.winner for row in before)
        if version[1] in victims and any(row.winner == version for row in before):
            # The latest that our side wrote; failing that, what we held when we first met them.
            own = [row for row in before if row.version[1] not in victims]
            base = max(own, key=_version) if own else min(before, key=_version)
            ours = base.value
            theirs = [row.value for row in lost if row is not base] + [current]
        else:
            ours = current
            theirs = [row.value for row in lost if not row.before]
        wanted = ours
        if policy != SURVIVORS:
            for value in theirs:
                result = _MERGES[policy](key, *(side[0] if side else None for side in (wanted, value)))
                wanted = [] if result is None else [result]
        if wanted == current:
            return False
        _write(table, key, wanted)
        self.quarantine.keep(
            Kept(
                table=table.name,
                key=key,
                value=current,
                version=version,
                winner=table.core.versions.get(key, _NEVER),
                peer=version[1],
                at=self._clock.wall(),
                policy=policy,
            )
        )
        return True


def _version(kept: Kept) -> tuple[int, str]:
    return kept.version


def _value(table: SharedTable, key: object) -> list[object]:
    return [table.read(key)] if key in table else []


def _write(table: SharedTable, key: object, value: list[object]) -> None:
    if value:
        table.write(key, value[0])
    else:
        table.delete(key)

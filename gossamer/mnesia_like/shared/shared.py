"""Shared tables: every node may write every row, and the latest version wins on all nodes.

A shared table is built on an owned one. Each row carries a version (hybrid logical clock, then the node that
wrote it, which breaks ties); a deletion is a version too, a tombstone. Some node *holds* the row: it is one
of that node's owned rows and is replicated like them, with their logs, snapshots and digests. The writer of a
row holds it; a holder that sees a newer version releases its own. Reads see the merge: of each key the latest
version seen.

When a holder is permanently removed the merge keeps its rows, and a survivor adopts them under their old
version, so that joiners get them too. Two survivors that do so at once agree afterwards which keeps them.

Rules: 1. Pure: ``now`` (interval time) and ``wall`` are passed in.  2. A version is never reused for another
value.  3. A write is later than the version it replaces here, however wrong the clocks are; timestamps too
far ahead do not advance our clock, and are counted.  4. A tombstone is collected when all members have seen
it, or the horizon has passed (see ``tombstones``).

Rejected: one replicated log for all writers, which needs an election before any write, and stops on the
smaller side of a split.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from gossamer.clock import ClockSkewError, HybridLogicalClock
from gossamer.mnesia_like.replication.exchange import OwnedState
from gossamer.mnesia_like.replication.replica import Change
from gossamer.mnesia_like.shared.tombstones import Epoch, TombstoneCollector, vector_of
from gossamer.mnesia_like.shared.versions import (
    NEVER,
    Discarded,
    MasterNodes,
    Version,
    first,
    given_back,
    held,
    held_alone,
    loser,
    lost,
    value_of,
    version_of,
)
from gossamer.mnesia_like.values import Key, Value, canonical, encode

_MISSING: Value = object()
_ADOPT_AFTER = 2.0
"""Seconds for which a row may be without a holder; thrice that where this node is not the first."""


class Shared:
    """Merge of one table, and the rows of it that this node holds."""

    def __init__(
        self,
        state: OwnedState,
        *,
        node: str,
        clock: HybridLogicalClock | None = None,
        creation: int = 0,
    ) -> None:
        self.node = node
        self.rows: dict[Key, Value] = {}
        self.versions: dict[Key, Version] = {}
        self.changes = 0
        # Versions that lost in a merge; None without a subscriber.
        self.discarded: list[Discarded] | None = None
        # Changes for readers, to be dispatched after a tick.
        self.revived: list[Change] = []
        self.seen: dict[str, int] = {}
        """Highest timestamp received from each holder."""
        self.counts = {"adopted": 0, "collected": 0, "malformed": 0, "skewed": 0}
        self.counts |= {"started_over": 0, "superseded": 0}
        self._state = state
        self._log = state.log
        self._definition = state.definition
        self._clock = clock or HybridLogicalClock()
        self.collector = TombstoneCollector(node, state, creation)
        # No version is issued below those that were collected: other nodes may still have them.
        self._floor = 0
        # Keys whose latest version has no known holder, and since when.
        self._orphans: dict[Key, float] = {}
        self._lent: set[str] = set()
        """Nodes that were down, or gone, when this one adopted their rows."""
        self._masters = MasterNodes()

    # -- writing

    def write(self, key: Key, value: Value, wall: float) -> tuple[int, Value]:
        """Set a row; return its replication number, and the value as stored.

        Raises:
            BadRowError: nothing changed.
        """
        definition = self._definition
        definition.encode_key(key)
        value = canonical(definition.name, value)
        definition.encode_value(value)
        self._put(key, self._next_version(key, wall), value)
        return self._log.position, value

    def delete(self, key: Key, wall: float) -> int | None:
        """Replace a row by a tombstone; return its replication number, or None if there was no row.

        Raises:
            BadRowError: nothing changed.
        """
        self._definition.encode_key(key)
        if key not in self.rows:
            return None
        self._put(key, self._next_version(key, wall), _MISSING)
        return self._log.position

    def retire(self, key: Key) -> int | None:
        """Delete only the version that is here: any later version wins over the tombstone."""
        if key not in self.rows:
            return None
        self._put(key, (self.versions[key][0] + 1, self.node), _MISSING)
        return self._log.position

    def tick_clock(self, wall: float) -> int:
        """Return a timestamp later than all seen so far."""
        return self._clock.tick(wall)

    def install(
        self, author: str, version: Version, changes: Mapping[Key, list[Value]], now: float
    ) -> Change | None:
        """Install the rows of a transaction of ``author`` (``[]``: deleted); return the change for readers.

        If ``author`` is another node, its own rows will follow; until then these have no holder.
        """
        written: dict[Key, Value] = {}
        deleted: list[Key] = []
        for key, new in changes.items():
            if self.versions.get(key, NEVER) >= version:
                continue
            was = key in self.rows
            if author == self.node:
                self._put(key, version, new[0] if new else _MISSING)
            else:
                self._take(key, version, new)
                self._orphans[key] = now
            if new:
                written[key] = new[0]
            elif was:
                deleted.append(key)
        if not written and not deleted:
            return None
        return Change(self._definition.name, author, written, deleted)

    # -- changes of peers

    def merge(self, change: Change, now: float, wall: float | None) -> Change | None:
        """Merge a change of rows that a peer holds; return the change for readers, if any."""
        written: dict[Key, Value] = {}
        deleted: list[Key] = []
        versions = self.versions
        latest = 0
        highest = self.seen.get(change.owner, 0)
        for key, row in change.written.items():
            version = version_of(row)
            if version is None:
                self.counts["malformed"] += 1
                continue
            if version[0] > highest:
                highest = version[0]
            mine = versions.get(key)
            if self._masters.accept(key):
                mine = None
            if len(row) == 4:
                vector = vector_of(row)
                if vector is None or mine is None:
                    self.counts["malformed"] += vector is None
                    continue
                self.collector.add_mark(key, change.owner, vector)
            if self.discarded is not None and version != mine:
                name, here = self._definition.name, [self.rows[key]] if key in self.rows else []
                self.discarded.append(loser(name, key, mine, here, change.owner, version, row))
            if mine is None or version > mine:
                latest = max(latest, version[0])
                was = key in self.rows
                self._orphans.pop(key, None)
                self._take(key, version, value_of(row))
                if len(row) == 3:
                    written[key] = row[2]
                elif was:
                    deleted.append(key)
            elif version == mine:
                self._orphans.pop(key, None)
                if change.owner < self.node:
                    # Both of us adopted it; one is enough.
                    self._let_go(key)
        self.seen[change.owner] = highest
        if latest and wall is not None:
            try:
                self._clock.observe(latest, wall)
            except ClockSkewError:
                self.counts["skewed"] += 1
        self._find_orphans(change.deleted, now)
        if not written and not deleted:
            return None
        return Change(change.table, change.owner, written, deleted)

    def adopt_from(self, peer: str, now: float, *, without: Collection[str] = ()) -> int:
        """Adopt rows that ``peer`` held alone, which is down or has lost them; return how many.

        The first node does, besides those ``without`` them; others what is left of them after a while.
        """
        keys = held_alone(self._state, peer, self.versions)
        if keys:
            self._lent.add(peer)
        if not first(self._state, self.node, besides=[peer, *without]):
            self._orphans = dict.fromkeys(keys, now) | self._orphans
            return 0
        for key in keys:
            self._adopt(key)
        return len(keys)

    def tick(self, now: float) -> list[Key]:
        """Adopt rows without a holder; collect tombstones that all have seen, and return their keys."""
        alone = first(self._state, self.node)
        # The first live node does it; the others only if it did not.
        delay = _ADOPT_AFTER if alone else 3 * _ADOPT_AFTER
        for key in [key for key, since in self._orphans.items() if now - since >= delay]:
            del self._orphans[key]
            if not held(self._state, key, self.versions.get(key)):
                self._adopt(key)
        for key in given_back(self._state, self.node, self.versions, self._lent):
            self._let_go(key)
        mark, forgotten = self.collector.tick(now, first=alone)
        vector = self.collector.vector()
        for key in mark:
            self._hold(key, [*self.versions[key], None, vector])
            self.collector.marked(key, self._log.position)
        forgotten += [k for k in self.collector.due() if k not in self.rows and k not in self._log.rows]
        for key in forgotten:
            self._forget(key)
        self._revive(forgotten, now)
        return forgotten

    def _revive(self, keys: list[Key], now: float) -> None:
        """Merge rows that peers wrote again after collecting them earlier, and that we had ignored."""
        for owner, replica in self._state.replicas.items():
            found = {key: replica.rows[key] for key in keys if key in replica.rows}
            if found:
                change = self.merge(Change(self._definition.name, owner, found, ()), now, None)
                if change is not None:
                    self.revived.append(change)

    def start_over(self, peer: str) -> tuple[list[Key], Change]:
        """Drop all rows, which may have been deleted since; return the keys, and the change for readers."""
        keys, gone = list(self.versions), list(self.rows)
        if self.discarded is not None:
            self.discarded += lost(self._definition.name, self.rows, self.versions, peer)
        for everything in (self.rows, self.versions, self._orphans):
            everything.clear()
        self._masters.release()
        self._log.clear()
        self.collector.clear()
        self.changes += 1
        self.counts["started_over"] += 1
        return keys, Change(self._definition.name, self.node, {}, gone)

    def restore(self, rows: dict[Key, Value], now: float, masters: tuple[str, ...] = ()) -> None:
        """Load rows from disc, and (under the key None) the epoch.

        ``masters``: nodes whose rows count; ours serve reads until one has answered, and are not replicated.
        """
        self._masters.names = masters
        for key, row in rows.items():
            version = version_of(row)
            if key is None or version is None:
                epoch = Epoch.unpacked(row)
                if key is None and epoch is not None:
                    self.collector.merge(epoch)
                continue
            self.versions[key] = version
            if len(row) == 3:
                self.rows[key] = row[2]
            if masters:
                self._masters.provisional.add(key)
            elif version[1] == self.node:
                # Replicated at once: others may have older ones on disc, and wait for ours to admit clients.
                self._adopt(key)
            else:
                self._orphans[key] = now

    def drop_provisional(self) -> tuple[list[Key], Change] | None:
        """Once a master has answered, drop rows that only our disc had; return the keys and the change."""
        if not self._masters.answered(self._state):
            return None
        stale = self._masters.release()
        gone = [key for key in stale if self.rows.pop(key, _MISSING) is not _MISSING]
        for key in stale:
            self._forget(key)
        self.changes += 1
        return stale, Change(self._definition.name, self.node, {}, gone)

    def force_load(self, now: float) -> None:
        """Accept the rows from our disc, whatever the masters have."""
        self._orphans |= dict.fromkeys(self._masters.release(), now)

    @property
    def waits_for(self) -> str:
        """Description of what the table waits for before it counts as loaded; empty: nothing."""
        return self._masters.waits_for(self._definition.name)

    def packed(self, key: Key) -> Value:
        """Return the row in its wire and disc form; None if it is unknown or collected."""
        version = self.versions.get(key)
        if version is None:
            return None
        return [*version, self.rows[key]] if key in self.rows else [*version]

    @property
    def position(self) -> int:
        """Replication number that covers everything written so far."""
        return self._log.position

    @property
    def tombstones(self) -> int:
        """Number of tombstones."""
        return len(self.versions) - len(self.rows)

    # -- inside

    def _next_version(self, key: Key, wall: float) -> Version:
        stamp = self._clock.tick(wall)
        before = self.versions.get(key)
        least = self._floor if before is None else max(before[0], self._floor)
        return max(stamp, least + 1), self.node

    def _take(self, key: Key, version: Version, value: list[Value]) -> None:
        """Store another node's later version; no value: it is deleted."""
        self.changes += 1
        self.versions[key] = version
        self._let_go(key)
        if value:
            self.collector.cancel_mark(key)
            self.rows[key] = value[0]
        else:
            self.rows.pop(key, None)

    def _put(self, key: Key, version: Version, value: Value) -> None:
        self.changes += 1
        self.versions[key] = version
        self._orphans.pop(key, None)
        self._masters.accept(key)
        if value is _MISSING:
            self.rows.pop(key, None)
        else:
            self.rows[key] = value
        self._hold(key, self.packed(key))
        self._track_tombstone(key)

    def _adopt(self, key: Key) -> None:
        row = self.packed(key)
        if row is not None:
            self._hold(key, row)
            self._track_tombstone(key)
            self.counts["adopted"] += 1

    def _hold(self, key: Key, row: Value) -> None:
        self._log.write(key, row, encode(key) + encode(row))

    def _track_tombstone(self, key: Key) -> None:
        """Track a row that this node now holds as a tombstone, or release it."""
        self.collector.cancel_mark(key)
        if key in self.rows:
            self.collector.release(key)
        else:
            self.collector.hold(key, self._log.position)

    def _let_go(self, key: Key) -> None:
        if key in self._log.rows:
            self._log.delete(key, encode(key))
            self.collector.release(key)
            self.counts["superseded"] += 1

    def _find_orphans(self, keys: Iterable[Key], now: float) -> None:
        versions = self.versions
        for key in keys:
            self.collector.cancel_mark(key)
            if key in versions and key not in self._orphans and not held(self._state, key, versions[key]):
                self._orphans[key] = now

    def _forget(self, key: Key) -> None:
        version = self.versions.pop(key, None)
        if version is None:
            return
        self._floor = max(self._floor, version[0])
        self._orphans.pop(key, None)
        self.collector.release(key)
        if key in self._log.rows:
            self._log.delete(key, encode(key))
        self.counts["collected"] += 1

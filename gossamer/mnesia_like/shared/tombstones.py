"""Tombstone collection: a deletion is forgotten once every member has it, so the row cannot come back.

A tombstone is one of its holder's rows, and is replicated like them. Members report the position that is
applied *and safe* (on disc, where the table is): ``AppliedReport``. A tombstone that all have seen is marked
as *collected* by its holder, at least :data:`MIN_AGE` seconds after it was made. A member that reads the mark
drops the tombstone once it has everything that the others released for it; when all have confirmed the mark,
the holder drops it too.

A member that is down delays this for the horizon, no longer. Then it is removed from the members, and a new
*epoch* begins. Copies of different epochs exchange no rows; a node that returns from an older one, and is not
among the members, empties its copy and starts from a snapshot. The rows that it wrote meanwhile are reported
as discarded versions.

Rules: 1. Pure. Times are intervals, so a clock set back or hours off changes nothing.  2. An epoch that
descends from another wins over it. Of two that both sides of a split began, that of the larger side wins, and
the larger id if they are equal.  3. Members are stored on disc with the rows: one that is down while all
others restart still counts.  4. A node that has dropped its copy has no rows to bring back, and is no member.

Rejected: collection by age alone. A node that was down for longer would bring deleted rows back.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from gossamer.mnesia_like.replication.exchange import OwnedState
from gossamer.mnesia_like.values import Key, Value

MIN_AGE = 5.0
"""Minimum age of a tombstone in seconds, for messages in flight when it was made."""
_BUDGET = 5000
_LINEAGE = 32
_SUCCESSOR_DELAY = 10.0

Vector = dict[str, list[int]]
"""Per member: its creation, and the position of its rows that must be applied here."""


@dataclass(frozen=True, slots=True)
class Epoch:
    """Members of a table; ``lineage``: the ids of earlier epochs, oldest first."""

    id: str = ""
    number: int = 0
    size: int = 0
    members: frozenset[str] = frozenset()
    lineage: tuple[str, ...] = ()

    def packed(self) -> list[object]:
        """Return the wire and disc form."""
        return [self.id, self.number, self.size, sorted(self.members), list(self.lineage)]

    @classmethod
    def unpacked(cls, row: Any) -> Epoch | None:
        """Parse the result of :meth:`packed`; None if it is invalid."""
        match row:
            case [str(made), int(number), int(size), [*members], [*lineage]] if all(
                isinstance(name, str) for name in (*members, *lineage)
            ):
                return cls(made, number, size, frozenset(members), tuple(lineage))
        return None

    def beats(self, other: Epoch) -> bool:
        """Return whether copies of the other epoch give way to this one's."""
        if self.id == other.id or self.id in other.lineage or not self.id:
            return False
        if other.id in self.lineage or not other.id:
            return True
        return (self.size, self.id) > (other.size, other.id)


@dataclass(slots=True)
class _Tombstone:
    """Tombstone that this node holds; ``number`` is the replication number of it, or of its mark."""

    number: int
    since: float | None = None
    marked: bool = False


@dataclass(slots=True)
class _AppliedReport:
    """A member's last report: it has our rows up to ``number``; its own rows were at ``mine`` then."""

    number: int = 0
    creation: int = 0
    mine: int = 0


@dataclass(slots=True)
class TombstoneCollector:
    """Tombstone collection of one shared table at one node."""

    node: str
    state: OwnedState
    creation: int = 0
    epoch: Epoch = field(default_factory=Epoch)
    # To be sent: a new epoch; other members. To be written to disc: the epoch.
    epoch_began: bool = False
    members_changed: bool = False
    unsaved: bool = False
    _tombstones: dict[Key, _Tombstone] = field(default_factory=dict)
    _marks: dict[Key, tuple[str, Vector]] = field(default_factory=dict)
    _reports: dict[str, _AppliedReport] = field(default_factory=dict)
    _started: float | None = None

    # -- events of the table

    def hold(self, key: Key, number: int) -> None:
        """Track a tombstone that this node holds."""
        self._tombstones[key] = _Tombstone(number)

    def release(self, key: Key) -> None:
        """Stop tracking a tombstone."""
        self._tombstones.pop(key, None)

    def clear(self) -> None:
        """Stop tracking all tombstones, own and marked."""
        self._tombstones.clear()
        self._marks.clear()

    def add_mark(self, key: Key, owner: str, vector: Vector) -> None:
        """Record the holder's mark on a tombstone; ``vector`` is what must be applied here first."""
        self._marks[key] = owner, vector

    def cancel_mark(self, key: Key) -> None:
        """Cancel a mark: the row was written again, or its holder went down."""
        self._marks.pop(key, None)

    def due(self) -> list[Key]:
        """Return marked tombstones of other holders that can be dropped now."""
        keys = [key for key, (_, needed) in self._marks.items() if self.reached(needed)]
        for key in keys:
            del self._marks[key]
        return keys

    @property
    def pending_holders(self) -> set[str]:
        """Peers with marks that are not yet acted on."""
        return {owner for owner, _ in self._marks.values()}

    # -- reports of peers

    def add_members(self, names: Iterable[str]) -> None:
        """Add nodes that have copies to the members."""
        members = self.epoch.members | {self.node, *names}
        if members != self.epoch.members:
            self._set_members(members)

    def remove_member(self, name: str) -> None:
        """Remove a node that has dropped its copy, and its reports."""
        self._reports.pop(name, None)
        if name in self.epoch.members:
            self._set_members(self.epoch.members - {name})

    def record_applied(self, name: str, number: int, mine: int) -> None:
        """Record that ``name`` has our rows up to ``number`` safe; its own were at ``mine`` then."""
        replica = self.state.replicas.get(name)
        if replica is not None:
            self._reports[name] = _AppliedReport(number, replica.creation, mine)

    def safe(self, name: str) -> int:
        """Return the position of our rows that ``name``, in its present creation, reported as safe."""
        report, replica = self._reports.get(name), self.state.replicas.get(name)
        return report.number if report and replica and report.creation == replica.creation else 0

    def merge(self, theirs: Epoch) -> Literal["same", "behind", "follow", "start over"]:
        """Merge a peer's epoch. ``behind``: ours wins; ``follow``: we adopted theirs; ``start over``: we did,
        and our rows may have been deleted since."""
        if theirs.id == self.epoch.id:
            self.add_members(theirs.members)
            return "same"
        if not theirs.beats(self.epoch):
            return "behind"
        before = self.epoch
        self.epoch = theirs
        self._set_members(theirs.members | {self.node})
        if self.node in theirs.members or (not before.id and not self._has_rows()):
            return "follow"
        return "start over"

    # -- time

    def tick(self, now: float, *, first: bool) -> tuple[list[Key], list[Key]]:
        """Return tombstones to mark as collected, and marks that all have seen. ``first``: this node is the
        first of those that are up."""
        if self._started is None:
            self._started = now
        if not self._tombstones:
            return [], []
        self.add_members(())
        least = min((self._confirmed(name) for name in self.epoch.members if name != self.node), default=None)
        mark: list[Key] = []
        collected: list[Key] = []
        held_up = False
        for key, tombstone in self._tombstones.items():
            if tombstone.since is None:
                tombstone.since = now
            if now - tombstone.since < MIN_AGE:
                continue
            if least is not None and tombstone.number > least:
                held_up = True
            elif len(mark) + len(collected) < _BUDGET:
                (collected if tombstone.marked else mark).append(key)
        if held_up:
            self._remove_absent(now, first=first)
        return mark, collected

    def marked(self, key: Key, number: int) -> None:
        """Record the mark's replication number."""
        self._tombstones[key] = _Tombstone(number, self._tombstones[key].since, marked=True)

    def vector(self) -> Vector:
        """Return the positions of all members that a node must reach before it drops what is marked now."""
        return {
            name: [report.creation, report.mine]
            for name in sorted(self.epoch.members)
            if name != self.node and (report := self._reports.get(name)) is not None
        }

    def reached(self, vector: Vector) -> bool:
        """Return whether the positions of ``vector`` are reached here."""
        for name, (creation, number) in vector.items():
            replica = self.state.replicas.get(name)
            if name != self.node and replica is not None and replica.creation == creation:
                if replica.position < number or replica.loading:
                    return False
            elif replica is not None and replica.purging:
                return False
        return True

    # -- inside

    def _set_members(self, members: frozenset[str]) -> None:
        epoch = self.epoch
        self.epoch = Epoch(epoch.id, epoch.number, epoch.size, members, epoch.lineage)
        self.state.epoch = epoch.id
        self.unsaved = self.members_changed = True

    def _has_rows(self) -> bool:
        return bool(self.state.log.rows) or any(r.rows for r in self.state.replicas.values())

    def _confirmed(self, name: str) -> int:
        """Return the position up to which a member has our rows, and we have what it released for them."""
        report = self._reports.get(name)
        if report is None:
            return 0
        return report.number if self.reached({name: [report.creation, report.mine]}) else 0

    def _remove_absent(self, now: float, *, first: bool) -> None:
        """Remove members that have been down past the horizon, and begin a new epoch."""
        horizon = self.state.definition.tombstone_horizon
        delay = horizon if first else horizon + _SUCCESSOR_DELAY
        removed = set()
        for name in self.epoch.members - {self.node}:
            replica = self.state.replicas.get(name)
            if replica is not None and replica.up and replica.refused is None:
                continue
            since = self._started if replica is None or replica.down_since is None else replica.down_since
            left = replica is not None and replica.left
            if since is not None and (left or now - since > delay):
                removed.add(name)
        if not removed:
            return
        before = self.epoch
        members = before.members - removed
        number = before.number + 1
        made = f"{number}.{len(members)}.{self.node}.{self.creation}"
        lineage = (*before.lineage, before.id)[-_LINEAGE:]
        self.epoch = Epoch(made, number, len(members), members, lineage)
        self._set_members(members)
        self.epoch_began = True


def vector_of(row: Value) -> Vector | None:
    """Return the vector in a marked tombstone's row; None if it is invalid."""
    if type(row) is not list or len(row) != 4 or type(row[3]) is not dict:
        return None
    for name, report in row[3].items():
        if type(name) is not str or type(report) is not list or [type(part) for part in report] != [int, int]:
            return None
    vector: Vector = row[3]
    return vector

"""When a deletion may be forgotten: once every member has it, so that nobody can bring the row back.

A tombstone stands in the rows of its holder, and travels as they do. Members confirm what is in effect with
them *and safe* (on disc, where the table is): ``Seen``. What all have seen, and :data:`SETTLE` seconds later,
the holder marks as *collected*. A member that reads the mark forgets the tombstone as soon as it has
everything that the others had let go of for it; when all have confirmed the mark, the holder forgets it too.

A member that is away holds this up for the horizon, no longer. Then it is struck from the members: a new
*epoch* begins. Copies of different epochs exchange no rows; whoever returns from an older one, and is not
among the members, empties its copy and starts from a snapshot. What it wrote meanwhile goes to whoever
collects discarded versions.

Rules: 1. Pure. Times are intervals, so that a clock set back or hours off changes nothing.  2. An epoch that
descends from another wins over it. Of two that both sides of a split began, that of the larger side wins, by
its id where they are alike.  3. Members are remembered on disc with the rows: who is away while all others
restart still counts.  4. Who has dropped its copy has no rows to bring back, and is no member.

Rejected: forgetting by age alone. A node that was away for longer would bring back what was deleted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from gossamer.mnesia_like.replication.exchange import OwnedState
from gossamer.mnesia_like.values import Key, Value

SETTLE = 5.0
"""Seconds that a tombstone stays at least: for what was on its way when it was made."""
_BUDGET = 5000
_LINEAGE = 32
_PATIENCE = 10.0

Vector = dict[str, list[int]]
"""Of each member its creation, and the number of its rows that must be here."""


@dataclass(frozen=True, slots=True)
class Epoch:
    """Who the members are; ``lineage``: the ids of the epochs before, oldest first."""

    id: str = ""
    number: int = 0
    size: int = 0
    members: frozenset[str] = frozenset()
    lineage: tuple[str, ...] = ()

    def packed(self) -> list[Any]:
        """As it travels and stands on disc."""
        return [self.id, self.number, self.size, sorted(self.members), list(self.lineage)]

    @classmethod
    def unpacked(cls, row: Any) -> Epoch | None:
        """What :meth:`packed` made; None where it makes no sense."""
        match row:
            case [str(made), int(number), int(size), [*members], [*lineage]] if all(
                isinstance(name, str) for name in (*members, *lineage)
            ):
                return cls(made, number, size, frozenset(members), tuple(lineage))
        return None

    def beats(self, other: Epoch) -> bool:
        """Whether copies of the other epoch give way to this one's."""
        if self.id == other.id or self.id in other.lineage or not self.id:
            return False
        if other.id in self.lineage or not other.id:
            return True
        return (self.size, self.id) > (other.size, other.id)


@dataclass(slots=True)
class _Grave:
    """A tombstone that this node holds; ``number`` is that of the rows it (or its mark) travels under."""

    number: int
    since: float | None = None
    marked: bool = False


@dataclass(slots=True)
class _Testimony:
    """What a member has said: it has our rows up to ``number``, and had ours let go of within ``mine``."""

    number: int = 0
    creation: int = 0
    mine: int = 0


@dataclass(slots=True)
class Burial:
    """Of one shared table, at one node. ``horizon`` in seconds."""

    node: str
    state: OwnedState
    horizon: float
    creation: int = 0
    epoch: Epoch = field(default_factory=Epoch)
    # A new epoch; other members; and these to be put on disc.
    announce: bool = False
    news: bool = False
    changed: bool = False
    _graves: dict[Key, _Grave] = field(default_factory=dict)
    _condemned: dict[Key, tuple[str, Vector]] = field(default_factory=dict)
    _said: dict[str, _Testimony] = field(default_factory=dict)
    _started: float | None = None

    # -- what the table says

    def hold(self, key: Key, number: int) -> None:
        """This node holds a tombstone."""
        self._graves[key] = _Grave(number)

    def release(self, key: Key) -> None:
        """It does not any more."""
        self._graves.pop(key, None)

    def clear(self) -> None:
        """It holds nothing any more, and knows of nothing."""
        self._graves.clear()
        self._condemned.clear()

    def condemn(self, key: Key, owner: str, vector: Vector) -> None:
        """Its holder says that all have seen a tombstone; ``vector`` is what must be here first."""
        self._condemned[key] = owner, vector

    def pardon(self, key: Key) -> None:
        """It was written again, or its holder is gone before it was done."""
        self._condemned.pop(key, None)

    def due(self) -> list[Key]:
        """What can be forgotten now on the word of others."""
        keys = [key for key, (_, needed) in self._condemned.items() if self.reached(needed)]
        for key in keys:
            del self._condemned[key]
        return keys

    @property
    def testified(self) -> set[str]:
        """Peers whose word waits to be followed."""
        return {owner for owner, _ in self._condemned.values()}

    # -- what peers say

    def meet(self, names: Iterable[str]) -> None:
        """These have copies."""
        members = self.epoch.members | {self.node, *names}
        if members != self.epoch.members:
            self._be(members)

    def gone(self, name: str) -> None:
        """It has dropped its copy, and what it said was of that one."""
        self._said.pop(name, None)
        if name in self.epoch.members:
            self._be(self.epoch.members - {name})

    def seen(self, name: str, number: int, mine: int) -> None:
        """``name`` has our rows up to ``number`` for good; its own stood at ``mine`` then."""
        replica = self.state.replicas.get(name)
        if replica is not None:
            self._said[name] = _Testimony(number, replica.creation, mine)

    def safe(self, name: str) -> int:
        """Up to where ``name``, in its present life, has said that it has our rows for good."""
        said, replica = self._said.get(name), self.state.replicas.get(name)
        return said.number if said and replica and said.creation == replica.creation else 0

    def hear(self, theirs: Epoch) -> Literal["same", "behind", "follow", "start over"]:
        """A peer's epoch: ``behind`` is the peer; ``follow``: it is ours now; ``start over``: so it is, and
        what this node has may have been deleted since."""
        if theirs.id == self.epoch.id:
            self.meet(theirs.members)
            return "same"
        if not theirs.beats(self.epoch):
            return "behind"
        before = self.epoch
        self.epoch = theirs
        self._be(theirs.members | {self.node})
        if self.node in theirs.members or (not before.id and not self._knows_anything()):
            return "follow"
        return "start over"

    # -- time

    def tick(self, now: float, *, first: bool) -> tuple[list[Key], list[Key]]:
        """Tombstones to mark as collected, and marks that all have seen. ``first``: of those that are up."""
        if self._started is None:
            self._started = now
        if not self._graves:
            return [], []
        self.meet(())
        least = min((self._confirmed(name) for name in self.epoch.members if name != self.node), default=None)
        mark: list[Key] = []
        spent: list[Key] = []
        held_up = False
        for key, grave in self._graves.items():
            if grave.since is None:
                grave.since = now
            if now - grave.since < SETTLE:
                continue
            if least is not None and grave.number > least:
                held_up = True
            elif len(mark) + len(spent) < _BUDGET:
                (spent if grave.marked else mark).append(key)
        if held_up:
            self._strike(now, first=first)
        return mark, spent

    def marked(self, key: Key, number: int) -> None:
        """The mark travels under ``number``."""
        self._graves[key] = _Grave(number, self._graves[key].since, marked=True)

    def vector(self) -> Vector:
        """How much of each member's rows must be at whoever forgets what is marked now."""
        return {
            name: [said.creation, said.mine]
            for name in sorted(self.epoch.members)
            if name != self.node and (said := self._said.get(name)) is not None
        }

    def reached(self, vector: Vector) -> bool:
        """Whether that much is here."""
        for name, (creation, number) in vector.items():
            replica = self.state.replicas.get(name)
            if name != self.node and replica is not None and replica.creation == creation:
                if replica.position < number or replica.loading:
                    return False
            elif replica is not None and replica.purging:
                return False
        return True

    # -- inside

    def _be(self, members: frozenset[str]) -> None:
        epoch = self.epoch
        self.epoch = Epoch(epoch.id, epoch.number, epoch.size, members, epoch.lineage)
        self.state.epoch = epoch.id
        self.changed = self.news = True

    def _knows_anything(self) -> bool:
        return bool(self.state.log.rows) or any(r.rows for r in self.state.replicas.values())

    def _confirmed(self, name: str) -> int:
        """Up to where a member has our rows, and we have what it let go of for them."""
        said = self._said.get(name)
        if said is None:
            return 0
        return said.number if self.reached({name: [said.creation, said.mine]}) else 0

    def _strike(self, now: float, *, first: bool) -> None:
        """Whoever has been away past the horizon is no member any more."""
        patience = self.horizon if first else self.horizon + _PATIENCE
        struck = set()
        for name in self.epoch.members - {self.node}:
            replica = self.state.replicas.get(name)
            if replica is not None and replica.up and replica.refused is None:
                continue
            since = self._started if replica is None or replica.down_since is None else replica.down_since
            left = replica is not None and replica.left
            if since is not None and (left or now - since > patience):
                struck.add(name)
        if not struck:
            return
        before = self.epoch
        members = before.members - struck
        number = before.number + 1
        made = f"{number}.{len(members)}.{self.node}.{self.creation}"
        lineage = (*before.lineage, before.id)[-_LINEAGE:]
        self.epoch = Epoch(made, number, len(members), members, lineage)
        self._be(members)
        self.announce = True


def vector_of(row: Value) -> Vector | None:
    """What a row says that its tombstone is collected upon; None where it does not say so."""
    if type(row) is not list or len(row) != 4 or type(row[3]) is not dict:
        return None
    for name, said in row[3].items():
        if type(name) is not str or type(said) is not list or [type(part) for part in said] != [int, int]:
            return None
    vector: Vector = row[3]
    return vector

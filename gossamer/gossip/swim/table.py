"""Membership table: one entry per name, and indexes for a fast choice of members.

It stores and finds; ``verdicts`` decides on changes. Live and down names are in lists with their positions,
so that adding, dropping and random choice cost the same at 3 members and at 3000, and so that any order with
an effect depends on the events only, never on string hashes.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Iterator
from typing import Final

from swimprotocol.status import Status

from gossamer.gossip.member import Member
from gossamer.gossip.swim.lifeguard import Suspicion
from gossamer.gossip.wire import Alive, Record
from gossamer.network import Address

ALIVE: Final = 0
SUSPECT: Final = 1
DOWN: Final = 2
LEFT: Final = 3
REMOVED: Final = 4
"""Removed after it was down for too long: like LEFT, but a live one refutes and is a member again."""
MAX_MEMBERS: Final = 10_000
STOPPED: Final = "stopped"
"""Reason of a member that is down after it announced its stop."""

_STATUS = (Status.ONLINE, Status.SUSPECT, Status.OFFLINE, Status.OFFLINE, Status.OFFLINE)


class MemberEntry:
    """One member: its own last statement, and our verdict on it."""

    __slots__ = ("alive", "heard", "reason", "returned", "row_hash", "since", "state", "suspicion")

    def __init__(self, alive: Alive, state: int, since: float) -> None:
        self.alive = alive
        self.state = state
        self.since = since
        self.heard = since
        """Time of its last statement."""
        self.suspicion: Suspicion | None = None
        self.reason = ""
        """Reason why it is down."""
        self.returned = -1e9
        """Time when it last came back after it was down."""
        self.row_hash = 0
        """Its mark for comparisons, maintained by the table."""

    @property
    def name(self) -> str:
        return self.alive.name

    @property
    def id(self) -> str:
        return self.alive.id

    @property
    def incarnation(self) -> int:
        return self.alive.incarnation

    @property
    def address(self) -> Address:
        return (self.alive.host, self.alive.port)

    def member(self) -> Member:
        """Return the public value."""
        alive = self.alive
        return Member(
            alive.id,
            alive.name,
            alive.host,
            alive.port,
            _STATUS[self.state],
            alive.incarnation,
            alive.metadata,
            self.state >= LEFT,
            self.state == REMOVED,
            self.state == DOWN and self.reason == STOPPED,
        )

    def record(self, now: float) -> Record:
        """Return the row for peers; its age is that of the state, or of the statement if that is newer."""
        return Record(self.alive, self.state, max(0.0, now - max(self.since, self.heard)))


def retransmit_limit(members: int, *, mult: int) -> int:
    """Return how often one statement is sent in a cluster of ``members``."""
    return mult * math.ceil(math.log10(members + 1))


def row_hash(alive: Alive, state: int) -> int:
    """Return the eight-byte hash of a row for comparisons. Suspicions are transient and not included."""
    text = f"{alive.id} {alive.incarnation} {0 if state <= SUSPECT else state}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


class _Names:
    """List of names for random choice, with constant-time removal."""

    __slots__ = ("_at", "names")

    def __init__(self) -> None:
        self.names: list[str] = []
        self._at: dict[str, int] = {}

    def add(self, name: str) -> None:
        if name not in self._at:
            self._at[name] = len(self.names)
            self.names.append(name)

    def drop(self, name: str) -> None:
        at = self._at.pop(name, None)
        if at is None:
            return
        last = self.names.pop()
        if last != name:
            self.names[at] = last
            self._at[last] = at


class MemberTable:
    """All members except this node itself, which is ``me``."""

    def __init__(self, me: Alive, *, retransmit_mult: int) -> None:
        self.me = me
        self.version = 0
        """Number that rises with every change."""
        self.changed_at = 0.0
        self._mult = retransmit_mult
        self._entries: dict[str, MemberEntry] = {}
        self._by_id: dict[str, str] = {}
        self._by_address: dict[Address, str] = {}
        self._live = _Names()
        self._down = _Names()
        self.suspected: dict[str, MemberEntry] = {}
        """Suspected members, in the order of suspicion."""
        self._digest = 0
        self.retransmits = retransmit_limit(1, mult=retransmit_mult)

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[MemberEntry]:
        return iter(self._entries.values())

    @property
    def live(self) -> list[str]:
        """Names that are alive or suspected; read-only."""
        return self._live.names

    @property
    def size(self) -> int:
        """Number of live members, this node included."""
        return len(self._live.names) + 1

    def get(self, name: str) -> MemberEntry | None:
        return self._entries.get(name)

    def by_id(self, member_id: str) -> MemberEntry | None:
        name = self._by_id.get(member_id)
        return None if name is None else self._entries.get(name)

    def by_address(self, address: Address) -> MemberEntry | None:
        """Return the live member last seen at an address."""
        name = self._by_address.get(address)
        return None if name is None else self._entries.get(name)

    def put(self, entry: MemberEntry, now: float) -> None:
        """Add an entry, or update the indexes after its statement or state changed."""
        name = entry.name
        old = self._entries.get(name)
        if old is not None and old is not entry:
            self.remove(name, now)
        self._entries[name] = entry
        self._by_id[entry.id] = name
        mark = row_hash(entry.alive, entry.state)
        self._digest ^= entry.row_hash ^ mark
        entry.row_hash = mark
        if entry.state == SUSPECT:
            self.suspected[name] = entry
        else:
            self.suspected.pop(name, None)
        if entry.state <= SUSPECT:
            self._live.add(name)
            self._down.drop(name)
            self._by_address[entry.address] = name
        else:
            self._live.drop(name)
            if entry.state == DOWN:
                self._down.add(name)
            else:
                self._down.drop(name)
            if self._by_address.get(entry.address) == name:
                del self._by_address[entry.address]
        self._changed(now)

    def restate(self, entry: MemberEntry, alive: Alive, now: float) -> None:
        """Store a newer statement of the same instance; ``put`` must follow."""
        entry.heard = now
        if self._by_address.get(entry.address) == entry.name:
            del self._by_address[entry.address]
        entry.alive = alive

    def remove(self, name: str, now: float) -> None:
        entry = self._entries.pop(name, None)
        if entry is None:
            return
        if self._by_id.get(entry.id) == name:
            del self._by_id[entry.id]
        if self._by_address.get(entry.address) == name:
            del self._by_address[entry.address]
        self._live.drop(name)
        self._down.drop(name)
        self.suspected.pop(name, None)
        self._digest ^= entry.row_hash
        entry.row_hash = 0
        entry.suspicion = None
        self._changed(now)

    def sample(self, rng: random.Random, count: int, *, exclude: str = "") -> list[MemberEntry]:
        """Return up to ``count`` distinct random live members, never ``exclude``."""
        names = self._live.names
        if len(names) <= count + 1:
            chosen = [name for name in names if name != exclude][:count]
        else:
            chosen = []
            for _ in range(4 * count + 8):
                name = names[rng.randrange(len(names))]
                if name != exclude and name not in chosen:
                    chosen.append(name)
                    if len(chosen) == count:
                        break
        return [self._entries[name] for name in chosen]

    def any_down(self, rng: random.Random) -> MemberEntry | None:
        """Return a random down member, or None."""
        down = self._down.names
        return self._entries[down[rng.randrange(len(down))]] if down else None

    def records(self, now: float) -> list[Record]:
        """Return the whole table with this node first."""
        return [Record(self.me, ALIVE, 0.0), *(entry.record(now) for entry in self._entries.values())]

    def row(self, name: str, now: float) -> Record:
        """Return one row; ``name`` may be this node."""
        return Record(self.me, ALIVE, 0.0) if name == self.me.name else self._entries[name].record(now)

    def digest(self) -> bytes:
        """Return a digest that is equal for equal tables, whatever their order and node."""
        return (self._digest ^ row_hash(self.me, ALIVE)).to_bytes(8, "big")

    def hashes(self) -> dict[int, str]:
        """Return the mark of every row, this node's included, with its name."""
        hashes = {entry.row_hash: name for name, entry in self._entries.items()}
        hashes[row_hash(self.me, ALIVE)] = self.me.name
        return hashes

    def _changed(self, now: float) -> None:
        self.version += 1
        self.changed_at = now
        self.retransmits = retransmit_limit(len(self._live.names) + 1, mult=self._mult)

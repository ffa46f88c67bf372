"""What replication works on: tables, peers, and the actions of the event at hand.

Messages for a peer gather while an event is handled; ``done`` makes frames of them, after one confirmation
for each table from which something came, however many deltas that was.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from gossamer.mnesia_like.definition import TableDef
from gossamer.mnesia_like.replication.feed import Feed
from gossamer.mnesia_like.replication.own_log import OwnLog
from gossamer.mnesia_like.replication.replica import Change, Replica
from gossamer.mnesia_like.replication.wire import Ack, Follow, Roster, encode_frames
from gossamer.mnesia_like.values import Key, encode


@dataclass(frozen=True, slots=True)
class Send:
    """Send ``frame`` to ``peer`` in this session, or not at all."""

    peer: str
    session: int
    frame: bytes


@dataclass(frozen=True, slots=True)
class Confirmed:
    """More of ``table`` is in effect at peers than before: see :meth:`Replication.visible`."""

    table: str


@dataclass(frozen=True, slots=True)
class Report:
    """Something an operator may want to know. ``fields`` are key-values of the log line."""

    event: str
    fields: tuple[tuple[str, str | int], ...]


@dataclass(frozen=True, slots=True)
class Wake:
    """A transaction's attempt changed its state, or a lock that it waited for is granted."""

    number: int


@dataclass(frozen=True, slots=True)
class Installed:
    """A transaction wrote these rows here; ``change`` is what that means to readers."""

    table: str
    keys: tuple[Key, ...]
    change: Change | None


@dataclass(frozen=True, slots=True)
class Rostered:
    """``peer`` says that it has more tables, or fewer, than it did."""

    peer: str
    added: tuple[str, ...]
    dropped: tuple[str, ...]


Action = Send | Change | Confirmed | Report | Wake | Installed | Rostered


class OwnedState:
    """One owned table on this node: what it owns, what it holds of others, whom it feeds."""

    __slots__ = ("definition", "epoch", "feeds", "log", "marked_at", "replicas")

    def __init__(self, definition: TableDef, log: OwnLog) -> None:
        self.definition = definition
        self.log = log
        self.replicas: dict[str, Replica] = {}
        self.feeds: dict[str, Feed] = {}
        self.marked_at = 0.0
        # Of a shared table, since when its members are who they are; see ``tombstones``.
        self.epoch = ""

    @property
    def pact(self) -> str:
        """What peers must agree on to exchange rows."""
        return f"{self.definition.pact}, epoch {self.epoch}" if self.epoch else self.definition.pact


@dataclass(slots=True)
class Peer:
    """A peer that is up, and what it is to be told."""

    creation: int
    # Of the link: what is sent in it arrives in it, or both ends are told that it is over.
    session: int
    # What each frame to it begins with.
    prefix: bytes
    # None until it has said which tables it has.
    tables: frozenset[str] | None = None
    # It is to be told which tables we have.
    roster_due: bool = True
    outbox: list[bytes] = field(default_factory=list)
    # Of tables that we asked to follow, how often without an answer yet: what comes before the last one was
    # sent to an earlier wish. And how many deltas and parts took effect since.
    asked: Counter[str] = field(default_factory=Counter)
    taken: dict[str, int] = field(default_factory=dict)
    # Tables of the peer's to confirm when this event is done.
    acks: dict[str, None] = field(default_factory=dict)

    def take(self, table: str) -> None:
        """Something of a table took effect, and is to be confirmed."""
        self.taken[table] = self.taken.get(table, 0) + 1
        self.acks[table] = None


class Exchange:
    """Tables, peers and pending actions that the parts of replication share."""

    def __init__(self, creation: int) -> None:
        self.creation = creation
        self.tables: dict[str, OwnedState] = {}
        self.peers: dict[str, Peer] = {}
        self.renewing: set[str] = set()
        """Peers that are members, and whose link is about to start, or to restart."""
        self.actions: list[Action] = []
        self.may_be_busy = True
        """False: there was no background work when it was last looked for, and none can have begun since."""
        self.counts: dict[str, int] = {
            "applied": 0,
            "bad_frames": 0,
            "digest_mismatches": 0,
            "fenced": 0,
            "relayed": 0,
            "snapshots": 0,
            "stray": 0,
        }

    # -- questions, asked rarely or of few peers: looked up, never kept

    def connected(self) -> dict[str, int]:
        """Peers that are up, with their creations."""
        return {name: peer.creation for name, peer in self.peers.items()}

    def heard(self, name: str) -> bool:
        """Whether a peer has said anything in this session that could be read: first of all its tables."""
        peer = self.peers.get(name)
        return peer is not None and peer.tables is not None

    def holders(self, table: str) -> list[str]:
        """The peers that are up and say that they have the table."""
        return [name for name, peer in self.peers.items() if peer.tables and table in peer.tables]

    def visible(self, table: str) -> int:
        """The number up to which every peer that is up and has the table has applied our rows.

        0 while the link to one restarts, since nobody knows what has come through the old one, and of a table
        that was dropped.
        """
        state = self.tables.get(table)
        if state is None or self.renewing:
            return 0
        if not self.peers:
            return state.log.position
        lowest = state.log.last
        for name, peer in self.peers.items():
            if peer.tables is None:
                return 0
            if table in peer.tables:
                feed = state.feeds.get(name)
                if feed is None:
                    return 0
                lowest = min(lowest, feed.acked)
        return lowest

    def behind(self, table: str, number: int) -> list[str]:
        """The peers that keep :meth:`visible` below ``number``."""
        feeds = self.tables[table].feeds
        return sorted(self.renewing) + [
            name
            for name, peer in self.peers.items()
            if peer.tables is None
            or (table in peer.tables and (name not in feeds or feeds[name].acked < number))
        ]

    def unloaded(self, table: str) -> dict[str, str]:
        """What is missing of each peer that is up, in words; see :meth:`not_loaded`."""
        lines = {}
        for name, replica in self.tables[table].replicas.items():
            peer = self.peers.get(name)
            # What its roster says may be older than the table; only its answer counts.
            if peer is None or replica.loaded:
                continue
            lines[name] = replica.waits_for()
        return lines

    def not_loaded(self, table: str) -> list[str]:
        """What is missing of peers that are up, in words; empty: the table is loaded."""
        return list(self.unloaded(table).values())

    def reach(self, table: str) -> tuple[int, int]:
        """How many nodes of a table can be reached, and of how many."""
        replicas = self.tables[table].replicas.values()
        there = [r for r in replicas if r.refused is None and not r.left]
        return 1 + sum(r.up for r in there), 1 + len(there)

    def force_load(self, table: str) -> None:
        """Whoever has not answered, or not sent all, is waited for no longer."""
        for replica in self.tables[table].replicas.values():
            replica.loaded = replica.forced = True

    # -- messages and actions

    def ask(self, peer: Peer, replica: Replica, *, snapshot: bool = False) -> None:
        """Follow a peer's rows from where we are, or take all of them."""
        table = replica.definition.name
        # A copy that was dropped, and made again before its rows were gone here, had none.
        replica.creation = peer.creation
        replica.follow()
        peer.asked[table] += 1
        follow = Follow(table, self.tables[table].pact, replica.position, snapshot)
        peer.outbox.append(encode(follow))

    def pump(self, state: OwnedState) -> None:
        """Send followers what they may have now."""
        for name, feed in state.feeds.items():
            self.pump_one(state, name, feed)

    def pump_one(self, state: OwnedState, name: str, feed: Feed) -> None:
        """Send one follower what it may have now."""
        self.peers[name].outbox += feed.pump()
        if feed.base is None and state.log.pinned is None:
            return
        self.may_be_busy = True
        if feed.snapshots:
            self.counts["snapshots"] += feed.snapshots
            feed.snapshots = 0
            behind = feed.acked > 0
            rows = len(state.log.rows)
            self.report("table_snapshot", table=state.definition.name, peer=name, rows=rows, behind=behind)
        self.repin(state)

    def repin(self, state: OwnedState) -> None:
        """Keep as much of the log as the snapshots under way need."""
        bases = [feed.base for feed in state.feeds.values() if feed.base is not None]
        state.log.pin(min(bases) if bases else None)

    def report(self, event: str, **fields: str | int) -> None:
        """Tell the operator."""
        self.actions.append(Report(event, tuple(fields.items())))

    def done(self) -> list[Action]:
        """The event's actions: confirmations are made once, messages become frames."""
        for name, peer in self.peers.items():
            for table in peer.acks:
                if not peer.asked[table]:
                    peer.outbox.append(encode(Ack(table, peer.taken[table])))
            peer.acks.clear()
            if peer.roster_due:
                peer.roster_due = False
                peer.outbox.insert(0, encode(Roster(list(self.tables))))
            if peer.outbox:
                for frame in encode_frames(peer.prefix, peer.outbox):
                    self.actions.append(Send(name, peer.session, frame))
                peer.outbox = []
        actions, self.actions = self.actions, []
        return actions

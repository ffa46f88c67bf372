"""What replication works on: tables, peers, and the actions of the event at hand.

Messages for a peer gather while an event is handled; ``done`` makes frames of them, after one confirmation
for each table from which something came, however many deltas that was.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gossamer.mnesia_like.definition import TableDef
from gossamer.mnesia_like.exchange.feed import Feed
from gossamer.mnesia_like.exchange.own_log import OwnLog
from gossamer.mnesia_like.exchange.replica import Change, Replica
from gossamer.mnesia_like.exchange.wire import Ack, Follow, Roster, encode_frames
from gossamer.mnesia_like.values import Key, encode

__all__ = [
    "Action",
    "Confirmed",
    "Exchange",
    "Installed",
    "OwnedState",
    "Peer",
    "Report",
    "Rostered",
    "Send",
    "Wake",
]


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
        # Of a shared table, since when its members are who they are; see ``burial``.
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
    # None until it has said which tables it has.
    tables: frozenset[str] | None = None
    # It is to be told which tables we have.
    roster_due: bool = True
    outbox: list[bytes] = field(default_factory=list)
    # Tables of the peer's to confirm when this event is done.
    acks: dict[str, None] = field(default_factory=dict)


class Exchange:
    """Tables, peers and pending actions that the parts of replication share."""

    def __init__(self, creation: int) -> None:
        self.creation = creation
        self.tables: dict[str, OwnedState] = {}
        self.peers: dict[str, Peer] = {}
        # Peers that were up, and are members still, whose link begins anew.
        self.renewing: set[str] = set()
        self.actions: list[Action] = []
        self.counts: dict[str, int] = {
            "applied": 0,
            "bad_frames": 0,
            "digest_mismatches": 0,
            "fenced": 0,
            "snapshots": 0,
            "stray": 0,
        }

    def ask(self, peer: Peer, replica: Replica, *, snapshot: bool = False) -> None:
        """Follow a peer's rows from where we are, or take all of them."""
        table = replica.definition.name
        # A copy that was dropped, and made again before its rows were gone here, had none.
        replica.creation = peer.creation
        replica.follow()
        follow = Follow(table, self.tables[table].pact, replica.position, snapshot)
        peer.outbox.append(encode(follow))

    def pump(self, state: OwnedState) -> None:
        """Send followers what they may have now."""
        for name, feed in state.feeds.items():
            self.pump_one(state, name, feed)

    def pump_one(self, state: OwnedState, name: str, feed: Feed) -> None:
        """Send one follower what it may have now."""
        self.peers[name].outbox += feed.pump()
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
                replica = self.tables[table].replicas[name]
                peer.outbox.append(encode(Ack(table, replica.position, replica.session, replica.index)))
            peer.acks.clear()
            if peer.roster_due:
                peer.roster_due = False
                peer.outbox.insert(0, encode(Roster(list(self.tables))))
            if peer.outbox:
                for frame in encode_frames(self.creation, peer.creation, peer.outbox):
                    self.actions.append(Send(name, peer.session, frame))
                peer.outbox = []
        actions, self.actions = self.actions, []
        return actions

"""State of replication: tables, peers, and the actions of the current event.

Messages for a peer gather while an event is handled; ``done`` packs them into frames, with one
acknowledgement per table that received something, however many deltas that was.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from gossamer.mnesia_like.definition import TableDef
from gossamer.mnesia_like.replication.own_log import OwnLog
from gossamer.mnesia_like.replication.progress import FollowerProgress
from gossamer.mnesia_like.replication.replica import Change, Replica
from gossamer.mnesia_like.replication.wire import Ack, Follow, TableList, encode_frames
from gossamer.mnesia_like.values import Key, encode


@dataclass(frozen=True, slots=True)
class Send:
    """Send ``frame`` to ``peer`` in this session, or not at all."""

    peer: str
    session: int
    frame: bytes


@dataclass(frozen=True, slots=True)
class Confirmed:
    """Peers have applied more of ``table``; see :meth:`Replication.visible`."""

    table: str


@dataclass(frozen=True, slots=True)
class LogEvent:
    """Line for the operator's log. ``fields`` are its key-values."""

    event: str
    fields: tuple[tuple[str, str | int], ...]


@dataclass(frozen=True, slots=True)
class AttemptSignal:
    """A transaction attempt changed its state, or got a lock that it waited for."""

    number: int


@dataclass(frozen=True, slots=True)
class Installed:
    """A transaction wrote these rows here; ``change`` is the change that readers see."""

    table: str
    keys: tuple[Key, ...]
    change: Change | None


@dataclass(frozen=True, slots=True)
class TablesChanged:
    """``peer`` reports more tables, or fewer, than before."""

    peer: str
    added: tuple[str, ...]
    dropped: tuple[str, ...]


Action = Send | Change | Confirmed | LogEvent | AttemptSignal | Installed | TablesChanged


class OwnedState:
    """One owned table on this node: own log, replicas of peers' rows, progress of followers."""

    __slots__ = ("definition", "digest_at", "epoch", "followers", "log", "replicas")

    def __init__(self, definition: TableDef, log: OwnLog) -> None:
        self.definition = definition
        self.log = log
        self.replicas: dict[str, Replica] = {}
        self.followers: dict[str, FollowerProgress] = {}
        self.digest_at = 0.0
        # Of a shared table, the id of its epoch of membership; see ``tombstones``.
        self.epoch = ""

    @property
    def fingerprint(self) -> str:
        """Options and epoch that peers must agree on to exchange rows."""
        return (
            f"{self.definition.fingerprint}, epoch {self.epoch}"
            if self.epoch
            else self.definition.fingerprint
        )


@dataclass(slots=True)
class TablePeer:
    """A peer that is up, and the messages for it."""

    creation: int
    # The link's: what is sent in a session arrives in it, or both ends see that it is over.
    session: int
    # Start of each frame to it.
    prefix: bytes
    # None until it has sent its table list.
    tables: frozenset[str] | None = None
    # Our table list is to be sent to it.
    table_list_due: bool = True
    outbox: list[bytes] = field(default_factory=list)
    # Per table: unanswered requests to follow (rows that come before the last answer belong to an earlier
    # request), and the number of deltas and parts applied since.
    asked: Counter[str] = field(default_factory=Counter)
    applied: dict[str, int] = field(default_factory=dict)
    # Of owners that are down: table, owner and creation of rows that are not here, so that it was asked for
    # them; table and owner of those that it lacks.
    asked_for: set[tuple[str, str, int]] = field(default_factory=set)
    without: set[tuple[str, str]] = field(default_factory=set)
    # Tables of the peer's to acknowledge at the end of this event.
    acks: dict[str, None] = field(default_factory=dict)

    def record_applied(self, table: str) -> None:
        """Record that a delta or part was applied, to be acknowledged."""
        self.applied[table] = self.applied.get(table, 0) + 1
        self.acks[table] = None


class Exchange:
    """Tables, peers and pending actions that the parts of replication share."""

    def __init__(self, creation: int) -> None:
        self.creation = creation
        self.tables: dict[str, OwnedState] = {}
        self.peers: dict[str, TablePeer] = {}
        self.renewing: set[str] = set()
        """Members whose link is about to start, or to restart."""
        self.actions: list[Action] = []
        self.may_be_busy = True
        """False: there was no background work at the last check, and none can have begun since."""
        self.counts: dict[str, int] = {
            "applied": 0,
            "bad_frames": 0,
            "digest_mismatches": 0,
            "fenced": 0,
            "relayed": 0,
            "snapshots": 0,
            "stray": 0,
        }

    # -- queries, made rarely or of few peers: computed, never cached

    def connected(self) -> dict[str, int]:
        """Return the peers that are up, with their creations."""
        return {name: peer.creation for name, peer in self.peers.items()}

    def has_table_list(self, name: str) -> bool:
        """Return whether a peer has sent its table list, the first message of a session."""
        peer = self.peers.get(name)
        return peer is not None and peer.tables is not None

    def holders(self, table: str) -> list[str]:
        """Return the peers that are up and have the table."""
        return [name for name, peer in self.peers.items() if peer.tables and table in peer.tables]

    def visible(self, table: str) -> int:
        """Return the number up to which every peer that is up and has the table has applied our rows.

        0 while the link to one restarts, since it is unknown what came through the old one, and for a table
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
                progress = state.followers.get(name)
                if progress is None:
                    return 0
                lowest = min(lowest, progress.acked)
        return lowest

    def behind(self, table: str, number: int) -> list[str]:
        """Return the peers that keep :meth:`visible` below ``number``."""
        followers = self.tables[table].followers
        return sorted(self.renewing) + [
            name
            for name, peer in self.peers.items()
            if peer.tables is None
            or (table in peer.tables and (name not in followers or followers[name].acked < number))
        ]

    def unloaded(self, table: str) -> dict[str, str]:
        """Describe what is missing of each peer that is up; see :meth:`not_loaded`."""
        lines = {}
        for name, replica in self.tables[table].replicas.items():
            peer = self.peers.get(name)
            # Its table list may be older than the table; only its answer counts.
            if peer is None or replica.loaded:
                continue
            lines[name] = replica.waits_for()
        return lines

    def not_loaded(self, table: str) -> list[str]:
        """Describe what is missing of peers that are up; empty: the table is loaded."""
        return list(self.unloaded(table).values())

    def reachable_nodes(self, table: str) -> tuple[int, int]:
        """Return the number of reachable nodes of a table, and of all its nodes."""
        replicas = self.tables[table].replicas.values()
        there = [r for r in replicas if r.refused is None and not r.left]
        return 1 + sum(r.up for r in there), 1 + len(there)

    def force_load(self, table: str) -> None:
        """Stop waiting for peers that have not answered, or not sent everything."""
        for replica in self.tables[table].replicas.values():
            replica.loaded = replica.forced = True

    # -- messages and actions

    def ask(self, peer: TablePeer, replica: Replica, *, snapshot: bool = False) -> None:
        """Request a peer's rows from our position on, or all of them."""
        table = replica.definition.name
        # A copy that was dropped, and created again before its rows were purged here, had none.
        replica.creation = peer.creation
        replica.follow()
        peer.asked[table] += 1
        follow = Follow(table, self.tables[table].fingerprint, replica.position, snapshot)
        peer.outbox.append(encode(follow))

    def pump(self, state: OwnedState) -> None:
        """Send followers as much as their windows allow."""
        for name, progress in state.followers.items():
            self.pump_one(state, name, progress)

    def pump_one(self, state: OwnedState, name: str, progress: FollowerProgress) -> None:
        """Send one follower as much as its window allows."""
        self.peers[name].outbox += progress.pump()
        if progress.base is None and state.log.pinned is None:
            return
        self.may_be_busy = True
        if progress.snapshots:
            self.counts["snapshots"] += progress.snapshots
            progress.snapshots = 0
            behind = progress.acked > 0
            rows = len(state.log.rows)
            self.report("table_snapshot", table=state.definition.name, peer=name, rows=rows, behind=behind)
        self.repin(state)

    def repin(self, state: OwnedState) -> None:
        """Pin as much of the log as the snapshots under way need."""
        bases = [progress.base for progress in state.followers.values() if progress.base is not None]
        state.log.pin(min(bases) if bases else None)

    def report(self, event: str, **fields: str | int) -> None:
        """Add a line for the operator's log."""
        self.actions.append(LogEvent(event, tuple(fields.items())))

    def done(self) -> list[Action]:
        """Return the event's actions, with acknowledgements added and messages packed into frames."""
        for name, peer in self.peers.items():
            for table in peer.acks:
                if not peer.asked[table]:
                    peer.outbox.append(encode(Ack(table, peer.applied[table])))
            peer.acks.clear()
            if peer.table_list_due:
                peer.table_list_due = False
                peer.outbox.insert(0, encode(TableList(list(self.tables))))
            if peer.outbox:
                for frame in encode_frames(peer.prefix, peer.outbox):
                    self.actions.append(Send(name, peer.session, frame))
                peer.outbox = []
        actions, self.actions = self.actions, []
        return actions

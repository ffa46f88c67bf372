"""Replication of owned tables: all tables and all peers of one node, as one state machine.

Events go in by the methods (a peer is up or down, a frame came, time passed, a turn of the loop ended); each
returns actions: frames to send, changes that took effect, deltas that peers confirmed, things worth a log
line. The shell carries them out in order.

How rows travel: on ``peer_up`` each side names its tables and asks to *follow* the other's, saying how far
it got. The owner answers with its newest number and feeds deltas, or a snapshot first. The follower confirms
what took effect, once an event, not once a delta. Lost frames show as gaps, or as a Head that the owner
repeats while a peer stays behind; either way the follower asks again. Once a while the owner marks a place,
both sides take a digest there, and a follower that differs takes all rows again.

Rules: 1. Pure: no clock, no I/O, no randomness; iteration is over dicts and lists only, so that the same
events give the same frames.  2. A peer can only speak of its own rows, under its own creation.  3. Nothing a
peer does makes an exception leave this module, but :class:`BadFrameError` for what cannot be decoded at all.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gossamer.mnesia_like.digest import Sweep
from gossamer.mnesia_like.errors import BadFrameError
from gossamer.mnesia_like.feed import Feed, Sessions
from gossamer.mnesia_like.ownlog import OwnLog
from gossamer.mnesia_like.replica import Change, Replica
from gossamer.mnesia_like.schema import TableDef
from gossamer.mnesia_like.values import encode
from gossamer.mnesia_like.wire import (
    Ack,
    Chunk,
    Delta,
    Digest,
    Follow,
    Head,
    Lapsed,
    Mark,
    Message,
    Refused,
    Roster,
    decode_frame,
    encode_frames,
)

__all__ = ["Action", "Confirmed", "OwnedState", "Replication", "Report", "Send"]


@dataclass(frozen=True, slots=True)
class Send:
    """Send ``frame`` to ``peer``."""

    peer: str
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


Action = Send | Change | Confirmed | Report


class OwnedState:
    """One owned table on this node: what it owns, what it holds of others, whom it feeds."""

    __slots__ = ("definition", "feeds", "log", "marked_at", "replicas")

    def __init__(self, definition: TableDef, log: OwnLog) -> None:
        self.definition = definition
        self.log = log
        self.replicas: dict[str, Replica] = {}
        self.feeds: dict[str, Feed] = {}
        self.marked_at = 0.0


@dataclass(slots=True)
class _Peer:
    creation: int
    # None until it has said which tables it has.
    tables: frozenset[str] | None = None
    # It is to be told which tables we have.
    roster_due: bool = True
    outbox: list[bytes] = field(default_factory=list)
    # Tables of the peer's to confirm when this event is done; True: ask for what is missing too.
    acks: dict[str, bool] = field(default_factory=dict)


class Replication:
    """See the module. ``window`` in bytes a peer and table; ``retry`` and ``digest_interval`` in seconds."""

    def __init__(
        self,
        *,
        node: str,
        creation: int,
        window: int = 2 * 1024 * 1024,
        retry: float = 1.0,
        digest_interval: float = 60.0,
        slice_rows: int = 2000,
        log_bytes: int = 8 * 1024 * 1024,
        pinned_log_bytes: int = 64 * 1024 * 1024,
    ) -> None:
        self.node = node
        self.creation = creation
        self.tables: dict[str, OwnedState] = {}
        self.counts: dict[str, int] = {
            "applied": 0,
            "bad_frames": 0,
            "digest_mismatches": 0,
            "fenced": 0,
            "resends": 0,
            "snapshots": 0,
            "stray": 0,
        }
        self._peers: dict[str, _Peer] = {}
        self._window = window
        self._retry = retry
        self._digest_interval = digest_interval
        self._slice = slice_rows
        self._log_bytes = log_bytes
        self._pinned_log_bytes = pinned_log_bytes
        self._sessions = Sessions()
        self._actions: list[Action] = []

    # -- events

    def create(self, definition: TableDef, now: float) -> tuple[OwnedState, list[Action]]:
        """Begin to have ``definition``; peers that have it too are followed."""
        log = OwnLog(
            definition,
            node=self.node,
            log_bytes=self._log_bytes,
            pinned_log_bytes=self._pinned_log_bytes,
        )
        state = OwnedState(definition, log)
        state.marked_at = now
        self.tables[definition.name] = state
        for name, peer in self._peers.items():
            peer.roster_due = True
            self._follow(name, peer, state, now)
        return state, self._done(now)

    def peer_up(self, name: str, creation: int, now: float) -> list[Action]:
        """``name`` can be reached; again, where it was up already and frames may have been lost between."""
        peer = self._peers.get(name)
        if peer is None or peer.creation != creation:
            peer = self._peers[name] = _Peer(creation)
            for state in self.tables.values():
                if state.feeds.pop(name, None) is not None:
                    self._repin(state)
        peer.roster_due = True
        for state in self.tables.values():
            self._follow(name, peer, state, now)
            feed = state.feeds.get(name)
            if feed is not None:
                feed.again()
                self._pump_one(state, name, feed)
        return self._done(now)

    def peer_down(self, name: str, now: float, *, left: bool = False) -> list[Action]:
        """``name`` cannot be reached; ``left``: and it will not come back."""
        self._peers.pop(name, None)
        for state in self.tables.values():
            if state.feeds.pop(name, None) is not None:
                self._repin(state)
            replica = state.replicas.get(name)
            if replica is not None and (replica.up or left):
                replica.peer_down(now, left=left)
            # Whoever waited for this peer need not any more.
            self._actions.append(Confirmed(state.definition.name))
        return self._done(now)

    def receive(self, name: str, payload: bytes, now: float) -> list[Action]:
        """A frame came.

        Raises:
            BadFrameError: it cannot be decoded; nothing changed.
        """
        peer = self._peers.get(name)
        if peer is None:
            self.counts["stray"] += 1
            return []
        try:
            theirs, mine, messages = decode_frame(name, payload)
        except BadFrameError:
            self.counts["bad_frames"] += 1
            raise
        if theirs != peer.creation or mine != self.creation:
            self.counts["fenced"] += 1
            return []
        for message in messages:
            self._handle(name, peer, message, now)
        return self._done(now)

    def flush(self, now: float) -> list[Action]:
        """A turn of the loop ended: what was written in it goes out."""
        for state in self.tables.values():
            if state.log.seal():
                self._pump(state)
        return self._done(now)

    def tick(self, now: float) -> list[Action]:
        """Some time passed: repeat what was not answered, purge what expired, begin a digest. About 1/s."""
        for state in self.tables.values():
            for name, replica in state.replicas.items():
                peer = self._peers.get(name)
                if peer is None:
                    replica.expire(now)
                elif not replica.answered:
                    if not replica.purging and replica.may_ask(now):
                        peer.roster_due = True
                        self._ask(peer, replica)
                elif replica.missing and replica.refused is None:
                    peer.acks[state.definition.name] = True
            log = state.log
            for name, feed in state.feeds.items():
                behind = feed.acked < log.last or feed.base is not None
                if behind and now - feed.heard >= self._retry:
                    self._peers[name].outbox.append(encode(Head(state.definition.name, log.last)))
            for name, peer in self._peers.items():
                # It may believe that it follows us: each side sees the other go down by itself.
                if (
                    name not in state.feeds
                    and log.last
                    and peer.tables
                    and state.definition.name in peer.tables
                ):
                    peer.outbox.append(encode(Head(state.definition.name, log.last)))
            if now - state.marked_at >= self._digest_interval:
                state.marked_at = now
                self._mark(state)
        return self._done(now)

    def work(self, now: float) -> list[Action]:
        """Do one slice of background work; see :attr:`busy`."""
        for state in self.tables.values():
            table = state.definition.name
            if state.log.sweep is not None:
                self._step_own(state, state.log.sweep)
            for name, replica in state.replicas.items():
                if replica.purging:
                    change = replica.purge(self._slice)
                    if change is not None:
                        self._actions.append(change)
                    peer = self._peers.get(name)
                    if peer is not None and not replica.rows:
                        self._ask(peer, replica)
                elif replica.sweep is not None and not replica.sweep.done:
                    replica.sweep.step(self._slice)
                    self._compare(table, name, replica)
        return self._done(now)

    # -- what may be read

    @property
    def busy(self) -> bool:
        """Whether :meth:`work` has something to do."""
        return any(
            state.log.sweep is not None
            or any(r.purging or (r.sweep is not None and not r.sweep.done) for r in state.replicas.values())
            for state in self.tables.values()
        )

    def peers(self) -> dict[str, int]:
        """Peers that are up, with their creations."""
        return {name: peer.creation for name, peer in self._peers.items()}

    def visible(self, table: str) -> int:
        """The number up to which every peer that is up and has the table has applied our rows."""
        state = self.tables[table]
        lowest = state.log.last
        for name, peer in self._peers.items():
            if peer.tables is None:
                return 0
            if table in peer.tables:
                feed = state.feeds.get(name)
                if feed is None:
                    return 0
                lowest = min(lowest, feed.acked)
        return lowest

    def not_loaded(self, table: str) -> list[str]:
        """What is missing of peers that are up, in words; empty: the table is loaded."""
        lines = []
        for name, replica in self.tables[table].replicas.items():
            peer = self._peers.get(name)
            if peer is None or replica.loaded or (peer.tables is not None and table not in peer.tables):
                continue
            lines.append(replica.waits_for())
        return lines

    # -- messages

    def _handle(self, name: str, peer: _Peer, message: Message, now: float) -> None:
        # Who begins anew has forgotten what we said.
        if isinstance(message, Follow):
            peer.roster_due = True
        if isinstance(message, Roster):
            self._on_roster(name, peer, message, now)
            return
        state = self.tables.get(message.table)
        if state is None:
            # Another's table that we do not have; only a wish to follow needs an answer.
            if isinstance(message, Follow):
                peer.outbox.append(encode(Refused(message.table, "")))
            else:
                self.counts["stray"] += 1
            return
        if isinstance(message, Follow):
            self._on_follow(name, peer, state, message, now)
            return
        if isinstance(message, Ack):
            self._on_ack(name, state, message, now)
            return
        replica = state.replicas.get(name)
        if replica is None or replica.purging or not replica.up:
            self.counts["stray"] += 1
            return
        self._on_rows(name, peer, replica, message, now)

    def _on_rows(self, name: str, peer: _Peer, replica: Replica, message: Message, now: float) -> None:
        table = replica.definition.name
        match message:
            case Delta():
                changes = replica.on_delta(message)
                self._actions += changes
                self.counts["applied"] += sum(len(c.written) for c in changes)
                peer.acks[table] = peer.acks.get(table, False) or replica.gap
            case Chunk(index=index):
                self._actions += replica.on_chunk(message)
                # A part that came out of its turn leaves us where we were.
                peer.acks[table] = peer.acks.get(table, False) or (replica.loading and index > replica.index)
            case Head(number=number):
                replica.on_head(number)
                peer.acks[table] = peer.acks.get(table, False) or replica.missing
            case Refused(shape=shape):
                replica.on_refused(shape)
                if shape:
                    self._report(
                        "table_refused", table=table, peer=name, here=replica.definition.shape, there=shape
                    )
            case Lapsed():
                # Once: every Ack on its way is answered so.
                if replica.answered:
                    replica.answered = False
                    replica.asked = now
                    self._ask(peer, replica)
            case Mark(number=number):
                replica.begin_sweep(number)
            case Digest():
                replica.on_digest(message)
                self._compare(table, name, replica)

    def _on_roster(self, name: str, peer: _Peer, message: Roster, now: float) -> None:
        known = peer.tables or frozenset()
        peer.tables = frozenset(message.tables)
        for table in message.tables:
            state = self.tables.get(table)
            if state is not None and table not in known:
                replica = state.replicas.get(name)
                # It said before that it had no such table.
                if replica is not None and replica.answered and replica.refused is not None:
                    self._follow(name, peer, state, now)
        for table in self.tables:
            self._actions.append(Confirmed(table))

    def _on_follow(self, name: str, peer: _Peer, state: OwnedState, message: Follow, now: float) -> None:
        table = state.definition.name
        if message.shape != state.definition.shape:
            peer.outbox.append(encode(Refused(table, state.definition.shape)))
            return
        if state.log.seal():
            # The newest number, as it is told, includes what was written in this turn.
            self._pump(state)
        feed = state.feeds.get(name)
        if feed is None:
            feed = state.feeds[name] = Feed(state.log, sessions=self._sessions, window=self._window, now=now)
        feed.follow(message.position, snapshot=message.snapshot, now=now)
        peer.outbox.append(encode(Head(table, state.log.last)))
        self._pump_one(state, name, feed)
        self._actions.append(Confirmed(table))

    def _on_ack(self, name: str, state: OwnedState, message: Ack, now: float) -> None:
        feed = state.feeds.get(name)
        if feed is None:
            self._peers[name].outbox.append(encode(Lapsed(state.definition.name)))
            return
        before = feed.acked
        if message.resend:
            self.counts["resends"] += 1
        feed.ack(message.position, message.session, message.index, resend=message.resend, now=now)
        self._pump_one(state, name, feed)
        if feed.acked > before:
            self._actions.append(Confirmed(state.definition.name))

    # -- inside

    def _follow(self, name: str, peer: _Peer, state: OwnedState, now: float) -> None:
        replica = state.replicas.get(name)
        if replica is None:
            replica = state.replicas[name] = Replica(state.definition, name, retry=self._retry)
        if replica.peer_up(peer.creation):
            replica.asked = now
            self._ask(peer, replica)

    def _ask(self, peer: _Peer, replica: Replica, *, snapshot: bool = False) -> None:
        definition = replica.definition
        peer.outbox.append(encode(Follow(definition.name, definition.shape, replica.position, snapshot)))

    def _pump(self, state: OwnedState) -> None:
        for name, feed in state.feeds.items():
            self._pump_one(state, name, feed)

    def _pump_one(self, state: OwnedState, name: str, feed: Feed) -> None:
        self._peers[name].outbox += feed.pump()
        if feed.snapshots:
            self.counts["snapshots"] += feed.snapshots
            feed.snapshots = 0
            self._report("table_snapshot", table=state.definition.name, peer=name, rows=len(state.log.rows))
        self._repin(state)

    def _repin(self, state: OwnedState) -> None:
        bases = [feed.base for feed in state.feeds.values() if feed.base is not None]
        state.log.pin(min(bases) if bases else None)

    def _mark(self, state: OwnedState) -> None:
        log = state.log
        if log.seal():
            self._pump(state)
        if log.sweep is not None or not log.rows:
            return
        level = [name for name, feed in state.feeds.items() if feed.level]
        if not level:
            return
        mark = encode(Mark(state.definition.name, log.last))
        for name in level:
            self._peers[name].outbox.append(mark)
        log.sweep = Sweep(log.rows, log.last)

    def _step_own(self, state: OwnedState, sweep: Sweep) -> None:
        sweep.step(self._slice)
        if not sweep.done:
            return
        state.log.sweep = None
        digest = encode(Digest(state.definition.name, sweep.number, sweep.count, sweep.total))
        for name in state.feeds:
            self._peers[name].outbox.append(digest)

    def _compare(self, table: str, name: str, replica: Replica) -> None:
        if replica.diverged():
            self.counts["digest_mismatches"] += 1
            self._report("table_diverged", table=table, peer=name, position=replica.position)
            self._ask(self._peers[name], replica, snapshot=True)

    def _report(self, event: str, **fields: str | int) -> None:
        self._actions.append(Report(event, tuple(fields.items())))

    def _done(self, now: float) -> list[Action]:
        """The event's actions: confirmations are made once, messages become frames."""
        for name, peer in self._peers.items():
            for table, ask in peer.acks.items():
                replica = self.tables[table].replicas[name]
                resend = ask and replica.may_ask(now)
                peer.outbox.append(
                    encode(Ack(table, replica.position, replica.session, replica.index, resend))
                )
            peer.acks.clear()
            if peer.roster_due:
                peer.roster_due = False
                peer.outbox.insert(0, encode(Roster(list(self.tables))))
            if peer.outbox:
                for frame in encode_frames(self.creation, peer.creation, peer.outbox):
                    self._actions.append(Send(name, frame))
                peer.outbox = []
        actions, self._actions = self._actions, []
        return actions

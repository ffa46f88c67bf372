"""Replication of tables: all tables and all peers of one node, as one state machine.

Events are method calls (a peer is up or down, a frame arrived, time passed, a turn of the loop ended); each
returns actions: frames to send, changes that took effect, deltas that peers acknowledged, log lines. The
shell carries them out in order.

How rows travel: on ``peer_up`` each side lists its tables and asks to *follow* the other's, from its own
position. The owner answers with its newest number and sends deltas, or a snapshot first. The follower
acknowledges what it applied, once per event, not once per delta. The link loses nothing within a session, and
both sides restart after it. Periodically the owner asks for a digest at a position, both sides compute it,
and a follower that differs takes all rows again.

Rules: 1. Pure: no clock, no I/O, no randomness; iteration is over dicts and lists only, so that the same
events give the same frames.  2. A peer can only send its own rows, under its own creation, and relay those of
an owner that is down (see ``catch_up``).  3. No message of a peer makes an exception leave this module,
except :class:`BadFrameError` for a frame that cannot be decoded.
"""

from __future__ import annotations

from collections.abc import Mapping

from gossamer.mnesia_like.definition import TableDef
from gossamer.mnesia_like.errors import BadFrameError
from gossamer.mnesia_like.replication.exchange import (
    Action,
    Confirmed,
    Exchange,
    OwnedState,
    TablePeer,
    TablesChanged,
)
from gossamer.mnesia_like.replication.maintenance import Maintenance
from gossamer.mnesia_like.replication.own_log import OwnLog
from gossamer.mnesia_like.replication.progress import FollowerProgress
from gossamer.mnesia_like.replication.replica import Replica
from gossamer.mnesia_like.replication.wire import (
    Ack,
    AppliedReport,
    Chunk,
    Delta,
    Digest,
    DigestRequest,
    Follow,
    Head,
    Members,
    Reached,
    Refused,
    Relayed,
    RowMessage,
    TableList,
    TableMessage,
    decode_frame,
    encode_creations,
)
from gossamer.mnesia_like.shared.catch_up import CatchUp
from gossamer.mnesia_like.shared.epochs import Epochs, Observed
from gossamer.mnesia_like.transaction.core import Transactions
from gossamer.mnesia_like.values import encode


class Replication(Exchange):
    """State machine that replicates owned and shared tables between this node and its peers.

    ``window`` in bytes per peer and table; ``digest_interval`` in seconds.
    """

    def __init__(
        self,
        *,
        node: str,
        creation: int,
        window: int = 2 * 1024 * 1024,
        digest_interval: float = 60.0,
        slice_rows: int = 2000,
        log_bytes: int = 8 * 1024 * 1024,
        pinned_log_bytes: int = 64 * 1024 * 1024,
    ) -> None:
        super().__init__(creation)
        self.node = node
        self.transactions = Transactions(self, node=node)
        self._epochs = Epochs(self, self.transactions.shared, self._follow)
        self._catch_up = CatchUp(self, self.transactions.shared)
        self._maintenance = Maintenance(self, digest_interval=digest_interval, slice_rows=slice_rows)
        self._window = window
        self._log_bytes = log_bytes
        self._pinned_log_bytes = pinned_log_bytes

    # -- events

    def create(self, definition: TableDef, now: float) -> tuple[OwnedState, list[Action]]:
        """Add a table, and follow the peers that have it too."""
        log = OwnLog(definition, log_bytes=self._log_bytes, pinned_log_bytes=self._pinned_log_bytes)
        state = OwnedState(definition, log)
        state.digest_at = now
        self.tables[definition.name] = state
        for name, peer in self.peers.items():
            peer.table_list_due = True
            self._follow(name, peer, state)
        return state, self.done()

    def drop(self, table: str) -> list[Action]:
        """Remove a table; peers are notified and drop our rows."""
        self.tables.pop(table, None)
        self.transactions.drop(table)
        self._epochs.forget(table)
        for peer in self.peers.values():
            peer.acks.pop(table, None)
            peer.table_list_due = True
        return self.done()

    def redefine(self, definition: TableDef) -> list[Action]:
        """Give a table another definition; rows stay, and peers are followed again."""
        state = self.tables[definition.name]
        state.definition = state.log.definition = definition
        for replica in state.replicas.values():
            replica.definition = definition
        for name, peer in self.peers.items():
            self._follow(name, peer, state)
        return self.done()

    def peer_up(self, name: str, creation: int, session: int, now: float) -> list[Action]:
        """Handle ``name`` becoming reachable in ``session`` of the link; what was sent in an earlier session
        may not have arrived."""
        self.renewing.discard(name)
        known = self.peers.get(name)
        if known is not None:
            if known.creation == creation and known.session == session:
                return self.done()
            self._forget(name)
            self.transactions.peer_down(name, now)
        peer = self.peers[name] = TablePeer(creation, session, encode_creations(self.creation, creation))
        for state in self.tables.values():
            self._follow(name, peer, state)
        return self.done()

    def peer_down(self, name: str, now: float, *, left: bool = False, renewing: bool = False) -> list[Action]:
        """Handle ``name`` becoming unreachable; ``left``: permanently.

        ``renewing``: it will be up again in a moment, and its clients may publish meanwhile, so those that
        wait for it keep waiting until :meth:`peer_up`, or this without ``renewing``.
        """
        if renewing:
            self.renewing.add(name)
        else:
            self.renewing.discard(name)
        self._forget(name)
        self.may_be_busy = True
        for state in self.tables.values():
            replica = state.replicas.get(name)
            if replica is not None and (replica.up or left):
                replica.peer_down(now, left=left)
            # This peer no longer has to be waited for.
            self.actions.append(Confirmed(state.definition.name))
            if not renewing:
                self._catch_up.gone(name, state)
        # Transactions under way depend on which peers are reachable.
        self.transactions.peer_down(name, now)
        return self.done()

    def receive(self, name: str, payload: bytes, now: float) -> list[Action]:
        """Handle a frame.

        Raises:
            BadFrameError: it cannot be decoded; nothing changed.
        """
        peer = self.peers.get(name)
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
            if not isinstance(message, Delta | Ack):
                self.may_be_busy = True
            if isinstance(message, TableMessage):
                self._handle(name, peer, message, now)
            else:
                self.transactions.receive(name, message, now)
        return self.done()

    def ask_survivors(self, absent: Mapping[str, int]) -> None:
        """Ask peers for shared rows of nodes that are down, by creation, as far as they are not here.

        It is sent with the next flush; tables are not loaded until it is answered.
        """
        for state in self.tables.values():
            self._catch_up.ask(absent, state)

    def flush(self) -> list[Action]:
        """Send what was written in the turn that ends."""
        for state in self.tables.values():
            if state.log.open_size:
                state.log.seal()
                self.pump(state)
        return self.done()

    def tick(self, now: float) -> list[Action]:
        """Purge what expired, start digests; called about once a second."""
        self.may_be_busy = True
        self._maintenance.tick(now)
        self._epochs.tick()
        self.transactions.tick(now)
        return self.done()

    def observe(self, table: str) -> Observed:
        """Return a shared table's positions now, for :meth:`report_applied` once they are safe."""
        return self._epochs.observe(table)

    def report_applied(self, table: str, observed: Observed) -> list[Action]:
        """Report to peers that what was observed is safe."""
        self.may_be_busy = True
        self._epochs.report_applied(table, observed)
        return self.done()

    def work(self) -> list[Action]:
        """Do one slice of background work; see :attr:`busy`."""
        self._maintenance.work()
        return self.done()

    # -- queries

    def safe(self, table: str) -> int:
        """Return the number up to which all peers that are up and have the table hold our rows on disc."""
        state, collector = self.tables[table], self.transactions.shared[table].collector
        lowest = state.log.last if self.peers else state.log.position
        for name, peer in self.peers.items():
            if peer.tables is None:
                return 0
            if table in peer.tables:
                lowest = min(lowest, collector.safe(name))
        return lowest

    @property
    def busy(self) -> bool:
        """True while :meth:`work` has something to do."""
        return self._maintenance.busy

    # -- messages

    def _handle(self, name: str, peer: TablePeer, message: TableMessage, now: float) -> None:
        # A peer that restarts has forgotten our table list.
        if isinstance(message, Follow):
            peer.table_list_due = True
        if isinstance(message, TableList):
            self._on_table_list(name, peer, message)
            return
        if isinstance(message, Head | Refused) and peer.asked[message.table]:
            peer.asked[message.table] -= 1
            peer.applied[message.table] = 0
        state = self.tables.get(message.table)
        if state is None:
            # A table that we do not have; only a Follow needs an answer.
            if isinstance(message, Follow):
                peer.outbox.append(encode(Refused(message.table, "")))
            else:
                self.counts["stray"] += 1
            return
        if isinstance(message, Follow):
            self._on_follow(name, peer, state, message)
            return
        if isinstance(message, AppliedReport):
            self._epochs.on_seen(name, message)
            self.actions.append(Confirmed(message.table))
            return
        if isinstance(message, Members):
            self._epochs.on_members(name, peer, state, message)
            return
        if isinstance(message, Ack):
            self._on_ack(name, state, message)
            return
        replica = state.replicas.get(name)
        if replica is None or replica.moving or not replica.up:
            self.counts["stray"] += 1
            return
        if isinstance(message, Head | Refused) or not peer.asked[message.table]:
            self._on_rows(name, peer, replica, message, now)

    def _on_rows(self, name: str, peer: TablePeer, replica: Replica, message: RowMessage, now: float) -> None:
        table = replica.definition.name
        match message:
            case Delta():
                change = replica.on_delta(message)
                if change is not None:
                    self.actions.append(change)
                    self.counts["applied"] += len(change.written)
                    peer.record_applied(table)
            case Chunk():
                self.actions += replica.on_chunk(message)
                peer.record_applied(table)
            case Head(number=number):
                replica.on_head(number)
            case Refused(fingerprint=fingerprint) if fingerprint != (here := self.tables[table].fingerprint):
                # With the same fingerprint it answers an earlier request: we have asked again since.
                replica.on_refused(fingerprint)
                if fingerprint:
                    self.report("table_refused", table=table, peer=name, here=here, there=fingerprint)
            case DigestRequest(number=number):
                replica.begin_sweep(number)
            case Reached() | Relayed() if replica.answered and replica.refused is None:
                self._catch_up.receive(name, self.tables[table], message, now)
            case Digest():
                replica.on_digest(message)
                self._maintenance.compare(table, name, replica)

    def _on_table_list(self, name: str, peer: TablePeer, message: TableList) -> None:
        known = peer.tables or frozenset()
        peer.tables = frozenset(message.tables)
        if peer.tables != known:
            self.actions.append(
                TablesChanged(name, tuple(sorted(peer.tables - known)), tuple(sorted(known - peer.tables)))
            )
        for table in message.tables:
            state = self.tables.get(table)
            if state is not None and table not in known:
                replica = state.replicas.get(name)
                # It answered before that it had no such table.
                if replica is not None and replica.answered and replica.refused is not None:
                    self._follow(name, peer, state)
        for table, state in self.tables.items():
            if table in known and table not in peer.tables:
                state.followers.pop(name, None)
                self.repin(state)
                self._epochs.dropped(name, table)
                if name in state.replicas:
                    state.replicas[name].dropped()
            self.actions.append(Confirmed(table))

    def _on_follow(self, name: str, peer: TablePeer, state: OwnedState, message: Follow) -> None:
        table = state.definition.name
        if message.fingerprint != state.fingerprint:
            peer.outbox.append(encode(Refused(table, state.fingerprint)))
            self._epochs.send_epoch(peer, table)
            if state.followers.pop(name, None) is not None:
                # It had our rows under a definition that it has given up.
                self.repin(state)
                self.actions.append(Confirmed(table))
            return
        if peer.tables is not None and table not in peer.tables:
            # After our answer the peer may rely on us having recorded that it has the table.
            self._on_table_list(name, peer, TableList(sorted({*peer.tables, table})))
        replica = state.replicas.get(name)
        if replica is not None and replica.refused and replica.up:
            # One of us has changed its definition to the other's.
            self._follow(name, peer, state)
        if state.log.seal():
            # The newest number that we send includes what was written in this turn.
            self.pump(state)
        progress = state.followers.get(name)
        if progress is None:
            progress = state.followers[name] = FollowerProgress(state.log, window=self._window)
        # The log from its beginning would show rows of a shared table that others have deleted since.
        snapshot = message.snapshot or (not message.position and state.definition.replication == "shared")
        progress.follow(message.position, snapshot=snapshot and bool(state.log.last))
        self._epochs.followed(name, peer, table)
        peer.outbox.append(encode(Head(table, state.log.last)))
        self._catch_up.followed(name, state)
        self.pump_one(state, name, progress)
        self.actions.append(Confirmed(table))

    def _on_ack(self, name: str, state: OwnedState, message: Ack) -> None:
        progress = state.followers.get(name)
        if progress is None:
            self.counts["stray"] += 1
            return
        before = progress.acked
        progress.ack(message.applied)
        self.pump_one(state, name, progress)
        if progress.acked > before:
            self.actions.append(Confirmed(state.definition.name))

    # -- inside

    def _forget(self, name: str) -> None:
        """Drop the state of a peer whose session is over."""
        self.peers.pop(name, None)
        for state in self.tables.values():
            if state.followers.pop(name, None) is not None:
                self.repin(state)
        self._epochs.forget_peer(name)

    def _follow(self, name: str, peer: TablePeer, state: OwnedState) -> None:
        self.may_be_busy = True
        replica = state.replicas.get(name)
        if replica is None:
            replica = state.replicas[name] = Replica(state.definition, name)
        if replica.peer_up(peer.creation):
            self.ask(peer, replica)

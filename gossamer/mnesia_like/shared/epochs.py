"""Membership epochs of shared tables: the members, what each has stored safely, which must start over.

This is the part of replication that ``tombstones`` needs and owned tables do not.

Rules: 1. Pure.  2. A node that learns of an epoch that wins over its own sends it to all peers before
anything else.  3. An invalid message of a peer is counted, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gossamer.mnesia_like.replication.exchange import Exchange, Installed, OwnedState, TablePeer
from gossamer.mnesia_like.replication.wire import AppliedReport, Members
from gossamer.mnesia_like.shared.shared import Shared
from gossamer.mnesia_like.shared.tombstones import Epoch
from gossamer.mnesia_like.values import encode

Observed = dict[str, tuple[int, int, int]]
"""Per peer: its creation, the position of its rows here, and that of our rows at the same time."""


class Epochs:
    """Epochs of shared tables among peers; ``follow`` requests all rows of a peer again."""

    def __init__(
        self,
        exchange: Exchange,
        shared: Mapping[str, Shared],
        follow: Callable[[str, TablePeer, OwnedState], None],
    ) -> None:
        self._x = exchange
        self._shared = shared
        self._follow = follow
        self._reported: dict[tuple[str, str], tuple[int, int]] = {}

    def followed(self, name: str, peer: TablePeer, table: str) -> None:
        """Add a new follower to the members, and send it the epoch, which it may have forgotten."""
        self._reported.pop((table, name), None)
        shared = self._shared.get(table)
        if shared is not None:
            shared.collector.add_members([name])
            self.send_epoch(peer, table)

    def send_epoch(self, peer: TablePeer, table: str) -> None:
        """Send a peer the epoch with its members."""
        shared = self._shared.get(table)
        if shared is not None:
            peer.outbox.append(encode(Members(table, shared.collector.epoch.packed())))

    def dropped(self, name: str, table: str) -> None:
        """Remove a peer that has dropped its copy from the members."""
        shared = self._shared.get(table)
        if shared is not None:
            shared.collector.remove_member(name)

    def on_seen(self, name: str, message: AppliedReport) -> None:
        """Record what a peer has stored safely."""
        shared = self._shared.get(message.table)
        if shared is None:
            self._x.counts["stray"] += 1
            return
        shared.collector.record_applied(name, message.number, message.mine)

    def on_members(self, name: str, peer: TablePeer, state: OwnedState, message: Members) -> None:
        """Merge a peer's epoch, and start over where it wins and may have deleted our rows."""
        shared = self._shared.get(message.table)
        theirs = Epoch.unpacked(message.epoch)
        if shared is None or theirs is None:
            self._x.counts["stray"] += 1
            return
        outcome = shared.collector.merge(theirs)
        if outcome == "behind":
            self.send_epoch(peer, message.table)
        elif outcome == "start over":
            keys, change = shared.start_over(name)
            table = message.table
            self._x.report("table_started_over", table=table, peer=name, rows=len(keys), epoch=theirs.id)
            self._x.actions.append(Installed(table, tuple(keys), change))
            for replica in state.replicas.values():
                replica.restart()
            self._moved(state)
        elif outcome == "follow":
            self._moved(state)

    def tick(self) -> None:
        """Send epochs that began here, and members that peers may not have."""
        for table, shared in self._shared.items():
            collector = shared.collector
            if collector.epoch_began and table in self._x.tables:
                self._x.report("table_members_removed", table=table, epoch=collector.epoch.id)
                self._moved(self._x.tables[table])
            elif collector.members_changed:
                for peer in self._x.peers.values():
                    if peer.tables and table in peer.tables:
                        self.send_epoch(peer, table)
            else:
                continue
            collector.epoch_began = collector.members_changed = False

    def observe(self, table: str) -> Observed:
        """Return each peer's position now, for :meth:`report_applied` once it is safe."""
        state = self._x.tables[table]
        waits = self._shared[table].collector.pending_holders
        return {
            name: (replica.creation, replica.position, state.log.position)
            for name, replica in state.replicas.items()
            if name in self._x.peers and not replica.loading and name not in waits
        }

    def report_applied(self, table: str, observed: Observed) -> None:
        """Report to each peer how many of its rows are safe here, unless it was reported before."""
        for name, (creation, position, mine) in observed.items():
            peer = self._x.peers.get(name)
            if peer is None or peer.creation != creation or not position:
                continue
            if self._reported.get((table, name)) != (creation, position):
                self._reported[table, name] = creation, position
                peer.outbox.append(encode(AppliedReport(table, position, mine)))

    def forget_peer(self, name: str) -> None:
        """Forget what was reported to a peer: it may not have arrived."""
        for key in [key for key in self._reported if key[1] == name]:
            del self._reported[key]

    def forget(self, table: str) -> None:
        """Forget a table that is dropped here."""
        for key in [key for key in self._reported if key[0] == table]:
            del self._reported[key]

    def _moved(self, state: OwnedState) -> None:
        for name, peer in self._x.peers.items():
            self.send_epoch(peer, state.definition.name)
            self._follow(name, peer, state)

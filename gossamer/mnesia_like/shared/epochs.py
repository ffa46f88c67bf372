"""Shared tables among peers: who the members are, what each has seen for good, who has to start over.

The part of replication that ``tombstones`` needs and owned tables do not.

Rules: 1. Pure.  2. Whoever learns of an epoch that wins over its own tells all its peers before anything else
travels.  3. What a peer says that makes no sense is counted, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gossamer.mnesia_like.replication.exchange import Exchange, Installed, OwnedState, Peer
from gossamer.mnesia_like.replication.wire import Members, Seen
from gossamer.mnesia_like.shared.shared import Shared
from gossamer.mnesia_like.shared.tombstones import Epoch
from gossamer.mnesia_like.values import encode

Observed = dict[str, tuple[int, int, int]]
"""Of each peer its creation, up to where its rows are here, and where ours stood then."""


class Epochs:
    """Epochs of shared tables among peers; ``follow`` asks a peer for all its rows again."""

    def __init__(
        self,
        exchange: Exchange,
        shared: Mapping[str, Shared],
        follow: Callable[[str, Peer, OwnedState], None],
    ) -> None:
        self._x = exchange
        self._shared = shared
        self._follow = follow
        self._told: dict[tuple[str, str], tuple[int, int]] = {}

    def followed(self, name: str, peer: Peer, table: str) -> None:
        """A peer has our rows from now on: so it is a member, and may have forgotten what it was told."""
        self._told.pop((table, name), None)
        shared = self._shared.get(table)
        if shared is not None:
            shared.burial.meet([name])
            self.tell(peer, table)

    def tell(self, peer: Peer, table: str) -> None:
        """Tell a peer who the members are."""
        shared = self._shared.get(table)
        if shared is not None:
            peer.outbox.append(encode(Members(table, shared.burial.epoch.packed())))

    def dropped(self, name: str, table: str) -> None:
        """A peer has no copy any more."""
        shared = self._shared.get(table)
        if shared is not None:
            shared.burial.gone(name)

    def on_seen(self, name: str, message: Seen) -> None:
        """What a peer has for good."""
        shared = self._shared.get(message.table)
        if shared is None:
            self._x.counts["stray"] += 1
            return
        shared.burial.seen(name, message.number, message.mine)

    def on_members(self, name: str, peer: Peer, state: OwnedState, message: Members) -> None:
        """Who a peer takes for members."""
        shared = self._shared.get(message.table)
        theirs = Epoch.unpacked(message.epoch)
        if shared is None or theirs is None:
            self._x.counts["stray"] += 1
            return
        verdict = shared.burial.hear(theirs)
        if verdict == "behind":
            self.tell(peer, message.table)
        elif verdict == "start over":
            keys, change = shared.start_over(name)
            table = message.table
            self._x.report("table_started_over", table=table, peer=name, rows=len(keys), epoch=theirs.id)
            self._x.actions.append(Installed(table, tuple(keys), change))
            for replica in state.replicas.values():
                replica.restart()
            self._moved(state)
        elif verdict == "follow":
            self._moved(state)

    def tick(self) -> None:
        """Some time passed: tell of epochs that began here, and of members that others may not have met."""
        for table, shared in self._shared.items():
            burial = shared.burial
            if burial.announce and table in self._x.tables:
                self._x.report("table_members_struck", table=table, epoch=burial.epoch.id)
                self._moved(self._x.tables[table])
            elif burial.news:
                for peer in self._x.peers.values():
                    if peer.tables and table in peer.tables:
                        self.tell(peer, table)
            else:
                continue
            burial.announce = burial.news = False

    def observe(self, table: str) -> Observed:
        """What is here of each peer now; :meth:`testify` once it is safe."""
        state = self._x.tables[table]
        waits = self._shared[table].burial.testified
        return {
            name: (replica.creation, replica.position, state.log.position)
            for name, replica in state.replicas.items()
            if name in self._x.peers and not replica.loading and name not in waits
        }

    def testify(self, table: str, observed: Observed) -> None:
        """Tell each peer what of its rows is here for good, where it does not know."""
        for name, (creation, position, mine) in observed.items():
            peer = self._x.peers.get(name)
            if peer is None or peer.creation != creation or not position:
                continue
            if self._told.get((table, name)) != (creation, position):
                self._told[table, name] = creation, position
                peer.outbox.append(encode(Seen(table, position, mine)))

    def untold(self, name: str) -> None:
        """What a peer was told may not have come."""
        for key in [key for key in self._told if key[1] == name]:
            del self._told[key]

    def forget(self, table: str) -> None:
        """The table is dropped here."""
        for key in [key for key in self._told if key[0] == table]:
            del self._told[key]

    def _moved(self, state: OwnedState) -> None:
        for name, peer in self._x.peers.items():
            self.tell(peer, state.definition.name)
            self._follow(name, peer, state)

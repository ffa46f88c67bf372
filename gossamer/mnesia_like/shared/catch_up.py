"""Shared tables: survivors catch each other up on the last deltas of a node that is down.

A node sends its rows to each peer in a stream of its own. If it dies or is cut off, its last deltas may have
reached one peer and not another, and reads there are stale until that node is back. So each survivor sends
its position (``Reached``), and one that is ahead sends from its tail the deltas that the other lacks
(``Relayed``). Where the tail does not reach, or the other has nothing of that node, since it started
meanwhile, the first survivor adopts the node's rows, and so sends them as its own.

Rules: 1. Pure.  2. A relayed delta counts as received from its owner: in the same creation, in the order of
its numbers. The owner may write meanwhile, where it is: it continues after that number when it is back.
3. Only a node that considers the owner down accepts relayed deltas, and only from a peer with the same
definition and epoch of the table.  4. Who has not all that an owner had is not loaded before each survivor
has answered, with what it adopted.

Owned tables are excluded: their rows are about their owner, which is unreachable.
"""

from __future__ import annotations

from collections.abc import Mapping

from gossamer.mnesia_like.replication.exchange import Exchange, OwnedState
from gossamer.mnesia_like.replication.replica import Replica
from gossamer.mnesia_like.replication.wire import Reached, Relayed
from gossamer.mnesia_like.shared.shared import Shared
from gossamer.mnesia_like.values import encode


class CatchUp:
    """Relay of a down peer's last deltas among the survivors."""

    def __init__(self, exchange: Exchange, shared: Mapping[str, Shared]) -> None:
        self._x = exchange
        self._shared = shared

    def gone(self, origin: str, state: OwnedState) -> None:
        """Send our position with ``origin``, which is down, to all followers."""
        replica = state.replicas.get(origin)
        if replica is not None and not replica.up and not replica.left:
            for name in state.followers:
                self._send_position(name, state, origin, replica.creation)

    def followed(self, name: str, state: OwnedState) -> None:
        """Send a new follower our positions with peers that went down before it could be informed."""
        for origin, replica in state.replicas.items():
            if not replica.up and replica.position:
                self._send_position(name, state, origin, replica.creation)

    def ask(self, absent: Mapping[str, int], state: OwnedState) -> None:
        """Send all followers our position with nodes that are down, by creation, if something is missing."""
        for origin, creation in absent.items():
            replica = state.replicas.get(origin)
            if replica is None or (not replica.up and not (replica.loaded and replica.creation == creation)):
                for name in state.followers:
                    self._send_position(name, state, origin, creation)

    def receive(self, name: str, state: OwnedState, message: Reached | Relayed, now: float) -> None:
        """Handle a peer's position, or a delta that it relays."""
        origin, replica = message.origin, state.replicas.get(message.origin)
        if isinstance(message, Relayed):
            change = None if replica is None else replica.on_relayed(message)
            if change is not None:
                self._x.actions.append(change)
                self._x.counts["relayed"] += 1
            return
        ours = replica.position if replica is not None and replica.creation == message.creation else 0
        if ours < message.number:
            # This node is behind: report its position. An owner that is up sends its rows itself.
            if replica is None or not replica.up:
                self._send_position(name, state, origin, message.creation)
        elif ours > message.number and replica is not None and name in state.followers:
            self._pass_on(name, state, replica, message.number, now)

    def _pass_on(self, name: str, state: OwnedState, replica: Replica, number: int, now: float) -> None:
        """Give a follower what it lacks of an owner's rows, of which it has nothing where ``number`` is 0."""
        table, origin = state.definition.name, replica.owner
        deltas = replica.tail.after(number) if number else []
        self._x.peers[name].outbox += deltas
        rows = 0
        if not deltas:
            self._x.peers[name].without.add((table, origin))
            without = [other for other, peer in self._x.peers.items() if (table, origin) in peer.without]
            rows = self._shared[table].adopt_from(origin, now, without=without)
            state.log.seal()
            self._x.pump(state)
        if deltas or rows:
            counts = {"deltas": len(deltas), "rows": rows}
            self._x.report("table_passed_on", table=table, peer=name, origin=origin, **counts)

    def _send_position(self, name: str, state: OwnedState, origin: str, creation: int) -> None:
        """Send a peer our position with ``origin``.

        While less is here than that had when it was met, it is 0, and the peer is followed anew: only rows
        that the peer holds are sure to be here once it has answered.
        """
        if state.definition.replication != "shared":
            return
        peer, replica, survivor = self._x.peers[name], state.replicas.get(origin), state.replicas.get(name)
        met = replica is not None and replica.creation == creation and replica.loaded
        number = replica.position if replica is not None and met else 0
        peer.outbox.append(encode(Reached(state.definition.name, origin, creation, number)))
        missing = state.definition.name, origin, creation
        if survivor is not None and not met and missing not in peer.asked_for:
            peer.asked_for.add(missing)
            survivor.answered = survivor.loaded = False
            self._x.ask(peer, survivor)

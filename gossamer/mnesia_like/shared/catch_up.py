"""Shared tables: survivors catch each other up on the last deltas of a node that is down.

A node sends its rows to each peer in a stream of its own. If it dies or is cut off, its last deltas may have
reached one peer and not another, and reads there are stale until that node is back. So each survivor sends
its position (``Reached``), and one that is ahead sends from its tail the deltas that the other lacks
(``Relayed``).

Rules: 1. Pure.  2. A relayed delta counts as received from its owner: in the same creation, in the order of
its numbers. The owner may write meanwhile, where it is: it continues after that number when it is back.
3. Only a node that considers the owner down accepts relayed deltas, and only from a peer with the same
definition and epoch of the table.  4. If the tail does not reach back far enough nothing is sent: the owner
repairs it when it is back, or a survivor that adopts its rows.

Owned tables are excluded: their rows are about their owner, which is unreachable.
"""

from __future__ import annotations

from gossamer.mnesia_like.replication.exchange import Exchange, OwnedState
from gossamer.mnesia_like.replication.wire import Reached, Relayed
from gossamer.mnesia_like.values import encode


class CatchUp:
    """Relay of a down peer's last deltas among the survivors."""

    def __init__(self, exchange: Exchange) -> None:
        self._x = exchange

    def gone(self, origin: str, state: OwnedState) -> None:
        """Send our position with ``origin``, which is down, to all followers."""
        for name in state.followers:
            self._send_position(name, state, origin)

    def followed(self, name: str, state: OwnedState) -> None:
        """Send a new follower our positions with peers that went down before it could be informed."""
        for origin in state.replicas:
            self._send_position(name, state, origin)

    def receive(self, name: str, state: OwnedState, message: Reached | Relayed) -> None:
        """Handle a peer's position, or a delta that it relays."""
        replica = state.replicas.get(message.origin)
        if replica is None:
            self._x.counts["stray"] += 1
        elif isinstance(message, Relayed):
            change = replica.on_relayed(message)
            if change is not None:
                self._x.actions.append(change)
                self._x.counts["relayed"] += 1
        elif replica.creation == message.creation and replica.position < message.number:
            # This node is behind: report its position.
            self._send_position(name, state, message.origin)
        elif replica.creation == message.creation and name in state.followers:
            deltas = replica.tail.after(message.number)
            self._x.peers[name].outbox += deltas
            if deltas:
                table, origin = message.table, message.origin
                self._x.report("table_passed_on", table=table, peer=name, origin=origin, deltas=len(deltas))

    def _send_position(self, name: str, state: OwnedState, origin: str) -> None:
        """Send a peer our position with ``origin``, if that is down."""
        replica = state.replicas.get(origin)
        if state.definition.replication != "shared" or replica is None or replica.up or not replica.position:
            return
        reached = Reached(state.definition.name, origin, replica.creation, replica.position)
        self._x.peers[name].outbox.append(encode(reached))

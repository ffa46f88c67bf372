"""Shared tables: what a node that is gone told some, they pass on to the others.

A node sends its rows to each peer in a stream of its own. Where it dies or is cut off, its last deltas may
have come to one peer and not to another, and what is read there is older than what was read here, until that
node is back. So each survivor says how far it has got (``Reached``), and whoever is ahead sends from its tail
the deltas that the other lacks (``Relayed``).

Rules: 1. Pure.  2. What is passed on counts as received from its owner: in the same life, in the order of its
numbers. The owner may write on meanwhile, where it is: it goes on behind that number when it is back.
3. Only whoever holds the owner for gone takes what others pass on, and only from a peer with which it agrees
about the table, its epoch included.  4. Where the tail does not reach back far enough nothing is sent: the
owner mends it when it is back, or a survivor that takes its rows over.

Owned tables are left out: a row of theirs is about its owner, which nobody can reach.
"""

from __future__ import annotations

from gossamer.mnesia_like.replication.exchange import Exchange, OwnedState
from gossamer.mnesia_like.replication.wire import Reached, Relayed
from gossamer.mnesia_like.values import encode


class Heirs:
    """Exchange among the survivors of peers that are gone."""

    def __init__(self, exchange: Exchange) -> None:
        self._x = exchange

    def gone(self, origin: str, state: OwnedState) -> None:
        """A peer is held for gone."""
        for name in state.feeds:
            self._tell(name, state, origin)

    def followed(self, name: str, state: OwnedState) -> None:
        """A peer has our rows from now on: others may have gone before it could be told."""
        for origin in state.replicas:
            self._tell(name, state, origin)

    def receive(self, name: str, state: OwnedState, message: Reached | Relayed) -> None:
        """A peer says how far it got, or passes on what we lack."""
        replica = state.replicas.get(message.origin)
        if replica is None:
            self._x.counts["stray"] += 1
        elif isinstance(message, Relayed):
            change = replica.on_relayed(message)
            if change is not None:
                self._x.actions.append(change)
                self._x.counts["relayed"] += 1
        elif replica.creation == message.creation and replica.position < message.number:
            # It does not know yet that we lack something.
            self._tell(name, state, message.origin)
        elif replica.creation == message.creation and name in state.feeds:
            deltas = replica.tail.after(message.number)
            self._x.peers[name].outbox += deltas
            if deltas:
                table, origin = message.table, message.origin
                self._x.report("table_passed_on", table=table, peer=name, origin=origin, deltas=len(deltas))

    def _tell(self, name: str, state: OwnedState, origin: str) -> None:
        """Tell a peer how far we got with one that is gone."""
        replica = state.replicas.get(origin)
        if state.definition.replication != "shared" or replica is None or replica.up or not replica.position:
            return
        reached = Reached(state.definition.name, origin, replica.creation, replica.position)
        self._x.peers[name].outbox.append(encode(reached))

"""How tables stand among the nodes: who is up, who has what, what is missing, what everybody has applied.

Rule: only looked up, never kept: these are questions that are asked rarely, or of few peers.
"""

from __future__ import annotations

from gossamer.mnesia_like.exchange.exchange import Exchange
from gossamer.mnesia_like.transaction.core import Transactions

__all__ = ["Standing"]


class Standing:
    """What may be asked of :class:`gossamer.mnesia_like.replicate.replication.Replication`."""

    transactions: Transactions

    def __init__(self, exchange: Exchange) -> None:
        self._x = exchange
        self.tables = exchange.tables

    def peers(self) -> dict[str, int]:
        """Peers that are up, with their creations."""
        return {name: peer.creation for name, peer in self._x.peers.items()}

    def heard(self, name: str) -> bool:
        """Whether a peer has said anything in this session that could be read: first of all its tables."""
        peer = self._x.peers.get(name)
        return peer is not None and peer.tables is not None

    def renewing(self) -> set[str]:
        """Peers that were up, and are members still, whose link begins anew."""
        return self._x.renewing

    def force_load(self, table: str) -> None:
        """Whoever has not answered, or not sent all, is waited for no longer."""
        for replica in self.tables[table].replicas.values():
            replica.loaded = replica.forced = True

    def holders(self, table: str) -> list[str]:
        """The peers that are up and say that they have the table."""
        return [name for name, peer in self._x.peers.items() if peer.tables and table in peer.tables]

    def visible(self, table: str) -> int:
        """The number up to which every peer that is up and has the table has applied our rows.

        0 while the link to one begins anew: nobody knows what has come through the old one.
        """
        state = self.tables[table]
        lowest = 0 if self._x.renewing else state.log.last
        for name, peer in self._x.peers.items():
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
        return sorted(self._x.renewing) + [
            name
            for name, peer in self._x.peers.items()
            if peer.tables is None
            or (table in peer.tables and (name not in feeds or feeds[name].acked < number))
        ]

    def safe(self, table: str) -> int:
        """The number up to which all peers that are up and have the shared table hold our rows on disc."""
        state, burial = self.tables[table], self.transactions.shared[table].burial
        lowest = state.log.last
        for name, peer in self._x.peers.items():
            if peer.tables is None:
                return 0
            if table in peer.tables:
                lowest = min(lowest, burial.safe(name))
        return lowest

    def not_loaded(self, table: str) -> list[str]:
        """What is missing of peers that are up, in words; empty: the table is loaded."""
        return list(self.unloaded(table).values())

    def unloaded(self, table: str) -> dict[str, str]:
        """The same by peer."""
        lines = {}
        for name, replica in self.tables[table].replicas.items():
            peer = self._x.peers.get(name)
            # What its roster says may be older than the table; only its answer counts.
            if peer is None or replica.loaded:
                continue
            lines[name] = replica.waits_for()
        return lines

    def reach(self, table: str) -> tuple[int, int]:
        """How many nodes of a table can be reached, and of how many."""
        replicas = self.tables[table].replicas.values()
        there = [r for r in replicas if r.refused is None and not r.left]
        return 1 + sum(r.up for r in there), 1 + len(there)

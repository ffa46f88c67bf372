"""Mnesia's ``table_info`` for operators, as plain data."""

from __future__ import annotations

from gossamer.mnesia_like.replication.replication import Replication
from gossamer.mnesia_like.table.table import ReplicatedTable, Table


def table_info(table: Table, replication: Replication) -> dict[str, object]:
    """Return a table's kind, its rows per owner, and the lag of replicas and followers."""
    definition = table.definition
    found: dict[str, object] = {
        "type": definition.type,
        "storage": definition.storage,
        "replication": definition.replication,
        "size": len(table),
    }
    if isinstance(table, ReplicatedTable):
        state = replication.tables[definition.name]
        found["position"] = state.log.position
        found["log_bytes"] = state.log.log_size
        found["owners"] = {table.node: len(state.log.rows)} | {
            owner: len(replica.rows) for owner, replica in state.replicas.items()
        }
        found["replicas"] = {
            owner: {
                "up": owner in replication.peers,
                "behind": max(0, replica.head - replica.position),
                "loaded": replica.loaded,
            }
            for owner, replica in state.replicas.items()
        }
        found["followers"] = {
            peer: {"confirmed": progress.acked, "in_flight_bytes": progress.in_flight}
            for peer, progress in state.followers.items()
        }
    return found

"""What an operator may know of tables: Mnesia's ``table_info`` and ``system_info``, as plain data."""

from __future__ import annotations

from typing import Any

from gossamer.mnesia_like.disc.queue import DiscQueue
from gossamer.mnesia_like.replication.replication import Replication
from gossamer.mnesia_like.table.shared import SharedTable
from gossamer.mnesia_like.table.table import ReplicatedTable, Table


def table_info(table: object, replication: Replication) -> dict[str, Any]:
    """Of one table: what it is, how much it holds of whom, who is behind."""
    assert isinstance(table, Table)  # noqa: S101
    definition = table.definition
    found: dict[str, Any] = {
        "name": definition.name,
        "type": definition.type,
        "storage": definition.storage,
        "replication": definition.replication,
        "majority": definition.majority,
        "size": len(table),
        "subscribers": table.subscribers,
    }
    if isinstance(table, SharedTable):
        found |= {"tombstones": table.core.tombstones, "counts": dict(table.core.counts)}
    if isinstance(table, ReplicatedTable):
        state = replication.tables[definition.name]
        peers = replication.connected()
        found["copies"] = sorted([table.node, *replication.holders(definition.name)])
        found["position"] = state.log.position
        found["log_bytes"] = state.log.log_size
        found["owners"] = {table.node: len(state.log.rows)} | {
            owner: len(replica.rows) for owner, replica in state.replicas.items()
        }
        found["replicas"] = {
            owner: {
                "up": owner in peers,
                "position": replica.position,
                "behind": max(0, replica.head - replica.position),
                "loaded": replica.loaded,
                "repairs": replica.repairs,
            }
            for owner, replica in state.replicas.items()
        }
        found["refused"] = {owner: r.refused for owner, r in state.replicas.items() if r.refused}
        found["followers"] = {
            peer: {"confirmed": feed.acked, "in_flight_bytes": feed.in_flight}
            for peer, feed in state.feeds.items()
        }
    return found


def system_info(replication: Replication, queue: DiscQueue, tables: list[str]) -> dict[str, Any]:
    """Of the store: peers, counts, transactions, what waits for the disc."""
    return {
        "node": replication.node,
        "creation": replication.creation,
        "tables": tables,
        "peers": replication.connected(),
        "counts": dict(replication.counts),
        "transactions": replication.transactions.info(),
        "disc": {
            "waiting": queue.waiting,
            "failed": None if queue.failed is None else str(queue.failed),
        },
    }

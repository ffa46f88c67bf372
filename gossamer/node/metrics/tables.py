"""Tables and the disc below them."""

from __future__ import annotations

from collections.abc import Iterator

from gossamer.api import Metric
from gossamer.node.metrics.family import by, histogram, one
from gossamer.node.parts import NodeParts

__all__ = ["disc", "tables"]


def tables(node: NodeParts) -> Iterator[Metric]:
    """Rows, and how far this node is behind their owners."""
    store = node.store
    infos = {name: store.table_info(name) for name in store.tables()}
    yield by(
        "table",
        "gossamer_table_rows",
        "Rows held, by table.",
        "gauge",
        {name: info["size"] for name, info in infos.items()},
    )
    yield by(
        "table",
        "gossamer_table_log_bytes",
        "Changes that this node keeps for peers that may ask for them, by table.",
        "gauge",
        {name: info["log_bytes"] for name, info in infos.items() if "log_bytes" in info},
    )
    yield by(
        "table",
        "gossamer_table_behind_changes",
        "Changes of other nodes that they have announced and this node lacks, by table.",
        "gauge",
        {
            name: sum(replica["behind"] for replica in info["replicas"].values() if replica["up"])
            for name, info in infos.items()
            if "replicas" in info
        },
    )
    yield by(
        ("table", "peer"),
        "gossamer_table_unconfirmed_changes",
        "Changes of this node that a peer has not confirmed yet, by table.",
        "gauge",
        {
            (name, peer): max(0, info["position"] - follower["confirmed"])
            for name, info in infos.items()
            for peer, follower in info.get("followers", {}).items()
        },
    )
    yield by(
        "event",
        "gossamer_replication_events_total",
        "What replication of tables went through.",
        "counter",
        dict(sorted(store.system_info()["counts"].items())),
    )


def disc(node: NodeParts) -> Iterator[Metric]:
    """Of what goes to disc."""
    queue = node.store.queue
    yield histogram("gossamer_disc_commit_seconds", "How long commits to disc took.", queue.latency)
    yield one("gossamer_disc_waiting_rows", "Rows that wait to be written.", "gauge", queue.waiting)
    yield one(
        "gossamer_disc_failing",
        "1 while the disc does not take what is written; it is tried again.",
        "gauge",
        int(queue.failed is not None),
    )

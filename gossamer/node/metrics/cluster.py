"""Members, gossip, links, tables, heals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from gossamer.api import OWN_ALARMS, Metric
from gossamer.api.model.cluster import AlarmInfo
from gossamer.gossip import Status
from gossamer.node.metrics.family import beginning, durations, family
from gossamer.node.parts import NodeParts

__all__ = ["disc", "gossip", "healing", "links", "tables"]

_TRAFFIC = {"packets_in", "packets_out", "bytes_in", "bytes_out"}


def gossip(node: NodeParts) -> Iterator[Metric]:
    """Who is there, as this node sees it, and what it takes to know."""
    members = node.members.members()
    yield family(
        "cluster_members{status}",
        "Members by status as this node sees them.",
        {s.name.lower(): sum(m.status is s for m in members) for s in Status},
    )
    yield family("gossip_health_score", "Local health: 0 is well, 7 is worst.", node.members.health)
    yield durations("gossip_rtt_seconds", "Until members answered probes of this node.", node.members.rtt)
    counters = node.members.counters
    for what, text in (("packets", "Gossip packets"), ("bytes", "Bytes of gossip packets")):
        yield family(
            f"gossip_{what}_total{{direction}}",
            f"{text}, by direction.",
            {way: counters[f"{what}_{way}"] for way in ("in", "out")},
        )
    yield family(
        "gossip_rejected_total{reason}",
        "Gossip packets that were not taken, by reason.",
        beginning("rejected.", counters),
    )
    for event, what, text in (
        ("member_suspect", "suspicions", "Members that were suspected."),
        ("member_alive", "refutations", "Suspected members that showed that they live."),
    ):
        yield family(f"gossip_{what}_total", text, counters[event])
    yield family(
        "gossip_events_total{event}",
        "What gossip told of members, by event.",
        {
            key: count
            for key, count in counters.items()
            if key not in _TRAFFIC and not key.startswith("rejected.")
        },
    )


def links(node: NodeParts) -> Iterator[Metric]:
    """Of the links to other nodes."""
    counts = node.distribution.counts()
    up = node.distribution.nodes()
    yield family(
        "link_up{peer}",
        "1 while the link to a node that was ever linked stands.",
        {peer: int(peer in up) for peer in counts},
    )
    for field, text in (
        ("frames_out", "Frames sent to a peer."),
        ("frames_in", "Frames received from a peer."),
        ("bytes_out", "Bytes sent to a peer."),
        ("bytes_in", "Bytes received from a peer."),
        ("dropped", "Unreliable frames that found no room."),
        ("lost_out", "Reliable frames given up unacknowledged."),
    ):
        yield family(
            f"link_{field}_total{{peer,stream}}",
            text,
            {
                (peer, purpose): getattr(stream, field)
                for peer, count in counts.items()
                for purpose, stream in count.streams.items()
            },
        )
    for field, text in (
        ("connects", "Links opened."),
        ("resets", "Links lost."),
        ("refusals", "Links that were refused, by either side."),
    ):
        yield family(
            f"link_{field}_total{{peer}}",
            text,
            {peer: getattr(count, field) for peer, count in counts.items()},
        )


def tables(node: NodeParts) -> Iterator[Metric]:
    """Rows, and how far this node is behind their owners."""
    store = node.store
    infos = {name: store.table_info(name) for name in store.tables()}
    yield family(
        "table_rows{table}", "Rows held, by table.", {name: info["size"] for name, info in infos.items()}
    )
    yield family(
        "table_log_bytes{table}",
        "Changes that this node keeps for peers that may ask for them, by table.",
        {name: info["log_bytes"] for name, info in infos.items() if "log_bytes" in info},
    )
    yield family(
        "table_behind_changes{table}",
        "Changes of other nodes that they have announced and this node lacks, by table.",
        {
            name: sum(replica["behind"] for replica in info["replicas"].values() if replica["up"])
            for name, info in infos.items()
            if "replicas" in info
        },
    )
    yield family(
        "table_unconfirmed_changes{table,peer}",
        "Changes of this node that a peer has not confirmed yet, by table.",
        {
            (name, peer): max(0, info["position"] - follower["confirmed"])
            for name, info in infos.items()
            for peer, follower in info.get("followers", {}).items()
        },
    )
    yield family(
        "replication_events_total{event}",
        "What replication of tables went through.",
        store.system_info()["counts"],
    )


def disc(node: NodeParts) -> Iterator[Metric]:
    """Of what goes to disc."""
    queue = node.store.queue
    yield durations("disc_commit_seconds", "How long commits to disc took.", queue.latency)
    yield family("disc_waiting_rows", "Rows that wait to be written.", queue.waiting)
    yield family(
        "disc_failing",
        "1 while the disc does not take what is written; it is tried again.",
        int(queue.failed is not None),
    )


def healing(node: NodeParts, alarms: Sequence[AlarmInfo]) -> Iterator[Metric]:
    """Of alarms, of splits, and what lost in heals."""
    found = node.healing
    # One that is over is 0 as long as it is known: nobody has to guess why it is no longer told.
    active = Counter(dict.fromkeys((*OWN_ALARMS, *(alarm.name for alarm in alarms)), 0))
    active.update(alarm.name for alarm in alarms if alarm.active)
    yield family("alarm_active{alarm}", "Alarms that last, by name.", active)
    for count, text in (
        ("partitions", "Pairs of this node that were found to have been apart (inconsistent_database)."),
        ("heals", "Heals that this node took part in."),
        ("reloads", "Heals for which this node reloaded."),
        ("cleaned", "Members that this node removed for being down too long."),
    ):
        yield family(f"autoheal_{count}_total", text, found.counts[count])
    yield family("autoheal_quarantine_rows", "Rows that lost in a heal and are kept.", len(found.quarantine))
    yield family(
        "autoheal_quarantine_dropped_total",
        "Rows for which the quarantine had no room.",
        found.quarantine.dropped,
    )

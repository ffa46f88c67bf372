"""Members, gossip, links, heals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gossamer.api import Metric
from gossamer.api.model.cluster import AlarmInfo
from gossamer.gossip import Status
from gossamer.node.metrics.family import by, histogram, one
from gossamer.node.parts import NodeParts

__all__ = ["gossip", "healing", "links"]

_WORDS = {"online": Status.ONLINE, "suspect": Status.SUSPECT, "offline": Status.OFFLINE}
_TRAFFIC = {"packets_in", "packets_out", "bytes_in", "bytes_out"}


def gossip(node: NodeParts) -> Iterator[Metric]:
    """Who is there, as this node sees it, and what it takes to know."""
    members = node.members.members()
    yield by(
        "status",
        "gossamer_cluster_members",
        "Members by status as this node sees them.",
        "gauge",
        {word: sum(m.status is status for m in members) for word, status in _WORDS.items()},
    )
    yield one(
        "gossamer_gossip_health_score", "Local health: 0 is well, 7 is worst.", "gauge", node.members.health
    )
    yield histogram(
        "gossamer_gossip_rtt_seconds", "Until members answered probes of this node.", node.members.rtt
    )
    counters = node.members.counters
    for what, text in (("packets", "Gossip packets"), ("bytes", "Bytes of gossip packets")):
        yield by(
            "direction",
            f"gossamer_gossip_{what}_total",
            f"{text}, by direction.",
            "counter",
            {way: counters[f"{what}_{way}"] for way in ("in", "out")},
        )
    yield by(
        "reason",
        "gossamer_gossip_rejected_total",
        "Gossip packets that were not taken, by reason.",
        "counter",
        {
            key.removeprefix("rejected."): count
            for key, count in sorted(counters.items())
            if key.startswith("rejected.")
        },
    )
    for event, what, text in (
        ("member_suspect", "suspicions", "Members that were suspected."),
        ("member_alive", "refutations", "Suspected members that showed that they live."),
    ):
        yield one(f"gossamer_gossip_{what}_total", text, "counter", counters[event])
    yield by(
        "event",
        "gossamer_gossip_events_total",
        "What gossip told of members, by event.",
        "counter",
        {
            key: count
            for key, count in sorted(counters.items())
            if key not in _TRAFFIC and not key.startswith("rejected.")
        },
    )


def links(node: NodeParts) -> Iterator[Metric]:
    """Of the links to other nodes."""
    counts = node.distribution.counts()
    up = node.distribution.nodes()
    yield by(
        "peer",
        "gossamer_link_up",
        "1 while the link to a node that was ever linked stands.",
        "gauge",
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
        yield by(
            ("peer", "stream"),
            f"gossamer_link_{field}_total",
            text,
            "counter",
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
        yield by(
            "peer",
            f"gossamer_link_{field}_total",
            text,
            "counter",
            {peer: getattr(count, field) for peer, count in counts.items()},
        )


def healing(node: NodeParts, alarms: Sequence[AlarmInfo]) -> Iterator[Metric]:
    """Of alarms, of splits, and what lost in heals."""
    found, away = node.healing, node.broker.away
    yield by(
        "alarm",
        "gossamer_alarm_active",
        "Alarms that last, by name.",
        "gauge",
        {
            "partition": len(found.open),
            "kept_overflow": 0 if away is None else len(away.keeping.since),
            "node_down": sum(m.status is Status.OFFLINE and not m.left for m in node.members.members()),
            "disc_failing": int(node.store.queue.failed is not None),
            # One that is over is 0 as long as it is known: nobody has to guess why it is no longer told.
            **{alarm.name: int(alarm.active) for alarm in alarms},
        },
    )
    for count, text in (
        ("partitions", "Pairs of this node that were found to have been apart (inconsistent_database)."),
        ("heals", "Heals that this node took part in."),
        ("reloads", "Heals for which this node reloaded."),
        ("cleaned", "Members that this node removed for being down too long."),
    ):
        yield one(f"gossamer_autoheal_{count}_total", text, "counter", found.counts[count])
    yield one(
        "gossamer_autoheal_quarantine_rows",
        "Rows that lost in a heal and are kept.",
        "gauge",
        len(found.quarantine),
    )
    yield one(
        "gossamer_autoheal_quarantine_dropped_total",
        "Rows for which the quarantine had no room.",
        "counter",
        found.quarantine.dropped,
    )

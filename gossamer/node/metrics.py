"""The numbers of one node, gathered from where they are kept; names carry their units."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from gossamer.api.model import Metric, Sample
from gossamer.gossip import Status
from gossamer.supervisor import LoopWatch

if TYPE_CHECKING:
    from gossamer.node.node import Node

__all__ = ["LOOP_WATCH", "metrics_of"]

LOOP_WATCH = "loop_watch"
"""The registered name of the process that watches the event loop."""


def metrics_of(node: Node) -> Iterator[Metric]:
    """Every metric of ``node``, in a fixed order."""
    yield from _broker(node)
    yield from _cluster(node)
    yield from _links(node)
    yield from _tables(node)
    yield from _healing(node)
    yield from _loop(node)
    yield from _tracing(node)


def _broker(node: Node) -> Iterator[Metric]:
    stats = node.broker.stats()
    yield _one("gossamer_mqtt_connections", "Open MQTT connections.", "gauge", stats["connections"])
    yield _one("gossamer_mqtt_sessions", "Sessions, connected or not.", "gauge", stats["sessions"])
    yield _one("gossamer_mqtt_retained_messages", "Retained messages held.", "gauge", stats["retained"])
    yield _one("gossamer_mqtt_queued_bytes", "Bytes in sessions' queues.", "gauge", stats["queued_bytes"])
    yield _one(
        "gossamer_mqtt_messages_received_total",
        "Messages published by clients.",
        "counter",
        stats["messages_received"],
    )
    yield _one(
        "gossamer_mqtt_messages_from_peers_total",
        "Messages that other nodes forwarded here.",
        "counter",
        stats["messages_from_peers"],
    )
    yield _one(
        "gossamer_mqtt_messages_sent_total", "Messages delivered here.", "counter", stats["messages_sent"]
    )
    yield _one("gossamer_mqtt_sent_bytes_total", "Bytes written to clients.", "counter", stats["bytes_sent"])
    yield Metric(
        name="gossamer_messages_dropped_total",
        help="Messages that were not delivered, by reason.",
        kind="counter",
        labels=("reason",),
        samples=tuple(
            Sample(value=count, labels={"reason": key.removeprefix("dropped_")})
            for key, count in stats.items()
            if key.startswith("dropped_")
        ),
    )
    yield _one(
        "gossamer_mqtt_away_messages",
        "Messages kept for sessions of nodes that are away.",
        "gauge",
        stats.get("away_waiting", 0),
    )
    yield _one("gossamer_mqtt_away_bytes", "Bytes of such messages.", "gauge", stats.get("away_bytes", 0))
    yield Metric(
        name="gossamer_mqtt_away_total",
        help="Messages for sessions of nodes that were away, by what became of them.",
        kind="counter",
        labels=("outcome",),
        samples=tuple(
            Sample(value=count, labels={"outcome": key.removeprefix("away_")})
            for key, count in stats.items()
            if key.startswith("away_") and key not in ("away_waiting", "away_bytes")
        ),
    )
    yield Metric(
        name="gossamer_mqtt_decisions_total",
        help="What clients asked for, by question, who decided, and how.",
        kind="counter",
        labels=("question", "by", "decision"),
        samples=tuple(
            Sample(value=count, labels={"question": question, "by": by, "decision": decision})
            for (question, by, decision), count in sorted(node.broker.access.decisions.items())
        ),
    )
    yield _one(
        "gossamer_mqtt_slowed_total",
        "Reads after which a client was made to wait.",
        "counter",
        stats["slowed"],
    )


def _cluster(node: Node) -> Iterator[Metric]:
    members = node.members.members()
    words = {"online": Status.ONLINE, "suspect": Status.SUSPECT, "offline": Status.OFFLINE}
    yield Metric(
        name="gossamer_cluster_members",
        help="Members by status as this node sees them.",
        kind="gauge",
        labels=("status",),
        samples=tuple(
            Sample(value=sum(m.status is status for m in members), labels={"status": word})
            for word, status in words.items()
        ),
    )
    yield _one(
        "gossamer_gossip_health_score", "Local health: 0 is well, 7 is worst.", "gauge", node.members.health
    )
    yield Metric(
        name="gossamer_gossip_events_total",
        help="Gossip packets, bytes, rejections and verdicts.",
        kind="counter",
        labels=("event",),
        samples=tuple(
            Sample(value=count, labels={"event": event})
            for event, count in sorted(node.members.counters.items())
        ),
    )


def _links(node: Node) -> Iterator[Metric]:
    counts = node.distribution.counts()
    for field, text in (
        ("frames_out", "Frames sent to a peer."),
        ("frames_in", "Frames received from a peer."),
        ("bytes_out", "Bytes sent to a peer."),
        ("bytes_in", "Bytes received from a peer."),
        ("dropped", "Unreliable frames that found no room."),
        ("lost_out", "Reliable frames given up unacknowledged."),
    ):
        yield Metric(
            name=f"gossamer_link_{field}_total",
            help=text,
            kind="counter",
            labels=("peer", "stream"),
            samples=tuple(
                Sample(value=getattr(stream, field), labels={"peer": peer, "stream": purpose})
                for peer, count in counts.items()
                for purpose, stream in count.streams.items()
            ),
        )
    for field, text in (("connects", "Links opened."), ("resets", "Links lost."), ("refusals", "Refusals.")):
        yield Metric(
            name=f"gossamer_link_{field}_total",
            help=text,
            kind="counter",
            labels=("peer",),
            samples=tuple(
                Sample(value=getattr(count, field), labels={"peer": peer}) for peer, count in counts.items()
            ),
        )


def _tables(node: Node) -> Iterator[Metric]:
    yield Metric(
        name="gossamer_table_rows",
        help="Rows held, by table.",
        kind="gauge",
        labels=("table",),
        samples=tuple(
            Sample(value=len(node.store.table(name)), labels={"table": name}) for name in node.store.tables()
        ),
    )
    yield Metric(
        name="gossamer_replication_events_total",
        help="What replication of tables went through.",
        kind="counter",
        labels=("event",),
        samples=tuple(
            Sample(value=count, labels={"event": event})
            for event, count in sorted(node.store.system_info()["counts"].items())
        ),
    )


def _healing(node: Node) -> Iterator[Metric]:
    healing, away = node.healing, node.broker.away
    yield Metric(
        name="gossamer_alarm_active",
        help="Alarms that last, by name.",
        kind="gauge",
        labels=("alarm",),
        samples=(
            Sample(value=len(healing.open), labels={"alarm": "partition"}),
            Sample(value=0 if away is None else len(away.keeping.since), labels={"alarm": "kept_overflow"}),
        ),
    )
    for count, text in (
        ("partitions", "Pairs of this node that were found to have been apart (inconsistent_database)."),
        ("heals", "Heals that this node took part in."),
        ("reloads", "Heals for which this node reloaded."),
        ("cleaned", "Members that this node removed for being down too long."),
    ):
        yield _one(f"gossamer_autoheal_{count}_total", text, "counter", healing.counts[count])
    yield _one(
        "gossamer_autoheal_quarantine_rows",
        "Rows that lost in a heal and are kept.",
        "gauge",
        len(healing.quarantine),
    )
    yield _one(
        "gossamer_autoheal_quarantine_dropped_total",
        "Rows for which the quarantine had no room.",
        "counter",
        healing.quarantine.dropped,
    )


def _loop(node: Node) -> Iterator[Metric]:
    found = getattr(node.runtime.names.get(LOOP_WATCH), "behaviour", None)
    # Nobody watches a simulated loop; there the numbers are missing and their names are not.
    watch = found if isinstance(found, LoopWatch) else None
    yield _one(
        "gossamer_loop_lag_seconds",
        "By how much the event loop's last tick was late.",
        "gauge",
        watch.lag if watch else None,
    )
    yield _one(
        "gossamer_loop_lag_worst_seconds",
        "The latest tick of the event loop since the node started.",
        "gauge",
        watch.worst if watch else None,
    )
    yield _one(
        "gossamer_loop_stalls_total",
        "How often a callback held the event loop; the log names the process.",
        "counter",
        watch.stalls if watch else None,
    )


def _tracing(node: Node) -> Iterator[Metric]:
    if node.tracing is None:
        return
    numbers = node.tracing.numbers()
    yield Metric(
        name="gossamer_tracing_spans_total",
        help="Spans of traced messages, by what became of them.",
        kind="counter",
        labels=("outcome",),
        samples=tuple(
            Sample(value=numbers[outcome], labels={"outcome": outcome})
            for outcome in ("exported", "failed", "overflow")
        ),
    )
    yield Metric(
        name="gossamer_tracing_skipped_total",
        help="What was noted of messages and found no way into a trace, by why.",
        kind="counter",
        labels=("why",),
        samples=tuple(
            Sample(value=numbers[why], labels={"why": why}) for why in ("rows_lost", "crowded", "forgotten")
        ),
    )


def _one(name: str, text: str, kind: Literal["counter", "gauge"], value: float | None) -> Metric:
    """A metric without labels; without a sample where there is nothing to count."""
    samples = () if value is None else (Sample(value=value),)
    return Metric(name=name, help=text, kind=kind, samples=samples)

"""Clients, messages, routes, what is forwarded."""

from __future__ import annotations

from collections.abc import Iterator

from gossamer.api import Metric
from gossamer.node.metrics.census import Census
from gossamer.node.metrics.family import by, histogram, one
from gossamer.node.parts import NodeParts

__all__ = ["forwarding", "mqtt", "routing"]


def mqtt(node: NodeParts, census: Census) -> Iterator[Metric]:
    """Of the broker of this node."""
    stats = node.broker.stats()
    yield from _connections(node, stats)
    yield from _sessions(stats, census)
    yield from _messages(node, stats)
    yield from _away(stats)
    yield by(
        ("question", "by", "decision"),
        "gossamer_mqtt_decisions_total",
        "What clients asked for, by question, who decided, and how.",
        "counter",
        dict(sorted(node.broker.access.decisions.items())),
    )
    yield one(
        "gossamer_mqtt_slowed_total",
        "Reads after which a client was made to wait.",
        "counter",
        stats["slowed"],
    )


def _connections(node: NodeParts, stats: dict[str, int]) -> Iterator[Metric]:
    yield one("gossamer_mqtt_connections", "Open MQTT connections.", "gauge", stats["connections"])
    yield by(
        ("listener", "reason"),
        "gossamer_mqtt_connections_refused_total",
        "Connections that were not let in, by listener and reason.",
        "counter",
        dict(sorted(node.broker.refused.items())),
    )
    yield by(
        "reason",
        "gossamer_mqtt_clients_disconnected_total",
        "Clients that this node has disconnected, by reason code.",
        "counter",
        dict(sorted(node.broker.disconnected.items())),
    )


def _sessions(stats: dict[str, int], census: Census) -> Iterator[Metric]:
    yield one("gossamer_mqtt_sessions", "Sessions, connected or not.", "gauge", stats["sessions"])
    yield one("gossamer_mqtt_sessions_offline", "Sessions without a connection.", "gauge", census.offline)
    yield one(
        "gossamer_mqtt_subscriptions", "Subscriptions of all sessions here.", "gauge", census.subscriptions
    )
    yield one("gossamer_mqtt_retained_messages", "Retained messages held.", "gauge", stats["retained"])
    yield one("gossamer_mqtt_queued_bytes", "Bytes in sessions' queues.", "gauge", stats["queued_bytes"])
    yield one("gossamer_mqtt_queued_messages", "Messages in sessions' queues.", "gauge", census.queued)
    yield one(
        "gossamer_mqtt_inflight_messages",
        "Messages of QoS 1 and 2 sent to subscribers and not yet acknowledged by them.",
        "gauge",
        census.inflight,
    )


def _messages(node: NodeParts, stats: dict[str, int]) -> Iterator[Metric]:
    for way, text in (("received", "Messages published by clients."), ("sent", "Messages delivered here.")):
        acked, twice = stats[f"messages_{way}_qos1"], stats[f"messages_{way}_qos2"]
        counts = {"0": stats[f"messages_{way}"] - acked - twice, "1": acked, "2": twice}
        yield by("qos", f"gossamer_mqtt_messages_{way}_total", text, "counter", counts)
    yield one(
        "gossamer_mqtt_messages_from_peers_total",
        "Messages that other nodes forwarded here.",
        "counter",
        stats["messages_from_peers"],
    )
    yield one(
        "gossamer_mqtt_received_bytes_total",
        "Bytes read from clients.",
        "counter",
        stats["bytes_received"],
    )
    yield one("gossamer_mqtt_sent_bytes_total", "Bytes written to clients.", "counter", stats["bytes_sent"])
    yield by(
        "reason",
        "gossamer_messages_dropped_total",
        "Messages that were not delivered, by reason.",
        "counter",
        dict(sorted(node.broker.hub.drops.items())),
    )


def _away(stats: dict[str, int]) -> Iterator[Metric]:
    yield one(
        "gossamer_mqtt_away_messages",
        "Messages kept for sessions of nodes that are away.",
        "gauge",
        stats.get("away_waiting", 0),
    )
    yield one("gossamer_mqtt_away_bytes", "Bytes of such messages.", "gauge", stats.get("away_bytes", 0))
    yield by(
        "outcome",
        "gossamer_mqtt_away_total",
        "Messages for sessions of nodes that were away, by what became of them.",
        "counter",
        {
            key.removeprefix("away_"): count
            for key, count in stats.items()
            if key.startswith("away_") and key not in ("away_waiting", "away_bytes")
        },
    )


def routing(node: NodeParts) -> Iterator[Metric]:
    """Of the index of filters, and the cache of topics before it."""
    stats = node.router.stats()
    yield one(
        "gossamer_routes_filters", "Filters that somebody in the cluster wants.", "gauge", stats["filters"]
    )
    yield one(
        "gossamer_routes_cached_topics",
        "Topics whose route is in the cache.",
        "gauge",
        stats["cached_topics"],
    )
    yield one(
        "gossamer_routes_cache_misses_total",
        "Messages whose route had to be looked up; over messages received, the share that missed.",
        "counter",
        stats["resolved"],
    )
    yield by(
        "why",
        "gossamer_routes_cache_removed_total",
        "Topics that left the cache: their route changed, or there was no room.",
        "counter",
        {"invalidated": stats["cache_invalidated"], "evicted": stats.get("cache_evicted", 0)},
    )
    yield one(
        "gossamer_routes_visible_timeouts_total",
        "Subscriptions that not every live node had confirmed within subscribe_wait.",
        "counter",
        stats.get("visible_timeouts", 0),
    )


def forwarding(node: NodeParts) -> Iterator[Metric]:
    """Of the messages on their way to other nodes."""
    forwarders = node.router.forwarders()
    yield histogram(
        "gossamer_forward_latency_seconds",
        "Until another node had dispatched messages of QoS 1 or 2, by node.",
        node.router.latency,
        label="peer",
    )
    yield by(
        "peer",
        "gossamer_forward_unacknowledged_bytes",
        "Bytes forwarded to a node that it has not dispatched yet.",
        "gauge",
        {name: found.unacked_bytes for name, found in forwarders.items()},
    )
    yield by(
        "peer",
        "gossamer_forward_congested",
        "1 while a node is so far behind that QoS 0 for it is dropped and publishers are slowed down.",
        "gauge",
        {name: int(found.congested) for name, found in forwarders.items()},
    )
    yield by(
        ("peer", "reason"),
        "gossamer_forward_dropped_total",
        "Messages for another node that did not get there, by node and reason.",
        "counter",
        {
            (name, what.removeprefix("dropped_")): count
            for name, found in forwarders.items()
            for what, count in sorted(found.counts.items())
            if what.startswith("dropped_")
        },
    )

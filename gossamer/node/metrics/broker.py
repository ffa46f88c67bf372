"""Clients, messages, routes, what is forwarded."""

from __future__ import annotations

from collections.abc import Iterator

from gossamer.api import Metric
from gossamer.node.metrics.census import Census
from gossamer.node.metrics.family import beginning, durations, family
from gossamer.node.parts import NodeParts

__all__ = ["forwarding", "mqtt", "routing"]


def mqtt(node: NodeParts, census: Census) -> Iterator[Metric]:
    """Of the broker of this node."""
    stats = node.broker.stats()
    yield from _connections(node, stats)
    yield from _sessions(stats, census)
    yield from _messages(stats)
    yield from _away(stats)
    yield family(
        "mqtt_decisions_total{question,by,decision}",
        "What clients asked for, by question, who decided, and how.",
        node.broker.access.decisions,
    )
    yield family("mqtt_slowed_total", "Reads after which a client was made to wait.", stats["slowed"])


def _connections(node: NodeParts, stats: dict[str, int]) -> Iterator[Metric]:
    yield family("mqtt_connections", "Open MQTT connections.", stats["connections"])
    yield family(
        "mqtt_connections_refused_total{listener,reason}",
        "Connections that were not let in, by listener and reason.",
        node.broker.refused,
    )
    yield family(
        "mqtt_clients_disconnected_total{reason}",
        "Clients that this node has disconnected, by reason code.",
        node.broker.disconnected,
    )


def _sessions(stats: dict[str, int], census: Census) -> Iterator[Metric]:
    yield family("mqtt_sessions", "Sessions, connected or not.", stats["sessions"])
    yield family("mqtt_sessions_offline", "Sessions without a connection.", census.offline)
    yield family("mqtt_subscriptions", "Subscriptions of all sessions here.", census.subscriptions)
    yield family("mqtt_retained_messages", "Retained messages held.", stats["retained"])
    yield family("mqtt_queued_bytes", "Bytes in sessions' queues.", stats["queued_bytes"])
    yield family("mqtt_queued_messages", "Messages in sessions' queues.", census.queued)
    yield family(
        "mqtt_inflight_messages",
        "Messages of QoS 1 and 2 sent to subscribers and not yet acknowledged by them.",
        census.inflight,
    )


def _messages(stats: dict[str, int]) -> Iterator[Metric]:
    for way, text in (("received", "Messages published by clients."), ("sent", "Messages delivered here.")):
        acked, twice = stats[f"messages_{way}_qos1"], stats[f"messages_{way}_qos2"]
        counts = {"0": stats[f"messages_{way}"] - acked - twice, "1": acked, "2": twice}
        yield family(f"mqtt_messages_{way}_total{{qos}}", text, counts)
    yield family(
        "mqtt_messages_from_peers_total",
        "Messages that other nodes forwarded here.",
        stats["messages_from_peers"],
    )
    yield family("mqtt_received_bytes_total", "Bytes read from clients.", stats["bytes_received"])
    yield family("mqtt_sent_bytes_total", "Bytes written to clients.", stats["bytes_sent"])
    yield family(
        "messages_dropped_total{reason}",
        "Messages that were not delivered, by reason.",
        beginning("dropped_", stats),
    )


def _away(stats: dict[str, int]) -> Iterator[Metric]:
    outcomes = beginning("away_", stats)
    waiting, size = outcomes.pop("waiting", 0), outcomes.pop("bytes", 0)
    yield family("mqtt_away_messages", "Messages kept for sessions of nodes that are away.", waiting)
    yield family("mqtt_away_bytes", "Bytes of such messages.", size)
    text = "Messages for sessions of nodes that were away, by what became of them."
    yield family("mqtt_away_total{outcome}", text, outcomes)


def routing(node: NodeParts) -> Iterator[Metric]:
    """Of the index of filters, and the cache of topics before it."""
    stats = node.router.stats()
    yield family("routes_filters", "Filters that somebody in the cluster wants.", stats["filters"])
    yield family("routes_cached_topics", "Topics whose route is in the cache.", stats["cached_topics"])
    yield family(
        "routes_cache_misses_total",
        "Messages whose route had to be looked up; over messages received, the share that missed.",
        stats["resolved"],
    )
    yield family(
        "routes_cache_removed_total{why}",
        "Topics that left the cache: their route changed, or there was no room.",
        {"invalidated": stats["cache_invalidated"], "evicted": stats.get("cache_evicted", 0)},
    )
    yield family(
        "routes_visible_timeouts_total",
        "Subscriptions that not every live node had confirmed within subscribe_wait.",
        stats.get("visible_timeouts", 0),
    )


def forwarding(node: NodeParts) -> Iterator[Metric]:
    """Of the messages on their way to other nodes."""
    forwarders = node.router.forwarders()
    yield durations(
        "forward_latency_seconds{peer}",
        "Until another node had dispatched messages of QoS 1 or 2, by node.",
        node.router.latency,
    )
    yield family(
        "forward_unacknowledged_bytes{peer}",
        "Bytes forwarded to a node that it has not dispatched yet.",
        {name: found.unacked_bytes for name, found in forwarders.items()},
    )
    yield family(
        "forward_congested{peer}",
        "1 while a node is so far behind that QoS 0 for it is dropped and publishers are slowed down.",
        {name: int(found.congested) for name, found in forwarders.items()},
    )
    yield family(
        "forward_dropped_total{peer,reason}",
        "Messages for another node that did not get there, by node and reason.",
        {
            (name, why): count
            for name, found in forwarders.items()
            for why, count in beginning("dropped_", found.counts).items()
        },
    )

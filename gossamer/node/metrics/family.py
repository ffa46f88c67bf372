"""Notation of one family of numbers: ``link_up{peer}`` is ``gossamer_link_up`` with a label ``peer``.

With labels, there is a number for each value of the label, or for each tuple of values where it has several.
Without, None says that there is nothing to count, and the name stands alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from gossamer.api import Metric
from gossamer.histogram import Histogram

TEXTS: Final[Mapping[str, str]] = {
    "build_info{version,python}": "Always 1; what runs is in the labels.",
    "node_start_time_seconds": "When the node started, since the epoch.",
    "node_ready": "1 while the node takes clients, as /ready says.",
    "loop_lag_seconds": "By how much the event loop's last tick was late.",
    "loop_lag_worst_seconds": "The latest tick of the event loop since the node started.",
    "loop_delay_seconds": "How late the ticks of the event loop came, four a second.",
    "loop_stalls_total": "How often a callback held the event loop; the log names the process.",
    "gc_pause_seconds{generation}": "How long garbage collections took, by generation; nothing else "
    "runs meanwhile.",
    "processes_running": "Processes, connections included.",
    "process_restarts_total{supervisor}": "Processes that were started again, by the name of their "
    "supervisor; blank: it has none.",
    "mailbox_longest_messages": "Messages in the longest mailbox of any process.",
    "audit_recording": "1 while messages are recorded.",
    "audit_messages_total": "Messages of its publishers that this node recorded.",
    "audit_events_total": "Events that were recorded.",
    "audit_events_lost_total": "Events for which there was no room.",
    "audit_waiting_rows": "Rows that wait for the writer.",
    "tracing_spans_total{outcome}": "Spans of traced messages, by what became of them.",
    "tracing_skipped_total{why}": "What was noted of messages and found no way into a trace, by why.",
    "api_connections": "Connections to the API that are open.",
    "api_streams": "Event streams, traces and lists as JSON lines that are open.",
    "api_requests": "Requests under way, streams and probes aside.",
    "api_refused_total{why}": "Requests and connections that were refused or cut for a limit, by which.",
    "mqtt_tenant_connections{tenant}": "Connections of clients of a tenant; without the default one.",
    "mqtt_tenant_received_total{tenant}": "Messages that clients of a tenant have published here.",
    "mqtt_decisions_total{question,by,decision}": "What clients asked for, by question, who decided, "
    "and how.",
    "mqtt_slowed_total": "Reads after which a client was made to wait.",
    "mqtt_connections": "Open MQTT connections.",
    "mqtt_connections_refused_total{listener,reason}": "Connections that were not let in, by listener "
    "and reason.",
    "mqtt_connecting_bytes": "Bytes that clients which are not let in yet have sent.",
    "mqtt_clients_disconnected_total{reason}": "Clients that this node has disconnected, by reason code.",
    "mqtt_sessions": "Sessions, connected or not.",
    "mqtt_sessions_offline": "Sessions without a connection.",
    "mqtt_subscriptions": "Subscriptions of all sessions here.",
    "mqtt_retained_messages": "Retained messages held.",
    "mqtt_queued_bytes": "Bytes in sessions' queues.",
    "mqtt_queued_messages": "Messages in sessions' queues.",
    "mqtt_inflight_messages": "Messages of QoS 1 and 2 sent to subscribers and not yet acknowledged by them.",
    "mqtt_messages_received_total{qos}": "Messages published by clients.",
    "mqtt_messages_sent_total{qos}": "Messages delivered here.",
    "mqtt_messages_from_peers_total": "Messages that other nodes forwarded here.",
    "mqtt_received_bytes_total": "Bytes read from clients.",
    "mqtt_sent_bytes_total": "Bytes written to clients.",
    "messages_dropped_total{reason}": "Messages that were not delivered, by reason.",
    "mqtt_away_messages": "Messages kept for sessions of nodes that are away.",
    "mqtt_away_bytes": "Bytes of such messages.",
    "mqtt_away_total{outcome}": "Messages for sessions of nodes that were away, by what became of them.",
    "mqtt_sessions_copied": "Persistent sessions of this node that a quorum has, too.",
    "mqtt_sessions_behind": "Those of which a quorum lacks something that was acknowledged without it.",
    "routes_filters": "Filters that somebody in the cluster wants.",
    "routes_cached_topics": "Topics whose route is in the cache.",
    "routes_cache_misses_total": "Messages whose route had to be looked up; over messages received, the "
    "share that missed.",
    "routes_cache_removed_total{why}": "Topics that left the cache: their route changed, or there was "
    "no room.",
    "routes_visible_timeouts_total": "Subscriptions that not every live node had confirmed within "
    "subscribe_wait.",
    "forward_latency_seconds{peer}": "Until another node had dispatched messages of QoS 1 or 2, by node.",
    "forward_unacknowledged_bytes{peer}": "Bytes forwarded to a node that it has not dispatched yet.",
    "forward_congested{peer}": "1 while a node is so far behind that QoS 0 for it is dropped and "
    "publishers are slowed down.",
    "forward_dropped_total{peer,reason}": "Messages for another node that did not get there, by node "
    "and reason.",
    "cluster_members{status}": "Members by status as this node sees them.",
    "gossip_health_score": "Local health: 0 is well, 7 is worst.",
    "gossip_rtt_seconds": "Until members answered probes of this node.",
    "gossip_packets_total{direction}": "Gossip packets, by direction.",
    "gossip_bytes_total{direction}": "Bytes of gossip packets, by direction.",
    "gossip_rejected_total{reason}": "Gossip packets that were not taken, by reason.",
    "gossip_suspicions_total": "Members that were suspected.",
    "gossip_refutations_total": "Suspected members that showed that they live.",
    "gossip_events_total{event}": "What gossip told of members, by event.",
    "link_up{peer}": "1 while the link to a node that was ever linked stands.",
    "link_frames_out_total{peer,stream}": "Frames sent to a peer.",
    "link_frames_in_total{peer,stream}": "Frames received from a peer.",
    "link_bytes_out_total{peer,stream}": "Bytes sent to a peer.",
    "link_bytes_in_total{peer,stream}": "Bytes received from a peer.",
    "link_dropped_total{peer,stream}": "Unreliable frames that found no room.",
    "link_lost_out_total{peer,stream}": "Reliable frames given up unacknowledged.",
    "link_connects_total{peer}": "Links opened.",
    "link_resets_total{peer}": "Links lost.",
    "link_refusals_total{peer}": "Links that were refused, by either side.",
    "table_rows{table}": "Rows held, by table.",
    "table_log_bytes{table}": "Changes that this node keeps for peers that may ask for them, by table.",
    "table_behind_changes{table}": "Changes of other nodes that they have announced and this node "
    "lacks, by table.",
    "table_unconfirmed_changes{table,peer}": "Changes of this node that a peer has not confirmed yet, "
    "by table.",
    "replication_events_total{event}": "What replication of tables went through.",
    "disc_commit_seconds": "How long commits to disc took.",
    "disc_waiting_rows": "Rows that wait to be written.",
    "disc_failing": "1 while the disc does not take what is written; it is tried again.",
    "raft_term{group}": "Term of the replica at this node, by the kind of its group.",
    "raft_leads{group}": "1 while the replica at this node leads.",
    "raft_leaderless{group}": "1 while the replica at this node knows no leader.",
    "raft_committed_entries{group}": "Entries of the log that are known to be committed.",
    "raft_unapplied_entries{group}": "Committed entries that the state does not have yet.",
    "raft_uncommitted_entries{group}": "Entries of the log that are not known to be committed.",
    "raft_behind_entries{group,peer}": "Entries that a member's disc is not known to have, at the leader.",
    "raft_elections_total{group}": "Elections that the replica at this node began.",
    "raft_snapshot_bytes{group}": "Size of the latest snapshot of the replica at this node.",
    "raft_sync_seconds": "How long the disc took to have what the groups of this node wrote in a turn.",
    "queue_depth{queue}": "Messages in a queue. Of the node that leads its replication group.",
    "queue_bytes{queue}": "Size of the messages in a queue.",
    "queue_oldest_seconds{queue}": "Age of the oldest message in a queue.",
    "queue_held{queue}": "Messages that consumers have and have not settled.",
    "queue_consumers{queue}": "Consumers of a queue.",
    "queue_group_lag{queue,group}": "Messages that a consumer group was not given yet, or has not settled.",
    "queue_group_oldest_seconds{queue,group}": "Age of the oldest of these messages.",
    "queue_appended_total{queue}": "Messages that came into a queue since it was made.",
    "queue_settled_total{queue}": "How often a consumer group was done with a message.",
    "queue_redelivered_total{queue}": "How often a message was given again.",
    "queue_dead_total{queue}": "Messages that became dead letters.",
    "queue_refused_total{queue}": "Messages for which a queue had no room, or that were too large.",
    "queue_dropped_total{queue}": "Messages that went by age or limits, or that nobody could do.",
    "alarm_active{alarm}": "Alarms that last, by name.",
    "autoheal_partitions_total": "Pairs of this node that were found to have been apart "
    "(inconsistent_database).",
    "autoheal_heals_total": "Heals that this node took part in.",
    "autoheal_reloads_total": "Heals for which this node reloaded.",
    "autoheal_cleaned_total": "Members that this node removed for being down too long.",
    "autoheal_quarantine_rows": "Rows that lost in a heal and are kept.",
    "autoheal_quarantine_dropped_total": "Rows for which the quarantine had no room.",
}
"""Meaning of each family; its labels stand behind its name."""


def family(spec: str, value: float | Mapping[Any, float] | None) -> Metric:
    """One of :data:`TEXTS`: a counter where the name says ``_total``, or else a gauge."""
    name, labels = _parsed(spec)
    counts = name.endswith("_total")
    found = (CounterMetricFamily if counts else GaugeMetricFamily)(name, TEXTS[spec], labels=labels)
    rows = value if isinstance(value, Mapping) else {} if value is None else {(): value}
    for key, row in sorted(rows.items()):
        found.add_metric(_values(key), row)
    return Metric(name, "counter" if counts else "gauge", labels, found)


def durations(spec: str, value: Histogram | Mapping[Any, Histogram]) -> Metric:
    """A histogram of durations."""
    name, labels = _parsed(spec)
    found = HistogramMetricFamily(name, TEXTS[spec], labels=labels)
    for key, row in ({(): value} if isinstance(value, Histogram) else value).items():
        buckets = list(zip((*map(str, row.bounds), "+Inf"), row.buckets(), strict=True))
        found.add_metric(_values(key), buckets, row.sum)
    return Metric(name, "histogram", labels, found)


def _parsed(spec: str) -> tuple[str, tuple[str, ...]]:
    name, _, labels = spec.removesuffix("}").partition("{")
    return f"gossamer_{name}", tuple(labels.split(",")) if labels else ()


def _values(key: str | tuple[str, ...]) -> tuple[str, ...]:
    return (key,) if isinstance(key, str) else key


def beginning(prefix: str, counts: Mapping[str, int]) -> dict[str, int]:
    """The ``counts`` whose names begin with ``prefix``, without it."""
    return {name.removeprefix(prefix): n for name, n in counts.items() if name.startswith(prefix)}

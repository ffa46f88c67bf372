"""The numbers of one node, gathered from where they are kept.

Some nobody keeps: they are counted when somebody asks, a slice of the sessions in a turn of the loop. Kept
where things happen, each would cost the publish path something for every message; asked every fifteen
seconds, a walk over 10,000 sessions costs milliseconds.
"""

from __future__ import annotations

import asyncio
import platform
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress

import msgspec

from gossamer import __version__
from gossamer.api import OWN_ALARMS, Metric
from gossamer.api.model.cluster import AlarmInfo
from gossamer.errors import UnavailableError
from gossamer.gossip import Status
from gossamer.node.metrics.family import beginning, durations, family
from gossamer.node.parts import NodeParts
from gossamer.queues import KIND, GroupLag, QueueStats, lags_in, queues_in
from gossamer.supervisor import PAUSES, LoopWatch, Port, Runtime

SLICE = 1_000
"""Sessions or processes that are looked at in one turn."""
MOST_QUEUES = 1_000
"""Queues, and consumer groups, that have numbers of their own: each is a time series in every family."""
MOST_TENANTS = 1_000
"""Tenants that have, the first by name."""
QUEUES_TIMEOUT = 0.5
"""Seconds that a replica of this node may take to say what it has; a scrape goes on without."""


class Census(msgspec.Struct, frozen=True):
    """Counts of a walk over sessions and processes."""

    offline: int = 0
    """Sessions without a connection."""
    subscriptions: int = 0
    inflight: int = 0
    """Messages of QoS 1 and 2 that subscribers have not acknowledged."""
    queued: int = 0
    """Messages that wait in sessions' queues."""
    longest_mailbox: int = 0
    queues: Sequence[QueueStats] = ()
    """Queues of the replication groups that this node leads."""
    lags: Sequence[GroupLag] = ()
    """Their consumer groups."""


async def take_census(node: NodeParts) -> Census:
    """Walk; what comes and goes meanwhile may be counted or not."""
    offline = subscriptions = inflight = queued = 0
    sessions = list(node.broker.sessions.values())
    for start in range(0, len(sessions), SLICE):
        for session in sessions[start : start + SLICE]:
            offline += session.channel is None
            subscriptions += len(session.subscriptions)
            inflight += len(session.inflight)
            queued += len(session.queue)
        await asyncio.sleep(0)
    longest = await _longest_mailbox(node.runtime)
    return Census(offline, subscriptions, inflight, queued, longest, *await _queues_led(node))


async def _queues_led(node: NodeParts) -> tuple[Sequence[QueueStats], Sequence[GroupLag]]:
    found: list[QueueStats] = []
    lags: list[GroupLag] = []
    with suppress(UnavailableError, TimeoutError):
        async with asyncio.timeout(QUEUES_TIMEOUT):
            for kind in sorted(node.consensus.leading):
                if kind.startswith(KIND):
                    group = kind.removeprefix(KIND)
                    found += await node.runtime.run(queues_in, group)
                    lags += await node.runtime.run(lags_in, group, MOST_QUEUES - len(lags))
    return found[:MOST_QUEUES], lags


async def _longest_mailbox(runtime: Runtime) -> int:
    longest = 0
    entries = list(runtime.table.values())
    for start in range(0, len(entries), SLICE):
        for entry in entries[start : start + SLICE]:
            # Connections have none, and are most.
            if isinstance(entry, Port):
                continue
            mailbox = getattr(entry, "mailbox", None)
            if mailbox and len(mailbox) > longest:
                longest = len(mailbox)
        await asyncio.sleep(0)
    return longest


LOOP_WATCH = "loop_watch"
"""The registered name of the process that watches the event loop."""
_TRAFFIC = {"packets_in", "packets_out", "bytes_in", "bytes_out"}


def metrics_of(
    node: NodeParts, census: Census, *, ready: bool, alarms: Sequence[AlarmInfo]
) -> Iterator[Metric]:
    """Return every metric of ``node``, in a fixed order; ``alarms``: all that are known."""
    yield from software(node, ready=ready)
    yield from mqtt(node, census)
    yield from routing(node)
    yield from forwarding(node)
    yield from gossip(node)
    yield from links(node)
    yield from tables(node)
    yield from disc(node)
    yield from consensus(node)
    yield from queues(census)
    yield from healing(node, alarms)
    yield from loop(node.runtime)
    yield from processes(node.runtime, census)
    yield from auditing(node)
    yield from tracing(node)
    yield from http(node)


# -- broker


def mqtt(node: NodeParts, census: Census) -> Iterator[Metric]:
    """Of the broker of this node."""
    stats = node.broker.stats()
    yield family("mqtt_connections", stats["connections"])
    yield family("mqtt_connections_refused_total{listener,reason}", node.broker.refused)
    room = node.broker.room
    yield family("mqtt_connecting_bytes", 0 if room is None else room.early_bytes)
    yield family("mqtt_clients_disconnected_total{reason}", node.broker.disconnected)
    yield family("mqtt_sessions", stats["sessions"])
    yield family("mqtt_sessions_offline", census.offline)
    yield family("mqtt_subscriptions", census.subscriptions)
    yield family("mqtt_retained_messages", stats["retained"])
    yield family("mqtt_queued_bytes", stats["queued_bytes"])
    yield family("mqtt_queued_messages", census.queued)
    yield family("mqtt_inflight_messages", census.inflight)
    for way in ("received", "sent"):
        acked, twice = stats[f"messages_{way}_qos1"], stats[f"messages_{way}_qos2"]
        counts = {"0": stats[f"messages_{way}"] - acked - twice, "1": acked, "2": twice}
        yield family(f"mqtt_messages_{way}_total{{qos}}", counts)
    yield family("mqtt_messages_from_peers_total", stats["messages_from_peers"])
    yield family("mqtt_received_bytes_total", stats["bytes_received"])
    yield family("mqtt_sent_bytes_total", stats["bytes_sent"])
    yield family("messages_dropped_total{reason}", beginning("dropped_", stats))
    outcomes = beginning("away_", stats)
    waiting, size = outcomes.pop("waiting", 0), outcomes.pop("bytes", 0)
    yield family("mqtt_away_messages", waiting)
    yield family("mqtt_away_bytes", size)
    yield family("mqtt_away_total{outcome}", outcomes)
    copies = node.broker.copies
    yield family("mqtt_sessions_copied", 0 if copies is None else copies.count)
    yield family("mqtt_sessions_behind", 0 if copies is None else copies.behind)
    yield family("mqtt_decisions_total{question,by,decision}", node.broker.access.decisions)
    yield family("mqtt_slowed_total", stats["slowed"])
    tenants = list(node.broker.tenants)[:MOST_TENANTS]
    yield family("mqtt_tenant_connections{tenant}", {one.name: len(one.clients) for one in tenants})
    yield family("mqtt_tenant_received_total{tenant}", {one.name: one.received for one in tenants})


def routing(node: NodeParts) -> Iterator[Metric]:
    """Of the index of filters, and the cache of topics before it."""
    stats = node.router.stats()
    yield family("routes_filters", stats["filters"])
    yield family("routes_cached_topics", stats["cached_topics"])
    yield family("routes_cache_misses_total", stats["resolved"])
    yield family(
        "routes_cache_removed_total{why}",
        {"invalidated": stats["cache_invalidated"], "evicted": stats.get("cache_evicted", 0)},
    )
    yield family("routes_visible_timeouts_total", stats.get("visible_timeouts", 0))


def forwarding(node: NodeParts) -> Iterator[Metric]:
    """Of the messages on their way to other nodes."""
    forwarders = node.router.forwarders()
    taken = {peer: counts.streams["data"].latency for peer, counts in node.distribution.counts().items()}
    yield durations("forward_latency_seconds{peer}", {peer: row for peer, row in taken.items() if row.count})
    yield family(
        "forward_unacknowledged_bytes{peer}",
        {name: found.unacked_bytes for name, found in forwarders.items()},
    )
    yield family(
        "forward_congested{peer}", {name: int(found.congested) for name, found in forwarders.items()}
    )
    yield family(
        "forward_dropped_total{peer,reason}",
        {
            (name, why): count
            for name, found in forwarders.items()
            for why, count in beginning("dropped_", found.counts).items()
        },
    )


# -- cluster


def gossip(node: NodeParts) -> Iterator[Metric]:
    """Of members, as this node sees them, and what it takes to know."""
    members = node.members.members()
    yield family(
        "cluster_members{status}", {s.name.lower(): sum(m.status is s for m in members) for s in Status}
    )
    yield family("gossip_health_score", node.members.health)
    yield durations("gossip_rtt_seconds", node.members.rtt)
    counters = node.members.counters
    for what in ("packets", "bytes"):
        counts = {way: counters[f"{what}_{way}"] for way in ("in", "out")}
        yield family(f"gossip_{what}_total{{direction}}", counts)
    yield family("gossip_rejected_total{reason}", beginning("rejected.", counters))
    yield family("gossip_suspicions_total", counters["member_suspect"])
    yield family("gossip_refutations_total", counters["member_alive"])
    yield family(
        "gossip_events_total{event}",
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
    yield family("link_up{peer}", {peer: int(peer in up) for peer in counts})
    for field in ("frames_out", "frames_in", "bytes_out", "bytes_in", "dropped", "lost_out"):
        carried = {
            (peer, purpose): getattr(stream, field)
            for peer, count in counts.items()
            for purpose, stream in count.streams.items()
        }
        yield family(f"link_{field}_total{{peer,stream}}", carried)
    for field in ("connects", "resets", "refusals"):
        seen = {peer: getattr(count, field) for peer, count in counts.items()}
        yield family(f"link_{field}_total{{peer}}", seen)


def tables(node: NodeParts) -> Iterator[Metric]:
    """Rows, and how far this node is behind their owners."""
    store = node.store
    infos = {name: store.table_info(name) for name in store.tables()}
    yield family("table_rows{table}", {name: info["size"] for name, info in infos.items()})
    yield family(
        "table_log_bytes{table}",
        {name: info["log_bytes"] for name, info in infos.items() if "log_bytes" in info},
    )
    yield family(
        "table_behind_changes{table}",
        {
            name: sum(replica["behind"] for replica in info["replicas"].values() if replica["up"])
            for name, info in infos.items()
            if "replicas" in info
        },
    )
    yield family(
        "table_unconfirmed_changes{table,peer}",
        {
            (name, peer): max(0, info["position"] - follower["confirmed"])
            for name, info in infos.items()
            for peer, follower in info.get("followers", {}).items()
        },
    )
    yield family("replication_events_total{event}", store.replication.counts)


def disc(node: NodeParts) -> Iterator[Metric]:
    """Of what goes to disc."""
    queue = node.store.queue
    yield durations("disc_commit_seconds", queue.latency)
    yield family("disc_waiting_rows", queue.waiting)
    yield family("disc_failing", int(queue.failed is not None))


def consensus(node: NodeParts) -> Iterator[Metric]:
    """Of the replicas at this node."""
    found = node.consensus.replicas
    yield family("raft_term{group}", {kind: one.term for kind, one in found.items()})
    yield family("raft_leads{group}", {kind: int(one.leads) for kind, one in found.items()})
    leaderless = {kind: int(one.leaderless_since is not None) for kind, one in found.items()}
    yield family("raft_leaderless{group}", leaderless)
    yield family("raft_committed_entries{group}", {kind: one.committed for kind, one in found.items()})
    unapplied = {kind: one.committed - one.applied for kind, one in found.items()}
    yield family("raft_unapplied_entries{group}", unapplied)
    uncommitted = {kind: one.last - one.committed for kind, one in found.items()}
    yield family("raft_uncommitted_entries{group}", uncommitted)
    behind = {(kind, peer): count for kind, one in found.items() for peer, count in one.behind.items()}
    yield family("raft_behind_entries{group,peer}", behind)
    yield family("raft_elections_total{group}", {kind: one.elections for kind, one in found.items()})
    yield family("raft_snapshot_bytes{group}", {kind: one.snapshot_bytes for kind, one in found.items()})
    yield durations("raft_sync_seconds", node.consensus.syncs.latency)


def queues(census: Census) -> Iterator[Metric]:
    """Of the queues whose replication groups this node leads."""
    found = {stats.name: stats for stats in census.queues}
    yield family("queue_depth{queue}", {name: one.depth for name, one in found.items()})
    yield family("queue_bytes{queue}", {name: one.size for name, one in found.items()})
    yield family("queue_oldest_seconds{queue}", {name: one.oldest / 1000 for name, one in found.items()})
    for field in ("held", "consumers"):
        yield family(f"queue_{field}{{queue}}", {name: getattr(one, field) for name, one in found.items()})
    behind = {(one.queue, one.group): one for one in census.lags}
    yield family("queue_group_lag{queue,group}", {key: one.lag for key, one in behind.items()})
    ages = {key: one.oldest / 1000 for key, one in behind.items()}
    yield family("queue_group_oldest_seconds{queue,group}", ages)
    for field in ("appended", "settled", "redelivered", "dead", "refused", "dropped"):
        counts = {name: getattr(one, field) for name, one in found.items()}
        yield family(f"queue_{field}_total{{queue}}", counts)


def healing(node: NodeParts, alarms: Sequence[AlarmInfo]) -> Iterator[Metric]:
    """Of alarms, of splits, and what lost in heals."""
    found = node.healing
    # One that is over is 0 as long as it is known: nobody has to guess why it is no longer told.
    active = Counter(dict.fromkeys((*OWN_ALARMS, *(alarm.name for alarm in alarms)), 0))
    active.update(alarm.name for alarm in alarms if alarm.active)
    yield family("alarm_active{alarm}", active)
    for count, number in found.counts.items():
        yield family(f"autoheal_{count}_total", number)
    yield family("autoheal_quarantine_rows", len(found.quarantine))
    yield family("autoheal_quarantine_dropped_total", found.quarantine.dropped)


# -- process


def software(node: NodeParts, *, ready: bool) -> Iterator[Metric]:
    """Of the release that runs, and since when."""
    yield family("build_info{version,python}", {(__version__, platform.python_version()): 1})
    yield family("node_start_time_seconds", node.started_at)
    yield family("node_ready", int(ready))


def loop_watch(runtime: Runtime) -> LoopWatch | None:
    """Return the watch of the event loop; there is none in simulations."""
    found = getattr(runtime.names.get(LOOP_WATCH), "behaviour", None)
    return found if isinstance(found, LoopWatch) else None


def loop(runtime: Runtime) -> Iterator[Metric]:
    """Of the event loop: how late it is, and what holds it."""
    watch = loop_watch(runtime)
    # Where nobody watches, the numbers are missing and their names are not.
    lag, worst, stalls = (watch.lag, watch.worst, watch.stalls) if watch else (None, None, None)
    yield family("loop_lag_seconds", lag)
    yield family("loop_lag_worst_seconds", worst)
    yield durations("loop_delay_seconds", watch.delays if watch else {})
    yield family("loop_stalls_total", stalls)
    yield durations("gc_pause_seconds{generation}", {str(n): pauses for n, pauses in enumerate(PAUSES)})


def processes(runtime: Runtime, census: Census) -> Iterator[Metric]:
    """Of supervised processes, connections included."""
    yield family("processes_running", len(runtime.table))
    yield family("process_restarts_total{supervisor}", runtime.restarts)
    yield family("mailbox_longest_messages", census.longest_mailbox)


def auditing(node: NodeParts) -> Iterator[Metric]:
    """Of the flow recorder."""
    auditor = node.auditor
    buffer = auditor.buffer
    recording = auditor.running and auditor.recording
    yield family("audit_recording", int(recording))
    yield family("audit_messages_total", auditor.recorder.kept)
    yield family("audit_events_total", buffer.number - buffer.lost)
    yield family("audit_events_lost_total", buffer.lost)
    yield family("audit_waiting_rows", len(buffer))


def tracing(node: NodeParts) -> Iterator[Metric]:
    """Of OpenTelemetry, where it is on."""
    numbers = {} if node.tracing is None else node.tracing.numbers()
    yield family(
        "tracing_spans_total{outcome}",
        {outcome: numbers[outcome] for outcome in ("exported", "failed", "overflow") if numbers},
    )
    yield family(
        "tracing_skipped_total{why}",
        {why: numbers[why] for why in ("rows_lost", "crowded", "forgotten") if numbers},
    )


def http(node: NodeParts) -> Iterator[Metric]:
    """Of the API."""
    limits = node.limits
    yield family("api_connections", limits.connections)
    yield family("api_streams", limits.streams.total())
    yield family("api_requests", limits.requests)
    yield family("api_refused_total{why}", limits.refused)

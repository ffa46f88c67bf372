"""The node itself: its loop, its processes, what it records and traces, its API."""

from __future__ import annotations

import platform
from collections.abc import Iterator

from gossamer import __version__
from gossamer.api import Metric
from gossamer.node.metrics.census import Census
from gossamer.node.metrics.family import durations, family
from gossamer.node.parts import NodeParts
from gossamer.supervisor import PAUSES, LoopWatch, Runtime

__all__ = ["LOOP_WATCH", "auditing", "http", "loop", "loop_watch", "processes", "software", "tracing"]

LOOP_WATCH = "loop_watch"
"""The registered name of the process that watches the event loop."""


def software(node: NodeParts, *, ready: bool) -> Iterator[Metric]:
    """What runs, and since when."""
    yield family(
        "build_info{version,python}",
        "Always 1; what runs is in the labels.",
        {(__version__, platform.python_version()): 1},
    )
    yield family("node_start_time_seconds", "When the node started, since the epoch.", node.started_at)
    yield family("node_ready", "1 while the node takes clients, as /ready says.", int(ready))


def loop_watch(runtime: Runtime) -> LoopWatch | None:
    """What watches the event loop; nothing does in simulations."""
    found = getattr(runtime.names.get(LOOP_WATCH), "behaviour", None)
    return found if isinstance(found, LoopWatch) else None


def loop(runtime: Runtime) -> Iterator[Metric]:
    """How late the event loop is, and what holds it."""
    watch = loop_watch(runtime)
    # Where nobody watches, the numbers are missing and their names are not.
    lag, worst, stalls = (watch.lag, watch.worst, watch.stalls) if watch else (None, None, None)
    yield family("loop_lag_seconds", "By how much the event loop's last tick was late.", lag)
    yield family("loop_lag_worst_seconds", "The latest tick of the event loop since the node started.", worst)
    text = "How late the ticks of the event loop came, four a second."
    yield durations("loop_delay_seconds", text, watch.delays if watch else {})
    text = "How often a callback held the event loop; the log names the process."
    yield family("loop_stalls_total", text, stalls)
    text = "How long garbage collections took, by generation; nothing else runs meanwhile."
    yield durations("gc_pause_seconds{generation}", text, {str(n): pauses for n, pauses in enumerate(PAUSES)})


def processes(runtime: Runtime, census: Census) -> Iterator[Metric]:
    """Of supervised processes, connections included."""
    yield family("processes_running", "Processes, connections included.", len(runtime.table))
    yield family(
        "process_restarts_total{supervisor}",
        "Processes that were started again, by the name of their supervisor; blank: it has none.",
        runtime.restarts,
    )
    yield family(
        "mailbox_longest_messages", "Messages in the longest mailbox of any process.", census.longest_mailbox
    )


def auditing(node: NodeParts) -> Iterator[Metric]:
    """Of the flow recorder."""
    auditor = node.auditor
    tape = auditor.tape
    recording = auditor.running and auditor.recording
    yield family("audit_recording", "1 while messages are recorded.", int(recording))
    yield family(
        "audit_messages_total", "Messages of its publishers that this node recorded.", auditor.trail.kept
    )
    yield family("audit_events_total", "Events that were recorded.", tape.number - tape.lost)
    yield family("audit_events_lost_total", "Events for which there was no room.", tape.lost)
    yield family("audit_waiting_rows", "Rows that wait for the writer.", len(tape))


def tracing(node: NodeParts) -> Iterator[Metric]:
    """Of OpenTelemetry, where it is on."""
    numbers = {} if node.tracing is None else node.tracing.numbers()
    yield family(
        "tracing_spans_total{outcome}",
        "Spans of traced messages, by what became of them.",
        {outcome: numbers[outcome] for outcome in ("exported", "failed", "overflow") if numbers},
    )
    yield family(
        "tracing_skipped_total{why}",
        "What was noted of messages and found no way into a trace, by why.",
        {why: numbers[why] for why in ("rows_lost", "crowded", "forgotten") if numbers},
    )


def http(node: NodeParts) -> Iterator[Metric]:
    """Of the API."""
    limits = node.limits
    yield family("api_connections", "Connections to the API that are open.", limits.connections)
    yield family(
        "api_streams", "Event streams, traces and lists as JSON lines that are open.", limits.streams.total()
    )
    yield family("api_requests", "Requests under way, streams and probes aside.", limits.requests)
    yield family(
        "api_refused_total{why}",
        "Requests and connections that were refused or cut for a limit, by which.",
        limits.refused,
    )

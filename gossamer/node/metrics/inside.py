"""The node itself: its loop, its processes, what it records and traces."""

from __future__ import annotations

import platform
from collections.abc import Iterator

from gossamer import __version__
from gossamer.api import Metric
from gossamer.node.metrics.census import Census
from gossamer.node.metrics.family import by, histogram, one
from gossamer.node.parts import NodeParts
from gossamer.supervisor import PAUSES, LoopWatch, Runtime

__all__ = ["LOOP_WATCH", "auditing", "loop", "processes", "software", "tracing"]

LOOP_WATCH = "loop_watch"
"""The registered name of the process that watches the event loop."""


def software(node: NodeParts, *, ready: bool) -> Iterator[Metric]:
    """What runs, and since when."""
    yield by(
        ("version", "python"),
        "gossamer_build_info",
        "Always 1; what runs is in the labels.",
        "gauge",
        {(__version__, platform.python_version()): 1},
    )
    yield one(
        "gossamer_node_start_time_seconds",
        "When the node started, since the epoch.",
        "gauge",
        node.started_at,
    )
    yield one(
        "gossamer_node_ready",
        "1 while the node takes clients, as /ready says.",
        "gauge",
        int(ready),
    )


def loop(runtime: Runtime) -> Iterator[Metric]:
    """How late the event loop is, and what holds it."""
    found = getattr(runtime.names.get(LOOP_WATCH), "behaviour", None)
    # Nobody watches a simulated loop; there the numbers are missing and their names are not.
    watch = found if isinstance(found, LoopWatch) else None
    yield one(
        "gossamer_loop_lag_seconds",
        "By how much the event loop's last tick was late.",
        "gauge",
        watch.lag if watch else None,
    )
    yield one(
        "gossamer_loop_lag_worst_seconds",
        "The latest tick of the event loop since the node started.",
        "gauge",
        watch.worst if watch else None,
    )
    yield histogram(
        "gossamer_loop_delay_seconds",
        "How late the ticks of the event loop came, four a second.",
        watch.delays if watch else {},
    )
    yield one(
        "gossamer_loop_stalls_total",
        "How often a callback held the event loop; the log names the process.",
        "counter",
        watch.stalls if watch else None,
    )
    yield histogram(
        "gossamer_gc_pause_seconds",
        "How long garbage collections took, by generation; nothing else runs meanwhile.",
        {str(generation): pauses for generation, pauses in enumerate(PAUSES)},
        label="generation",
    )


def processes(runtime: Runtime, census: Census) -> Iterator[Metric]:
    """Of supervised processes, connections included."""
    yield one("gossamer_processes_running", "Processes, connections included.", "gauge", len(runtime.table))
    yield by(
        "supervisor",
        "gossamer_process_restarts_total",
        "Processes that were started again, by the name of their supervisor; blank: it has none.",
        "counter",
        dict(sorted(runtime.restarts.items())),
    )
    yield one(
        "gossamer_mailbox_longest_messages",
        "Messages in the longest mailbox of any process.",
        "gauge",
        census.longest_mailbox,
    )


def auditing(node: NodeParts) -> Iterator[Metric]:
    """Of the flow recorder."""
    auditor = node.auditor
    tape = auditor.tape
    recording = auditor.running and auditor.recording
    yield one("gossamer_audit_recording", "1 while messages are recorded.", "gauge", int(recording))
    yield one(
        "gossamer_audit_messages_total",
        "Messages of its publishers that this node recorded.",
        "counter",
        auditor.trail.kept,
    )
    yield one("gossamer_audit_events_total", "Events that were recorded.", "counter", tape.number - tape.lost)
    yield one("gossamer_audit_events_lost_total", "Events for which there was no room.", "counter", tape.lost)
    yield one("gossamer_audit_waiting_rows", "Rows that wait for the writer.", "gauge", len(tape))


def tracing(node: NodeParts) -> Iterator[Metric]:
    """Of OpenTelemetry, where it is on."""
    numbers = {} if node.tracing is None else node.tracing.numbers()
    yield by(
        "outcome",
        "gossamer_tracing_spans_total",
        "Spans of traced messages, by what became of them.",
        "counter",
        {outcome: numbers[outcome] for outcome in ("exported", "failed", "overflow") if numbers},
    )
    yield by(
        "why",
        "gossamer_tracing_skipped_total",
        "What was noted of messages and found no way into a trace, by why.",
        "counter",
        {why: numbers[why] for why in ("rows_lost", "crowded", "forgotten") if numbers},
    )

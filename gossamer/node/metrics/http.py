"""The HTTP API: who is served, and who was not."""

from __future__ import annotations

from collections.abc import Iterator

from gossamer.api import Metric
from gossamer.node.metrics.family import by, one
from gossamer.node.parts import NodeParts

__all__ = ["http"]


def http(node: NodeParts) -> Iterator[Metric]:
    """Of the API."""
    limits = node.limits
    yield one(
        "gossamer_api_connections", "Connections to the API that are open.", "gauge", limits.connections
    )
    yield one(
        "gossamer_api_streams",
        "Event streams, traces and lists as JSON lines that are open.",
        "gauge",
        limits.streams.total(),
    )
    yield one(
        "gossamer_api_requests", "Requests under way, streams and probes aside.", "gauge", limits.requests
    )
    yield by(
        "why",
        "gossamer_api_refused_total",
        "Requests and connections that were refused or cut for a limit, by which.",
        "counter",
        dict(sorted(limits.refused.items())),
    )

"""The numbers of one node, gathered from where they are kept.

Rules, which a test holds: 1. Names carry their unit, and it is a base unit: seconds, bytes.  2. Counters end
in ``_total`` and never fall.  3. Labels have few values: nodes, tables, reasons; never clients or topics.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gossamer.api import Metric
from gossamer.api.model.cluster import AlarmInfo
from gossamer.node.metrics.broker import forwarding, mqtt, routing
from gossamer.node.metrics.census import Census, take_census
from gossamer.node.metrics.cluster import disc, gossip, healing, links, tables
from gossamer.node.metrics.process import (
    LOOP_WATCH,
    auditing,
    http,
    loop,
    loop_watch,
    processes,
    software,
    tracing,
)
from gossamer.node.parts import NodeParts

__all__ = ["LOOP_WATCH", "Census", "loop_watch", "metrics_of", "take_census"]


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
    yield from healing(node, alarms)
    yield from loop(node.runtime)
    yield from processes(node.runtime, census)
    yield from auditing(node)
    yield from tracing(node)
    yield from http(node)

"""A node at one moment, in the few numbers that are asked for every second."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterable

from gossamer import __version__
from gossamer.api.model.cluster import NodeInfo, NodeStatus, Pulse, Seen
from gossamer.node.history import Reading
from gossamer.node.metrics import LOOP_WATCH
from gossamer.node.parts import NodeParts
from gossamer.node.views.healing import Healing
from gossamer.supervisor import LoopWatch

__all__ = ["reading_of", "sample_of"]

_PAGE = resource.getpagesize()


def sample_of(node: NodeParts, status: NodeStatus, nodes: Iterable[NodeInfo], healing: Healing) -> Pulse:
    """Return the node now, in few numbers."""
    stats = node.broker.stats()
    watch = getattr(node.runtime.names.get(LOOP_WATCH), "behaviour", None)
    owners = node.store.table_info("routes")["owners"] if "routes" in node.store.tables() else {}
    return Pulse(
        node=node.name,
        at=node.clock.wall(),
        creation=node.creation,
        uptime=status.uptime,
        state=status.state,
        version=__version__,
        connections=stats["connections"],
        sessions=stats["sessions"],
        filters=owners.get(node.name, 0),
        retained=stats["retained"],
        queued_bytes=stats["queued_bytes"],
        received=stats["messages_received"],
        sent=stats["messages_sent"],
        dropped=node.broker.hub.drops.total(),
        forwarded_bytes={
            peer: forwarder.counts["bytes"] for peer, forwarder in node.router.forwarders().items()
        },
        loop_lag=watch.lag if isinstance(watch, LoopWatch) else 0.0,
        memory=_memory(),
        sees={row.name: Seen(status=row.status, link=row.link) for row in nodes},
        phase=healing.status().phase,
        alarms=tuple(healing.alarms()),
    )


def reading_of(node: NodeParts) -> Reading:
    """The same for the node's history; the worst lateness of the loop is taken."""
    stats = node.broker.stats()
    watch = getattr(node.runtime.names.get(LOOP_WATCH), "behaviour", None)
    return Reading(
        at=node.clock.wall(),
        monotonic=node.clock.monotonic(),
        received=stats["messages_received"],
        sent=stats["messages_sent"],
        dropped=node.broker.hub.drops.total(),
        cpu=time.process_time(),
        connections=stats["connections"],
        memory=_memory(),
        loop_lag=watch.take_peak() if isinstance(watch, LoopWatch) else 0.0,
    )


def _memory() -> int:
    """Bytes of this process that are in memory; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", encoding="ascii") as statm:  # noqa: PTH123 - one read of a pseudo file
            return int(statm.read().split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        return 0

"""What nodes report once a drill is over: heals, quarantined rows, members and checksums of their tables."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from gossamer.drill.record import Heal, NodeEnd, Quarantined
from gossamer.drill.run.watch import Watch
from gossamer.launch import NodePlan

__all__ = ["ends_of", "heals_of", "quarantined_of"]

_AGREEMENT_TIMEOUT = 10.0
_RETRY_INTERVAL = 0.5


async def heals_of(watch: Watch, *, since: float) -> tuple[Heal, ...]:
    """Every heal once, whichever node reports it; ``since`` is when the drill began, since 1970."""
    heals: dict[str, Heal] = {}
    for history in await watch.get_all("/api/v1/autoheal/history"):
        for incident in history or ():
            healed_at = round(incident["healed_at"] - since, 3)
            heal = msgspec.convert({**incident, **incident["rows"], "healed_at": healed_at}, Heal)
            heals.setdefault(heal.plan, heal)
    return tuple(sorted(heals.values(), key=lambda heal: heal.healed_at))


async def quarantined_of(watch: Watch, nodes: Sequence[NodePlan]) -> tuple[Quarantined, ...]:
    """Rows that lost, of the nodes that answer."""
    statuses = await watch.get_all("/api/v1/autoheal")
    return tuple(
        Quarantined(node.name, str(node.directory / "quarantine.bin"), status["quarantined"])
        for node, status in zip(nodes, statuses, strict=True)
        if status is not None and status["quarantined"]
    )


async def ends_of(watch: Watch, nodes: Sequence[NodePlan]) -> tuple[NodeEnd, ...]:
    """Members and tables of each node.

    Replication may still be on its way when load ends, so nodes that differ are asked again for a while, and
    what they reported last counts.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _AGREEMENT_TIMEOUT
    while True:
        # A node that is not ready says so with its members.
        ready = await watch.get_all("/ready", any_status=True)
        tables = await watch.get_all("/api/v1/tables/digests")
        ends = tuple(map(_end_of, nodes, ready, tables))
        agree = len({(end.members, frozenset(end.tables.items())) for end in ends}) == 1
        if (agree and len(ends[0].members) == len(ends)) or loop.time() >= deadline:
            return ends
        await asyncio.sleep(_RETRY_INTERVAL)


def _end_of(node: NodePlan, ready: Any, digests: Any) -> NodeEnd:
    if not (isinstance(ready, dict) and isinstance(digests, list)):
        return NodeEnd(node.name)
    tables = {f"{row['name']} of {row['owner']}": f"{row['rows']} rows {row['checksum']}" for row in digests}
    return NodeEnd(node.name, tuple(sorted(ready.get("members", ()))), tables)

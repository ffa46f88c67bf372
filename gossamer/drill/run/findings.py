"""What nodes report once a drill is over: heals, quarantined rows, members and checksums of their tables.

Replication may still be on its way when load ends, so nodes whose tables differ are asked again for a while;
the record has what they reported last.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from gossamer.drill.record import Heal, NodeEnd, Quarantined
from gossamer.drill.run.watch import Watch
from gossamer.drill.stage.backend import DrillNode

__all__ = ["Findings", "findings_of", "heals_of"]

_AGREEMENT_TIMEOUT = 10.0
_RETRY_INTERVAL = 0.5


@dataclass(frozen=True, slots=True)
class Findings:
    """Of all nodes together."""

    heals: tuple[Heal, ...]
    quarantined: tuple[Quarantined, ...]
    ends: tuple[NodeEnd, ...]


def heals_of(histories: Sequence[Sequence[dict[str, Any]]], *, since: float) -> tuple[Heal, ...]:
    """Every heal once, whichever node reports it; ``since`` is when the drill began, since 1970."""
    heals: dict[str, Heal] = {}
    for incident in (incident for history in histories for incident in history):
        healed_at = round(incident["healed_at"] - since, 3)
        heal = msgspec.convert({**incident, **incident["rows"], "healed_at": healed_at}, Heal)
        heals.setdefault(heal.plan, heal)
    return tuple(sorted(heals.values(), key=lambda heal: heal.healed_at))


async def findings_of(watch: Watch, nodes: Sequence[DrillNode], *, since: float) -> Findings:
    """Ask all nodes; one that does not answer has nothing to report."""
    histories = await watch.get_all("/api/v1/autoheal/history")
    statuses = await watch.get_all("/api/v1/autoheal")
    return Findings(
        heals=heals_of([history or [] for history in histories], since=since),
        quarantined=tuple(
            Quarantined(node.name, str(node.data_dir / "quarantine.bin"), status["quarantined"])
            for node, status in zip(nodes, statuses, strict=True)
            if status is not None and status["quarantined"]
        ),
        ends=await _ends(watch, nodes),
    )


async def _ends(watch: Watch, nodes: Sequence[DrillNode]) -> tuple[NodeEnd, ...]:
    """Ask all, until they agree or time is up."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _AGREEMENT_TIMEOUT
    while True:
        # A node that is not ready says so with its members.
        ready = await watch.get_all("/ready", any_status=True)
        tables = await watch.get_all("/api/v1/tables/digests")
        ends = tuple(map(_end_of, nodes, ready, tables))
        if _agree(ends) or loop.time() >= deadline:
            return ends
        await asyncio.sleep(_RETRY_INTERVAL)


def _agree(ends: Sequence[NodeEnd]) -> bool:
    return all(end.members == ends[0].members and end.tables == ends[0].tables for end in ends) and all(
        len(end.members) == len(ends) for end in ends
    )


def _end_of(node: DrillNode, ready: Any, digests: Any) -> NodeEnd:
    if not (isinstance(ready, dict) and isinstance(digests, list)):
        return NodeEnd(node.name)
    tables = {f"{row['name']} of {row['owner']}": f"{row['rows']} rows {row['checksum']}" for row in digests}
    return NodeEnd(node.name, tuple(sorted(ready.get("members", ()))), tables)

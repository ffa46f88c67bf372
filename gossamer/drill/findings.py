"""What nodes say after a drill: heals of their history, rows in their quarantine."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gossamer.drill.backend import DrillNode
from gossamer.drill.record import Heal, Quarantined
from gossamer.drill.watch import Watch

__all__ = ["Findings", "findings_of", "heals_of"]


@dataclass(frozen=True, slots=True)
class Findings:
    """Of all nodes together."""

    heals: tuple[Heal, ...]
    quarantined: tuple[Quarantined, ...]


def heals_of(histories: Sequence[Sequence[dict[str, Any]]], *, since: float) -> tuple[Heal, ...]:
    """Every heal once, whoever tells of it; ``since`` is when the drill began, since 1970."""
    heals: dict[str, Heal] = {}
    for history in histories:
        for episode in history:
            rows = episode["rows"]
            heals.setdefault(
                episode["plan"],
                Heal(
                    plan=episode["plan"],
                    coordinator=episode["coordinator"],
                    survivors=tuple(episode["survivors"]),
                    reloaded=tuple(episode["reloaded"]),
                    skipped=tuple(episode["skipped"]),
                    healed_at=round(episode["healed_at"] - since, 3),
                    restored=rows["restored"],
                    merged=rows["merged"],
                    quarantined=rows["quarantined"],
                    left=rows["left"],
                ),
            )
    return tuple(sorted(heals.values(), key=lambda heal: heal.healed_at))


async def findings_of(watch: Watch, nodes: Sequence[DrillNode], *, since: float) -> Findings:
    """Ask all nodes; who does not answer has nothing to say."""
    names = [node.name for node in nodes]
    histories = await asyncio.gather(*(watch.get(name, "/api/v1/autoheal/history") for name in names))
    statuses = await asyncio.gather(*(watch.get(name, "/api/v1/autoheal") for name in names))
    return Findings(
        heals=heals_of([history or [] for history in histories], since=since),
        quarantined=tuple(
            Quarantined(node.name, str(node.data_dir / "quarantine.bin"), status["quarantined"])
            for node, status in zip(nodes, statuses, strict=True)
            if status is not None and status["quarantined"]
        ),
    )

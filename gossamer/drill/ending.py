"""What every node holds when a drill is over: whom it is in one cluster with, and checksums of its tables.

Replication may still be on its way when the last word is said, so nodes that differ are asked again for a
while; what is reported is what they said last.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import httpx

from gossamer.drill.backend import DrillNode
from gossamer.drill.record import NodeEnd

__all__ = ["look_at_ends"]

_PAUSE = 0.5


async def look_at_ends(nodes: Sequence[DrillNode], *, patience: float = 10.0) -> tuple[NodeEnd, ...]:
    """Ask all, until they agree or ``patience`` seconds are over."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + patience
    async with httpx.AsyncClient(timeout=5.0, trust_env=False) as client:
        while True:
            ends = tuple(await asyncio.gather(*(_end_of(client, node) for node in nodes)))
            if _agree(ends) or loop.time() >= deadline:
                return ends
            await asyncio.sleep(_PAUSE)


def _agree(ends: Sequence[NodeEnd]) -> bool:
    return all(end.members == ends[0].members and end.tables == ends[0].tables for end in ends) and all(
        len(end.members) == len(ends) for end in ends
    )


async def _end_of(client: httpx.AsyncClient, node: DrillNode) -> NodeEnd:
    try:
        ready = (await client.get(f"{node.api}/ready")).json()
        tables = (await client.get(f"{node.api}/api/v1/tables/digests")).json()
    except (httpx.TransportError, ValueError):
        return NodeEnd(node.name)
    if not (isinstance(ready, dict) and isinstance(tables, list)):
        return NodeEnd(node.name)
    return NodeEnd(node.name, tuple(sorted(ready.get("members", ()))), dict(map(_shown, tables)))


def _shown(digest: dict[str, Any]) -> tuple[str, str]:
    return f"{digest['name']} of {digest['owner']}", f"{digest['rows']} rows {digest['checksum']}"

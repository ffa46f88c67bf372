"""What a starting node waits for before it lets clients in: the cluster, a name of its own, its tables.

Rule: every wait is bounded and what did not come is logged; a node serves with what it has rather than not
at all. The exception is a name that a living member has: two nodes of one name undo each other's rows.
"""

from __future__ import annotations

import asyncio

import structlog

from gossamer.gossip import Status
from gossamer.mnesia_like import TablesNotLoadedError
from gossamer.node.membership import NodeNameTakenError
from gossamer.node.parts import NodeParts

__all__ = ["wait_for_cluster"]

log = structlog.get_logger(__name__)

JOIN_WAIT = 5.0
"""Seconds a starting node waits for its seeds before it serves alone."""
NAME_WAIT = 10.0
"""Seconds more that it waits where its name is taken: the holder may be its own dead former self."""
LOAD_WAIT = 15.0
"""Seconds a starting node waits for tables before it serves with what it has."""


async def wait_for_cluster(node: NodeParts) -> None:
    """Wait, within bounds, for the cluster and for its tables.

    Raises:
        NodeNameTakenError: a living member has this node's name.
    """
    if not await _settled(node, JOIN_WAIT):
        holder = await _namesake(node)
        if holder is not None and not await _settled(node, NAME_WAIT):
            holder = await _namesake(node)
            if holder is not None:
                raise NodeNameTakenError(name=node.name, holder=holder)
        log.warning("started_alone", node=node.name, waited=JOIN_WAIT, advice="seeds are tried for ever")
    peers = [m.name for m in node.members.members()[1:] if m.status is Status.ONLINE]
    try:
        await node.store.wait_for_tables(timeout=LOAD_WAIT, peers=peers)
    except TablesNotLoadedError as error:
        log.warning("tables_not_loaded", node=node.name, error=str(error))


async def _settled(node: NodeParts, within: float) -> bool:
    """Wait until ``node`` is in a cluster, or needs none."""
    try:
        async with asyncio.timeout(within):
            await node.runtime.call("discovery", "settled", timeout=None)
    except TimeoutError:
        return False
    return True


async def _namesake(node: NodeParts) -> str | None:
    """The seed that refuses ``node`` for its name, if one does."""
    problems: dict[str, str] = await node.runtime.call("discovery", "problems")
    return next((seed for seed, why in problems.items() if why == "name-taken"), None)

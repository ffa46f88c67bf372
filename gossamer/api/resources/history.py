"""The last hour in a few numbers of each node, which keeps its own: for who comes after something happened.

Rules: 1. A node keeps a bounded ring in memory; it begins with the node.  2. Points stand at whole steps of
the wall clock, so that those of several nodes can be laid over each other and added up.  3. A time at which
nothing was measured has no point: a gap is a gap.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, Query, Request

from gossamer.api.http.access import principal_of
from gossamer.api.model import Value
from gossamer.api.peers.requests import PeerSilentError
from gossamer.api.peers.scatter_gather import Wide
from gossamer.api.resources.lists import OnNode, Scope
from gossamer.api.view import NodeView
from gossamer.errors import GossamerError

__all__ = ["LONGEST", "History", "NodeHistory", "history_router"]

LONGEST = 3600
"""Seconds that a node remembers."""


class NodeHistory(Value):
    """One node's numbers, a column each; the oldest first."""

    node: str
    step: int
    """Seconds that a point stands for."""
    at: tuple[float, ...] = ()
    """Seconds since 1970 at the end of each point, by the node's wall clock."""
    received: tuple[float, ...] = ()
    """Messages a second that clients published."""
    sent: tuple[float, ...] = ()
    """Messages a second delivered to clients."""
    dropped: tuple[float, ...] = ()
    """Messages a second that were dropped, or for nobody."""
    connections: tuple[int, ...] = ()
    """Clients that were connected at the end."""
    cpu: tuple[float, ...] = ()
    """Processor time a second: 1 is one core in full use."""
    memory: tuple[int, ...] = ()
    """Bytes of memory in use at the end."""
    loop_lag: tuple[float, ...] = ()
    """Seconds that the event loop was late at worst."""


class History(Value):
    """What nodes remember."""

    nodes: tuple[NodeHistory, ...]
    missing: Mapping[str, str] = {}
    """Nodes that were asked and did not answer, and why."""


def history_router(view: NodeView) -> APIRouter:
    """``/history``."""
    router = APIRouter(tags=["cluster"])

    @router.get("/history")
    async def history(
        request: Request,
        seconds: Annotated[int, Query(ge=1, le=LONGEST, description="How far back.")] = LONGEST,
        step: Annotated[int, Query(ge=5, le=600, description="Seconds that a point stands for.")] = 30,
        node: OnNode = None,
        scope: Scope = "cluster",
    ) -> History:
        """The last hour of all nodes: messages, clients, processor, memory."""
        if scope == "node":
            node = view.name
        wide, path = Wide(view, principal_of(request)), f"{request.url.path}?scope=node"
        asked, missing = wide.whom(node)

        async def ask(name: str) -> NodeHistory | None:
            if name == view.name:
                return view.history(seconds=seconds, step=step)
            try:
                answer = await wide.ask(name, "GET", f"{path}&seconds={seconds}&step={step}")
                if answer.status != 200:
                    raise PeerSilentError(node=name, reason=f"it answered {answer.status}")
                return History.model_validate_json(answer.body).nodes[0]
            except (GossamerError, ValueError, IndexError) as error:
                missing[name] = str(error)
                return None

        found = await asyncio.gather(*(ask(name) for name in asked))
        return History(nodes=tuple(one for one in found if one is not None), missing=missing)

    return router

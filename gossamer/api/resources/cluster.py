"""The cluster as this node sees it, and commands that change it: join, leave, drain, gossip keys."""

from __future__ import annotations

from fastapi import APIRouter

from gossamer.api.http.access import needs
from gossamer.api.http.tokens import Role
from gossamer.api.model.cluster import (
    Done,
    ForceLeaveRequest,
    JoinRequest,
    KeyRequest,
    KeysInfo,
    MemberInfo,
    NodeInfo,
    NodeStatus,
)
from gossamer.api.view import NodeView
from gossamer.config import parse_endpoint
from gossamer.errors import WrongValueError

__all__ = ["cluster_router"]


def cluster_router(view: NodeView) -> APIRouter:
    """``/status``, ``/members``, ``/nodes`` and ``/cluster``."""
    router = APIRouter(tags=["cluster"])

    @router.get("/status")
    async def status() -> NodeStatus:
        """What this node says of itself: state, members, ports, counters."""
        return view.status()

    @router.get("/members")
    async def members() -> tuple[MemberInfo, ...]:
        """The members as this node sees them, with what it goes by."""
        return tuple(view.members())

    @router.get("/nodes")
    async def nodes() -> tuple[NodeInfo, ...]:
        """The nodes that this one knows, and whether it has links to them."""
        return tuple(view.nodes())

    @router.post("/cluster/join")
    async def join(order: JoinRequest) -> Done:
        """Join the cluster of whoever gossips at one of the endpoints."""
        endpoints = []
        for text in order.endpoints:
            try:
                endpoints.append(parse_endpoint(text))
            except ValueError:
                raise WrongValueError.about(
                    "endpoints", repr(text[:100]), "a gossip endpoint such as 10.0.0.2:7946"
                ) from None
        await view.join(endpoints)
        return Done(done=f"{view.name} joined", members=tuple(view.members()))

    @router.post("/cluster/leave")
    async def leave() -> Done:
        """Leave the cluster and stay out, also after a restart, until told to join."""
        await view.leave()
        return Done(done=f"{view.name} left", members=tuple(view.members()))

    @router.post("/cluster/drain")
    async def drain() -> Done:
        """Send clients to other nodes, and their sessions with them; nobody is let in after that."""
        return Done(done=await view.drain(), members=tuple(view.members()))

    @router.post("/cluster/force-leave", dependencies=[needs(Role.ADMIN)])
    async def force_leave(order: ForceLeaveRequest) -> Done:
        """Remove a member that will not come back; one that lives is told to stay out."""
        await view.force_leave(order.name)
        return Done(done=f"{order.name} removed", members=tuple(view.members()))

    @router.get("/cluster/keys", dependencies=[needs(Role.ADMIN)])
    async def keys() -> KeysInfo:
        """The gossip keys of this node by name, the one in use first."""
        return await view.keys()

    @router.post("/cluster/keys", dependencies=[needs(Role.ADMIN)])
    async def change_keys(order: KeyRequest) -> KeysInfo:
        """Install, use or remove a gossip key on this node."""
        return await view.keys(order)

    return router

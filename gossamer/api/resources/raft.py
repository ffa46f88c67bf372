"""``/raft`` and ``/names``: the replicas of the cluster's group, and the names that rest on it."""

from __future__ import annotations

from fastapi import APIRouter

from gossamer.api.http.access import needs
from gossamer.api.http.tokens import Role
from gossamer.api.model.raft import GroupInfo, TransferRequest, UniqueName
from gossamer.api.view import NodeView


def raft_router(view: NodeView) -> APIRouter:
    """``/raft`` and ``/names``."""
    router = APIRouter(tags=["cluster"])

    @router.get("/raft")
    async def group() -> GroupInfo:
        """The group of replicas that decides what must not differ between nodes, as its leader sees it."""
        return await view.consensus.group()

    @router.post("/raft/transfer", dependencies=[needs(Role.ADMIN)])
    async def transfer(order: TransferRequest) -> GroupInfo:
        """Hand leadership to another voter, which has the whole log first."""
        await view.consensus.transfer(order.node)
        return await view.consensus.group()

    @router.post("/raft/recover", dependencies=[needs(Role.ADMIN)])
    async def recover() -> GroupInfo:
        """Abandon a group whose quorum is lost for good, and found a new one from this node's copy.

        What was committed without this node is lost.
        """
        await view.consensus.recover()
        return await view.consensus.group()

    @router.get("/names")
    async def names() -> tuple[UniqueName, ...]:
        """The names that have one holder in the cluster, as of now."""
        return tuple(await view.consensus.names())

    return router

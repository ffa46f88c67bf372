"""``/raft`` and ``/names``: the replicas of the cluster's groups, and the names that rest on one."""

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
    async def groups() -> tuple[GroupInfo, ...]:
        """The groups of replicas that decide what must not differ between nodes, as the leaders see them."""
        return tuple(await view.consensus.groups())

    @router.post("/raft/transfer", dependencies=[needs(Role.ADMIN)])
    async def transfer(order: TransferRequest) -> GroupInfo:
        """Hand leadership of a group to another voter, which has the whole log first."""
        return await view.consensus.transfer(order.node, order.kind)

    @router.post("/raft/recover", dependencies=[needs(Role.ADMIN)])
    async def recover() -> tuple[GroupInfo, ...]:
        """Abandon the groups whose quorum is lost for good, and found new ones from this node's copies.

        What was committed without this node is lost.
        """
        await view.consensus.recover()
        return tuple(await view.consensus.groups())

    @router.get("/names")
    async def names() -> tuple[UniqueName, ...]:
        """The names that have one holder in the cluster, as of now."""
        return tuple(await view.consensus.names())

    return router

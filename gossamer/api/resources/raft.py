"""``/raft``, ``/ranges`` and ``/names``: the replicas of the cluster's groups, and what rests on them."""

from __future__ import annotations

from fastapi import APIRouter

from gossamer.api.http.access import needs
from gossamer.api.http.tokens import Role
from gossamer.api.model.raft import (
    GroupInfo,
    KeyRange,
    MergeRequest,
    SplitRequest,
    TransferRequest,
    UniqueName,
)
from gossamer.api.view import NodeView


def raft_router(view: NodeView) -> APIRouter:
    """``/raft``, ``/ranges`` and ``/names``."""
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

    @router.get("/ranges")
    async def ranges() -> tuple[KeyRange, ...]:
        """The ranges of keys that groups of replicas have, in order, as this node knows them."""
        return tuple(await view.consensus.ranges())

    @router.post("/ranges/split", dependencies=[needs(Role.ADMIN)])
    async def split_range(order: SplitRequest) -> KeyRange:
        """Have the range of a key end before it, and another begin with it, while it serves."""
        return await view.consensus.split_range(bytes.fromhex(order.key))

    @router.post("/ranges/merge", dependencies=[needs(Role.ADMIN)])
    async def merge_range(order: MergeRequest) -> KeyRange:
        """Have a range begin to take over its neighbour on the right, while both serve."""
        return await view.consensus.merge_range(order.range)

    @router.get("/names")
    async def names() -> tuple[UniqueName, ...]:
        """The names that have one holder in the cluster, as of now."""
        return tuple(await view.consensus.names())

    return router

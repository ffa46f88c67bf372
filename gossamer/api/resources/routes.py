"""The route table, which every node knows whole: rows, filters, where a topic leads, and its check."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query

from gossamer.api.model.base import Page
from gossamer.api.model.node import RouteFindings, RouteInfo, RouteVerification, TopicInfo, TopicMatch
from gossamer.api.resources.listing import After, Limit, OnNode, local_page
from gossamer.api.view import NodeView

__all__ = ["Filter", "routes_router"]

Filter = Annotated[
    str | None, Query(alias="filter", max_length=65_535, description="Only those with exactly this filter.")
]


def routes_router(view: NodeView) -> APIRouter:
    """``/routes`` and ``/topics``."""
    router = APIRouter(tags=["routes"])

    @router.get("/routes")
    async def routes(
        limit: Limit = 1000, after: After = None, node: OnNode = None, wanted: Filter = None
    ) -> Page[RouteInfo]:
        """The route table, one item a filter and node."""
        found = (
            ((topic.filter, name), partial(RouteInfo, filter=topic.filter, node=name))
            for topic in view.topics(filter=wanted)
            for name in topic.nodes
            if node is None or name == node
        )
        return await local_page(found, limit, after)

    @router.get("/topics")
    async def topics(limit: Limit = 1000, after: After = None) -> Page[TopicInfo]:
        """The route table, one item a filter."""
        found = (
            ((topic.filter,), partial(TopicInfo, filter=topic.filter, nodes=topic.nodes))
            for topic in view.topics()
        )
        return await local_page(found, limit, after)

    @router.get("/topics/match")
    async def match(
        topic: Annotated[str, Query(min_length=1, max_length=65_535, description="A topic name.")],
    ) -> TopicMatch:
        """Where a message to a topic would go from here, and why."""
        return view.match(topic)

    @router.post("/routes/verify")
    async def verify(order: RouteVerification) -> RouteFindings:
        """Compare this node's routes with its tables and its peers, now, and repair them."""
        return await view.verify_routes(repair=order.repair)

    return router

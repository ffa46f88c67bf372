"""Where messages go: the route table, which every node knows whole, publishing, and what is retained.

Payloads go in and never come out: who wants to read messages subscribes, as whom the ACL knows.
"""

from __future__ import annotations

import base64
import binascii
from functools import partial
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import Field

from gossamer.api.model.base import Flag, Page, Value
from gossamer.api.model.node import (
    RetainedInfo,
    RouteFindings,
    RouteInfo,
    RouteVerification,
    TopicInfo,
    TopicMatch,
)
from gossamer.api.resources.listing import After, Limit, OnNode, local_page
from gossamer.api.view import NodeView
from gossamer.errors import WrongValueError

__all__ = ["Filter", "messages_router", "routes_router"]

MAX_PAYLOAD = 48 * 1024

Filter = Annotated[
    str | None, Query(alias="filter", max_length=65_535, description="Only those with exactly this filter.")
]
Topic = Annotated[str, Query(min_length=1, max_length=65_535, description="A topic name.")]


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
    async def match(topic: Topic) -> TopicMatch:
        """Where a message to a topic would go from here, and why."""
        return view.match(topic)

    @router.post("/routes/verify")
    async def verify(order: RouteVerification) -> RouteFindings:
        """Compare this node's routes with its tables and its peers, now, and repair them."""
        return await view.verify_routes(repair=order.repair)

    return router


class PublishRequest(Value):
    """A message to publish."""

    topic: Annotated[str, Field(min_length=1, max_length=65_535)]
    payload: Annotated[str, Field(max_length=MAX_PAYLOAD)] = ""
    encoding: Literal["text", "base64"] = "text"
    """How ``payload`` is written here; clients get the bytes."""
    qos: Annotated[int, Field(ge=0, le=2, strict=True)] = 0
    retain: Flag = False


class Published(Value):
    """What became of a message that was published."""

    topic: str
    receivers: int
    """Subscribers here and nodes elsewhere that it went to."""
    safe: bool
    """Every node that it went to has it; always true for QoS 0, which nobody confirms."""


def messages_router(view: NodeView) -> APIRouter:
    """``/publish`` and ``/retained``."""
    router = APIRouter(tags=["messages"])

    @router.post("/publish")
    async def publish(order: PublishRequest) -> Published:
        """Publish a message, and wait until every node that has subscribers to it has it."""
        payload = order.payload.encode()
        if order.encoding == "base64":
            try:
                payload = base64.b64decode(payload, validate=True)
            except binascii.Error as error:
                raise WrongValueError(f"payload: {error}; expected base64, or encoding: text") from None
        receivers, safe = await view.publish(order.topic, payload, qos=order.qos, retain=order.retain)
        return Published(topic=order.topic, receivers=receivers, safe=safe)

    @router.get("/retained")
    async def retained(
        limit: Limit = 1000,
        after: After = None,
        wanted: Annotated[
            str, Query(alias="filter", max_length=65_535, description="Only topics that this filter matches.")
        ] = "#",
    ) -> Page[RetainedInfo]:
        """The topics that have a retained message, on any node."""
        return await local_page(view.retained(wanted), limit, after)

    @router.delete("/retained")
    async def forget(topic: Topic) -> Published:
        """Remove the retained message of a topic, as an empty one that is published does."""
        receivers, safe = await view.publish(topic, b"", qos=1, retain=True)
        return Published(topic=topic, receivers=receivers, safe=safe)

    return router

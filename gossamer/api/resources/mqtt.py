"""MQTT at all nodes: where messages go, clients and their subscriptions, publishing, and what is retained.

Any node may be asked; it knows the whole route table, and looks up where a client is. Payloads go in and
never come out here: who wants to read messages subscribes, as whom the ACL knows.
"""

from __future__ import annotations

import base64
import binascii
from functools import partial
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Path, Query
from fastapi.responses import Response
from pydantic import Field

from gossamer.api.http.answers import problem
from gossamer.api.model.base import Flag, Page, Problem, Value
from gossamer.api.model.cluster import Done
from gossamer.api.model.node import (
    ClientInfo,
    RetainedInfo,
    RouteFindings,
    RouteInfo,
    RouteVerification,
    SubscriptionInfo,
    TopicInfo,
    TopicMatch,
)
from gossamer.api.peers.paging import ClientSearch
from gossamer.api.peers.scatter_gather import check_node
from gossamer.api.resources.listing import (
    BY_NAME,
    STREAMED,
    After,
    Limit,
    ListingQuery,
    OnNode,
    Order,
    Scope,
    list_order,
    local_page,
)
from gossamer.api.view import NodeView
from gossamer.errors import NotFoundError, WrongValueError, mismatch
from gossamer.tenants import checked

MAX_PAYLOAD = 48 * 1024

Filter = Annotated[
    str | None, Query(alias="filter", max_length=65_535, description="Only those with exactly this filter.")
]
OfTenant = Annotated[
    str | None, Query(max_length=100, description="Only those of this tenant; `default`: of no other one.")
]
Of = Annotated[str, Query(max_length=100, description="The tenant; blank: the default one.")]
Topic = Annotated[str, Query(min_length=1, max_length=65_535, description="A topic name.")]


def routes_router(view: NodeView) -> APIRouter:
    """``/routes`` and ``/topics``."""
    router = APIRouter(tags=["routes"])

    @router.get("/routes")
    async def routes(
        limit: Limit = 1000,
        after: After = None,
        node: OnNode = None,
        wanted: Filter = None,
        tenant: OfTenant = None,
    ) -> Page[RouteInfo]:
        """The route table, one item a filter and node."""
        if node is not None:
            check_node(view, node)
        found = (
            (
                (topic.filter, name, topic.tenant),
                partial(RouteInfo, filter=topic.filter, node=name, tenant=topic.tenant),
            )
            for topic in view.topics(tenant=tenant)
            for name in topic.nodes
            if wanted in (None, topic.filter) and node in (None, name)
        )
        return await local_page(found, limit, after)

    @router.get("/topics")
    async def topics(limit: Limit = 1000, after: After = None, tenant: OfTenant = None) -> Page[TopicInfo]:
        """The route table, one item a filter."""
        found = (
            (
                (topic.filter, topic.tenant),
                partial(TopicInfo, filter=topic.filter, nodes=topic.nodes, tenant=topic.tenant),
            )
            for topic in view.topics(tenant=tenant)
        )
        return await local_page(found, limit, after)

    @router.get("/topics/match")
    async def match(topic: Topic, tenant: Of = "") -> TopicMatch:
        """Return the route of a message to a topic from here, and the filters that decide it."""
        return view.match(topic, checked(tenant, "tenant"))

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
    """The encoding of ``payload``; clients get the bytes."""
    qos: Annotated[int, Field(ge=0, le=2, strict=True)] = 0
    retain: Flag = False
    tenant: Annotated[str, Field(max_length=100)] = ""
    """Whose clients get it; blank: those of the default one."""


class Published(Value):
    """The result of a publish."""

    topic: str
    receivers: int
    """Subscribers here and nodes elsewhere that it went to."""
    safe: bool
    """Every node that it went to has it; always true for QoS 0, which nobody confirms."""


def payload_of(text: str, encoding: Literal["text", "base64"]) -> bytes:
    """Return the payload of an order. Raises WrongValueError."""
    if encoding == "text":
        return text.encode()
    try:
        return base64.b64decode(text.encode(), validate=True)
    except binascii.Error as error:
        raise WrongValueError(f"payload: {error}; expected base64, or encoding: text") from None


SortRetained = Annotated[
    Literal["topic", "qos", "bytes", "expires_at"] | None,
    Query(description="A field to sort by, then by topic; ask one node for all pages. Unless given: topic."),
]


def messages_router(view: NodeView) -> APIRouter:
    """``/publish`` and ``/retained``."""
    router = APIRouter(tags=["messages"])

    @router.post("/publish")
    async def publish(order: PublishRequest) -> Published:
        """Publish a message, and wait until every node that has subscribers to it has it."""
        payload = payload_of(order.payload, order.encoding)
        tenant = checked(order.tenant, "tenant")
        receivers, safe = await view.publish(
            order.topic, payload, qos=order.qos, retain=order.retain, tenant=tenant
        )
        return Published(topic=order.topic, receivers=receivers, safe=safe)

    @router.get("/retained")
    async def retained(
        limit: Limit = 1000,
        after: After = None,
        wanted: Annotated[
            str, Query(alias="filter", max_length=65_535, description="Only topics that this filter matches.")
        ] = "#",
        sort: SortRetained = None,
        order: Order = "asc",
        tenant: Of = "",
    ) -> Page[RetainedInfo]:
        """The topics of a tenant that have a retained message, on any node."""
        sorting = list_order(sort, order, usual="topic")
        return await local_page(view.retained(wanted, sorting, checked(tenant, "tenant")), limit, after)

    @router.delete("/retained", responses={404: {"model": Problem}})
    async def forget(topic: Topic, tenant: Of = "") -> Published:
        """Remove the retained message of a topic, as an empty one that is published does."""
        owner = checked(tenant, "tenant")
        # A wildcard is refused below.
        if not {"+", "#"} & set(topic) and not any(view.retained(topic, BY_NAME, owner)):
            raise mismatch(NotFoundError, "topic", repr(topic[:200]), "one that has a retained message")
        receivers, safe = await view.publish(topic, b"", qos=1, retain=True, tenant=owner)
        return Published(topic=topic, receivers=receivers, safe=safe)

    return router


Client = Annotated[str | None, Query(max_length=65_535, description="Only those of this client.")]
Part = Annotated[
    str, Query(max_length=1000, description="Only those whose identifier contains this, in any case.")
]
User = Annotated[
    str, Query(max_length=1000, description="Only those whose user name contains this, in any case.")
]
Address = Annotated[
    str, Query(max_length=200, description="Only those whose address contains this: `10.0.3.`, `:51234`.")
]
Text = Annotated[str, Query(max_length=1000, description="Only those whose client or filter contains this.")]
Connected = Annotated[bool | None, Query(description="Only those that are, or are not.")]
Named = Annotated[str, Path(description="A client identifier.")]
ClientSort = Literal[
    "client",
    "node",
    "username",
    "address",
    "connected_at",
    "subscriptions",
    "inflight",
    "queued",
    "dropped",
]
SubscriptionSort = Literal["client", "filter", "qos", "node"]
SortClients = Annotated[
    ClientSort | None,
    Query(
        description="A field to sort pages by, then by identifier; not for JSON lines. Unless given: client."
    ),
]
SortSubscriptions = Annotated[
    SubscriptionSort | None,
    Query(
        description="A field to sort pages by, then by client and filter; not for JSON lines. "
        "Unless given: client."
    ),
]


def _client_search(
    client: Client = None,
    connected: Connected = None,
    search: Part = "",
    user: User = "",
    address: Address = "",
    tenant: OfTenant = None,
) -> ClientSearch:
    return ClientSearch(
        tenant=tenant,
        client=client,
        connected=connected,
        part=search.casefold(),
        user=user.casefold(),
        address=address.casefold(),
    )


def clients_router(view: NodeView) -> APIRouter:
    """``/clients`` and ``/subscriptions``."""
    router = APIRouter(tags=["clients"])

    @router.get("/subscriptions", response_model=Page[SubscriptionInfo], responses=STREAMED)
    async def subscriptions(
        listing: ListingQuery,
        client: Client = None,
        wanted: Filter = None,
        search: Text = "",
        tenant: OfTenant = None,
        sort: SortSubscriptions = None,
        order: Order = "asc",
        scope: Scope = "cluster",
    ) -> Response:
        """The subscriptions of all sessions."""
        sorting = list_order(sort, order, usual="client")
        return await listing.answer(
            view,
            own=lambda: view.subscriptions(
                sorting, client=client, filter=wanted, search=search, tenant=tenant
            ),
            fields=("client", "filter", "node", "tenant"),
            scope=scope,
            order=sorting,
        )

    @router.get("/clients", response_model=Page[ClientInfo], responses=STREAMED)
    async def clients(
        listing: ListingQuery,
        wanted: Annotated[ClientSearch, Depends(_client_search)],
        sort: SortClients = None,
        order: Order = "asc",
        scope: Scope = "cluster",
    ) -> Response:
        """The clients and their sessions, connected or not."""
        sorting = list_order(sort, order, usual="client")
        return await listing.answer(
            view,
            own=lambda: view.clients(wanted, sorting),
            fields=("client", "node", "tenant"),
            scope=scope,
            order=sorting,
        )

    # Client identifiers may hold any character, a slash too: no path can go on behind one, and what a client
    # has is asked as /subscriptions is, by ``client`` in the query.
    @router.delete("/clients/{client:path}", response_model=Done, responses={404: {"model": Problem}})
    async def kick(client: Named, tenant: Of = "") -> Done | Response:
        """End the connection and the session of a client, on whichever node they are."""
        if not await view.kick(client, tenant):
            return problem(404, f"client: got {client[:200]!r}, expected one of gossamer clients")
        return Done(done=f"{client} kicked", members=())

    return router

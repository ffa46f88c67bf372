"""Long lists: routes and topics, which every node knows whole, and clients and subscriptions of all nodes.

A list comes in pages, or with ``format=ndjson`` as a stream of JSON lines that ends with one line
``{"missing": {node: reason}}``, which is empty when every node answered.

Rule: a search is carried out where the sessions are, and a sorted list is merged from sorted pages, so that
neither costs more than one walk over each node's sessions, in turns of a bounded length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from gossamer.api.http.access import principal_of
from gossamer.api.http.streaming import NDJSON, StreamAnswer
from gossamer.api.model import (
    ClientInfo,
    Page,
    RouteFindings,
    RouteInfo,
    RouteVerification,
    SubscriptionInfo,
    TopicInfo,
    TopicMatch,
    Value,
)
from gossamer.api.peers.client_search import ClientSearch, ClientSort
from gossamer.api.peers.merge import own_lines
from gossamer.api.peers.paging import Key, Walked, decode_cursor, page_of
from gossamer.api.peers.scatter_gather import Row, Wide
from gossamer.api.view import NodeView
from gossamer.errors import WrongValueError

__all__ = ["After", "Format", "Limit", "OnNode", "Scope", "answer_of_all", "lists"]

MAX_PAGE = 10_000
STREAMED: dict[int | str, dict[str, Any]] = {200: {"content": {NDJSON: {}}}}

Limit = Annotated[int, Query(ge=1, le=MAX_PAGE, description="How many at most.")]
After = Annotated[str | None, Query(max_length=200_000, description="`next` of the page before.")]
Client = Annotated[str | None, Query(max_length=65_535, description="Only those of this client.")]
Filter = Annotated[
    str | None, Query(alias="filter", max_length=65_535, description="Only those with exactly this filter.")
]
Part = Annotated[
    str, Query(max_length=1000, description="Only those whose identifier contains this, in any case.")
]
User = Annotated[
    str, Query(max_length=1000, description="Only those whose user name contains this, in any case.")
]
Address = Annotated[
    str, Query(max_length=200, description="Only those whose address contains this: `10.0.3.`, `:51234`.")
]
Sort = Annotated[
    ClientSort | None,
    Query(
        description="A field to sort pages by, then by identifier; not for JSON lines. Unless given: client."
    ),
]
Order = Annotated[Literal["asc", "desc"], Query(description="The smallest first, or the largest.")]
Scope = Annotated[Literal["cluster", "node"], Query(description="All nodes, or only the one that is asked.")]
Format = Annotated[Literal["page", "ndjson"], Query(description="A page, or all as JSON lines.")]
OnNode = Annotated[str | None, Query(max_length=255, description="Only those of this node.")]

T = TypeVar("T", bound=Value)


class UnsortedError(WrongValueError):
    """JSON lines come in the order of identifiers only."""

    def __init__(self, *, sort: str) -> None:
        self.sort = sort
        super().__init__(f"sort: got {sort} with format=ndjson, expected a page; lines come by identifier")


def lists(view: NodeView) -> APIRouter:
    """Below ``/api/v1``."""
    router = APIRouter()

    @router.get("/routes", tags=["routes"])
    async def routes(
        limit: Limit = 1000, after: After = None, node: OnNode = None, wanted: Filter = None
    ) -> Page[RouteInfo]:
        """The route table, one item a filter and node."""
        found = (
            ((topic.filter, name), _made(RouteInfo, filter=topic.filter, node=name))
            for topic in view.topics(filter=wanted)
            for name in topic.nodes
            if node is None or name == node
        )
        return await _page(found, limit, after)

    @router.get("/topics", tags=["routes"])
    async def topics(limit: Limit = 1000, after: After = None) -> Page[TopicInfo]:
        """The route table, one item a filter."""
        found = (
            ((topic.filter,), _made(TopicInfo, filter=topic.filter, nodes=topic.nodes))
            for topic in view.topics()
        )
        return await _page(found, limit, after)

    @router.get("/topics/match", tags=["routes"])
    async def match(
        topic: Annotated[str, Query(min_length=1, max_length=65_535, description="A topic name.")],
    ) -> TopicMatch:
        """Where a message to a topic would go from here, and why."""
        return view.match(topic)

    @router.post("/routes/verify", tags=["routes"])
    async def verify(order: RouteVerification) -> RouteFindings:
        """Compare this node's routes with its tables and its peers, now, and repair them."""
        return await view.verify_routes(repair=order.repair)

    @router.get("/subscriptions", tags=["clients"], response_model=Page[SubscriptionInfo], responses=STREAMED)
    async def subscriptions(
        request: Request,
        limit: Limit = 1000,
        after: After = None,
        client: Client = None,
        wanted: Filter = None,
        search: Annotated[
            str,
            Query(max_length=1000, description="Only those whose client or filter contains this."),
        ] = "",
        node: OnNode = None,
        scope: Scope = "cluster",
        format: Format = "page",  # noqa: A002 - the word of the API
    ) -> Response:
        """The subscriptions of all sessions."""
        return await answer_of_all(
            view,
            request,
            own=lambda: view.subscriptions(client=client, filter=wanted, search=search),
            fields=("client", "filter", "node"),
            params={"client": client, "filter": wanted, "search": search or None},
            options=(limit, after, node, scope, format),
        )

    @router.get("/clients", tags=["clients"], response_model=Page[ClientInfo], responses=STREAMED)
    async def clients(
        request: Request,
        limit: Limit = 1000,
        after: After = None,
        client: Client = None,
        connected: Annotated[bool | None, Query(description="Only those that are, or are not.")] = None,
        search: Part = "",
        user: User = "",
        address: Address = "",
        sort: Sort = None,
        order: Order = "asc",
        node: OnNode = None,
        scope: Scope = "cluster",
        format: Format = "page",  # noqa: A002
    ) -> Response:
        """The clients and their sessions, connected or not."""
        if sort is None and order == "desc":
            sort = "client"
        if sort is not None and format == "ndjson":
            raise UnsortedError(sort=sort)
        wanted = ClientSearch(
            client=client,
            connected=connected,
            part=search,
            user=user,
            address=address,
            sort=sort,
            descending=order == "desc",
        )
        return await answer_of_all(
            view,
            request,
            own=lambda: view.clients(wanted),
            fields=("client", "node"),
            params={
                "client": client,
                "connected": connected,
                "search": search or None,
                "user": user or None,
                "address": address or None,
                "sort": sort,
                "order": None if sort is None else order,
            },
            options=(limit, after, node, scope, format),
            key=wanted.key,
        )

    return router


def _made(kind: type[T], **fields: Any) -> Callable[[], T]:
    return lambda: kind(**fields)


async def _page(found: Any, limit: int, after: str | None) -> Page[Any]:
    items, following = await page_of(found, limit=limit, after=after)
    return Page(items=items, next=following)


async def answer_of_all(
    view: NodeView,
    request: Request,
    *,
    own: Callable[[], Iterable[Walked[Any]]],
    fields: tuple[str, ...],
    params: dict[str, str | bool | None],
    options: tuple[int, str | None, str | None, str, str],
    key: Callable[[Row], Key] | None = None,
) -> Response:
    """One list of all nodes, as it was ordered: ``own`` are this node's items, lines by ``fields``,
    pages by ``key``.
    """
    limit, after, node, scope, form = options
    above = decode_cursor(after)
    if scope == "node":
        node = view.name
    wide, path = Wide(view, principal_of(request)), request.url.path
    if form == "ndjson":
        lines = own_lines(own, above=above)
        return StreamAnswer(wide.stream(path, params, own=lines, fields=fields, after=after, node=node))

    async def fetch(most: int, floor: str | None) -> tuple[Sequence[Row], str | None]:
        items, following = await page_of(own(), limit=most, after=floor)
        return [item.model_dump() for item in items], following

    def usual(row: Row) -> Key:
        return tuple(row[name] for name in fields)

    found = wide.list(path, params, own=fetch, key=key or usual, after=after, node=node)
    page = await found.page(limit)
    body = msgspec.json.encode({"items": page.items, "next": page.next, "missing": page.missing})
    return Response(body, media_type="application/json")

"""Clients and subscriptions of all nodes, and the end of one client, wherever in the cluster it is.

Rule: any node may be asked; where a client is, is looked up by the node.
"""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query
from fastapi.responses import Response

from gossamer.api.http.answers import problem
from gossamer.api.model.base import Page, Problem
from gossamer.api.model.cluster import Done
from gossamer.api.model.node import ClientInfo, SubscriptionInfo
from gossamer.api.peers.paging import ClientSearch, ClientSort
from gossamer.api.resources.listing import STREAMED, ListingQuery, Scope
from gossamer.api.resources.messages import Filter
from gossamer.api.view import NodeView
from gossamer.errors import WrongValueError, mismatch

__all__ = ["clients_router"]

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
Sort = Annotated[
    ClientSort | None,
    Query(
        description="A field to sort pages by, then by identifier; not for JSON lines. Unless given: client."
    ),
]
Order = Annotated[Literal["asc", "desc"], Query(description="The smallest first, or the largest.")]


def clients_router(view: NodeView) -> APIRouter:
    """``/clients`` and ``/subscriptions``."""
    router = APIRouter(tags=["clients"])

    @router.get("/subscriptions", response_model=Page[SubscriptionInfo], responses=STREAMED)
    async def subscriptions(
        listing: ListingQuery,
        client: Client = None,
        wanted: Filter = None,
        search: Text = "",
        scope: Scope = "cluster",
    ) -> Response:
        """The subscriptions of all sessions."""
        return await listing.answer(
            view,
            own=lambda: view.subscriptions(client=client, filter=wanted, search=search),
            fields=("client", "filter", "node"),
            scope=scope,
        )

    @router.get("/clients", response_model=Page[ClientInfo], responses=STREAMED)
    async def clients(
        listing: ListingQuery,
        client: Client = None,
        connected: Connected = None,
        search: Part = "",
        user: User = "",
        address: Address = "",
        sort: Sort = None,
        order: Order = "asc",
        scope: Scope = "cluster",
    ) -> Response:
        """The clients and their sessions, connected or not."""
        if sort is None and order == "desc":
            sort = "client"
        if sort is not None and listing.format == "ndjson":
            raise mismatch(
                WrongValueError, "sort", f"{sort} with format=ndjson", "a page; lines come by identifier"
            )
        wanted = ClientSearch(
            client=client,
            connected=connected,
            part=search.casefold(),
            user=user.casefold(),
            address=address.casefold(),
            sort=sort,
            descending=order == "desc",
        )
        return await listing.answer(
            view, own=lambda: view.clients(wanted), fields=("client", "node"), scope=scope, key=wanted.key
        )

    # Client identifiers may hold any character, a slash too.
    @router.delete("/clients/{client:path}", response_model=Done, responses={404: {"model": Problem}})
    async def kick(client: Named) -> Done | Response:
        """End the connection and the session of a client, on whichever node they are."""
        if not await view.kick(client):
            return problem(404, f"client: got {client[:200]!r}, expected one of gossamer clients")
        return Done(done=f"{client} kicked", members=())

    return router

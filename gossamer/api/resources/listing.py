"""Lists of all nodes: the query parameters that they share, and the answer, a page or a stream.

A list comes in pages, or with ``format=ndjson`` as a stream of JSON lines that ends with one line
``{"missing": {node: reason}}``, which is empty when every node answered.

Rule: a search is carried out where the rows are, and a sorted list is merged from sorted pages, so that
neither costs more than one scan of each node's rows, in turns of a bounded length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Literal, TypeVar

import msgspec
from fastapi import Depends, Query, Request
from fastapi.responses import Response

from gossamer.api.http.access import principal_of
from gossamer.api.http.limits import NDJSON, StreamAnswer
from gossamer.api.model.base import Page, Value
from gossamer.api.peers.paging import Key, ListOrder, Row, Walked, decode_cursor, page_of
from gossamer.api.peers.scatter_gather import Peers, Rows, own_lines
from gossamer.api.view import NodeView
from gossamer.errors import WrongValueError, mismatch

T = TypeVar("T")

MAX_PAGE = 10_000
STREAMED: dict[int | str, dict[str, object]] = {200: {"content": {NDJSON: {}}}}

Limit = Annotated[int, Query(ge=1, le=MAX_PAGE, description="How many at most.")]
After = Annotated[str | None, Query(max_length=200_000, description="`next` of the page before.")]
OnNode = Annotated[str | None, Query(max_length=255, description="Only those of this node.")]
Format = Annotated[Literal["page", "ndjson"], Query(description="A page, or all as JSON lines.")]
Order = Annotated[Literal["asc", "desc"], Query(description="The smallest first, or the largest.")]
Scope = Annotated[Literal["cluster", "node"], Query(description="All nodes, or only the one that is asked.")]


BY_NAME = ListOrder()


@dataclass(frozen=True, slots=True)
class Listing:
    """Request for a list of all nodes."""

    request: Request
    limit: int
    after: str | None
    node: str | None
    format: Literal["page", "ndjson"]

    async def answer(
        self,
        view: NodeView,
        *,
        own: Callable[[], Iterable[Walked[Value]]],
        fields: tuple[str, ...],
        scope: str,
        order: ListOrder = BY_NAME,
    ) -> Response:
        """Answer with one list: ``own`` are this node's items, lines by ``fields``, pages in ``order``.

        Raises:
            WrongValueError: lines are to be sorted.
        """
        above = decode_cursor(self.after)
        node = view.name if scope == "node" else self.node
        peers = Peers(view, principal_of(self.request))
        path, params = self.request.url.path, self.request.query_params
        if self.format == "ndjson":
            if order.sort is not None:
                got = f"{order.sort} with format=ndjson"
                raise mismatch(WrongValueError, "sort", got, f"a page; lines come by {fields[0]}")
            lines = own_lines(own, above=above)
            return StreamAnswer(
                peers.stream(path, params, own=lines, fields=fields, after=self.after, node=node)
            )

        async def fetch() -> Rows:
            items, following = await page_of(own(), limit=self.limit, after=self.after)
            return Rows([item.model_dump() for item in items], following)

        def key(row: Row) -> Key:
            name = tuple(row[field] for field in fields)
            return name if order.sort is None else order.key(name, row[order.sort])

        page = await peers.page(
            path, params, own=fetch, key=key, limit=self.limit, after=self.after, node=node
        )
        return Response(msgspec.json.encode(page), media_type="application/json")


def _listing(
    request: Request,
    limit: Limit = 1000,
    after: After = None,
    node: OnNode = None,
    format: Format = "page",  # noqa: A002 - the word of the API
) -> Listing:
    return Listing(request, limit, after, node, format)


ListingQuery = Annotated[Listing, Depends(_listing)]


def list_order(sort: str | None, order: Literal["asc", "desc"], *, usual: str) -> ListOrder:
    """Return the order that a caller asks for; ``usual`` is the field that ``desc`` alone is about."""
    if sort is None and order == "desc":
        sort = usual
    return ListOrder(sort, descending=order == "desc")


async def local_page(found: Iterable[Walked[T]], limit: int, after: str | None) -> Page[T]:
    """Return a page of a list that every node has completely."""
    items, following = await page_of(found, limit=limit, after=after)
    return Page(items=items, next=following)

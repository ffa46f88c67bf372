"""What happened at all nodes lately, in one list in pages, the latest first: for people.

Programs that want to know when something happened at one node read ``/events``, which has ages by a clock
that does not jump; this list goes by the wall clocks of the nodes, since it is theirs together.

Rule: ``position`` is a text that sorts as the list does, so that pages are merged as those of any long list.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from gossamer.api.model import Page, Value
from gossamer.api.peers.client_search import sort_key
from gossamer.api.peers.paging import Walked
from gossamer.api.resources.lists import STREAMED, After, Format, Limit, OnNode, Scope, answer_of_all
from gossamer.api.view import NodeView

__all__ = ["TimelineEvent", "timeline_router"]


class TimelineEvent(Value):
    """One event, as one node saw it."""

    position: str
    """Sorts as the list does."""
    node: str
    serial: int
    """As ``/events`` of that node numbers it."""
    at: float
    """By the node's wall clock."""
    kind: str
    peer: str
    text: str


def timeline_router(view: NodeView) -> APIRouter:
    """``/timeline``."""
    router = APIRouter(tags=["node"])

    def own(kinds: frozenset[str], peer: str | None, search: str) -> Iterator[Walked[TimelineEvent]]:
        for one in view.healing.chronicle.after(0):
            found = (
                (not kinds or one.kind in kinds)
                and peer in (None, one.peer)
                and search in f"{one.kind} {one.peer} {one.text}".casefold()
            )
            if not found:
                yield None
                continue
            position = f"{sort_key(one.at, descending=True)}{sort_key(one.serial, descending=True)}"
            show = partial(
                TimelineEvent,
                position=position,
                node=view.name,
                serial=one.serial,
                at=one.at,
                kind=one.kind,
                peer=one.peer,
                text=one.text,
            )
            yield (position, view.name), show

    @router.get("/timeline", response_model=Page[TimelineEvent], responses=STREAMED)
    async def timeline(
        request: Request,
        limit: Limit = 1000,
        after: After = None,
        kind: Annotated[
            str, Query(max_length=500, description="Only these kinds, as `/events` has them: `up,down`.")
        ] = "",
        peer: Annotated[str | None, Query(max_length=255, description="Only of this node.")] = None,
        search: Annotated[
            str, Query(max_length=1000, description="Only those whose kind, peer or text contains this.")
        ] = "",
        node: OnNode = None,
        scope: Scope = "cluster",
        format: Format = "page",  # noqa: A002 - the word of the API
    ) -> Response:
        """What happened at all nodes lately, the latest first."""
        kinds = frozenset(one.strip() for one in kind.split(",") if one.strip())
        return await answer_of_all(
            view,
            request,
            own=lambda: own(kinds, peer, search.casefold()),
            fields=("position", "node"),
            params={"kind": kind or None, "peer": peer, "search": search or None},
            options=(limit, after, node, scope, format),
        )

    return router

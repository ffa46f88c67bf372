"""Events of late: at one node for scripts that want to know when, and of all nodes in one list for people.

``/events`` has ages by a clock that does not jump; ``/timeline`` goes by the wall clocks of the nodes, since
it is theirs together, the latest first.

Rule: ``position`` is a text that sorts as the list does, so that pages are merged as those of any long list.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import Response

from gossamer.api.model.base import Page, Value
from gossamer.api.peers.client_search import sort_key
from gossamer.api.peers.paging import Walked
from gossamer.api.resources.listing import STREAMED, ListingQuery, Scope
from gossamer.api.view import HealingView, NodeView

__all__ = ["EventInfo", "EventsInfo", "TimelineEvent", "events_router", "timeline_router"]


class EventInfo(Value):
    """One event, as this node saw it."""

    serial: int
    """Counts up from 1 in each life of the node; a gap means that older ones are forgotten."""
    at: float
    """By the node's wall clock."""
    age: float
    """Seconds ago, by a clock that does not jump."""
    kind: str
    """up, suspected, refuted, down, left (of ``peer``, by gossip); link_up, link_down; partition, confirmed,
    plan, coordinates, reloaded, healed (of splits); removed (by autoclean).
    """
    peer: str = ""
    text: str = ""


class EventsInfo(Value):
    """Events of one life of a node, oldest first."""

    node: str
    creation: int
    """Of the life that tells; with another one serials begin anew."""
    items: tuple[EventInfo, ...]


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


def events_router(view: HealingView) -> APIRouter:
    """``/events``."""
    router = APIRouter(tags=["node"])

    @router.get("/events")
    async def events(
        after: Annotated[int, Query(ge=0, description="`serial` of the last one known.")] = 0,
        limit: Annotated[int, Query(ge=1, le=10_000, description="How many at most.")] = 1000,
    ) -> EventsInfo:
        """What happened at this node lately."""
        chronicle = view.chronicle
        items = tuple(
            EventInfo(
                serial=one.serial,
                at=one.at,
                age=round(chronicle.age(one), 6),
                kind=one.kind,
                peer=one.peer,
                text=one.text,
            )
            for one in chronicle.after(after)[:limit]
        )
        return EventsInfo(node=view.name, creation=chronicle.creation, items=items)

    return router


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
            show = partial(_shown, one, position=position, node=view.name)
            yield (position, view.name), show

    @router.get("/timeline", response_model=Page[TimelineEvent], responses=STREAMED)
    async def timeline(
        listing: ListingQuery,
        kind: Annotated[
            str, Query(max_length=500, description="Only these kinds, as `/events` has them: `up,down`.")
        ] = "",
        peer: Annotated[str | None, Query(max_length=255, description="Only of this node.")] = None,
        search: Annotated[
            str, Query(max_length=1000, description="Only those whose kind, peer or text contains this.")
        ] = "",
        scope: Scope = "cluster",
    ) -> Response:
        """What happened at all nodes lately, the latest first."""
        kinds = frozenset(one.strip() for one in kind.split(",") if one.strip())
        return await listing.answer(
            view,
            own=lambda: own(kinds, peer, search.casefold()),
            fields=("position", "node"),
            scope=scope,
        )

    return router


def _shown(one: Any, **place: str) -> TimelineEvent:
    fields = ("serial", "at", "kind", "peer", "text")
    return TimelineEvent.model_validate({**place, **{name: getattr(one, name) for name in fields}})

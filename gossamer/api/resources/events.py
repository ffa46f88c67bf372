"""What happened at a node lately, over HTTP: for drills and scripts that want to know when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Protocol

from fastapi import APIRouter, Query

from gossamer.api.model import Value

__all__ = ["ChronicleView", "EventInfo", "EventsInfo", "EventsView", "events_router"]


class ChronicleView(Protocol):
    """The node's own history; events have the fields of :class:`EventInfo`, but for ``age``."""

    creation: int

    def after(self, serial: int) -> Sequence[Any]:
        """Events with larger serials, oldest first."""

    def age(self, happening: Any) -> float:
        """How long ago one was."""


class EventsView(Protocol):
    """Whose events they are."""

    @property
    def name(self) -> str:
        """The node's name."""

    @property
    def chronicle(self) -> ChronicleView:
        """What happened lately."""


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


def events_router(view: EventsView) -> APIRouter:
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

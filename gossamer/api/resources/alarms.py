"""Alarms of all nodes, and those that programs beside the cluster raise, such as an audit that keeps running.

An alarm has a name: raised again it changes its text and stands as long as it has; cleared, it is shown as
over until newer ones need its place.

Rules: 1. The node's own alarms are not anybody else's to raise or clear.  2. What is kept is bounded: the one
that is over the longest goes first, and with nothing over no more are taken.  3. In memory only: programs
raise their alarms again as long as they are true.  4. Asked through ``/nodes/NAME/…`` a node lists its own,
unless ``scope`` says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, TypeVar

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from gossamer.api.model.base import Page
from gossamer.api.model.cluster import AlarmInfo, AlarmRequest
from gossamer.api.peers.paging import Listed
from gossamer.api.resources.listing import STREAMED, ListingQuery, Scope
from gossamer.api.view import NodeView
from gossamer.errors import NotFoundError, UnavailableError, UsageError

__all__ = ["OWN_ALARMS", "Alarms", "AnyScope", "alarms_router", "itself", "usual_scope"]

T = TypeVar("T")
OWN_ALARMS: Mapping[str, str] = {
    "partition": "This node and another one held each other for dead and have met again; until it is healed.",
    "healed": "A split was healed: who survived, who reloaded, what was set back or aside. Over when told.",
    "peer_apart": "A member is online and has no part in the cluster: no link, or tables that do not load.",
    "node_down": "A member is dead to this node and has not left; until it is back, or removed.",
    "disc_failing": "The disc takes no writes: nothing that lasts is acknowledged, and it is not ready.",
    "kept_overflow": "Messages kept for the sessions of a node that is away were given up for want of room.",
}
"""Alarms that a node raises by itself, and what each means."""
MOST = 100
AnyScope = Annotated[
    Scope | None,
    Query(description="All nodes, or only the one that is asked; unless given: all, but for /nodes/NAME/…"),
]


class Alarms:
    """The alarms of others at one node. Times are wall-clock seconds."""

    def __init__(self) -> None:
        self._known: dict[str, AlarmInfo] = {}

    def order(self, order: AlarmRequest, now: float) -> AlarmInfo:
        """Raise or clear; the alarm as it is now.

        Raises:
            UsageError: the name is the node's own.
            NotFoundError: what is to be cleared was never raised.
            UnavailableError: there is no place for another one.
        """
        if order.name in OWN_ALARMS:
            raise UsageError(
                f"{order.name} is an alarm that the node raises by itself; expected another name"
            )
        known = self._known.get(order.name)
        if known is None and not order.active:
            others = ", ".join(sorted(self._known))
            raised = f"one that was raised here: {others}" if others else "none: none was raised here"
            raise NotFoundError.about("alarms", repr(order.name), raised)
        lasts = known is not None and known.active
        since = known.since if known is not None and (lasts or not order.active) else now
        until = 0.0 if known is None or order.active else now if lasts else known.until
        text = order.text or (known.text if known is not None else "")
        if known is None and len(self._known) >= MOST:
            self._forget_one()
        alarm = AlarmInfo(name=order.name, active=order.active, since=since, until=until, text=text)
        self._known[order.name] = alarm
        return alarm

    def alarms(self) -> Sequence[AlarmInfo]:
        """Those that last first."""
        return sorted(self._known.values(), key=lambda alarm: (not alarm.active, alarm.name))

    def _forget_one(self) -> None:
        over = [alarm for alarm in self._known.values() if not alarm.active]
        if not over:
            raise UnavailableError(f"{MOST} alarms are active, no more are kept; clear some")
        del self._known[min(over, key=lambda alarm: alarm.until).name]


def alarms_router(view: NodeView) -> APIRouter:
    """``/alarms``."""
    router = APIRouter(tags=["healing"])

    def own_alarms() -> Iterator[Listed[AlarmInfo]]:
        for row in view.healing.alarms():
            named = row.model_copy(update={"node": view.name})
            yield (row.name, row.plan, row.text, view.name), partial(itself, named)

    @router.get("/alarms", response_model=Page[AlarmInfo], responses=STREAMED)
    async def alarms(request: Request, listing: ListingQuery, scope: AnyScope = None) -> Response:
        """What an operator has to know: splits that last, what was healed, and what others raised."""
        fields = ("name", "plan", "text", "node")
        return await listing.answer(view, own=own_alarms, fields=fields, scope=scope or usual_scope(request))

    @router.post("/alarms")
    async def order_alarm(order: AlarmRequest) -> AlarmInfo:
        """Raise an alarm at this node, or clear it: for programs that watch the cluster from beside it."""
        return view.healing.order_alarm(order)

    return router


def usual_scope(request: Request) -> str:
    """The scope of a request that names none: this node for one that another node passes on."""
    # Such a request comes by no socket.
    return "node" if request.client is None else "cluster"


def itself(row: T) -> T:
    """``row``, for lists of items that are made already."""
    return row

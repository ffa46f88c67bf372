"""Splits, heals, rows that lost in a heal, and alarms: the nodes' own, and those of programs beside them.

Keys and values of quarantined rows are shown shortened, for people; a replay uses the row itself, at the node
that keeps it, whichever node is asked. An alarm that a program raises, such as an audit that keeps running,
has a name: raised again it changes its text and stands as long as it has; cleared, it is shown as over until
newer ones need its place.

Rules: 1. The node's own alarms are not anybody else's to raise or clear.  2. What is kept of others is
bounded: the one that is over the longest goes first, and with nothing over no more are taken.  3. In memory
only: programs raise their alarms again as long as they are true.  4. Asked through ``/nodes/NAME/…`` a node
lists its own alarms and rows, unless ``scope`` says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, TypeVar

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response

from gossamer.api.http.access import principal_of
from gossamer.api.model.base import Page, Value
from gossamer.api.model.cluster import (
    AlarmInfo,
    AlarmRequest,
    HealEpisode,
    HealPlanInfo,
    HealSettings,
    HealStatusInfo,
    QuarantinedRow,
)
from gossamer.api.model.forms import ROW_ID
from gossamer.api.peers.paging import Listed
from gossamer.api.peers.requests import PeerSilentError
from gossamer.api.peers.scatter_gather import Peers
from gossamer.api.resources.listing import STREAMED, ListingQuery, Scope
from gossamer.api.view import NodeView
from gossamer.errors import NotFoundError, UnavailableError, UsageError, mismatch

Row = TypeVar("Row", bound=Value)
OWN_ALARMS: Mapping[str, str] = {
    "partition": "This node and another one held each other for dead and have met again; until it is healed.",
    "healed": "A split was healed: who survived, who reloaded, what was set back or aside. Over when told.",
    "peer_apart": "A member is online and has no part in the cluster: no link, or tables that do not load.",
    "node_down": "A member is dead to this node and has not left; until it is back, or removed.",
    "not_joined": "Seeds are there and do not let this node in: it is in no cluster, and tries on.",
    "disc_failing": "The disc takes no writes, or has little room: no promise of what lasts, and not ready.",
    "disc_slow": "The disc takes long to have what groups of replicas write: what waits for a quorum waits.",
    "no_quorum": "Fewer than half of the voters of the group of replicas can be reached: no name is given.",
    "sessions_behind": "A quorum lacks something of persistent sessions here: only this node's disc has it.",
    "sessions_not_copied": "Ranges of keys have no room for persistent sessions: this node alone has them.",
    "queue_full": "A queue that refuses when it has no room is 90 % full or more; until below 80 %.",
    "queue_dead_letters": "There are dead letters, until somebody has consumed or purged them.",
    "queue_consumer_stuck": "A consumer of a queue let a message's time pass, and has settled none since.",
    "queue_unattended": "Messages have waited for a consumer group without consumers (`unattended_after`).",
    "kept_overflow": "Messages kept for the sessions of a node that is away were given up for want of room.",
}
"""Alarms that a node raises by itself, and what each means."""
MOST = 100
AnyScope = Annotated[
    Scope | None,
    Query(description="All nodes, or only the one that is asked; unless given: all, but for /nodes/NAME/…"),
]
RowId = Annotated[str, Path(pattern=ROW_ID, description="`id` of a quarantined row.")]


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
        if known is None:
            if not order.active:
                others = ", ".join(sorted(self._known))
                raised = f"one that was raised at this node: {others or 'none was'}"
                raise mismatch(NotFoundError, "alarm", repr(order.name), raised)
            if len(self._known) >= MOST:
                self._forget_one()
            known = AlarmInfo(name=order.name, active=False, since=now, until=0.0, text="")
        alarm = known.model_copy(
            update={
                "active": order.active,
                "since": now if order.active and not known.active else known.since,
                "until": 0.0 if order.active else now if known.active else known.until,
                "text": order.text or known.text,
            }
        )
        self._known[order.name] = alarm
        return alarm

    def alarms(self) -> Sequence[AlarmInfo]:
        """Return all alarms, the active ones first."""
        return sorted(self._known.values(), key=lambda alarm: (not alarm.active, alarm.name))

    def _forget_one(self) -> None:
        over = [alarm for alarm in self._known.values() if not alarm.active]
        if not over:
            raise UnavailableError(f"{MOST} alarms are active, no more are kept; clear some")
        del self._known[min(over, key=lambda alarm: alarm.until).name]


def healing_router(view: NodeView) -> APIRouter:
    """``/autoheal`` and ``/alarms``."""
    router = APIRouter(tags=["healing"])
    healing = view.healing

    @router.get("/autoheal")
    async def status() -> HealStatusInfo:
        """Return the state and settings of autoheal at this node."""
        return healing.status()

    @router.post("/autoheal")
    async def configure(settings: HealSettings) -> HealStatusInfo:
        """Change autoheal or autoclean, on all nodes and over restarts."""
        return await healing.configure(settings)

    @router.get("/autoheal/history")
    async def history() -> tuple[HealEpisode, ...]:
        """Splits that were healed, the latest last."""
        return tuple(healing.history())

    @router.get("/autoheal/plan")
    async def plan() -> HealPlanInfo:
        """Return the plan of a heal now, as a dry run: every node is asked for its view."""
        return await healing.rehearse()

    _add_quarantine(router, view)
    _add_alarms(router, view)
    return router


def _add_quarantine(router: APIRouter, view: NodeView) -> None:
    healing = view.healing

    def own() -> Iterator[Listed[QuarantinedRow]]:
        for row in healing.quarantine():
            yield (row.table, row.id, view.name), partial(_named, row, view.name)

    @router.get("/autoheal/quarantine", response_model=Page[QuarantinedRow], responses=STREAMED)
    async def quarantine(request: Request, listing: ListingQuery, scope: AnyScope = None) -> Response:
        """Rows that lost in a heal and are kept, with what became of them."""
        fields, scope = ("table", "id", "node"), scope or _usual_scope(request)
        return await listing.answer(view, own=own, fields=fields, scope=scope)

    @router.post("/autoheal/quarantine/{id}/replay", response_model=QuarantinedRow)
    async def replay(id: RowId, request: Request) -> Response | QuarantinedRow:  # noqa: A002
        """Write a row again, as a new version, and take it out of the quarantine that it is in."""
        if any(row.id == id for row in healing.quarantine()) or _usual_scope(request) == "node":
            return _named(await healing.replay(id), view.name)
        peers, silent = Peers(view, principal_of(request)), list[str]()
        for peer in view.nodes():
            if peer.link == "self" or peer.status == "left":
                continue
            try:
                answer = await peers.ask(peer.name, "POST", request.url.path)
            except PeerSilentError:
                silent.append(peer.name)
                continue
            if answer.status == 200:
                return Response(answer.body, media_type=answer.content_type)
        unknown = f" ({', '.join(silent)} did not answer)" if silent else ""
        raise mismatch(UsageError, "quarantine", id, f"the id of a row that is listed{unknown}")


def _add_alarms(router: APIRouter, view: NodeView) -> None:
    def own() -> Iterator[Listed[AlarmInfo]]:
        for row in view.healing.alarms():
            yield (row.name, row.plan, row.text, view.name), partial(_named, row, view.name)

    @router.get("/alarms", response_model=Page[AlarmInfo], responses=STREAMED)
    async def alarms(request: Request, listing: ListingQuery, scope: AnyScope = None) -> Response:
        """Return the alarms: open splits, healed ones, and those that other programs raised."""
        fields, scope = ("name", "plan", "text", "node"), scope or _usual_scope(request)
        return await listing.answer(view, own=own, fields=fields, scope=scope)

    @router.post("/alarms")
    async def order_alarm(order: AlarmRequest) -> AlarmInfo:
        """Raise an alarm at this node, or clear it: for programs that watch the cluster from beside it."""
        return view.healing.order_alarm(order)


def _usual_scope(request: Request) -> Scope:
    """The scope of a request that names none: this node for one that another node passes on."""
    # Such a request comes by no socket.
    return "node" if request.client is None else "cluster"


def _named(row: Row, node: str) -> Row:
    return row.model_copy(update={"node": node})

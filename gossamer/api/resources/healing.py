"""Splits and heals: status, history, dry run, settings, and rows that lost in a heal.

Keys and values of quarantined rows are shown shortened, for people; a replay uses the row itself.

Rule: a row is written again at the node that keeps it, whichever node is asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from fastapi.responses import Response

from gossamer.api.http.access import principal_of
from gossamer.api.model.base import Page
from gossamer.api.model.cluster import HealEpisode, HealPlanInfo, HealSettings, HealStatusInfo, QuarantinedRow
from gossamer.api.peers.paging import Listed
from gossamer.api.peers.requests import PeerSilentError
from gossamer.api.peers.scatter_gather import Peers
from gossamer.api.resources.alarms import AnyScope, itself, usual_scope
from gossamer.api.resources.listing import STREAMED, ListingQuery
from gossamer.api.view import NodeView
from gossamer.errors import UsageError

__all__ = ["healing_router"]

RowId = Annotated[str, Path(pattern="^[0-9a-f]{12}$", description="`id` of a quarantined row.")]


def healing_router(view: NodeView) -> APIRouter:
    """Below ``/api/v1``."""
    router = APIRouter(tags=["healing"])
    healing = view.healing

    @router.get("/autoheal")
    async def status() -> HealStatusInfo:
        """What this node knows of splits, and how it is set."""
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
        """What would be healed now: every node is asked for its view, nothing is changed."""
        return await healing.rehearse()

    def own_quarantine() -> Iterator[Listed[QuarantinedRow]]:
        for row in healing.quarantine():
            named = row.model_copy(update={"node": view.name})
            yield (row.table, row.id, view.name), partial(itself, named)

    @router.get("/autoheal/quarantine", response_model=Page[QuarantinedRow], responses=STREAMED)
    async def quarantine(request: Request, listing: ListingQuery, scope: AnyScope = None) -> Response:
        """Rows that lost in a heal and are kept, with what became of them."""
        fields = ("table", "id", "node")
        return await listing.answer(
            view, own=own_quarantine, fields=fields, scope=scope or usual_scope(request)
        )

    @router.post("/autoheal/quarantine/{id}/replay", response_model=QuarantinedRow)
    async def replay(id: RowId, request: Request) -> Any:  # noqa: A002
        """Write a row again, as a new version, and take it out of the quarantine that it is in."""
        here = any(row.id == id for row in healing.quarantine())
        if not here and usual_scope(request) == "cluster":
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
            raise UsageError.about("quarantine", id, f"the id of a row that is listed{unknown}")
        return (await healing.replay(id)).model_copy(update={"node": view.name})

    return router

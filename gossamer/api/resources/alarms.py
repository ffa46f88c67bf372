"""Alarms, and rows that lost in a heal, of all nodes: each node keeps its own, any node tells them all.

Rules: 1. Asked through ``/nodes/NAME/…`` a node tells its own, unless ``scope`` says otherwise, so that who
asks one after the other hears of each once.  2. A row is written again at the node that keeps it, whoever is
asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response

from gossamer.api.alarms import AlarmInfo, AlarmOrder
from gossamer.api.http.access import principal_of
from gossamer.api.model import Page
from gossamer.api.peers.paging import Listed
from gossamer.api.peers.requests import PeerSilentError
from gossamer.api.peers.scatter_gather import Wide
from gossamer.api.resources.healing import QuarantinedRow
from gossamer.api.resources.lists import STREAMED, After, Format, Limit, OnNode, Scope, answer_of_all
from gossamer.api.view import NodeView
from gossamer.errors import UsageError

__all__ = ["alarms_router"]

RowId = Annotated[str, Path(pattern="^[0-9a-f]{12}$", description="`id` of a quarantined row.")]
AnyScope = Annotated[
    Scope | None,
    Query(description="All nodes, or only the one that is asked; unless given: all, but for /nodes/NAME/…"),
]


class NotKeptError(UsageError):
    """No quarantine has the row, as far as nodes answer."""

    def __init__(self, *, id: str, silent: Sequence[str]) -> None:  # noqa: A002 - the word of the API
        self.id = id
        self.silent = tuple(silent)
        unknown = f" ({', '.join(silent)} did not answer)" if silent else ""
        super().__init__(f"quarantine: got {id}, expected the id of a row that is listed{unknown}")


def alarms_router(view: NodeView) -> APIRouter:
    """``/alarms`` and ``/autoheal/quarantine``."""
    router = APIRouter(tags=["healing"])

    def own_alarms() -> Iterator[Listed[AlarmInfo]]:
        for row in view.healing.alarms():
            named = row.model_copy(update={"node": view.name})
            yield (row.name, row.plan, row.text, view.name), partial(_itself, named)

    def own_quarantine() -> Iterator[Listed[QuarantinedRow]]:
        for row in view.healing.quarantine():
            named = row.model_copy(update={"node": view.name})
            yield (row.table, row.id, view.name), partial(_itself, named)

    @router.get("/alarms", response_model=Page[AlarmInfo], responses=STREAMED)
    async def alarms(
        request: Request,
        limit: Limit = 1000,
        after: After = None,
        node: OnNode = None,
        scope: AnyScope = None,
        format: Format = "page",  # noqa: A002 - the word of the API
    ) -> Response:
        """What an operator has to know: splits that last, what was healed, and what others raised."""
        return await answer_of_all(
            view,
            request,
            own=own_alarms,
            fields=("name", "plan", "text", "node"),
            params={},
            options=(limit, after, node, scope or _usual(request), format),
        )

    @router.post("/alarms")
    async def order_alarm(order: AlarmOrder) -> AlarmInfo:
        """Raise an alarm at this node, or clear it: for programs that watch the cluster from beside it."""
        return view.healing.order_alarm(order)

    @router.get("/autoheal/quarantine", response_model=Page[QuarantinedRow], responses=STREAMED)
    async def quarantine(
        request: Request,
        limit: Limit = 1000,
        after: After = None,
        node: OnNode = None,
        scope: AnyScope = None,
        format: Format = "page",  # noqa: A002
    ) -> Response:
        """Rows that lost in a heal and are kept, with what became of them."""
        return await answer_of_all(
            view,
            request,
            own=own_quarantine,
            fields=("table", "id", "node"),
            params={},
            options=(limit, after, node, scope or _usual(request), format),
        )

    @router.post("/autoheal/quarantine/{id}/replay", response_model=QuarantinedRow)
    async def replay(id: RowId, request: Request) -> Any:  # noqa: A002
        """Write a row again, as a new version, and take it out of the quarantine that it is in."""
        here = any(row.id == id for row in view.healing.quarantine())
        if not here and _usual(request) == "cluster":
            wide, silent = Wide(view, principal_of(request)), list[str]()
            for peer in view.nodes():
                if peer.link == "self" or peer.status == "left":
                    continue
                try:
                    answer = await wide.ask(peer.name, "POST", request.url.path)
                except PeerSilentError:
                    silent.append(peer.name)
                    continue
                if answer.status == 200:
                    return Response(answer.body, media_type=answer.content_type)
            raise NotKeptError(id=id, silent=silent)
        return (await view.healing.replay(id)).model_copy(update={"node": view.name})

    return router


def _usual(request: Request) -> str:
    # What another node passes on comes by no socket.
    return "node" if request.client is None else "cluster"


def _itself(row: Any) -> Any:
    return row

"""Pages of drills and audits for a browser that has a token: a link, good for a while and for one page.

A browser sends no token when it opens a page, and there is no cookie that it could send. So who may read a
page asks for a link to it, and the link opens it, also in a frame of the console, for a few minutes.

Rules: 1. A link holds 128 random bits and opens one page of one run; asking for it takes the rights that
reading takes.  2. Links are bounded in number and time, and known to the node that gave them only.  3. The
page may be of another node; it is fetched when the link is opened.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from gossamer.api.http.access import principal_of
from gossamer.api.http.sandbox import page_response
from gossamer.api.http.tokens import Principal
from gossamer.api.jobs.runs import ID
from gossamer.api.model import Value
from gossamer.api.peers.scatter_gather import Wide
from gossamer.api.view import NodeView
from gossamer.clock import Clock

__all__ = ["ReportLink", "reports_router"]

LASTS = 300.0
MOST = 64
PATIENCE = 10.0
"""Seconds that another node has to send a page."""

Kind = Literal["drills", "audit"]
_PATHS: dict[Kind, str] = {
    "drills": "/api/v1/drills/{id}/report",
    "audit": "/api/v1/audit/reports/{id}/report",
}


class ReportLink(Value):
    """A link to a page."""

    url: str
    """Path at the node that answers."""
    seconds: float
    """How long it is good."""


@dataclass(frozen=True, slots=True)
class _Page:
    node: str
    path: str
    reader: Principal
    until: float


def reports_router(view: NodeView, *, clock: Clock) -> tuple[APIRouter, APIRouter]:
    """What gives links, below ``/api/v1``, and what opens them, below ``/console``, where nobody is asked."""
    links, pages = APIRouter(tags=["cluster"]), APIRouter(include_in_schema=False)
    known: OrderedDict[str, _Page] = OrderedDict()

    @links.get("/report-link")
    async def link(
        kind: Annotated[Kind, Query(description="Of a drill, or of an audit.")],
        id: Annotated[str, Query(pattern=ID, description="`id` of the run.")],  # noqa: A002 - the word of the API
        request: Request,
        node: Annotated[
            str | None, Query(max_length=255, description="Whose run; unless given, this one's.")
        ] = None,
    ) -> ReportLink:
        """A link that opens the page of a run in a browser, for a few minutes."""
        ticket = secrets.token_urlsafe(16)
        path = _PATHS[kind].format(id=id)
        known[ticket] = _Page(node or view.name, path, principal_of(request), clock.monotonic() + LASTS)
        if len(known) > MOST:
            known.popitem(last=False)
        return ReportLink(url=f"/console/report/{ticket}", seconds=LASTS)

    @pages.get("/console/report/{ticket}")
    async def page(ticket: Annotated[str, Path(max_length=100)]) -> Response:
        found = known.get(ticket)
        if found is None or found.until < clock.monotonic():
            raise HTTPException(404, "This link is not good any more; open the report in the console again")
        answer = await Wide(view, found.reader).ask(found.node, "GET", found.path, patience=PATIENCE)
        if answer.status != 200:
            raise HTTPException(answer.status, "The run has no page")
        return page_response(answer.body)

    return links, pages

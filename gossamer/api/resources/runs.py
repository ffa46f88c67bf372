"""Runs of background jobs over HTTP: what drills and audits share, and links to their pages.

A browser sends no token when it opens a page, and there is no cookie that it could send. So a caller that may
read a page asks for a link to it, and the link opens it, also in a frame of the console, for a few minutes.

Rules: 1. A link holds 128 random bits and opens one page of one run; asking for it takes the rights that
reading takes.  2. Links are bounded in number and time, and known to the node that gave them only.  3. The
page may be of another node; it is fetched when the link is opened.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Literal, TypeVar

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response
from pydantic import ConfigDict
from starlette.exceptions import HTTPException

from gossamer.api.http.access import principal_of
from gossamer.api.http.answers import page_response
from gossamer.api.http.tokens import Principal
from gossamer.api.jobs.runs import Run, Runs
from gossamer.api.model.base import Value
from gossamer.api.model.forms import RUN_ID
from gossamer.api.peers.scatter_gather import Peers
from gossamer.api.view import NodeView
from gossamer.clock import Clock

LASTS = 300.0
MOST = 64
TIMEOUT = 10.0
"""Seconds that another node has to send a page."""

Kind = Literal["drills", "audit"]
_PATHS: dict[Kind, str] = {
    "drills": "/api/v1/drills/{id}/report",
    "audit": "/api/v1/audit/reports/{id}/report",
}


HTML: dict[int | str, dict[str, object]] = {200: {"content": {"text/html": {}}}}
RunId = Annotated[str, Path(pattern=RUN_ID, description="`id` of a run.")]
OnlyRunning = Annotated[bool, Query(description="Only stop it: one that has just ended stays.")]


class RunInfo(Run):
    """One run of a background job."""

    model_config = ConfigDict(extra="forbid")

    node: str
    """On whose machine."""
    report: bool = False
    """It has a report page."""


Info = TypeVar("Info", bound=RunInfo)


def add_run_routes(
    router: APIRouter, path: str, runs: Runs, info: Callable[[Run], Awaitable[Info]], model: type[Info]
) -> None:
    """One run below ``path``: itself, its page, and its end."""

    async def one(id: RunId) -> Info:  # noqa: A002 - the word of the API
        """One run: how far it is, or what came of it."""
        return await info(await runs.get(id))

    async def report(id: RunId) -> Response:  # noqa: A002
        """Its page, with a policy under which it can do nothing."""
        return page_response(await runs.report(id))

    async def remove(id: RunId, running: OnlyRunning = False) -> Info:  # noqa: A002
        """Stop the run, and all that it started; or remove one that is over, with all that it made."""
        told = await info(await runs.get(id))
        after = await runs.remove(id, running=running)
        changed = {"state": after.state, "ended_at": after.ended_at, "says": after.says}
        return told.model_copy(update=changed)

    router.add_api_route(f"{path}/{{id}}", one, response_model=model)
    router.add_api_route(f"{path}/{{id}}/report", report, response_class=Response, responses=HTML)
    router.add_api_route(f"{path}/{{id}}", remove, methods=["DELETE"], response_model=model)


class ReportLink(Value):
    """A link to a page."""

    url: str
    """Path at the node that answers."""
    seconds: float
    """How long it is valid."""


@dataclass(frozen=True, slots=True)
class _Page:
    node: str
    path: str
    reader: Principal
    until: float


def reports_router(view: NodeView, *, clock: Clock) -> tuple[APIRouter, APIRouter]:
    """Make the routers that create links (``/api/v1``), and that open them (``/console``, no role)."""
    links, pages = APIRouter(tags=["cluster"]), APIRouter(include_in_schema=False)
    known: OrderedDict[str, _Page] = OrderedDict()

    @links.get("/report-link")
    async def link(
        kind: Annotated[Kind, Query(description="Of a drill, or of an audit.")],
        id: Annotated[str, Query(pattern=RUN_ID, description="`id` of the run.")],  # noqa: A002 - the word of the API
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
        answer = await Peers(view, found.reader).ask(found.node, "GET", found.path, timeout=TIMEOUT)
        if answer.status != 200:
            raise HTTPException(answer.status, "The run has no page")
        return page_response(answer.body)

    return links, pages

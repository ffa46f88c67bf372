"""The HTTP API of one node: what to ask, where.

``/cluster``, ``/health``, ``/ready`` and ``/metrics`` are for people, probes and scrapers; ``/api/v1`` is
what the ``gossamer`` command speaks, described by OpenAPI at ``/docs``.

Rules: 1. Handlers are ``async``; they wait on peers, within bounds, only for what concerns all nodes.
2. An error of ours becomes a problem (RFC 9457): the caller's mistake is 400, a peer's 502, unavailable 503.
3. Long lists come in pages.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from gossamer import __version__
from gossamer.api.alarms import NoSuchAlarmError
from gossamer.api.http.access import Access, Gate, RoleTooLowError, needs
from gossamer.api.http.contract import allowed_methods, correct
from gossamer.api.http.guard import Guard
from gossamer.api.http.limits import Intake, Limits
from gossamer.api.http.problems import problem
from gossamer.api.http.tokens import Role, Tokens
from gossamer.api.jobs.runs import NoReportError, NoSuchRunError, RunBusyError
from gossamer.api.metrics.exposition import CONTENT_TYPE_LATEST, Exposition
from gossamer.api.model import (
    ClusterInfo,
    Done,
    ForceLeaveRequest,
    Health,
    JoinRequest,
    KeyRequest,
    KeysInfo,
    MemberInfo,
    NodeInfo,
    NodeStatus,
    Problem,
    Readiness,
    TableDigest,
    TableInfo,
)
from gossamer.api.resources.alarms import alarms_router
from gossamer.api.resources.audits import audits_router
from gossamer.api.resources.backup import backup_router
from gossamer.api.resources.clients import clients_router
from gossamer.api.resources.console_files import pages
from gossamer.api.resources.drills import drills_router
from gossamer.api.resources.faults import drill_router
from gossamer.api.resources.healing import healing_router
from gossamer.api.resources.history import history_router
from gossamer.api.resources.lists import lists
from gossamer.api.resources.live import live_router
from gossamer.api.resources.messages import messages_router
from gossamer.api.resources.peer_proxy import proxy_router
from gossamer.api.resources.processes import inside
from gossamer.api.resources.recording import recording_router
from gossamer.api.resources.report_links import reports_router
from gossamer.api.resources.settings import settings_router
from gossamer.api.resources.timeline import timeline_router
from gossamer.api.resources.tokens import tokens_router
from gossamer.api.view import NodeView
from gossamer.clock import Clock, SystemClock
from gossamer.config import ApiConfig, expected_of, parse_endpoint, shown_of
from gossamer.errors import GossamerError, PeerError, TransportError, UsageError, WrongValueError

__all__ = ["make_app"]


class BadEndpointError(WrongValueError):
    """An endpoint to join cannot be read."""

    def __init__(self, *, got: str) -> None:
        self.got = got
        super().__init__(f"endpoints: got {got[:100]!r}, expected a gossip endpoint such as 10.0.0.2:7946")


def make_app(
    view: NodeView,
    *,
    config: ApiConfig | None = None,
    tokens: Tokens | None = None,
    clock: Clock | None = None,
    limits: Limits | None = None,
) -> FastAPI:
    """The application for ``view``; without ``tokens`` nobody has one."""
    config = config or ApiConfig()
    clock = clock or SystemClock()
    tokens = tokens or Tokens(now=clock.wall)
    hosts = frozenset({config.host, *config.hosts} - {""})
    app = FastAPI(
        title="gossamer",
        version=__version__,
        description="One node of a gossamer cluster.",
        redirect_slashes=False,
        # The console has a page for it, which loads nothing from elsewhere.
        docs_url=None,
        redoc_url=None,
        responses={"4XX": {"model": Problem}, "5XX": {"model": Problem}},
    )
    app.include_router(_probes(view))
    app.include_router(pages())
    app.include_router(_reads(view), prefix="/api/v1")
    app.include_router(lists(view), prefix="/api/v1")
    app.include_router(clients_router(view), prefix="/api/v1")
    app.include_router(inside(view), prefix="/api/v1")
    app.include_router(proxy_router(view), prefix="/api/v1")
    app.include_router(live_router(view, clock=clock), prefix="/api/v1")
    app.include_router(messages_router(view), prefix="/api/v1")
    app.include_router(settings_router(view), prefix="/api/v1")
    app.include_router(backup_router(view), prefix="/api/v1")
    app.include_router(_orders(view), prefix="/api/v1/cluster")
    app.include_router(healing_router(view.healing), prefix="/api/v1")
    app.include_router(alarms_router(view), prefix="/api/v1")
    app.include_router(timeline_router(view), prefix="/api/v1")
    app.include_router(history_router(view), prefix="/api/v1")
    app.include_router(recording_router(view.recording), prefix="/api/v1")
    app.include_router(audits_router(view), prefix="/api/v1")
    app.include_router(drills_router(view, clock=clock), prefix="/api/v1")
    app.include_router(
        drill_router(view.name, lambda: view.faults), prefix="/api/v1", dependencies=[needs(Role.ADMIN)]
    )
    for reports in zip(reports_router(view, clock=clock), ("/api/v1", ""), strict=True):
        app.include_router(reports[0], prefix=reports[1])
    app.include_router(tokens_router(tokens, node=view.name), prefix="/api/v1")
    app.add_exception_handler(GossamerError, _on_error)
    app.add_exception_handler(RequestValidationError, _on_bad_request)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.openapi = correct(app)  # type: ignore[method-assign]
    limits = app.state.limits = limits or Limits(config)
    # The last one added is the first to see a request.
    app.add_middleware(Intake, limits=limits)
    app.add_middleware(Gate, access=Access(tokens, config, clock))
    app.add_middleware(Guard, hosts=hosts)
    return app


def _probes(view: NodeView) -> APIRouter:
    router = APIRouter()
    exposition = Exposition(view)

    @router.get("/cluster", tags=["cluster"])
    async def cluster() -> ClusterInfo:
        """The members of the cluster, and which of them answers."""
        return view.cluster()

    @router.get("/health", tags=["probes"])
    async def health() -> Health:
        """Answers as long as the node's loop turns."""
        return Health(name=view.name)

    @router.get("/ready", tags=["probes"], responses={503: {"model": Readiness}})
    async def ready(response: Response) -> Readiness:
        """200 while the node is fit to take clients, else 503 with what is missing."""
        readiness = view.readiness()
        response.status_code = 200 if readiness.ready else 503
        return readiness

    @router.get("/metrics", tags=["probes"], response_class=Response)
    async def metrics() -> Response:
        """Prometheus' text format."""
        return Response(await exposition.render(), media_type=CONTENT_TYPE_LATEST)

    return router


def _reads(view: NodeView) -> APIRouter:
    router = APIRouter()

    @router.get("/status", tags=["cluster"])
    async def status() -> NodeStatus:
        """What this node says of itself: state, members, ports, counters."""
        return view.status()

    @router.get("/members", tags=["cluster"])
    async def members() -> tuple[MemberInfo, ...]:
        """The members as this node sees them, with what it goes by."""
        return tuple(view.members())

    @router.get("/nodes", tags=["cluster"])
    async def nodes() -> tuple[NodeInfo, ...]:
        """The nodes that this one knows, and whether it has links to them."""
        return tuple(view.nodes())

    @router.get("/tables", tags=["node"])
    async def tables() -> tuple[TableInfo, ...]:
        """The tables of this node: how they are kept and copied, and how many rows they hold."""
        return tuple(view.tables())

    @router.get("/tables/digests", tags=["node"])
    async def digests() -> tuple[TableDigest, ...]:
        """Checksums of the replicated tables: nodes that answer alike hold the same rows."""
        return tuple(await view.digests())

    return router


def _orders(view: NodeView) -> APIRouter:
    router = APIRouter(tags=["cluster"])

    @router.post("/join")
    async def join(order: JoinRequest) -> Done:
        """Join the cluster of whoever gossips at one of the endpoints."""
        endpoints = []
        for text in order.endpoints:
            try:
                endpoints.append(parse_endpoint(text))
            except ValueError:
                raise BadEndpointError(got=text) from None
        await view.join(endpoints)
        return Done(done=f"{view.name} joined", members=tuple(view.members()))

    @router.post("/leave")
    async def leave() -> Done:
        """Leave the cluster and stay out, also after a restart, until told to join."""
        await view.leave()
        return Done(done=f"{view.name} left", members=tuple(view.members()))

    @router.post("/drain")
    async def drain() -> Done:
        """Send clients to other nodes, and their sessions with them; nobody is let in after that."""
        return Done(done=await view.drain(), members=tuple(view.members()))

    @router.post("/force-leave", dependencies=[needs(Role.ADMIN)])
    async def force_leave(order: ForceLeaveRequest) -> Done:
        """Remove a member that will not come back; one that lives is told to stay out."""
        await view.force_leave(order.name)
        return Done(done=f"{order.name} removed", members=tuple(view.members()))

    @router.get("/keys", dependencies=[needs(Role.ADMIN)])
    async def keys() -> KeysInfo:
        """The gossip keys of this node by name, the one in use first."""
        return await view.keys()

    @router.post("/keys", dependencies=[needs(Role.ADMIN)])
    async def change_keys(order: KeyRequest) -> KeysInfo:
        """Install, use or remove a gossip key on this node."""
        return await view.keys(order)

    return router


async def _on_error(request: Request, error: Exception) -> Response:
    if isinstance(error, RoleTooLowError):
        return problem(403, "Forbidden", str(error))
    if isinstance(error, (NoSuchRunError, NoReportError, NoSuchAlarmError)):
        return problem(404, "Not Found", str(error))
    if isinstance(error, RunBusyError):
        return problem(409, "Conflict", str(error))
    if isinstance(error, WrongValueError):
        return problem(422, "Unprocessable Content", str(error))
    if isinstance(error, UsageError):
        return problem(400, "Bad Request", str(error))
    if isinstance(error, (PeerError, TransportError)):
        return problem(502, "Bad Gateway", str(error))
    return problem(503, "Service Unavailable", str(error))


async def _on_bad_request(request: Request, error: Exception) -> Response:
    if not isinstance(error, RequestValidationError):
        raise error
    return problem(422, "Unprocessable Content", "; ".join(map(_in_words, error.errors())))


_FORMS = {
    "^[0-9a-f]{12}$": "an id as the list shows it: 12 digits of 0-9 and a-f",
    r"^[a-z][a-z0-9_.-]{0,63}$": "a name in lower case, such as backup.late",
    r"^[A-Za-z0-9_.@ -]+$": "letters, digits, spaces and . _ @ -",
}
"""Patterns of the API in words."""
_HIDDEN = {"key", "payload"}


def _in_words(item: Any) -> str:
    # Where it stood (path, query or body) is of no help to who wrote a command.
    key = ".".join(map(str, item["loc"][1:])) or "the request"
    if item["type"] == "extra_forbidden":
        return f"{key}: got a field that this node does not know"
    if item["type"] == "missing":
        return f"{key}: got nothing, expected a value"
    got = "a hidden value" if item["loc"][-1] in _HIDDEN else shown_of(item["input"])
    pattern = item.get("ctx", {}).get("pattern")
    return f"{key}: got {got}, expected {_FORMS.get(pattern) or expected_of(item)}"


async def _on_http_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    response = problem(error.status_code, str(error.detail), f"{request.method} {request.url.path}")
    response.headers.update(error.headers or {})
    if error.status_code == 405:
        response.headers["allow"] = ", ".join(allowed_methods(request.app.openapi(), request.url.path))
    return response

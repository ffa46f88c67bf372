"""The HTTP API of one node: what to ask, where.

``/cluster``, ``/health``, ``/ready`` and ``/metrics`` are for people, probes and scrapers; ``/api/v1`` is
what the ``gossamer`` command speaks, described by OpenAPI at ``/docs``.

Rules: 1. Handlers are ``async``; they wait on peers, within bounds, only for what concerns all nodes.
2. An error of ours becomes a problem (RFC 9457): the caller's mistake is 400, a peer's 502, unavailable 503;
so the OpenAPI document does not promise the framework's own shape of a validation error.  3. Long lists come
in pages.  4. A method that a path does not have is answered with those that it has.  5. The role that a route
takes stands beside it (``security``), as OpenAPI has it for schemes of every kind.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from fastapi.routing import iter_route_contexts
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException

from gossamer import __version__
from gossamer.api.http.access import AccessMiddleware, role_of
from gossamer.api.http.answers import PROBLEM, problem
from gossamer.api.http.console_files import console_files
from gossamer.api.http.guard import GuardMiddleware
from gossamer.api.http.limits import Limits, LimitsMiddleware
from gossamer.api.http.tokens import RoleTooLowError, Tokens
from gossamer.api.jobs.runs import RunBusyError
from gossamer.api.metrics import Exposition
from gossamer.api.model.base import Health, Problem
from gossamer.api.model.cluster import ClusterInfo, Readiness
from gossamer.api.model.forms import FORMS
from gossamer.api.resources.audits import audits_router
from gossamer.api.resources.cluster import cluster_router, proxy_router
from gossamer.api.resources.drills import drills_router, faults_router
from gossamer.api.resources.events import events_router, live_router
from gossamer.api.resources.healing import healing_router
from gossamer.api.resources.mqtt import clients_router, messages_router, routes_router
from gossamer.api.resources.node import node_router
from gossamer.api.resources.queues import queues_router
from gossamer.api.resources.raft import raft_router
from gossamer.api.resources.runs import reports_router
from gossamer.api.resources.tenants import tenants_router
from gossamer.api.resources.tokens import tokens_router
from gossamer.api.view import NodeView
from gossamer.clock import Clock, SystemClock
from gossamer.config import ApiConfig, expected_of, shown_of
from gossamer.errors import (
    GossamerError,
    NotFoundError,
    PeerError,
    TransportError,
    UsageError,
    WrongValueError,
)
from gossamer.queues import (
    DeadLettersElsewhereError,
    GroupChangeError,
    GroupInUseError,
    QueueExistsError,
    SharedLettersError,
)


def make_app(
    view: NodeView,
    *,
    config: ApiConfig | None = None,
    tokens: Tokens | None = None,
    clock: Clock | None = None,
    limits: Limits | None = None,
) -> FastAPI:
    """Make the application for ``view``; without ``tokens`` there are none."""
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
    links, linked_pages = reports_router(view, clock=clock)
    for router in (_probes(view), console_files(), linked_pages):
        app.include_router(router)
    for router in (
        cluster_router(view),
        routes_router(view),
        clients_router(view),
        messages_router(view),
        node_router(view),
        raft_router(view),
        queues_router(view),
        tenants_router(view),
        proxy_router(view),
        live_router(view, clock=clock),
        events_router(view),
        healing_router(view),
        audits_router(view),
        drills_router(view, clock=clock),
        faults_router(view),
        links,
        tokens_router(tokens, node=view.name),
    ):
        app.include_router(router, prefix="/api/v1")
    app.add_exception_handler(GossamerError, _on_error)
    app.add_exception_handler(RequestValidationError, _on_bad_request)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.openapi = _openapi_of(app)  # type: ignore[method-assign]
    limits = app.state.limits = limits or Limits(config)
    # The last one added is the first to see a request.
    app.add_middleware(LimitsMiddleware, limits=limits)
    app.add_middleware(AccessMiddleware, tokens=tokens, config=config, clock=clock)
    app.add_middleware(GuardMiddleware, hosts=hosts)
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


_STATUS = (
    (RoleTooLowError, 403),
    (NotFoundError, 404),
    ((RunBusyError, GroupInUseError, GroupChangeError, DeadLettersElsewhereError), 409),
    ((QueueExistsError, SharedLettersError), 409),
    (WrongValueError, 422),
    (UsageError, 400),
    ((PeerError, TransportError), 502),
)
"""Errors and how they are answered; the first that fits counts, and what is none of them is unavailable."""


async def _on_error(request: Request, error: Exception) -> Response:
    status = next((status for kinds, status in _STATUS if isinstance(error, kinds)), 503)
    return problem(status, str(error))


async def _on_bad_request(request: Request, error: Exception) -> Response:
    if not isinstance(error, RequestValidationError):
        raise error
    # A value that two parts of a route read is wrong once.
    return problem(422, "; ".join(dict.fromkeys(map(_in_words, error.errors()))))


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
    return f"{key}: got {got}, expected {FORMS.get(pattern) or expected_of(item)}"


async def _on_http_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    response = problem(error.status_code, f"{request.method} {request.url.path}", title=str(error.detail))
    response.headers.update(error.headers or {})
    if error.status_code == 405:
        response.headers["allow"] = ", ".join(_allowed_methods(request.app.openapi(), request.url.path))
    return response


_SCHEMES = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "A token of `gossamer tokens create`; this machine itself may not need one.",
    }
}


def _openapi_of(app: FastAPI) -> Callable[[], dict[str, Any]]:
    """Return the function that makes ``app``'s OpenAPI document, once."""
    make = app.openapi

    def document() -> dict[str, object]:
        if app.openapi_schema is None:
            app.openapi_schema = _corrected(make(), _roles(app))
        return app.openapi_schema

    return document


def _roles(app: FastAPI) -> dict[tuple[str, str], str]:
    """Return the role that each route takes, by path and method."""
    found = {}
    for route in iter_route_contexts(app.routes):
        dependant = getattr(route, "dependant", None)
        calls = [] if dependant is None else [below.call for below in dependant.dependencies]
        for method in route.methods or ():
            path = str(route.path)
            # As in the document, which leaves out how a parameter is converted.
            found[re.sub(r":\w+}", "}", path), method] = role_of(calls, method=method, path=path)
    return found


def _corrected(document: dict[str, Any], roles: dict[tuple[str, str], str]) -> dict[str, Any]:
    wrong = {
        "description": "What went wrong.",
        "content": {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            answers = operation["responses"]
            answers.pop("422", None)
            for code, answer in list(answers.items()):
                schema = answer.get("content", {}).get("application/json", {}).get("schema", {})
                if schema.get("$ref", "").endswith("/Problem"):
                    answers[code] = wrong
            answers |= {"4XX": wrong, "5XX": wrong}
            role = roles[path, method.upper()]
            if role != "nobody":
                operation["security"] = [{"bearer": [role]}, {}]
    schemas = document["components"]["schemas"]
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    document["components"]["securitySchemes"] = _SCHEMES
    return document


def _allowed_methods(document: dict[str, Any], path: str) -> list[str]:
    """The methods that a path has, most specific route first."""
    # A parameter is a part of the path; only where no such route is, it is all that follows.
    for part in ("[^/]+", ".+"):
        for template, methods in document["paths"].items():
            if re.fullmatch(re.sub(r"\\{[^}]*\\}", part, re.escape(template)), path):
                return sorted(map(str.upper, methods))
    return []

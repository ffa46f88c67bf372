"""The cluster as this node sees it, commands that change it, and ``/nodes/NAME/…``.

Below that is what another node answers to the same request, asked over the links of the cluster.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Annotated

from fastapi import APIRouter, Path, Request
from fastapi.responses import Response

from gossamer.api.http.access import SAFE_METHODS, needs, principal_of
from gossamer.api.http.answers import page_response
from gossamer.api.http.limits import StreamAnswer
from gossamer.api.http.tokens import Role
from gossamer.api.model.cluster import (
    Done,
    FeatureInfo,
    FeatureRequest,
    ForceLeaveRequest,
    JoinRequest,
    KeyRequest,
    KeysInfo,
    MemberInfo,
    NodeInfo,
    NodeStatus,
)
from gossamer.api.peers.scatter_gather import TIMEOUT, Peers
from gossamer.api.view import NodeView
from gossamer.config import Endpoint, parse_endpoint
from gossamer.errors import UsageError, WrongValueError, mismatch

COMMAND_TIMEOUT = 20.0
"""Seconds that a node has to carry an order out; one that is down is not waited for."""
_LONG_TIMEOUTS = {"routes/verify": 130.0, "cluster/drain": 600.0, "backup": 310.0}

Name = Annotated[str, Path(max_length=255, description="A node, as `/nodes` names it.")]
Rest = Annotated[str, Path(max_length=2000, description="What follows `/api/v1/` in the request to it.")]


def cluster_router(view: NodeView) -> APIRouter:
    """``/status``, ``/members``, ``/nodes`` and ``/cluster``."""
    router = APIRouter(tags=["cluster"])

    def done(what: str) -> Done:
        return Done(done=what, members=tuple(view.members()))

    @router.get("/status")
    async def status() -> NodeStatus:
        """Return the status of this node: state, members, ports, counters."""
        return view.status()

    @router.get("/members")
    async def members() -> tuple[MemberInfo, ...]:
        """The members as this node sees them, with what it goes by."""
        return tuple(view.members())

    @router.get("/nodes")
    async def nodes() -> tuple[NodeInfo, ...]:
        """The nodes that this one knows, and whether it has links to them."""
        return tuple(view.nodes())

    @router.post("/cluster/join")
    async def join(order: JoinRequest) -> Done:
        """Join the cluster of whoever gossips at one of the endpoints."""
        await view.join([_endpoint(text) for text in order.endpoints])
        return done(f"{view.name} joined")

    @router.post("/cluster/leave")
    async def leave() -> Done:
        """Leave the cluster and stay out, also after a restart, until told to join."""
        await view.leave()
        return done(f"{view.name} left")

    @router.post("/cluster/drain")
    async def drain() -> Done:
        """Send clients to other nodes, and their sessions with them; nobody is let in after that."""
        return done(await view.drain())

    @router.post("/cluster/force-leave", dependencies=[needs(Role.ADMIN)])
    async def force_leave(order: ForceLeaveRequest) -> Done:
        """Remove a member that will not come back; one that lives is told to stay out."""
        await view.force_leave(order.name)
        return done(f"{order.name} removed")

    @router.get("/cluster/keys", dependencies=[needs(Role.ADMIN)])
    async def keys() -> KeysInfo:
        """The gossip keys of this node by name, the one in use first."""
        return await view.keys()

    @router.post("/cluster/keys", dependencies=[needs(Role.ADMIN)])
    async def change_keys(order: KeyRequest) -> KeysInfo:
        """Install, use or remove a gossip key on this node."""
        return await view.keys(order)

    _add_features(router, view)
    return router


def _add_features(router: APIRouter, view: NodeView) -> None:
    @router.get("/features")
    async def features() -> tuple[FeatureInfo, ...]:
        """Return the feature flags, and the members that each one waits for."""
        return tuple(view.features())

    @router.post("/features", dependencies=[needs(Role.ADMIN)])
    async def enable(order: FeatureRequest) -> Done:
        """Enable a feature flag that all members support, or all stable ones; this cannot be undone."""
        await view.enable_features(order.name)
        what = f"{order.name or 'every stable feature'} enabled"
        return Done(done=what, members=tuple(view.members()))


def _endpoint(text: str) -> Endpoint:
    try:
        return parse_endpoint(text)
    except ValueError:
        expected = "a gossip endpoint such as 10.0.0.2:7946"
        raise mismatch(WrongValueError, "endpoints", repr(text[:100]), expected) from None


def proxy_router(view: NodeView) -> APIRouter:
    """Any route below ``/api/v1``, answered by the node that is named."""
    router = APIRouter(tags=["cluster"])

    async def passed_on(name: Name, rest: Rest, request: Request) -> Response:
        """Return the answer of the named node; the caller has at most its role there."""
        if request.scope.get("gossamer.relayed"):
            raise UsageError("nodes: got a node below another, expected one node; ask for it directly")
        # Names of clients may hold a question mark, where the query would begin.
        path = rest.replace("%", "%25").replace("?", "%3F")
        target = f"/api/v1/{path}" + (f"?{request.url.query}" if request.url.query else "")
        peers = Peers(view, principal_of(request))
        timeout = TIMEOUT if request.method in SAFE_METHODS else _LONG_TIMEOUTS.get(rest, COMMAND_TIMEOUT)
        answer = await peers.ask(name, request.method, target, await request.body(), timeout=timeout)
        if answer.cursor:
            more = peers.rest(name, answer.cursor)
            return StreamAnswer(
                _joined(answer.body, more),
                source=more,
                status_code=answer.status,
                media_type=answer.content_type,
            )
        if answer.content_type.startswith("text/html"):
            # Headers do not travel, and a page that a program made must stay harmless here, too.
            return page_response(answer.body, status=answer.status)
        return Response(answer.body, status_code=answer.status, media_type=answer.content_type)

    for method in ("GET", "POST", "PUT", "DELETE"):
        router.add_api_route(
            "/nodes/{name}/{rest:path}",
            passed_on,
            methods=[method],
            operation_id=f"{method.lower()}_from_node",
            response_class=Response,
        )
    return router


async def _joined(first: bytes, rest: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    yield first
    async for part in rest:
        yield part

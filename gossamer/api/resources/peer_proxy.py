"""``/nodes/NAME/…``: what another node answers to the same request, asked over the links of the cluster."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Annotated

from fastapi import APIRouter, Path, Request
from fastapi.responses import Response

from gossamer.api.http.access import SAFE_METHODS, principal_of
from gossamer.api.http.sandbox import page_response
from gossamer.api.http.streaming import StreamAnswer
from gossamer.api.peers.scatter_gather import TIMEOUT, Peers
from gossamer.api.view import NodeView

__all__ = ["proxy_router"]

COMMAND_TIMEOUT = 20.0
"""Seconds that a node has to carry an order out; one that is down is not waited for."""
_LONG_TIMEOUTS = {"routes/verify": 130.0, "cluster/drain": 600.0, "backup": 310.0}

Name = Annotated[str, Path(max_length=255, description="A node, as `/nodes` names it.")]
Rest = Annotated[str, Path(max_length=2000, description="What follows `/api/v1/` in the request to it.")]


def proxy_router(view: NodeView) -> APIRouter:
    """Any route below ``/api/v1``, answered by the node that is named."""
    router = APIRouter(tags=["cluster"])

    async def passed_on(name: Name, rest: Rest, request: Request) -> Response:
        """What the node that is named answers; who asks keeps his role there."""
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

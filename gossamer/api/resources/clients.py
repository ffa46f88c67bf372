"""Orders about one client, wherever in the cluster it is.

Rule: any node may be asked; who has the client is looked up, and asked, by the node.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from fastapi.responses import Response

from gossamer.api.http.problems import problem
from gossamer.api.model import Done, Problem
from gossamer.api.view import NodeView

__all__ = ["clients_router"]


def clients_router(view: NodeView) -> APIRouter:
    """The routes below ``/clients`` that change something."""
    router = APIRouter(tags=["clients"])

    # Client identifiers may hold any character, a slash too.
    @router.delete("/clients/{client:path}", response_model=Done, responses={404: {"model": Problem}})
    async def kick(
        client: Annotated[str, Path(description="A client identifier.")],
    ) -> Done | Response:
        """End the connection and the session of a client, on whichever node they are."""
        if not await view.kick(client):
            return problem(
                404, "Not Found", f"client: got {client[:200]!r}, expected one of gossamer clients"
            )
        return Done(done=f"{client} kicked", members=())

    return router

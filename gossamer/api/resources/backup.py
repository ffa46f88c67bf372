"""``/backup``: what a node has on disc, written to a file of its machine while it runs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from gossamer.api.http.access import needs
from gossamer.api.http.tokens import Role
from gossamer.api.model import Value
from gossamer.api.view import NodeView

__all__ = ["BackupInfo", "BackupOrder", "backup_router"]


class BackupOrder(Value):
    """Where a backup goes."""

    path: Annotated[str, Field(min_length=1, max_length=4000)] | None = None
    """A new file on the node's machine, from `/` on; null: in `backups` of its data directory."""


class BackupInfo(Value):
    """A backup that was written."""

    node: str
    path: str
    bytes: int
    seconds: float


def backup_router(view: NodeView) -> APIRouter:
    """``/backup``, for administrators."""
    router = APIRouter(tags=["node"])

    @router.post("/backup", dependencies=[needs(Role.ADMIN)])
    async def backup(order: BackupOrder) -> BackupInfo:
        """Write the sessions, queues and tables that this node has on disc to a file, while it runs."""
        return await view.backup(order.path)

    return router

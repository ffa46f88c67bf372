"""How a node is set: the configuration it runs with, what can be read again, how much it logs and where."""

from __future__ import annotations

import os
from typing import Any, Literal

from fastapi import APIRouter

from gossamer.api.http.access import needs
from gossamer.api.http.tokens import Role
from gossamer.api.model import Value
from gossamer.api.view import NodeView
from gossamer.log_destination import log_destination

__all__ = ["ConfigInfo", "LogInfo", "LogLevel", "Reloaded", "settings_router"]


class ConfigInfo(Value):
    """The configuration that a node runs with; secrets are stars."""

    node: str
    config: dict[str, Any]
    changed: dict[str, Any]
    """Only what differs from the defaults."""


class Reloaded(Value):
    """The files that were read again: certificates, passwords, access lists, keys of tokens."""

    node: str
    files: tuple[str, ...]


class LogLevel(Value):
    """How much a node logs."""

    level: Literal["debug", "info", "warning", "error"]


class LogInfo(Value):
    """Where the log of a node's process goes."""

    node: str
    process: int
    """Its number at the operating system, which the journal knows it by."""
    kind: Literal["file", "journal", "terminal", "pipe", "null", "other"]
    path: str | None
    """Of a file."""
    identity: str | None
    """Of a file: the same for who sees the same file, on this machine until it starts again."""


def settings_router(view: NodeView) -> APIRouter:
    """``/config``, ``/config/reload``, ``/log`` and ``/log-level``."""
    router = APIRouter(tags=["node"])

    @router.get("/config", dependencies=[needs(Role.OPERATOR)])
    async def config() -> ConfigInfo:
        """The configuration that this node runs with, secrets hidden."""
        return ConfigInfo(node=view.name, config=view.config(), changed=view.config(changed_only=True))

    @router.post("/config/reload", dependencies=[needs(Role.ADMIN)])
    async def reload() -> Reloaded:
        """Read certificates, passwords and access lists again now; a mistake leaves what was read before."""
        return Reloaded(node=view.name, files=await view.reload())

    @router.get("/log", dependencies=[needs(Role.OPERATOR)])
    async def log() -> LogInfo:
        """Where the log of this node goes; not what is in it."""
        found = log_destination()
        return LogInfo(
            node=view.name, process=os.getpid(), kind=found.kind, path=found.path, identity=found.identity
        )

    @router.get("/log-level")
    async def log_level() -> LogLevel:
        """How much this node logs."""
        return LogLevel.model_validate({"level": view.log_level()})

    @router.put("/log-level")
    async def change_log_level(order: LogLevel) -> LogLevel:
        """Log more or less, until the node is started again."""
        return LogLevel.model_validate({"level": view.log_level(order.level)})

    return router

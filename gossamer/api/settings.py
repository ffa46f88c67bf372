"""How a node is set: the configuration it runs with, what can be read again, and how much it logs."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter

from gossamer.api.access import needs
from gossamer.api.model import Value
from gossamer.api.tokens import Role
from gossamer.api.view import NodeView

__all__ = ["ConfigInfo", "LogLevel", "Reloaded", "settings_router"]


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


def settings_router(view: NodeView) -> APIRouter:
    """``/config``, ``/config/reload`` and ``/log-level``."""
    router = APIRouter(tags=["node"])

    @router.get("/config", dependencies=[needs(Role.OPERATOR)])
    async def config() -> ConfigInfo:
        """The configuration that this node runs with, secrets hidden."""
        return ConfigInfo(node=view.name, config=view.config(), changed=view.config(changed_only=True))

    @router.post("/config/reload", dependencies=[needs(Role.ADMIN)])
    async def reload() -> Reloaded:
        """Read certificates, passwords and access lists again now; a mistake leaves what was read before."""
        return Reloaded(node=view.name, files=await view.reload())

    @router.get("/log-level")
    async def log_level() -> LogLevel:
        """How much this node logs."""
        return LogLevel.model_validate({"level": view.log_level()})

    @router.put("/log-level")
    async def change_log_level(order: LogLevel) -> LogLevel:
        """Log more or less, until the node is started again."""
        return LogLevel.model_validate({"level": view.log_level(order.level)})

    return router

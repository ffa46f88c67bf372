"""One node: its settings, log, tables and processes, what one process does as it happens, and backups.

A trace is a stream of JSON, one line an event (``application/x-ndjson``), until the process ends, its time
or its number of lines is over, or the reader goes away. An empty line now and then says that the node
lives, and finds out whether the reader does.

Rules: 1. A trace is bounded in time, in lines, and in what waits for a slow reader.  2. However the request
ends, the tap comes off.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from dataclasses import asdict
from typing import Annotated, Literal

from fastapi import APIRouter, Query

from gossamer.api.http.access import needs
from gossamer.api.http.limits import NDJSON, StreamAnswer
from gossamer.api.http.tokens import Role
from gossamer.api.model.base import Problem, Value
from gossamer.api.model.node import BackupInfo, BackupRequest, ProcessInfo, TableDigest, TableInfo, TraceEvent
from gossamer.api.view import NodeView
from gossamer.log_destination import log_destination
from gossamer.supervisor import TraceLine

LONGEST = 3600.0
MOST = 100_000

Who = Annotated[
    str,
    Query(
        min_length=1,
        max_length=300,
        description="`<node.31>`, `node.31`, `31` on this node, or a registered name.",
    ),
]
Seconds = Annotated[float, Query(gt=0, le=LONGEST, description="How long at most.")]
Lines = Annotated[int, Query(ge=1, le=MOST, description="How many events at most.")]
Root = Annotated[
    str | None, Query(min_length=1, max_length=300, description="Only this process and those below it.")
]
Fold = Annotated[int, Query(ge=0, le=5000, description="How many children of one label to list.")]


class ConfigInfo(Value):
    """The configuration that a node runs with; secrets are stars."""

    node: str
    config: dict[str, object]
    changed: dict[str, object]
    """Only what differs from the defaults."""


class Reloaded(Value):
    """The files that were read again: certificates, passwords, access lists, keys of tokens."""

    node: str
    files: tuple[str, ...]
    queues: dict[str, str]
    """Outcome for each queue whose declaration has changed, by its name: added, changed, refused and why, or
    declared no more."""


class LogLevel(Value):
    """The log level of a node."""

    level: Literal["debug", "info", "warning", "error"]


class LogInfo(Value):
    """The destination of the log of a node."""

    node: str
    process: int
    """Its number at the operating system, which the journal knows it by."""
    kind: Literal["file", "journal", "terminal", "pipe", "null", "other"]
    path: str | None
    """Of a file."""
    identity: str | None
    """Of a file: the same for who sees the same file, on this machine until it starts again."""


def node_router(view: NodeView) -> APIRouter:
    """Settings, log, tables, processes, traces and backups of a node."""
    router = APIRouter(tags=["node"])
    _add_settings(router, view)
    _add_log(router, view)
    _add_tables(router, view)
    _add_processes(router, view)

    @router.post("/backup", dependencies=[needs(Role.ADMIN)])
    async def backup(order: BackupRequest) -> BackupInfo:
        """Write the sessions, queues and tables that this node has on disc to a file, while it runs."""
        return await view.backup(order.path)

    return router


def _add_settings(router: APIRouter, view: NodeView) -> None:
    @router.get("/config", dependencies=[needs(Role.OPERATOR)])
    async def config() -> ConfigInfo:
        """The configuration that this node runs with, secrets hidden."""
        return ConfigInfo(node=view.name, config=view.config(), changed=view.config(changed_only=True))

    @router.post("/config/reload", dependencies=[needs(Role.ADMIN)])
    async def reload() -> Reloaded:
        """Read certificates, passwords, access lists and the queues that are declared again now; a mistake
        leaves what was read before."""
        return Reloaded(node=view.name, files=await view.reload(), queues=await view.reload_queues())


def _add_log(router: APIRouter, view: NodeView) -> None:
    @router.get("/log", dependencies=[needs(Role.OPERATOR)])
    async def log() -> LogInfo:
        """Return the destination of the log of this node, not its content."""
        return LogInfo(node=view.name, process=os.getpid(), **asdict(log_destination()))

    @router.get("/log-level")
    async def log_level() -> LogLevel:
        """Return the log level of this node."""
        return LogLevel.model_validate({"level": view.log_level()})

    @router.put("/log-level")
    async def change_log_level(order: LogLevel) -> LogLevel:
        """Log more or less, until the node is started again."""
        return LogLevel.model_validate({"level": view.log_level(order.level)})


def _add_tables(router: APIRouter, view: NodeView) -> None:
    @router.get("/tables")
    async def tables() -> tuple[TableInfo, ...]:
        """The tables of this node: how they are kept and copied, and how many rows they hold."""
        return tuple(view.tables())

    @router.get("/tables/digests")
    async def digests() -> tuple[TableDigest, ...]:
        """Checksums of the replicated tables: nodes that answer alike hold the same rows."""
        return tuple(await view.digests())


def _add_processes(router: APIRouter, view: NodeView) -> None:
    @router.get("/processes")
    async def processes(fold: Fold = 20, root: Root = None) -> tuple[ProcessInfo, ...]:
        """The supervision tree; children of one label beyond ``fold`` are summed up."""
        return tuple(await view.processes(fold=fold, root=root))

    @router.get(
        "/trace",
        dependencies=[needs(Role.ADMIN)],
        response_class=StreamAnswer,
        responses={200: {"model": TraceEvent, "content": {NDJSON: {}}}, 400: {"model": Problem}},
    )
    async def trace(pid: Who, seconds: Seconds = 300.0, limit: Lines = 1000) -> StreamAnswer:
        """Trace the messages of a process, one JSON object a line."""
        lines = view.trace(pid, seconds=seconds, limit=limit)
        # The first line is awaited here: what cannot be traced is a problem, not a broken stream.
        return StreamAnswer(_text(await anext(lines), lines), source=lines)


async def _text(
    first: TraceLine | None, lines: AsyncGenerator[TraceLine | None, None]
) -> AsyncGenerator[bytes, None]:
    yield _json(first)
    async for line in lines:
        yield _json(line)


def _json(line: TraceLine | None) -> bytes:
    if line is None:
        return b"\n"
    return TraceEvent.model_validate(line).model_dump_json().encode() + b"\n"

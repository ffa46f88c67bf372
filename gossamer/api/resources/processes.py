"""What the API shows of a node's inside: its processes, and what one of them does as it happens.

A trace is a stream of JSON, one line an event (``application/x-ndjson``), until the process ends, its time
or its number of lines is over, or the reader goes away. An empty line now and then says that the node
lives, and finds out whether the reader does.

Rules: 1. A trace is bounded in time, in lines, and in what waits for a slow reader.  2. However the request
ends, the tap comes off.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Annotated

from fastapi import APIRouter, Query

from gossamer.api.http.access import needs
from gossamer.api.http.streaming import NDJSON, StreamAnswer
from gossamer.api.http.tokens import Role
from gossamer.api.model import Problem, ProcessInfo, TraceEvent
from gossamer.api.view import NodeView
from gossamer.supervisor import TraceLine

__all__ = ["inside"]

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


def inside(view: NodeView) -> APIRouter:
    """``/processes`` and ``/trace``."""
    router = APIRouter(tags=["node"])

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
        """What a process takes in and sends out, one JSON object a line."""
        lines = view.trace(pid, seconds=seconds, limit=limit)
        # The first line is awaited here: what cannot be traced is a problem, not a broken stream.
        return StreamAnswer(_text(await anext(lines), lines), source=lines)

    return router


async def _text(
    first: TraceLine | None, lines: AsyncGenerator[TraceLine | None, None]
) -> AsyncGenerator[bytes, None]:
    yield _json(first)
    async for line in lines:
        yield _json(line)


def _json(line: TraceLine | None) -> bytes:
    if line is None:
        return b"\n"
    event = TraceEvent.model_validate(line, from_attributes=True)
    return event.model_dump_json().encode() + b"\n"

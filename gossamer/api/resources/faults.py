"""Faults on purpose over HTTP, of network and clock; refused unless the configuration allows it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Literal

from fastapi import APIRouter
from pydantic import Field

from gossamer.api.http.access import needs
from gossamer.api.http.tokens import Role
from gossamer.api.model.base import Value
from gossamer.api.view import NodeView
from gossamer.errors import UsageError
from gossamer.faults import Fault, FaultTable, FaultyClock

__all__ = ["faults_router"]

Seconds = Annotated[float, Field(ge=0, le=3600)]


class FaultInfo(Value):
    """What happens between this node and ``peer``: a name, ``host:port``, or ``*`` for all. Seconds."""

    peer: Annotated[str, Field(min_length=1, max_length=255)]
    direction: Literal["out", "in", "both"] = "both"
    cut: bool = False
    loss: Annotated[float, Field(ge=0, le=1)] = 0.0
    delay: Seconds = 0.0
    jitter: Seconds = 0.0


class FaultRequest(Value):
    """The faults that shall hold from now on, all of them; without ``seconds`` until the next order."""

    faults: Annotated[tuple[FaultInfo, ...], Field(max_length=1000)]
    seconds: Annotated[float, Field(gt=0, le=86_400)] | None = None
    begin_in: Annotated[float, Field(ge=0, le=60)] = 0.0
    """Seconds until they begin, so that several nodes can be told before the first cut parts them."""


class ClockRequest(Value):
    """How wrong the node's wall clock shall be, in seconds; without ``seconds`` until the next order."""

    offset: Annotated[float, Field(ge=-1e9, le=1e9)]
    seconds: Annotated[float, Field(gt=0, le=86_400)] | None = None


class ClockInfo(Value):
    """The node's wall clock, and how wrong it is on purpose."""

    node: str
    offset: float
    wall: float


class FaultsInfo(Value):
    """The faults that hold on a node, and what its gate did so far."""

    node: str
    faults: tuple[FaultInfo, ...]
    datagrams_dropped: int
    datagrams_delayed: int
    connects_held: int
    streams_stalled: int


def faults_router(view: NodeView) -> APIRouter:
    """Routes below ``/drill``."""
    router = APIRouter(prefix="/drill", tags=["drill"], dependencies=[needs(Role.ADMIN)])

    def table() -> FaultTable:
        if view.faults is None:
            raise _disabled(view.name)
        return view.faults

    def wrong_clock() -> FaultyClock:
        found = table().clock
        if found is None:
            raise _disabled(view.name)
        return found

    def info() -> FaultsInfo:
        found = table()
        faults = tuple(map(FaultInfo.model_validate, found.faults))
        return FaultsInfo(node=view.name, faults=faults, **asdict(found.counts))

    @router.get("/faults")
    async def faults() -> FaultsInfo:
        """The faults that hold at this node, and what they did."""
        return info()

    @router.put("/faults")
    async def replace(order: FaultRequest) -> FaultsInfo:
        """Let just these hold; an empty list heals."""
        faults = (Fault(**dict(fault)) for fault in order.faults)
        table().set(faults, seconds=order.seconds, begin_in=order.begin_in)
        return info()

    @router.get("/clock")
    async def clock() -> ClockInfo:
        """By how much the wall clock of this node is wrong on purpose."""
        found = wrong_clock()
        return ClockInfo(node=view.name, offset=found.offset, wall=found.wall())

    @router.put("/clock")
    async def set_clock(order: ClockRequest) -> ClockInfo:
        """Let the wall clock jump; intervals go on as they were."""
        wrong_clock().set(order.offset, seconds=order.seconds)
        return await clock()

    return router


def _disabled(node: str) -> UsageError:
    return UsageError(
        f"node {node} takes no faults: drill.faults is false; "
        "set it to true in its configuration and start it again, on nodes that may be broken on purpose"
    )

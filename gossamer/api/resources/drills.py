"""Drills over HTTP: what can be ordered, what runs, what came of it; and faults by hand.

A drill runs as a program beside the node (``python -m gossamer.drill``), on a cluster of its own on loopback
and ports of its own, with an environment that names nothing of this cluster; what is read here is what it
writes into its directory. Or it is of this cluster, by the gates of its nodes (``cluster_drill``), as faults
are, which are refused unless the configuration allows them.
"""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from functools import partial
from typing import Annotated, Literal, TypeVar

import msgspec
from fastapi import APIRouter, Request
from pydantic import ConfigDict, Field, ValidationError

from gossamer.api.http.access import needs, principal_of
from gossamer.api.http.tokens import Role
from gossamer.api.jobs.cluster_drill import ClusterDrill
from gossamer.api.jobs.drill_plan import (
    COMMON,
    KINDS,
    DrillKindInfo,
    DrillProgress,
    DrillRequest,
    DrillResult,
    ParameterInfo,
    check_here,
    plan_of,
)
from gossamer.api.jobs.processes import Program
from gossamer.api.jobs.runs import Run, RunBusyError
from gossamer.api.model.base import Value
from gossamer.api.peers.scatter_gather import Peers
from gossamer.api.resources.runs import RunInfo, add_run_routes
from gossamer.api.view import NodeView
from gossamer.clock import Clock
from gossamer.errors import UsageError
from gossamer.faults import Fault, FaultTable, FaultyClock

Written = TypeVar("Written", bound=Value)


class DrillInfo(DrillResult, RunInfo):
    """One run of a drill."""

    model_config = ConfigDict(extra="forbid")

    progress: DrillProgress | None = None
    """While it runs, and where it broke off."""


class DrillsInfo(Value):
    """The drills that can be started here, and those that were."""

    kinds: tuple[DrillKindInfo, ...]
    common: tuple[ParameterInfo, ...]
    here: bool
    """This cluster can be drilled itself: its nodes have a gate (drill.faults)."""
    running: str
    """ID of the one that runs, empty without."""
    items: tuple[DrillInfo, ...]
    """The newest first."""


def drills_router(view: NodeView, *, clock: Clock) -> APIRouter:
    """``/drills``."""
    router = APIRouter(prefix="/drills", tags=["drill"])
    telling = asyncio.Lock()
    """Held from the look whether a drill runs until this one does: a second order must not open the gates."""
    info = partial(_info, view)

    @router.get("")
    async def listed() -> DrillsInfo:
        """The drills that can be ordered, and those that were."""
        runs = await view.drills.all()
        return DrillsInfo(
            kinds=KINDS,
            common=COMMON,
            here=view.faults is not None,
            running=view.drills.running,
            items=tuple([await info(run) for run in runs]),
        )

    @router.post("", status_code=201)
    async def start(order: DrillRequest, request: Request) -> DrillInfo:
        """Start a drill, on a cluster of its own on this node's machine, or of this one; one at a time."""
        principal = principal_of(request)
        if order.on == "this-cluster":
            principal.demand(Role.ADMIN)
        told = order.model_dump(mode="json", exclude_none=True)
        if order.on == "own-cluster":
            plan = msgspec.json.encode(plan_of(order))
            program = Program(arguments=("-m", "gossamer.drill", "{dir}"), files={"plan.json": plan})
            return await info(await view.drills.start(told, by=principal.name, program=program))
        check_here(order)
        names = sorted(node.name for node in view.nodes() if node.status != "left")
        drill = ClusterDrill(
            order, names, peers=Peers(view, principal), now=clock.monotonic, apart=lambda: _apart(view)
        )
        async with telling:
            if view.drills.running:
                raise RunBusyError(what="drills", id=view.drills.running)
            await drill.begin()
            try:
                run = await view.drills.start(told, by=principal.name, program=Program(body=drill.watch))
            except BaseException:
                await drill.end()
                raise
        return await info(run)

    add_run_routes(router, "", view.drills, partial(info, whole=True), DrillInfo)
    return router


async def _info(view: NodeView, run: Run, *, whole: bool = False) -> DrillInfo:
    result = _read(DrillResult, await view.drills.read(run.id, "result.json")) or DrillResult()
    progress = None
    if whole and not result.verdicts:
        progress = _read(DrillProgress, await view.drills.read(run.id, "progress.json"))
    # A drill of this cluster has verdicts and no page: nobody counted messages.
    paged = bool(result.words) and run.order.get("on") != "this-cluster"
    return DrillInfo(
        **dict(run),
        **dict(result),
        node=view.name,
        report=run.state == "elsewhere" or paged,
        progress=progress,
    )


def _apart(view: NodeView) -> str:
    """Return the nodes that are missing, as this node sees it."""
    return ", ".join(
        f"{node.name} {node.status}, link {node.link}"
        for node in view.nodes()
        if node.status != "left" and not (node.status == "online" and node.link in ("self", "up"))
    )


def _read(kind: type[Written], content: bytes | None) -> Written | None:
    """Read what a program wrote, None if it is invalid: it may be of another version."""
    if content is None:
        return None
    try:
        return kind.model_validate_json(content)
    except ValidationError:
        return None


Seconds = Annotated[float, Field(ge=0, le=3600)]


class FaultInfo(Value):
    """A fault between this node and ``peer``: a name, ``host:port``, or ``*`` for all. Seconds."""

    peer: Annotated[str, Field(min_length=1, max_length=255)]
    direction: Literal["out", "in", "both"] = "both"
    cut: bool = False
    loss: Annotated[float, Field(ge=0, le=1)] = 0.0
    delay: Seconds = 0.0
    jitter: Seconds = 0.0


class FaultRequest(Value):
    """All faults that hold from now on; without ``seconds`` until the next request."""

    faults: Annotated[tuple[FaultInfo, ...], Field(max_length=1000)]
    seconds: Annotated[float, Field(gt=0, le=86_400)] | None = None
    begin_in: Annotated[float, Field(ge=0, le=60)] = 0.0
    """Seconds until they begin, so that several nodes can be told before the first cut parts them."""


class ClockRequest(Value):
    """Offset of the node's wall clock in seconds; without ``seconds`` until the next request."""

    offset: Annotated[float, Field(ge=-1e9, le=1e9)]
    seconds: Annotated[float, Field(gt=0, le=86_400)] | None = None


class ClockInfo(Value):
    """The node's wall clock, and how wrong it is on purpose."""

    node: str
    offset: float
    wall: float


class DiscRequest(Value):
    """Seconds that each write of the node to its disc is late; without ``seconds`` until the next request."""

    delay: Annotated[float, Field(ge=0, le=60)]
    seconds: Annotated[float, Field(gt=0, le=86_400)] | None = None


class DiscInfo(Value):
    """How late the node's writes are on purpose."""

    node: str
    delay: float


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

    @router.get("/disc")
    async def disc() -> DiscInfo:
        """By how much the disc of this node is slow on purpose."""
        return DiscInfo(node=view.name, delay=table().disc.offset)

    @router.put("/disc")
    async def slow_disc(order: DiscRequest) -> DiscInfo:
        """Let each write to disc take longer."""
        table().disc.set(order.delay, seconds=order.seconds)
        return await disc()

    return router


def _disabled(node: str) -> UsageError:
    return UsageError(
        f"node {node} takes no faults: drill.faults is false; "
        "set it to true in its configuration and start it again, on nodes that may be broken on purpose"
    )

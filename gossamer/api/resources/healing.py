"""Splits and heals over HTTP: status, history, rehearsal, settings, and what a node tells of them.

Keys and values of quarantined rows are shown shortened, for people; a replay uses the row itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, Protocol

from fastapi import APIRouter

from gossamer.api.alarms import AlarmInfo, AlarmOrder
from gossamer.api.model import Value
from gossamer.api.resources.durations import HealDelay, OptionalSeconds
from gossamer.api.resources.events import ChronicleView, events_router

__all__ = [
    "HealEpisode",
    "HealPlanInfo",
    "HealRows",
    "HealSettings",
    "HealStatusInfo",
    "HealingView",
    "PartitionInfo",
    "QuarantinedRow",
    "healing_router",
]


class PartitionInfo(Value):
    """A pair that is not healed."""

    peer: str
    context: str
    down_at: float
    met_at: float


class HealRows(Value):
    """What a heal did to rows that both sides wrote."""

    restored: int
    """Set back to what the survivors held."""
    merged: int
    """Decided by a merge function."""
    quarantined: int
    left: int
    """Left to the latest write, since the quarantine was full or a merge function failed."""


class HealEpisode(Value):
    """A split that was healed."""

    plan: str
    coordinator: str
    survivors: tuple[str, ...]
    reloaded: tuple[str, ...]
    skipped: tuple[str, ...]
    saw_down: Mapping[str, tuple[str, ...]]
    split_at: float
    healed_at: float
    rows: HealRows
    text: str


class HealPlanInfo(Value):
    """Who would keep running and who would reload."""

    id: str
    split: bool
    """False: all nodes see the same, nothing is to be healed; the rest is empty."""
    leader: str = ""
    coordinator: str = ""
    groups: tuple[tuple[str, ...], ...] = ()
    survivors: tuple[str, ...] = ()
    victims: tuple[str, ...] = ()
    saw_down: Mapping[str, tuple[str, ...]] = {}
    missing: tuple[str, ...] = ()
    """Members that are away."""
    restart: Literal["store", "node"] = "store"


class HealStatusInfo(Value):
    """What this node knows of splits."""

    name: str
    autoheal: float | None
    """Seconds; null: off."""
    autoclean: float | None
    phase: Literal["idle", "waiting", "gating", "collecting", "healing"]
    leader: str
    open: tuple[PartitionInfo, ...]
    plan: HealPlanInfo | None
    """What this node is carrying out or having carried out."""
    down: Mapping[str, float]
    """Members that are down, and for how many seconds."""
    cleaned: Mapping[str, float]
    """Members that this node removed, and when."""
    heals: int
    quarantined: int
    quarantine_dropped: int
    """Rows for which the quarantine had no room."""


class QuarantinedRow(Value):
    """A row that lost when two sides became one."""

    node: str = ""
    """In whose quarantine it is, where it is told for all nodes."""
    id: str
    table: str
    key: str
    value: str
    deleted: bool
    """What lost was a deletion."""
    author: str
    written_at: float
    lost_to: str
    lost_to_at: float
    policy: str
    plan: str
    at: float


class HealSettings(Value):
    """What to change, for all nodes, until the cluster is started anew."""

    autoheal: HealDelay = None
    autoclean: OptionalSeconds = None


class HealingView(Protocol):
    """What may be asked of a node's healing, and ordered."""

    @property
    def name(self) -> str:
        """The node's name."""

    @property
    def chronicle(self) -> ChronicleView:
        """What happened lately."""

    def status(self) -> HealStatusInfo:
        """What this node knows of splits."""

    def history(self) -> Sequence[HealEpisode]:
        """Splits that were healed, latest last."""

    def alarms(self) -> Sequence[AlarmInfo]:
        """Those that last first, then what was healed, latest first."""

    def order_alarm(self, order: AlarmOrder) -> AlarmInfo:
        """Raise or clear an alarm for a program beside the cluster."""

    def quarantine(self) -> Iterable[QuarantinedRow]:
        """The rows of this node's quarantine."""

    async def rehearse(self) -> HealPlanInfo:
        """What would be healed now."""

    async def replay(self, id: str) -> QuarantinedRow:  # noqa: A002
        """Write a row of the quarantine again. Raises UsageError if it is not there."""

    async def configure(self, settings: HealSettings) -> HealStatusInfo:
        """Change what ``settings`` names."""


def healing_router(view: HealingView) -> APIRouter:
    """Below ``/api/v1``."""
    router = APIRouter(tags=["healing"])
    router.include_router(events_router(view))

    @router.get("/autoheal")
    async def status() -> HealStatusInfo:
        """What this node knows of splits, and how it is set."""
        return view.status()

    @router.post("/autoheal")
    async def configure(settings: HealSettings) -> HealStatusInfo:
        """Change autoheal or autoclean, on all nodes and over restarts."""
        return await view.configure(settings)

    @router.get("/autoheal/history")
    async def history() -> tuple[HealEpisode, ...]:
        """Splits that were healed, the latest last."""
        return tuple(view.history())

    @router.get("/autoheal/plan")
    async def plan() -> HealPlanInfo:
        """What would be healed now: every node is asked for its view, nothing is changed."""
        return await view.rehearse()

    return router

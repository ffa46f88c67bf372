"""Splits, heals, quarantined rows and alarms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from gossamer.api.model.base import Flag, Value
from gossamer.api.model.durations import HealDelay, OptionalSeconds

__all__ = [
    "AlarmInfo",
    "AlarmRequest",
    "HealEpisode",
    "HealPlanInfo",
    "HealRows",
    "HealSettings",
    "HealStatusInfo",
    "PartitionInfo",
    "QuarantinedRow",
]


class AlarmInfo(Value):
    """Something an operator has to know."""

    node: str = ""
    """Who says so, where it is told for all nodes."""
    name: str
    active: bool
    since: float
    until: float
    """0 while it lasts."""
    text: str
    plan: str = ""
    saw_down: Mapping[str, tuple[str, ...]] = {}


class AlarmRequest(Value):
    """Raise an alarm, or clear it."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_.-]{0,63}$")
    active: Flag = True
    text: str = Field(default="", max_length=2000)


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

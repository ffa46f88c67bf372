"""Partitions: detection, reports, and heals without dropping a client; removal of members that stay down."""

from gossamer.autoheal.discards import Discards, UnknownTableError, register_merge
from gossamer.autoheal.machine import Healer
from gossamer.autoheal.quarantine import Kept, NotInQuarantineError, Quarantine
from gossamer.autoheal.server import AUTOHEAL, Autoheal
from gossamer.autoheal.splitview import SplitView, build_split_view
from gossamer.autoheal.status import Cleaned, HealStatus, describe
from gossamer.autoheal.storage import Saved, Settings, Storage
from gossamer.autoheal.values import (
    ChangeSetting,
    DownRecord,
    DryRun,
    HealPlan,
    Incident,
    NodeView,
    Partition,
    Reconciled,
    Replay,
    Restart,
    Subscribe,
)

__all__ = [
    "AUTOHEAL",
    "Autoheal",
    "ChangeSetting",
    "Cleaned",
    "Discards",
    "DownRecord",
    "DryRun",
    "HealPlan",
    "HealStatus",
    "Healer",
    "Incident",
    "Kept",
    "NodeView",
    "NotInQuarantineError",
    "Partition",
    "Quarantine",
    "Reconciled",
    "Replay",
    "Restart",
    "Saved",
    "Settings",
    "SplitView",
    "Storage",
    "Subscribe",
    "UnknownTableError",
    "build_split_view",
    "describe",
    "register_merge",
]

"""Partitions: seen, told, healed without dropping a client; and members that stay away, removed."""

from gossamer.autoheal.machine import Healer
from gossamer.autoheal.server import (
    AUTOHEAL,
    Autoheal,
    Cleaned,
    HealStatus,
    Partition,
    SetAutoclean,
    Subscribe,
)
from gossamer.autoheal.splitview import SplitView, build_split_view
from gossamer.autoheal.storage import FileStorage, MemoryStorage, Saved, Storage
from gossamer.autoheal.values import Episode, HealPlan, Inconsistent, Mark, NodeView

__all__ = [
    "AUTOHEAL",
    "Autoheal",
    "Cleaned",
    "Episode",
    "FileStorage",
    "HealPlan",
    "HealStatus",
    "Healer",
    "Inconsistent",
    "Mark",
    "MemoryStorage",
    "NodeView",
    "Partition",
    "Saved",
    "SetAutoclean",
    "SplitView",
    "Storage",
    "Subscribe",
    "build_split_view",
]

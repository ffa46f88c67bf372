"""How a node finds the cluster it belongs to."""

from gossamer.discovery.autocluster import Autocluster
from gossamer.discovery.commands import (
    AlreadyInClusterError,
    ClusterCommands,
    IllegalTargetError,
    NotInClusterError,
    SeedsUnreachableError,
)
from gossamer.discovery.strategy import Discovered, Manual, Static, Strategy, strategy_of

__all__ = [
    "AlreadyInClusterError",
    "Autocluster",
    "ClusterCommands",
    "Discovered",
    "IllegalTargetError",
    "Manual",
    "NotInClusterError",
    "SeedsUnreachableError",
    "Static",
    "Strategy",
    "strategy_of",
]

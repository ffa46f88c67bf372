"""How a node finds the cluster it belongs to."""

from gossamer.discovery.autocluster import Autocluster
from gossamer.discovery.choose import discovery_spec, strategy_of
from gossamer.discovery.commands import (
    Aloof,
    AloofFileError,
    AlreadyInClusterError,
    ClusterCommands,
    IllegalTargetError,
    NotInClusterError,
    SeedsUnreachableError,
    SingletonError,
)
from gossamer.discovery.dns import Answer, Dns, Lookup
from gossamer.discovery.hosts import Static
from gossamer.discovery.k8s import K8s
from gossamer.discovery.strategy import (
    Discovered,
    DiscoveryFailedError,
    Manual,
    MissingExtraError,
    Singleton,
    Strategy,
)

__all__ = [
    "Aloof",
    "AloofFileError",
    "AlreadyInClusterError",
    "Answer",
    "Autocluster",
    "ClusterCommands",
    "Discovered",
    "DiscoveryFailedError",
    "Dns",
    "IllegalTargetError",
    "K8s",
    "Lookup",
    "Manual",
    "MissingExtraError",
    "NotInClusterError",
    "SeedsUnreachableError",
    "Singleton",
    "SingletonError",
    "Static",
    "Strategy",
    "discovery_spec",
    "strategy_of",
]

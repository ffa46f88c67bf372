"""Strategies by which a node finds its cluster."""

from gossamer.discovery.autocluster import Autocluster
from gossamer.discovery.choose import discovery_spec, strategy_of
from gossamer.discovery.commands import ClusterCommands, Standalone
from gossamer.discovery.dns import Dns, DnsAnswer
from gossamer.discovery.k8s import K8s
from gossamer.discovery.plan import JoinProgress, advice
from gossamer.discovery.strategy import (
    Discovered,
    DiscoveryFailedError,
    Manual,
    Singleton,
    Static,
    Strategy,
)

__all__ = [
    "Autocluster",
    "ClusterCommands",
    "Discovered",
    "DiscoveryFailedError",
    "Dns",
    "DnsAnswer",
    "JoinProgress",
    "K8s",
    "Manual",
    "Singleton",
    "Standalone",
    "Static",
    "Strategy",
    "advice",
    "discovery_spec",
    "strategy_of",
]

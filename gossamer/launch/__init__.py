"""Nodes of one cluster on this machine: plan, ports, directory, processes, readiness.

What ``gossamer up`` and the drills share.
"""

from gossamer.launch.child import STOP_LIMIT, NodeProcess, describe_end, node_environment
from gossamer.launch.plan import (
    MAX_NODES,
    SERVICES,
    WEBSOCKET,
    BadPortsError,
    ClusterPlan,
    NodePlan,
    PortSpec,
    make_plan,
    node_tree,
)
from gossamer.launch.ports import PortsTakenError, chooser, taken_ports
from gossamer.launch.readiness import NotReadyError, missing_of, wait_until_ready
from gossamer.launch.workspace import BadDirectoryError, DirectoryTakenError, Workspace, cluster_facts

__all__ = [
    "MAX_NODES",
    "SERVICES",
    "STOP_LIMIT",
    "WEBSOCKET",
    "BadDirectoryError",
    "BadPortsError",
    "ClusterPlan",
    "DirectoryTakenError",
    "NodePlan",
    "NodeProcess",
    "NotReadyError",
    "PortSpec",
    "PortsTakenError",
    "Workspace",
    "chooser",
    "cluster_facts",
    "describe_end",
    "make_plan",
    "missing_of",
    "node_environment",
    "node_tree",
    "taken_ports",
    "wait_until_ready",
]

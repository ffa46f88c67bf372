"""Nodes of one cluster on this machine: plan, ports, directory, processes, readiness.

What ``gossamer up`` and the drills share.

Names are imported when they are first used, so that the command can tell its options without loading what
starts processes and asks nodes.
"""

from typing import TYPE_CHECKING

from gossamer.lazy import lazy

if TYPE_CHECKING:
    from gossamer.launch.child import (
        STOP_LIMIT,
        NodeProcess,
        NotReadyError,
        describe_end,
        missing_of,
        node_environment,
        wait_until_ready,
    )
    from gossamer.launch.plan import (
        MAX_NODES,
        SERVICES,
        WEBSOCKET,
        BadPortsError,
        ClusterPlan,
        NodePlan,
        PortSpec,
        PortsTakenError,
        chooser,
        make_plan,
        node_tree,
        plan_with_websockets,
        taken_ports,
    )
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
    "plan_with_websockets",
    "taken_ports",
    "wait_until_ready",
]

__getattr__, __dir__ = lazy(__name__)

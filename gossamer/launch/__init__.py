"""Nodes of one cluster on this machine: plan, ports, directory, processes, readiness.

Shared by ``gossamer up`` and the drills.

Names are imported on first use, so that the command can list its options without loading the code that
starts processes and queries nodes.
"""

from typing import TYPE_CHECKING

from gossamer.lazy import lazy

if TYPE_CHECKING:
    from gossamer.launch.child import (
        STOP_LIMIT,
        NodeEndedError,
        NodeProcess,
        describe_end,
        node_environment,
        wait_until_ready,
    )
    from gossamer.launch.plan import (
        MAX_NODES,
        MQTT_TLS,
        SERVICES,
        WEBSOCKET,
        WEBSOCKET_TLS,
        ClusterPlan,
        NodePlan,
        PortSpec,
        check_ports,
        chooser,
        make_plan,
        plan_with_websockets,
    )
    from gossamer.launch.workspace import Workspace, cluster_facts, logging_to

__all__ = [
    "MAX_NODES",
    "MQTT_TLS",
    "SERVICES",
    "STOP_LIMIT",
    "WEBSOCKET",
    "WEBSOCKET_TLS",
    "ClusterPlan",
    "NodeEndedError",
    "NodePlan",
    "NodeProcess",
    "PortSpec",
    "Workspace",
    "check_ports",
    "chooser",
    "cluster_facts",
    "describe_end",
    "logging_to",
    "make_plan",
    "node_environment",
    "plan_with_websockets",
    "wait_until_ready",
]

__getattr__, __dir__ = lazy(__name__)

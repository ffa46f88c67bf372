"""Starting a whole cluster on this machine: plan, ports, directory, children, readiness."""

from gossamer.cli.launch.launcher import Launcher
from gossamer.cli.launch.plan import SERVICES, ClusterPlan, NodePlan, PortSpec, make_plan
from gossamer.cli.launch.ports import PortsTakenError, chooser, taken_ports
from gossamer.cli.launch.workspace import Workspace

__all__ = [
    "SERVICES",
    "ClusterPlan",
    "Launcher",
    "NodePlan",
    "PortSpec",
    "PortsTakenError",
    "Workspace",
    "chooser",
    "make_plan",
    "taken_ports",
]

"""Supervision: what a supervisor is told, what it decides, and the servers that carry it out."""

from gossamer.supervisor.supervise.application import Application, Applications
from gossamer.supervisor.supervise.backoff import Backoff
from gossamer.supervisor.supervise.dynamic import DynamicSupervisor
from gossamer.supervisor.supervise.spec import ChildCounts, ChildInfo, ChildSpec
from gossamer.supervisor.supervise.supervisor import Supervisor

__all__ = [
    "Application",
    "Applications",
    "Backoff",
    "ChildCounts",
    "ChildInfo",
    "ChildSpec",
    "DynamicSupervisor",
    "Supervisor",
]

"""What operators see of a node's replicas. It belongs to the node, and outlives the server that fills it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class ReplicaStatus:
    """One replica at this node."""

    term: int = 0
    committed: int = 0
    applied: int = 0
    leads: bool = False
    leaderless_since: float | None = None
    """When the group was first seen without a leader, by the loop's clock; None: it has one."""


@dataclass(slots=True)
class RaftStatus:
    """The replicas at this node by the kind of their group, as of the last second."""

    replicas: dict[str, ReplicaStatus] = field(default_factory=dict)
    disc_full: bool = False

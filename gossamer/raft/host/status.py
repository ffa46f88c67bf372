"""What operators see of a node's replicas. It belongs to the node, and outlives the server that fills it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class RaftStatus:
    """The replica of the cluster's group at this node, as of the last second; zero where it has none."""

    term: int = 0
    committed: int = 0
    applied: int = 0
    leads: bool = False
    leaderless_since: float | None = None
    """When the group was first seen without a leader, by the loop's clock; None: it has one."""
    disc_full: bool = False

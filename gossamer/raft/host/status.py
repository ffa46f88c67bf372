"""What operators see of a node's replicas. It belongs to the node, and outlives the server that fills it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gossamer.raft.host.replicated import StateMachine
from gossamer.raft.host.syncs import SyncTimes

if TYPE_CHECKING:
    from gossamer.raft.host.group import Group


@dataclass(slots=True)
class ReplicaStatus:
    """One replica at this node."""

    term: int = 0
    committed: int = 0
    applied: int = 0
    last: int = 0
    """Index of the last entry of its log."""
    elections: int = 0
    """Elections that it has begun."""
    snapshot_bytes: int = 0
    """Of the latest snapshot."""
    behind: dict[str, int] = field(default_factory=dict)
    """At a leader, entries that each other member's disc is not known to have, by its node."""
    leads: bool = False
    leaderless_since: float | None = None
    """When the group was first seen without a leader, by the loop's clock; None: it has one."""

    machine: StateMachine | None = None
    """State machine of the replica, to be looked at."""


@dataclass(slots=True)
class RaftStatus:
    """The replicas at this node by the kind of their group, as of the last second."""

    replicas: dict[str, ReplicaStatus] = field(default_factory=dict)
    leading: frozenset[str] = frozenset()
    """Kinds of the groups that this node leads, as of its last turn."""
    leader_of: Callable[[str], str] = lambda kind: ""
    """Node that leads the group of a kind, as far as this node knows; blank: it does not."""
    disc_full: bool = False
    syncs: SyncTimes = field(default_factory=SyncTimes)


def status_of(group: Group) -> dict[str, Any]:
    """Return what a node says of one of its replicas."""
    replica = group.replica
    membership, progress = replica.membership, replica.progress()
    return {
        "group": f"{group.number:x}",
        "kind": group.state.kind,
        "role": replica.role.value,
        "term": replica.term,
        "leader": group.leader,
        "committed": replica.log.committed,
        "applied": replica.log.applied,
        "joint": membership.joint,
        "members": [
            {
                "node": group.node_of(member),
                "replica": member,
                "voter": membership.votes(member),
                "match": progress[member][0] if member in progress else None,
                "flow": progress[member][1].value if member in progress else "",
            }
            for member in membership.members
        ],
    }

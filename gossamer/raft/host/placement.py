"""Placement of a group's replicas: pure, asked by its leader about once a second.

Three voters where three or more nodes could have one, else one voter and, where there is a second node, a
learner: two voters would stop when either dies. A replica whose node has left the cluster, or has lost it, is
replaced; one whose node is down is not, since it is expected back.

Leaders are spread: each group prefers one of its voters' nodes, by a hash of both, so that groups whose
voters are the same nodes are led by different ones.

Rule: voters change from one set that may lose a member to the next, in one step. So one that is to be
replaced goes when the learner in its place has the log, and the second and the third voter come together.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from gossamer.raft.values import Membership

COPIES = 3
ALMOST = 256
"""Entries that a learner may lack when it becomes a voter."""


@dataclass(frozen=True, slots=True)
class Admit:
    """Make a replica at a node."""

    node: str


@dataclass(frozen=True, slots=True)
class Change:
    """Change the members."""

    voters: tuple[int, ...]
    learners: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class View:
    """What a leader knows: ``own`` is its replica, ``nodes`` has the node of each, ``members`` are the
    cluster's, ``able`` those of them that are up and could have a replica. ``lost`` replicas are gone from
    their disc. ``lag`` has the entries that each member lacks, if it is being sent entries.
    """

    own: int
    membership: Membership
    nodes: Mapping[int, str]
    members: Collection[str]
    able: Collection[str]
    lost: Collection[int]
    lag: Mapping[int, int]


def next_step(view: View) -> Admit | Change | None:
    """Return the next step towards the replicas that should be; None: it is well as it is."""
    membership = view.membership
    if membership.joint:
        return None

    def lives(replica: int) -> bool:
        return replica not in view.lost and view.nodes.get(replica) in view.members

    voters = [one for one in membership.voters if lives(one)]
    learners = [one for one in membership.learners if lives(one)]
    if not voters:
        return None
    if len(learners) < len(membership.learners):
        return Change(membership.voters, tuple(learners))
    homes = {view.nodes[one] for one in (*voters, *learners)}
    able = set(view.able) & set(view.members)
    places = len(homes | able)
    wanted = COPIES if places >= COPIES else 1
    ready = [one for one in learners if view.lag.get(one, ALMOST + 1) <= ALMOST][: wanted - len(voters)]
    if len(voters) > wanted:
        kept = view.own if view.own in voters else voters[0]
        return _change([kept], [*voters, *learners])
    if len(voters) + len(ready) == wanted and (ready or len(voters) < len(membership.voters)):
        return _change([*voters, *ready], learners)
    free = sorted(able - homes)
    if len(voters) + len(learners) < min(places, COPIES) and free:
        return Admit(free[0])
    return None


def preferred_leader(group: int, view: View) -> int:
    """Return the voter that should lead: one that is up and has the log; ``view.own`` where there is no
    other."""

    def weight(replica: int) -> bytes:
        return hashlib.blake2b(f"{group:x} {view.nodes[replica]}".encode(), digest_size=8).digest()

    ready = [
        one
        for one in view.membership.voters
        if view.nodes.get(one) in view.able and view.lag.get(one, ALMOST + 1) <= ALMOST
    ]
    return max({*ready, view.own} & view.nodes.keys(), key=weight, default=view.own)


def _change(voters: list[int], members: list[int]) -> Change:
    return Change(tuple(sorted(voters)), tuple(sorted(set(members) - set(voters))))

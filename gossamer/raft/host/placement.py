"""Placement of a group's replicas: pure, asked by its leader about once a second.

As many voters as are wanted, three say, where so many nodes could have one, else the odd number below; with
two nodes one voter and a learner: two voters would stop when either dies. A replica whose node has left the
cluster, or has lost it, is replaced; one whose node is down is not, since it is expected back.

Voters stand in different racks where there are so many, and move to where they do. Groups are spread: of
nodes that are as good each takes those that a hash of group and node puts first (rendezvous hashing), and
prefers to be led by the first of these.

Rule: voters change from one set that may lose a member to the next, in one step. So one that is to be
replaced goes when the learner in its place has the log, and the second and the third voter come together,
as do the fourth and the fifth.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from gossamer.raft.values import Membership

COPIES = 3
"""Voters of a group for which no other number is wanted."""
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
    """What the leader of a group knows: ``own`` is its replica, ``nodes`` has the node of each, ``members``
    are the cluster's with their racks (blank: it shares its rack with nobody), ``able`` those of them that
    are up and could have a replica. ``lost`` replicas are gone from their disc. ``lag`` has the entries that
    each member lacks, if it is being sent entries. ``copies`` is how many voters there should be, an odd
    number.
    """

    group: int
    own: int
    membership: Membership
    nodes: Mapping[int, str]
    members: Mapping[str, str]
    able: Collection[str]
    lost: Collection[int]
    lag: Mapping[int, int]
    copies: int = COPIES

    def rack(self, node: str) -> str:
        """Return the rack of a node; it is its own where it has none."""
        return self.members.get(node) or node

    def is_ready(self, replica: int) -> bool:
        """Return whether a replica has the log, but for a little."""
        return self.lag.get(replica, ALMOST + 1) <= ALMOST

    def rank(self, node: str) -> bytes:
        """Return the place of a node among those that could have a replica; the highest comes first."""
        return hashlib.blake2b(f"{self.group:x} {node}".encode(), digest_size=8).digest()


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
    free = set(view.able) & view.members.keys() - homes
    most = min(len(homes | free), view.copies)
    wanted = most - 1 + most % 2
    ready = [one for one in learners if view.is_ready(one)][: wanted - len(voters)]
    if len(voters) > wanted:
        kept = sorted(voters, key=lambda one: one != view.own)[:wanted]
        return _change(kept, [*voters, *learners])
    if len(voters) + len(ready) == wanted and (ready or len(voters) < len(membership.voters)):
        return _change([*voters, *ready], learners)
    if len(voters) + len(learners) < (wanted if wanted > 1 else most) and free:
        taken = {view.rack(node) for node in homes}
        return Admit(max(free, key=lambda node: (view.rack(node) not in taken, view.rank(node))))
    return _spread(view, free) if 1 < wanted == len(voters) == len(membership.voters) else None


def _spread(view: View, free: Collection[str]) -> Admit | Change | None:
    """Return the next step towards voters in different racks, of a group that has all of them."""
    membership, nodes = view.membership, view.nodes
    voters = membership.voters
    racks = Counter(view.rack(nodes[one]) for one in voters)
    crowded = [one for one in voters if one != view.own and racks[view.rack(nodes[one])] > 1]
    better = [one for one in membership.learners if crowded and view.rack(nodes[one]) not in racks]
    if len(better) < len(membership.learners):
        return Change(voters, tuple(better))
    if better:
        leaves = min(crowded, key=lambda one: (nodes[one] in view.able, view.rank(nodes[one])))
        staying = [one for one in voters if one != leaves]
        return _change([*staying, better[0]], better) if view.is_ready(better[0]) else None
    elsewhere = [node for node in free if crowded and view.rack(node) not in racks]
    return Admit(max(elsewhere, key=view.rank)) if elsewhere else None


def preferred_leader(view: View) -> int:
    """Return the voter that should lead: one that is up and has the log; ``view.own`` where there is no
    other."""
    ready = [one for one in view.membership.voters if view.nodes.get(one) in view.able and view.is_ready(one)]
    known = {*ready, view.own} & view.nodes.keys()
    return max(known, key=lambda one: view.rank(view.nodes[one]), default=view.own)


def _change(voters: list[int], members: list[int]) -> Change:
    return Change(tuple(sorted(voters)), tuple(sorted(set(members) - set(voters))))

"""What a node does about its groups once a second: founds them, leads those that it leads, drops others.

A cluster has one group of each kind. It is founded once, by the node of the least name among those that
could have a replica, when the cluster has been quiet for :data:`FOUND_AFTER` seconds and its register of
groups, a table that every node has, shows none. Where two halves found one each, the register shows both when
they meet, and the one with fewer voters, then the younger, is dropped.

A group that lost its quorum for good is given up by hand (:meth:`Upkeep.recover`): its row has no voters
then, and nobody has it any more. So it is with one that its machine has released, whose kind may be founded
again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf
from random import Random
from typing import Any, NamedTuple, Protocol

import structlog

from gossamer.raft.errors import NotReadyError
from gossamer.raft.host.group import Group
from gossamer.raft.host.messages import RAFT, Create, Removed
from gossamer.raft.host.placement import COPIES, Admit, Change, View, next_step, preferred_leader
from gossamer.raft.host.replicas import Replicas
from gossamer.raft.host.replicated import FOUNDER, NAMES, admission, founding, standing
from gossamer.raft.progress import Flow
from gossamer.raft.values import Membership
from gossamer.supervisor import cast

log = structlog.get_logger(__name__)

FOUND_AFTER = 5.0
HAND_OVER_AFTER = 10.0
"""Seconds for which a leader leads before it hands over to the one that should, and between two attempts."""
RELEASED = -1
WANTED = 3.0
"""Seconds for which somebody who asked for a group is expected to wait for it."""
SETTLE = 30.0
"""Seconds in which a leader takes no node for gone: one that has just started may not know all members."""


class GroupRow(NamedTuple):
    """A group in the register: the time of day at which it was founded, and its voters; 0: given up;
    :data:`RELEASED`: nobody wanted it any more. ``detail`` is what its user has every node know of it."""

    founded: float
    voters: int
    kind: str = NAMES
    detail: Sequence[Any] = ()


class Register(Protocol):
    """The groups of the cluster, as every node knows them."""

    def groups(self) -> Mapping[int, GroupRow]:
        """Return all that were ever entered."""

    def enter(self, group: int, row: GroupRow) -> None:
        """Say what a group has."""


def current(register: Register, kind: str) -> int:
    """Return the cluster's group of a kind; 0: it has none."""
    rows = {number: row for number, row in register.groups().items() if row.voters > 0 and row.kind == kind}
    return max(rows, key=lambda number: (rows[number].voters, -rows[number].founded, number), default=0)


def kinds_in(register: Register) -> set[str]:
    """Return the kinds of which the cluster has, or had and lost, a group."""
    latest: dict[str, GroupRow] = {}
    for row in register.groups().values():
        latest[row.kind] = max(row, latest.get(row.kind, row))
    return {kind for kind, row in latest.items() if row.voters != RELEASED}


class Upkeep:
    """``members()`` are the nodes of the cluster that may have replicas, up or not, with their racks;
    ``kinds()`` the groups that it should have, and how many voters each."""

    def __init__(
        self,
        node: str,
        replicas: Replicas,
        *,
        register: Register,
        members: Callable[[], dict[str, str]],
        kinds: Callable[[], Mapping[str, int]],
        wall: Callable[[], float],
        rng: Random,
        tell: Callable[[str, Create | Removed], object] = lambda node, what: cast((RAFT, node), what),
    ) -> None:
        self._tell = tell
        self._node = node
        self._replicas = replicas
        self._register = register
        self._members = members
        self._kinds = kinds
        self._wall = wall
        self._rng = rng
        self.able: set[str] = set()
        """Other nodes that are up and can have replicas."""
        self.lost: set[tuple[int, int]] = set()
        """Groups and replicas that their nodes do not have."""
        self.leading: dict[int, float] = {}
        """Since when this node leads a group."""
        self._handed_over: dict[int, float] = {}
        """When this node last tried to hand a group over."""
        self._wanted: dict[str, float] = {}
        """Kinds of which somebody has asked for a group, each until then, or until it is there."""
        self._founded: set[int] = set()
        """Groups that this process founded."""
        self._told: dict[tuple[int, int], str] = {}
        """Groups and replicas that are no members of them any more, with the nodes that know."""

    def want(self, kind: str, now: float) -> None:
        """Note that there should be a group of a kind; who asks asks again until there is."""
        self._wanted[kind] = now + WANTED

    async def look(self, now: float, quiet_since: float) -> None:
        """Do what is due; nodes came and went last at ``quiet_since``."""
        groups = self._register.groups()
        for group in list(self._replicas.groups.values()):
            self._look_at(group, groups, now)
        await self._replicas.forget()
        known = kinds_in(self._register) | {group.state.kind for group in self._replicas.groups.values()}
        self._wanted = {kind: end for kind, end in self._wanted.items() if now < end and kind not in known}
        stores = self._members()
        first = self._node in stores and all(self._node < node for node in self.able & stores.keys())
        if now - quiet_since >= FOUND_AFTER and first:
            for kind in (*self._kinds(), *self._wanted):
                if kind not in known:
                    await self._found(kind)

    def _look_at(self, group: Group, groups: Mapping[int, GroupRow], now: float) -> None:
        row = groups.get(group.number)
        if row is not None and group.leads and group.state.machine.released:
            row = row._replace(voters=RELEASED)
            self._register.enter(group.number, row)
        if row is not None and row.voters <= 0:
            given_up = "it was given up: another one was recovered in its place, or has its keys"
            why = "nobody wants it any more" if row.voters == RELEASED else given_up
            self._replicas.drop(group, why, wanted=row.voters != RELEASED)
            return
        # Not before the log has its kind: who reads the register takes requests to it.
        if group.leads and group.state.nodes:
            self.enter(group)
        theirs = current(self._register, group.state.kind if row is None else row.kind)
        if theirs not in (0, group.number):
            self._replicas.drop(group, f"the cluster has another group, {theirs:x}")
        elif group.leads and group.number in self.leading:
            self._lead(group, now - self.leading[group.number])

    async def _found(self, kind: str, *, index: int = 0, state: bytes = b"") -> Group | None:
        number = self._rng.getrandbits(62) | 1
        membership = Membership((FOUNDER,))
        group = await self._replicas.begin(number, FOUNDER, membership, kind=kind, index=index, state=state)
        if group is not None:
            self._founded.add(number)
            log.info("raft_group_founded", group=f"{number:x}", kind=kind)
            group.replica.campaign()
        return group

    async def recover(self, kind: str) -> str:
        """Abandon the group of a kind, and found one with what this node has of it; return why not, if so.

        The caller knows that no leader can be reached. What was committed without this node is lost, and
        nothing else: entries go on above every earlier index, by the time of day, so that fences still rise.
        """
        lost = current(self._register, kind)
        group = self._replicas.groups.get(lost)
        had = 0 if group is None else group.replica.log.last
        index = max(int(self._wall() * 1000), had + 1)
        state = b"" if group is None else group.state.machine.snapshot()
        made = await self._found(kind, index=index, state=state)
        if made is None:
            return "the disc is full; make room"
        log.error("raft_recovered", lost=f"{lost:x}", group=f"{made.number:x}", had=had)
        if lost:
            self._register.enter(lost, self._register.groups()[lost]._replace(voters=0))
        self.enter(made)
        if group is not None:
            self._replicas.drop(group, "it was given up here")
        return ""

    def give_up(self, kind: str) -> bool:
        """Have no group of a kind any more, in the whole cluster; False: this node does not lead it."""
        number = current(self._register, kind)
        group = self._replicas.groups.get(number)
        if group is None or not group.leads:
            return False
        self._register.enter(number, self._register.groups()[number]._replace(voters=0))
        return True

    def enter(self, group: Group) -> None:
        """Have every node know a group that this one leads."""
        known = self._register.groups().get(group.number)
        voters = len(group.replica.membership.voters)
        if known is None:
            self._register.enter(group.number, GroupRow(self._wall(), voters, group.state.kind))
        elif known.voters != voters:
            self._register.enter(group.number, known._replace(voters=voters))

    def _lead(self, group: Group, seconds: float) -> None:
        """Take the next step towards the members that should be, and do what time has made due."""
        replica = group.replica
        committed = replica.log.committed
        if replica.log.term(committed) != replica.term or replica.log.applied < committed:
            return
        row = self._register.groups().get(group.number)
        known = row is not None or replica.log.snapshot.index > 0 or group.number in self._founded
        if not group.state.nodes and not known:
            # The process ended before anything was committed, its kind with it: another is founded.
            self._replicas.drop(group, "its founding was broken off")
            return
        try:
            if not group.state.nodes:
                kind = row.kind if row is not None else group.state.kind
                group.admit(founding(self._node, kind), _ignore)
            elif not group.state.offspring:
                self._place(group, seconds)
            # Until they stand they need the voters that there are.
            known_groups = self._register.groups()
            for offspring in group.state.offspring:
                if offspring.group in known_groups:
                    group.admit(standing(offspring.group), _ignore)
            for request in group.state.machine.upkeep(seconds, group.in_sync()):
                group.request(request, _ignore)
        except NotReadyError as error:
            log.debug("raft_upkeep_waits", group=f"{group.number:x}", error=str(error))

    def _place(self, group: Group, seconds: float) -> None:
        replica, members = group.replica, self._members()
        lost = {replica for number, replica in self.lost if number == group.number}
        if seconds < SETTLE:
            # Whose node has yet to apply the entry with which the group began.
            lost = {one for one in lost if one > group.state.began}
        if seconds < SETTLE:
            members = dict.fromkeys(group.state.nodes.values(), "") | members
        last, progress = replica.log.last, replica.progress()
        view = View(
            group=group.number,
            own=replica.id,
            membership=replica.membership,
            nodes=group.state.nodes,
            members=members,
            able={*self.able, self._node},
            lost=lost,
            lag={m: last - match for m, (match, flow) in progress.items() if flow is Flow.REPLICATE},
            copies=self._kinds().get(group.state.kind, COPIES),
        )
        step = next_step(view)
        if isinstance(step, Change):
            replica.change_membership(step.voters, step.learners)
        elif isinstance(step, Admit):
            node = step.node
            group.admit(admission(node), lambda number: self._admitted(group, node, number))
        else:
            self._remove(group)
            # A new leader of names gives none away for a lease.
            if seconds >= HAND_OVER_AFTER and group.state.kind != NAMES:
                self._hand_over(group, preferred_leader(view), self.leading[group.number] + seconds)

    def _remove(self, group: Group) -> None:
        """Have nodes drop replicas that were members, once it is agreed that they are none any more."""
        log = group.replica.log
        members = {*group.replica.membership.members, *log.membership_at(log.committed).members}
        self._told = {pair: node for pair, node in self._told.items() if node in self.able}
        for replica, node in group.state.nodes.items():
            pair = group.number, replica
            if replica not in members and node in self.able and pair not in self._told:
                self._told[pair] = node
                self._tell(node, Removed(*pair))

    def removed(self, number: int, replica: int) -> None:
        """Drop a replica that is no member of its group any more."""
        group = self._replicas.groups.get(number)
        if group is not None and group.replica.id == replica:
            self._replicas.drop(group, "others are the members of its group now", wanted=False)

    def _hand_over(self, group: Group, to: int, now: float) -> None:
        if to != group.replica.id and now >= self._handed_over.get(group.number, -inf) + HAND_OVER_AFTER:
            self._handed_over[group.number] = now
            group.replica.transfer(to)

    def _admitted(self, group: Group, node: str, number: object) -> None:
        if not isinstance(number, int):
            return
        self._tell(node, Create(group.number, number))
        membership = group.replica.membership
        try:
            group.replica.change_membership(membership.voters, (*membership.learners, number))
        except NotReadyError as error:
            # Another number is given the next time.
            log.debug("raft_upkeep_waits", group=f"{group.number:x}", error=str(error))


def _ignore(_value: object) -> None:
    pass

"""World of one seed: the nodes of a group, clients, an operator who replaces damaged copies, and faults."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any

from gossamer.raft import (
    BadMembershipError,
    Membership,
    Message,
    NotReadyError,
    Role,
    Settings,
    decode,
    encode,
)
from gossamer.testing.campaign import World
from gossamer.testing.links import LinkQuality
from gossamer.testing.network import SimNetwork
from gossamer.testing.raft.clients import Client
from gossamer.testing.raft.invariants import Invariants
from gossamer.testing.raft.linearizability import Operation, violation
from gossamer.testing.raft.node import SimNode

HEALTHY = LinkQuality(latency=0.002, jitter=0.002)
CLIENTS = 4
DOWN = (0.05, 2.0)
SETTLE = 60.0
"""Seconds within which a group without faults is one again."""


class RaftWorld(World):
    """A group whose first ``voters`` nodes decide; the others stand by."""

    def __init__(self, sim: SimNetwork, *, voters: int = 3, spare: int = 0) -> None:
        super().__init__(sim, sim.rng("raft"))
        sim.weather(HEALTHY)
        self.invariants = Invariants()
        self.history: list[Operation] = []
        self.snapshot_every = self.rng.choice((6, 25, 10_000))
        self.snapshot_keep = self.rng.choice((0, 4))
        self.settings = Settings(
            max_append_bytes=self.rng.choice((1, 150, 2000)),
            max_inflight=self.rng.choice((1, 4, 64)),
            max_unstable_bytes=20_000,
            max_apply_bytes=self.rng.choice((1, 800)),
            idle_heartbeat_ticks=sim.rng("idle").choice((1, 5)),
        )
        self._commits = sim.rng("commits")
        self._mean_commit = self.rng.choice((0.0005, 0.004, 0.03))
        self._next_copy = voters + spare + 1
        self._tasks: set[asyncio.Task[None]] = set()
        self._at_work: list[asyncio.Task[None]] = []
        self.ambush = 0.0
        self.down = DOWN
        """Least and most seconds that a node is down."""
        self.replacing = 0
        """Number of copies that are being replaced."""
        first = Membership(tuple(range(1, voters + 1)))
        self.nodes = [
            SimNode(self, number, number, first if number <= voters else Membership())
            for number in range(1, voters + spare + 1)
        ]
        stale = sim.rng("stale reads").choice((False, True))
        self.clients = [
            Client(number, sim.rng(f"client{number}"), lambda: self.nodes, self.history, stale_reads=stale)
            for number in range(1, CLIENTS + 1)
        ]

    async def begin(self) -> None:
        self.sim.loop.set_exception_handler(self._failed)
        for node in self.nodes:
            node.start()
        self._at_work = [self._spawn(client.run()) for client in self.clients]

    def _spawn(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _failed(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.invariants.problems.append(f"{context['message']}: {context.get('exception')!r}")

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.invariants.problems.append(f"{type(error).__name__}: {error}")

    async def end(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def commit_delay(self) -> float:
        """Draw the seconds that a sync takes."""
        return min(self._commits.expovariate(1 / self._mean_commit), 0.3)

    # -- the network

    def carry(self, source: SimNode, message: Message) -> None:
        """Carry a message to whichever node has the replica that it is for."""
        data = encode(message)
        target = next((node for node in self.nodes if node.copy == message.to), None)
        if target is None:
            return
        now = self.sim.loop.time()
        self.sim.note(type(message).__name__, source.address, target.address, len(data))
        for delay in self.sim.links.datagram(source.address, target.address, len(data), now):
            self.sim.loop.call_later(delay, self._arrive, source, target, data)

    def _arrive(self, source: SimNode, target: SimNode, data: bytes) -> None:
        if not self.sim.links.is_cut(source.address, target.address):
            target.receive(decode(data))

    # -- who is there

    def running(self) -> list[SimNode]:
        """Return the nodes that are up."""
        return [node for node in self.nodes if node.replica is not None]

    def leader(self) -> SimNode | None:
        """Return the node that leads the highest term."""
        leaders = [
            (node.replica.term, node.number, node)
            for node in self.nodes
            if node.replica is not None and node.replica.role is Role.LEADER
        ]
        return max(leaders)[2] if leaders else None

    # -- faults

    def went_down(self, node: SimNode) -> None:
        """Start a node again after a while, on a new disc if its own is damaged."""
        if node.damaged:
            self.replacing += 1
            self._spawn(self._replace(node))
        else:
            self.sim.loop.call_later(self.rng.uniform(*self.down), self._start, node)

    def _start(self, node: SimNode) -> None:
        if node.replica is None and not node.damaged:
            self.note("start", node.number)
            node.start()

    def elected(self, node: SimNode) -> None:
        """Cut a new leader off before it has sent anything, and end it soon, by the chance of ``ambush``."""
        if self.rng.random() < self.ambush:
            others = [other.address for other in self.nodes if other is not node]
            spared = self.rng.choice((0, 0, 1, 2, 2))
            for other in self.rng.sample(others, len(others) - spared):
                self.sim.cut(node.address, other)
            self.note("ambush", node.number, "with", spared)
            self.sim.loop.call_later(self.rng.uniform(0.01, 0.15), self._ambushed, node)

    def _ambushed(self, node: SimNode) -> None:
        if node.replica is not None:
            node.crash("ambushed")
        self.heal()

    def crash(self, node: SimNode) -> None:
        """End a node now, or within one of its next writes."""
        if node.replica is None:
            return
        if self.rng.random() < 0.7:
            node.disc.crash_in = self.rng.randrange(25)
            self.note("crash", node.number, "in", node.disc.crash_in, "operations")
        else:
            node.crash("killed")

    def cut(self, *, one_way: bool = False) -> None:
        """Cut a random part of the nodes off."""
        names = [node.address for node in self.nodes]
        self.rng.shuffle(names)
        place = self.rng.randrange(1, len(names))
        some, others = names[:place], names[place:]
        self.note("cut", "one way" if one_way else "", *some, "|", *others)
        if one_way:
            for one in some:
                for other in others:
                    self.sim.cut(one, other, one_way=True)
        else:
            self.sim.partition(some, others)

    def heal(self) -> None:
        """Mend every cut."""
        self.note("heal")
        self.sim.heal()

    def may_damage(self) -> bool:
        """Return whether a disc may be damaged and a quorum remains, whatever is under way."""
        leader = self.leader()
        if leader is None or leader.replica is None or self.at_risk:
            return False
        replica, running = leader.replica, {node.copy for node in self.running()}
        stable = not replica.membership.joint and replica.log.membership_index <= replica.log.committed
        newest = all(node.replica.term <= replica.term for node in self.nodes if node.replica is not None)
        voters = set(replica.membership.voters)
        return stable and newest and len(voters) >= 3 and voters <= running

    @property
    def at_risk(self) -> bool:
        """True while a disc is damaged, perhaps unseen, or its copy is being replaced."""
        return bool(self.replacing) or any(node.suspect for node in self.nodes)

    # -- the operator

    async def change(self, voters: Sequence[int], learners: Sequence[int]) -> None:
        """Ask the leader, if there is one, for other members."""
        leader = self.leader()
        if leader is None or leader.replica is None:
            return
        try:
            leader.replica.change_membership(voters, learners)
        except (NotReadyError, BadMembershipError):
            return
        self.note("members", sorted(voters), "learners", sorted(learners))
        leader.kick()

    async def _replace(self, node: SimNode) -> None:
        """Give a node a new disc and a new number, and the group the new replica for the old one."""
        old, new = node.copy, self._next_copy
        self._next_copy += 1
        await self.pause(*DOWN)
        node.renew(new)
        while not await self._replaced(old, new):
            await self.pause(0.1, 0.3)
        self.replacing -= 1
        self.note("replaced", old, "by", new)

    async def _replaced(self, old: int, new: int) -> bool:
        leader = self.leader()
        if leader is None or leader.replica is None or leader.replica.membership.joint:
            return False
        replica = leader.replica
        members = replica.membership
        if old not in members.members and replica.log.membership_index <= replica.log.committed:
            return True
        voters = [voter for voter in members.voters if voter != old]
        learners = [learner for learner in members.learners if learner not in (old, new)]
        match, _ = replica.progress().get(new, (-1, None))
        if old not in members.voters:
            await self.change(voters, [*learners, new])
        elif match < 0:
            await self.change(members.voters, [*learners, new])
        elif match + 10 > replica.log.committed:
            await self.change([*voters, new], learners)
        return False

    # -- the end

    async def calm(self) -> None:
        """End all faults, and wait until the members agree and still serve."""
        self.note("calm")
        self.ambush = 0.0
        self.heal()
        self.sim.weather(HEALTHY)
        for node in self.nodes:
            node.disc.crash_in, node.disc.room = None, None
            node.disc.fails_sync = node.disc.misreads = False
        for client in self.clients:
            client.finishing = True
        # An operation is in the history when it is over.
        await asyncio.wait(self._at_work)
        end = self.sim.loop.time() + SETTLE
        last = Client(99, self.sim.rng("last"), self.running, self.history)
        served = False
        while not (served and self._settled()):
            if self.sim.loop.time() > end:
                self.invariants.problems.append(
                    f"not settled {SETTLE:g} s after the last fault: {self._states()}"
                )
                return
            served = await last.operate("append", "x") or served
            await asyncio.sleep(0.5)
        await last.operate("get", "x")

    def _settled(self) -> bool:
        leader = self.leader()
        if leader is None or leader.replica is None or self.replacing:
            return False
        members = leader.replica.membership
        applied = [(node.copy, node.machine.applied) for node in self.running()]
        copies = {copy for copy, at in applied if at == leader.replica.log.last}
        return not members.joint and set(members.members) <= copies

    def _states(self) -> str:
        words = []
        for node in self.nodes:
            replica = node.replica
            if replica is None:
                words.append(f"{node.number} down {node.damaged}")
                continue
            log, members = replica.log, replica.membership
            words.append(
                f"{node.number} as {node.copy}: {replica.role.value} of term {replica.term}, leader "
                f"{replica.leader}, applied {node.machine.applied} of {log.committed} of {log.last}, "
                f"voters {members.voters} {members.outgoing} learners {members.learners}"
            )
        return "; ".join(words)

    def violations(self) -> Iterator[str]:
        """Every promise that was not kept."""
        yield from self.invariants.problems
        if not any(operation.outcome is not None for operation in self.history):
            yield "no operation was answered"
        found = violation(self.history)
        if found:
            yield f"linearizability: {found}"

    def details(self) -> list[str]:
        return [f"{one.called:9.3f} {one}" for one in self.history] + [self._states()]

"""World of one seed: nodes with the groups of ranges, clients, operators who split and merge, and faults."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from functools import partial
from typing import Any

from gossamer.basekv import BadRangeError, RangeInfo, RangeMachine, kind_of
from gossamer.basekv.changes import Change, encoded
from gossamer.basekv.ranges import FIRST_RANGES, RoutingTable
from gossamer.basekv.reshaping import merge_ranges, split_range
from gossamer.basekv.sending import AskRange
from gossamer.basekv.values import Answer, GetPart, decode_answer
from gossamer.basekv.values import encode as encode_value
from gossamer.errors import GossamerError
from gossamer.raft import COPIES, Message, NotReadyError, current, decode, encode
from gossamer.raft.host.group import Group
from gossamer.raft.host.messages import Create, Removed
from gossamer.testing.campaign import World
from gossamer.testing.links import LinkQuality
from gossamer.testing.network import SimNetwork
from gossamer.testing.raft.linearizability import Operation, violation
from tests.basekv.campaign.clients import KEYS, RangeClient
from tests.basekv.campaign.node import RangeNode

HEALTHY = LinkQuality(latency=0.002, jitter=0.002)
CLIENTS = 5
SETTLE = 90.0
"""Seconds within which ranges without faults are all served, and whole at all of their replicas."""


class RangesWorld(World):
    """``count`` nodes; clients begin once the first ranges are there."""

    def __init__(self, sim: SimNetwork, *, count: int) -> None:
        super().__init__(sim, sim.rng("ranges"))
        sim.weather(HEALTHY)
        self.problems: list[str] = []
        self.history: list[Operation] = []
        self.failed: set[str] = set()
        """Values of writes that were refused, so that nobody may ever read them."""
        self.names = [f"n{number}" for number in range(1, count + 1)]
        self.members = set(self.names)
        self.nodes = {name: RangeNode(self, name) for name in self.names}
        self.down: set[str] = set()
        self._leaders: dict[tuple[int, int], tuple[str, int]] = {}
        self._commits = sim.rng("commits")
        self._mean_commit = self.rng.choice((0.0005, 0.004, 0.02))
        self._tasks: set[asyncio.Task[None]] = set()
        self._lives: dict[str, asyncio.Task[None]] = {}
        self._numbers = iter(range(10, 10_000))
        self.counts = {"split": 0, "merge": 0}
        self.clients = [RangeClient(self, number) for number in range(1, CLIENTS + 1)]
        self._working: list[asyncio.Task[None]] = []

    def kinds(self) -> dict[str, int]:
        return {kind_of(number): COPIES for number in range(FIRST_RANGES)}

    # -- life

    async def begin(self) -> None:
        for name in self.names:
            self.start(name)
        self.spawn(self._gossip())
        await asyncio.sleep(8.0)
        self._working = [self.spawn(client.run()) for client in self.clients]

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.problems.append(f"{type(error).__name__}: {error}")

    async def end(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def start(self, name: str) -> None:
        """Start a node with its disc."""
        self.down.discard(name)
        self._lives[name] = self.spawn(self._live(self.nodes[name]))

    async def _live(self, node: RangeNode) -> None:
        await node.run()
        # It crashed within a write.
        self._fell(node)

    def _fell(self, node: RangeNode) -> None:
        self.down.add(node.name)
        node.disc.crash_in = None
        if self.rng.random() < 0.5:
            node.disc.lose_power()
        self.sim.loop.call_later(self.rng.uniform(0.05, 3.0), self.start, node.name)

    def crash(self, node: RangeNode) -> None:
        """End a node now, or within one of its next writes."""
        if node.name in self.down:
            return
        if self.rng.random() < 0.7:
            node.disc.crash_in = self.rng.randrange(40)
            self.note("crash", node.name, "in", node.disc.crash_in, "operations")
        else:
            self.kill(node)

    def kill(self, node: RangeNode) -> None:
        """End a node now."""
        if node.name not in self.down:
            self.note("down", node.name, "killed")
            self._lives[node.name].cancel()
            self._fell(node)

    def commit_delay(self) -> float:
        """Draw the seconds that a sync takes."""
        return min(self._commits.expovariate(1 / self._mean_commit), 0.3)

    async def _gossip(self) -> None:
        """Have nodes that reach one another know the same groups."""
        while True:
            await self.pause(0.02, 0.15)
            first, second = self.rng.sample(self.names, 2)
            if second in self.reached_by(self.nodes[first]) and first in self.reached_by(self.nodes[second]):
                self.nodes[first].register.merge(self.nodes[second].register)
                self.nodes[second].register.merge(self.nodes[first].register)

    # -- the network

    def reached_by(self, node: RangeNode) -> set[str]:
        """Return the nodes that are up and that a node can reach."""
        if node.name in self.down:
            return set()
        others = set(self.names) - self.down
        return {name for name in others if not self.sim.links.is_cut(node.name, name)}

    def carry(self, source: str, target: str, work: Callable[[RangeNode], None], size: int = 50) -> None:
        """Have something done at a node, as far as the network carries it."""
        for delay in self.sim.links.datagram(source, target, size, self.sim.loop.time()):
            self.sim.loop.call_later(delay, self._arrive, source, target, work)

    def _arrive(self, source: str, target: str, work: Callable[[RangeNode], None]) -> None:
        if not self.sim.links.is_cut(source, target):
            node = self.nodes[target]
            node.post(lambda: work(node))

    def send(self, source: str, target: str, number: int, message: Message) -> None:
        """Carry a message of a replica."""
        data = encode(message)
        self.carry(source, target, lambda node: node.receive(source, number, decode(data)), len(data))

    def tell(self, target: str, what: Create | Removed) -> None:
        """Have a replica made, or dropped, at a node."""
        node, later = self.nodes[target], self.sim.loop.call_later
        if isinstance(what, Create):
            later(0.01, node.post_async, lambda: node.create(what.group, what.replica))
        else:
            later(0.01, node.post, lambda: node.removed(what.group, what.replica))

    # -- requests

    async def request(
        self, home: RangeNode, kind: str, data: bytes, *, timeout: float, read: bool = False
    ) -> bytes:
        """Have the group of a kind answer, as a node knows it. Raises NotReadyError."""
        loop = self.sim.loop
        until = loop.time() + timeout
        while loop.time() < until:
            group = current(home.register, kind)
            target = self.nodes[self._leader_of(home, group)]
            future: asyncio.Future[object] = loop.create_future()
            if group:
                work = partial(self._serve, home.name, group, data, future, read)
                self.carry(home.name, target.name, work)
                await asyncio.wait([future], timeout=min(1.0, until - loop.time()))
                if not future.cancel():
                    value = future.result()
                    if isinstance(value, bytes):
                        return value
            await asyncio.sleep(min(0.05, max(until - loop.time(), 0.001)))
        raise NotReadyError("request", f"no answer of {kind}")

    def _serve(
        self, home: str, group: int, data: bytes, future: asyncio.Future[object], read: bool, node: RangeNode
    ) -> None:
        def answered(value: object) -> None:
            now = self.sim.loop.time()
            for delay in self.sim.links.datagram(node.name, home, 100, now):
                self.sim.loop.call_later(delay, self._answer, node.name, home, future, value)

        node.request(group, data, answered, read=read)

    def _answer(self, source: str, target: str, future: asyncio.Future[object], value: object) -> None:
        if not future.done() and not self.sim.links.is_cut(source, target):
            future.set_result(value)

    def _leader_of(self, home: RangeNode, group: int) -> str:
        here = home.groups.get(group)
        if here is not None and here.leader and self.rng.random() < 0.8:
            return here.leader
        return self.rng.choice(self.names)

    def asker(self, home: RangeNode) -> AskRange:
        """Return what asks ranges from a node."""

        async def ask(number: int, asked: Change | GetPart) -> Answer:
            is_read = isinstance(asked, GetPart)
            data = encode_value(asked) if isinstance(asked, GetPart) else encoded(asked)
            return decode_answer(await self.request(home, kind_of(number), data, timeout=4.0, read=is_read))

        return ask

    def known(self, home: str) -> list[RangeInfo]:
        return self.nodes[home].register.ranges()

    async def ask(self, home: str, kind: str, data: bytes, *, timeout: float, read: bool = False) -> bytes:
        return await self.request(self.nodes[home], kind, data, timeout=timeout, read=read)

    def read_here(self, home: str, number: int, question: bytes, max_staleness: float) -> object:
        for name, group, machine in self.machines():
            if name == home and machine.range.number == number:
                return group.read_here(question, self.sim.loop.time() - max_staleness)
        return None

    # -- operators

    async def split(self) -> None:
        """Have a range split somewhere."""
        home, routing = self._operator()
        key, number = self.rng.choice(KEYS), next(self._numbers)
        self.note("split", key, number)
        await self._change(
            split_range(routing.find, key, number, routing.learn, ask=self.asker(home)), "split"
        )

    async def merge(self) -> None:
        """Have a range take over its neighbour."""
        home, routing = self._operator()
        others = [info for info in routing.ranges() if info.end is not None]
        if others:
            info = self.rng.choice(others)
            merge = self.rng.randbytes(8)
            self.note("merge", info.number)
            await self._change(
                merge_ranges(routing.ranges, info.number, merge, routing.learn, ask=self.asker(home)), "merge"
            )

    def _operator(self) -> tuple[RangeNode, RoutingTable]:
        home = self.nodes[self.rng.choice(self.names)]
        routing = RoutingTable()
        routing.learn(home.register.ranges())
        return home, routing

    async def _change(self, work: Awaitable[RangeInfo], what: str) -> None:
        try:
            async with asyncio.timeout(3.0):
                await work
            self.counts[what] += 1
        except (GossamerError, TimeoutError, BadRangeError):
            pass

    # -- what must hold

    def led(self, name: str, group: Group) -> None:
        """A replica leads: a term of a group has one leader."""
        known = self._leaders.setdefault((group.number, group.replica.term), (name, group.replica.id))
        if known != (name, group.replica.id):
            self.problems.append(
                f"election safety: {known} and {name}, {group.replica.id} lead term {group.replica.term} "
                f"of {group.number:x}"
            )

    def machines(self) -> Iterator[tuple[str, Group, RangeMachine]]:
        """Yield the ranges of all nodes that are up."""
        for node in self.nodes.values():
            for group in node.groups.values():
                if isinstance(group.state.machine, RangeMachine) and group.state.nodes:
                    yield node.name, group, group.state.machine

    def unsettled(self) -> str:
        """Return what keeps the ranges from being all served and whole; blank: nothing does."""
        owners: dict[int, RangeInfo] = {}
        images: dict[int, set[bytes]] = {}
        for name, group, machine in self.machines():
            log = group.replica.log
            if machine.sealed is not None and machine.sealed.by is not None:
                continue
            if machine.merging is not None or machine.sealed is not None or group.state.offspring:
                return f"range {machine.range.number} changes at {name}"
            if log.applied < log.last or not group.replica.leader:
                return f"range {machine.range.number} is behind at {name}"
            owners[group.number] = machine.range
            images.setdefault(group.number, set()).add(machine.snapshot())
            if group.leads:
                members = group.replica.membership
                if members.joint or len(members.voters) != COPIES:
                    return f"range {machine.range.number} has members {members}"
        for number, found in images.items():
            if len(found) > 1:
                return f"replicas of range {owners[number].number} differ"
        for key in KEYS:
            if (count := sum(info.has(key) for info in owners.values())) != 1:
                return f"{count} ranges have {key!r}: {sorted(owners.values(), key=lambda info: info.start)}"
        return ""

    # -- the end

    async def calm(self) -> None:
        """End all faults, and wait until all ranges are served and whole."""
        self.note("calm")
        self.sim.heal()
        self.sim.weather(HEALTHY)
        self.members = set(self.names)
        for node in self.nodes.values():
            node.disc.crash_in, node.disc.room = None, None
        for client in self.clients:
            client.finishing = True
        await asyncio.wait(self._working)
        end = self.sim.loop.time() + SETTLE
        last = RangeClient(self, 99)
        while True:
            why = f"{self.down} down" if self.down else self.unsettled()
            if not why and all([await last.operate("get", key) for key in KEYS]):
                return
            if self.sim.loop.time() > end:
                self.problems.append(f"not settled {SETTLE:g} s after the last fault: {why}")
                return
            await asyncio.sleep(1.0)

    def violations(self) -> Iterator[str]:
        """Every promise that was not kept."""
        yield from self.problems
        if not any(operation.outcome is not None for operation in self.history):
            yield "no operation was answered"
        for operation in self.history:
            if operation.outcome in self.failed:
                yield f"a write that was refused was done: {operation}"
        if found := violation(self.history):
            yield f"linearizability: {found}"

    def details(self) -> list[str]:
        return [
            f"{len(self.history)} operations, {self.counts}",
            *(f"{one.called:9.3f} {one}" for one in self.history),
            *(
                f"{name} {group.number:x} {group.replica.role.value} {machine.range} {machine.merging} "
                f"{machine.sealed}"
                for name, group, machine in self.machines()
            ),
        ]

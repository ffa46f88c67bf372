"""World of one seed: three nodes with discs and a fourth that may join, travellers, actions on them, and
invariants.

An acknowledged message must be delivered to every subscriber that had SUBACK before it was sent (again, if
its session is new), and to one member of a share group: at least once for QoS 1, once per session for QoS 2.
A client served on both sides of one cut may get its session's earlier messages on both
(``docs/design/guarantees.md``). Without faults, new messages arrive in the order of their
publisher.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import asynccontextmanager
from itertools import combinations, pairwise
from math import inf
from pathlib import Path

from gossamer.testing.campaign import ClusterWorld
from gossamer.testing.cluster import SimCluster
from gossamer.testing.medium import Crash
from gossamer.testing.network import SimNetwork
from gossamer.testing.roaming.travellers import Publisher, Reception, Subscriber, Traveller

SIZE = 3
SETTLE = 90.0
MEAN_COMMIT = 0.01
SLOW_COMMIT = 0.5
LINGER = 1.0
"""Seconds in which a message may come after its node was killed, and the others be told that it came."""
NEW_SESSION = 3.0
"""The same for what a session has at first."""
AWAY = 20.0
"""Seconds after the death of a node in which a move may leave a copy, which waits for what that node sent."""
REUNION = 3.0
"""Seconds after a cut in which nodes may not see each other yet."""
QUIET = 30.0
"""Seconds after the last fault in which everything must have arrived."""

Seconds = tuple[float, float]
"""At least and at most."""
FOR_EVER: Seconds = (1e6, 1e6)
HASTE = 0.2
SUBSCRIBERS: dict[str, tuple[Seconds, float, float]] = {
    "home": (FOR_EVER, 0.0, 0.0),
    "roamer": ((2.0, 6.0), 0.0, 0.0),
    "nomad": ((0.05, 1.5), 0.0, HASTE),
    "away": ((0.3, 1.5), 8.0, 0.0),
}
"""Two of each: how long they stay at a node, for how long at most they are nowhere after that, and which
share of their visits ends before CONNACK."""


class RoamingWorld(ClusterWorld):
    """Cluster of one seed, its travelling clients, the faults done to it, and the final check."""

    def __init__(self, sim: SimNetwork, discs: Path) -> None:
        # One more than begin.
        # Every other seed with copies at a quorum.
        sessions = {"replication": "auto" if sim.seed % 2 else "off"}
        options = {"autoheal": 4.0, "autoclean": None}
        cluster = SimCluster(sim, SIZE + 1, cluster=options, sessions=sessions)
        cluster.discs = discs
        super().__init__(sim, cluster, sim.rng("roaming"))
        commits = sim.rng("commits")
        # What waits for a commit meets what does not.
        sim.loop.executor_delay = lambda: min(commits.expovariate(1 / MEAN_COMMIT), SLOW_COMMIT)
        self._cuts: list[tuple[int, float, float]] = []
        """Which node was cut off, and from when to when."""
        self.publishers: list[Publisher] = []
        self.subscribers: list[Subscriber] = []
        self.members: list[Subscriber] = []
        """Members of a share group."""
        self._crashes: list[tuple[int, float]] = []
        """Which node was killed when."""
        self.broken = False
        """Something was done to nodes or links, so what is new may come late."""

    async def begin(self) -> None:
        """Start nodes and clients."""
        await self.cluster.start(*range(1, SIZE + 1))
        await self.cluster.settled()
        await self._copying()
        for name, manners in SUBSCRIBERS.items():
            for number in (1, 2):
                self.subscribers.append(self._subscriber(f"{name}{number}", *manners))
        for number in (1, 2, 3):
            member = self._subscriber(f"member{number}", (1.0, 5.0), 0.0, 0.0)
            member.wanted = {"$share/g/flow/1/#": 1}
            self.members.append(member)
        for qos in (1, 2):
            for name, stays in (("fixed", FOR_EVER), ("moving", (1.0, 4.0))):
                client = f"{name}{qos}"
                publisher = Publisher(
                    self.cluster,
                    client,
                    self.sim.rng(client),
                    self._times(f"stay/{client}", *stays),
                    topic=f"flow/{qos}/{name}",
                    qos=qos,
                    pause=self.rng.uniform(0.03, 0.1),
                    haste=HASTE if name == "moving" else 0.0,
                )
                self.publishers.append(publisher)
        for traveller in self.travellers:
            traveller.apart = self._apart
        for subscriber in self.subscribers + self.members:
            subscriber.start()
        for subscriber in self.subscribers + self.members:
            await subscriber.ready.wait()
        for publisher in self.publishers:
            publisher.start()

    async def _copying(self) -> None:
        """Wait until the nodes copy sessions, where they are to."""
        async with asyncio.timeout(SETTLE):
            while not all(  # noqa: ASYNC110 - nothing tells
                node.broker.copies is None or node.broker.copies.begun()
                for node in self.cluster.nodes.values()
            ):
                await asyncio.sleep(0.5)

    def _subscriber(self, name: str, stays: Seconds, most_absent: float, haste: float) -> Subscriber:
        return Subscriber(
            self.cluster,
            name,
            self.sim.rng(name),
            self._times(f"stay/{name}", *stays),
            self._times(f"absent/{name}", 0.0, most_absent),
            wanted={"flow/1/#": 1, "flow/2/#": 2},
            haste=haste,
        )

    def _times(self, luck: str, least: float, most: float) -> Callable[[], float]:
        rng = self.sim.rng(luck)
        return lambda: rng.uniform(least, most)

    async def calm(self) -> None:
        """End the faults, let every publisher have its last answer, and every subscriber come to rest."""
        self.note("calm")
        self.heal()
        for number in range(1, SIZE + 1):
            if number not in self.cluster.nodes:
                await self.restart(number)
        await self.cluster.settled(timeout=SETTLE)
        for publisher in self.publishers:
            publisher.finishing = True
        async with asyncio.timeout(SETTLE):
            for publisher in self.publishers:
                await publisher.idle.wait()
        for place, subscriber in enumerate(self.subscribers + self.members):
            subscriber.home = place % SIZE + 1
        await asyncio.sleep(QUIET)
        self.note("over")

    async def end(self) -> None:
        """Stop everything."""
        for traveller in self.travellers:
            await traveller.stop()
        await self.cluster.stop_all()

    @property
    def travellers(self) -> list[Traveller]:
        """All clients."""
        return [*self.publishers, *self.subscribers, *self.members]

    def details(self) -> list[str]:
        return [line for one in self.travellers for line in one.log]

    # -- weather

    def crash(self, number: int, how: Crash = "reset") -> None:
        self.broken = True
        self._crashes.append((number, self.sim.loop.time()))
        super().crash(number, how)

    async def stop(self, number: int) -> None:
        """End a node in order."""
        self.note("stop", number)
        self.broken = True
        await self.cluster.stop(number)

    @asynccontextmanager
    async def down(self, number: int) -> AsyncIterator[None]:
        """A node that has crashed."""
        self.crash(number)
        yield
        await self.restart(number)

    @asynccontextmanager
    async def frozen(self, number: int) -> AsyncIterator[None]:
        """A node whose process stands still as by SIGSTOP."""
        self.note("freeze", number)
        self.broken = True
        self.cluster.freeze(number)
        yield
        self.note("thaw", number)
        self.cluster.thaw(number)

    @asynccontextmanager
    async def cut_off(self, number: int, *, one_way: bool = False) -> AsyncIterator[None]:
        """A node without a link to the others, while clients reach all; ``one_way``: it hears the others, or
        they hear it."""
        self.cut(number, one_way=one_way)
        yield
        self.heal()

    def cut(self, number: int, *, one_way: bool = False) -> None:
        """Cut a node off until the next heal."""
        deaf = one_way and self.rng.random() < 0.5
        self.note("cut", number, "deaf" if deaf else "one way" if one_way else "")
        self.broken = True
        self._cuts.append((number, self.sim.loop.time(), inf))
        for other in range(1, SIZE + 2):
            if other != number:
                self.cluster.cut(*((other, number) if deaf else (number, other)), one_way=one_way)

    @asynccontextmanager
    async def full(self, number: int) -> AsyncIterator[None]:
        """A node whose disc takes no more."""
        self.note("full disc", number)
        self.broken = True
        handle = self.cluster.nodes[number].store._disc
        assert handle is not None  # noqa: S101 - every node has a disc here
        file = handle.file
        assert file is not None  # noqa: S101 - it runs
        file.limit_pages(file.pages())
        yield
        self.note("room", number)
        file.limit_pages(0)

    async def join(self) -> None:
        """Start one more node."""
        self.note("join", SIZE + 1)
        await self.cluster.start(SIZE + 1)

    def heal(self) -> None:
        over = self.sim.loop.time() + REUNION
        self._cuts = [(number, begun, min(end, over)) for number, begun, end in self._cuts]
        super().heal()

    def _apart(self, one: int, other: int) -> bool:
        now = self.sim.loop.time()
        return any(
            begun <= now <= end and (one == number) != (other == number) for number, begun, end in self._cuts
        )

    def any_node(self) -> int:
        """Return a random running node."""
        return self.rng.choice(sorted(self.cluster.nodes))

    # -- what must hold

    def violations(self) -> Iterator[str]:
        """Every promise that was not kept."""
        for subscriber in self.subscribers:
            got: dict[bytes, list[Reception]] = {}
            for one in subscriber.got:
                got.setdefault(one.payload, []).append(one)
            for publisher in self.publishers:
                yield from self._judge(publisher, subscriber, got)
                if not self.broken:
                    yield from self._out_of_order(publisher, subscriber)
        shared = {one.payload for member in self.members for one in member.got}
        for publisher in self.publishers:
            if publisher.qos == 1:
                yield from self._lost(publisher, "the group", shared, [])

    def _judge(
        self, publisher: Publisher, subscriber: Subscriber, got: dict[bytes, list[Reception]]
    ) -> Iterator[str]:
        who = f"{publisher.client_id} -> {subscriber.client_id}"
        yield from self._lost(publisher, subscriber.client_id, got, subscriber.deaf)
        if publisher.qos == 2:
            doubled = []
            for payload, times in got.items():
                if payload.rsplit(b" ", 1)[0] != publisher.topic.encode() or payload in publisher.ambiguous:
                    continue
                if any(self._is_twice(subscriber, *pair) for pair in combinations(times, 2)):
                    doubled.append(f"{payload.decode()} at {[f'{one.at:.3f}' for one in times]}")
            if doubled:
                yield f"{who}: {len(doubled)} twice in one session, {', '.join(doubled[:4])}"

    def _lost(
        self, publisher: Publisher, who: str, got: Collection[bytes], deaf: list[tuple[float, float]]
    ) -> Iterator[str]:
        lost = [
            f"{payload.decode()} acknowledged at {at:.3f}"
            for payload, at in publisher.acknowledged.items()
            if payload not in got
            and not any(begun <= publisher.sent[payload] <= ready for begun, ready in deaf)
        ]
        if lost:
            yield f"{publisher.client_id} -> {who}: {len(lost)} lost, {', '.join(lost[:4])}"

    def _out_of_order(self, publisher: Publisher, subscriber: Subscriber) -> Iterator[str]:
        topic = publisher.topic.encode()
        news = dict.fromkeys(
            int(number)
            for of, number in (one.payload.rsplit(b" ", 1) for one in subscriber.got)
            if of == topic
        )
        late = [(before, number) for before, number in pairwise(news) if number < before]
        if late:
            yield f"{publisher.client_id} -> {subscriber.client_id}: out of order, {late[:4]}"

    def _is_twice(self, subscriber: Subscriber, one: Reception, other: Reception) -> bool:
        if one.session != other.session or self._outlived(subscriber, one, other):
            return False
        parted = any(
            begun <= one.at and other.at <= end and (one.node == number) != (other.node == number)
            for number, begun, end in self._cuts
        )
        return not parted

    def _outlived(self, subscriber: Subscriber, one: Reception, other: Reception) -> bool:
        """Return whether a session that began anew, or moved while a node was away, ended with its node, just
        after this: an older copy goes on then, and its node may not have been told what the client had."""
        told = max(one.at + LINGER, subscriber.began[one.session - 1] + NEW_SESSION)
        copied = one.session > 1 or any(one.at - AWAY <= at <= one.at for _, at in self._crashes)
        return copied and any(
            number == one.node and one.at <= at + LINGER and at <= min(told, other.at)
            for number, at in self._crashes
        )

"""World of one seed: a cluster, subscribing and publishing clients, tables that every side writes.

All actions on the cluster go through here, so that afterwards it is known which nodes were never separated,
which never died, and which client got everything it should have.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from itertools import combinations
from pathlib import Path

from gossamer.autoheal import Incident, register_merge
from gossamer.errors import GossamerError
from gossamer.mnesia_like import SharedTable
from gossamer.mqtt.client import MqttClient
from gossamer.testing.campaign import ClusterWorld
from gossamer.testing.cluster import SimCluster
from gossamer.testing.medium import Crash
from gossamer.testing.network import SimNetwork
from gossamer.testing.traffic import Flow

TABLES = {"latest": "lww", "larger": "survivors", "sums": "splits.sum"}
"""A shared table for each way to heal."""

KEYS = 12
SETTLE = 90.0
HEAL = 300.0
SESSION = 86_400


def _sum(_key: object, ours: int | None, theirs: int | None) -> int:
    return (ours or 0) + (theirs or 0)


register_merge("splits.sum", _sum)


class Written:
    """Write that a node accepted, with its version; no ``value``: a deletion."""

    __slots__ = ("node", "value", "version")

    def __init__(self, node: int, version: tuple[int, str], value: list[object]) -> None:
        self.node = node
        self.version = version
        self.value = value


class SplitWorld(ClusterWorld):
    """Cluster of ``size`` nodes with clients and writers; ``options`` are settings of section ``cluster``."""

    def __init__(self, sim: SimNetwork, size: int, *, discs: Path | None = None, **options: object) -> None:
        cluster = SimCluster(sim, size, cluster={"autoheal": 4.0, **options})
        cluster.discs = discs
        super().__init__(sim, cluster, sim.rng("scenario"))
        self.size = size
        self.listeners: dict[int, MqttClient] = {}
        """Connected throughout, in the life of their node; their sessions last."""
        self.sleepers: dict[int, MqttClient] = {}
        """By node a client with a session that lasts, which is not there until all is over."""
        self.flows: list[Flow] = []
        self.parted: set[frozenset[int]] = set()
        """Pairs that a cut ever came between."""
        self.died: set[int] = set()
        self.survivors: list[int] = []
        """Survivors of the first heal, where they are unambiguous."""
        self.writes: dict[tuple[str, object], list[Written]] = {}
        self.stores: dict[int, object] = {}
        self._writer: asyncio.Task[None] | None = None

    @property
    def nodes(self) -> range:
        """All numbers."""
        return range(1, self.size + 1)

    # -- life

    async def begin(self) -> None:
        """Start the nodes, oldest first, with clients, flows and tables."""
        for number in self.nodes:
            await self.cluster.start(number)
            await self._tables(number)
        await self.cluster.settled()
        for number in self.nodes:
            client = self.listeners[number] = await self._persistent(number, "listener")
            await client.subscribe("flow/1/#", f"at/{number}", qos=1)
            await client.subscribe("flow/2/#", qos=2)
            sleeper = await self._persistent(number, "sleeper")
            await sleeper.subscribe("flow/1/#", qos=1)
            await sleeper.subscribe("flow/2/#", qos=2)
            await sleeper.disconnect()
            self.stores[number] = self._store(number)
        await self.cluster.settled()
        for number in self.nodes:
            for qos in (1, 2):
                publisher = await self.cluster.client(number, f"publisher{number}/{qos}")
                pause = self.rng.uniform(0.3, 0.7)
                flow = Flow(publisher, f"flow/{qos}/{number}", qos=qos, pause=pause, node=number)
                self.flows.append(flow.start())
        self._writer = asyncio.create_task(self._write_on(), name="table writer")

    async def calm(self, *, heals: bool = True) -> None:
        """End the weather and the load, and let the cluster come to rest."""
        self.heal()
        for number in self.nodes:
            if number not in self.cluster.nodes:
                await self.restart(number)
        await asyncio.sleep(2.0)
        await self._stop_writing()
        await self.cluster.settled(timeout=SETTLE)
        if heals:
            await self._healed()
        for flow in self.flows:
            await flow.stop()
        await asyncio.sleep(5.0)
        await self.cluster.settled(timeout=SETTLE)
        for number in self.nodes:
            self.sleepers[number] = await self._persistent(number, "sleeper")
        await asyncio.sleep(5.0)

    async def _persistent(self, number: int, name: str) -> MqttClient:
        return await self.cluster.client(number, f"{name}{number}", clean_start=False, session_expiry=SESSION)

    async def end(self) -> None:
        """Stop everything."""
        await self._stop_writing()
        for flow in self.flows:
            await flow.stop()
        await self.cluster.stop_all()

    async def _healed(self) -> None:
        begun = self.sim.loop.time()
        while not all(
            not node.healing.open and node.healing.phase == "idle" and node.healing.plan is None
            for node in self.cluster.nodes.values()
        ):
            if self.sim.loop.time() - begun > HEAL:
                raise AssertionError(f"not healed within {HEAL:g} s: {self._phases()}")
            await asyncio.sleep(0.5)

    def _phases(self) -> dict[int, tuple[str, tuple[str, ...]]]:
        return {
            number: (node.healing.phase, tuple(pair.peer for pair in node.healing.open))
            for number, node in sorted(self.cluster.nodes.items())
        }

    # -- weather

    def split(self, *groups: Iterable[int]) -> None:
        """Cut the nodes into groups."""
        sides = [list(group) for group in groups]
        self.note("split", sides)
        self.cluster.partition(*sides)
        for one, other in combinations(sides, 2):
            self.parted |= {frozenset((a, b)) for a in one for b in other}

    def cut(self, one: int, other: int, *, one_way: bool = False) -> None:
        """Cut a pair."""
        self.note("cut", one, other, one_way)
        self.cluster.cut(one, other, one_way=one_way)
        self.parted.add(frozenset((one, other)))

    def crash(self, number: int, how: Crash = "kill") -> None:
        self.died.add(number)
        self.listeners.pop(number, None)
        super().crash(number, how)

    async def restart(self, number: int) -> None:
        await super().restart(number)
        await self._tables(number)
        self.stores.pop(number, None)

    # -- tables

    def table(self, number: int, name: str) -> SharedTable:
        """A shared table at a node."""
        table = self.cluster.nodes[number].store.table(name)
        assert isinstance(table, SharedTable)  # noqa: S101
        return table

    def write(self, number: int, name: str, key: object, value: list[object]) -> None:
        """Write a row, or delete it."""
        table = self.table(number, name)
        if value:
            table.write(key, value[0])
        elif key in table:
            table.delete(key)
        else:
            return
        version = table.core.versions[key]
        self.writes.setdefault((name, key), []).append(Written(number, version, value))

    async def _tables(self, number: int) -> None:
        storage = "ram_copies" if self.cluster.discs is None else "disc_copies"
        for name, heal in TABLES.items():
            await self.cluster.nodes[number].store.create_table(
                name, replication="shared", heal=heal, storage=storage
            )

    async def _write_on(self) -> None:
        rng = self.sim.rng("tables")
        count = 0
        while True:  # until it is cancelled
            await asyncio.sleep(rng.uniform(0.2, 0.6))
            ready = [number for number, node in sorted(self.cluster.nodes.items()) if node.state == "running"]
            if not ready:
                continue
            number, name = rng.choice(ready), rng.choice(sorted(TABLES))
            if name not in self.cluster.nodes[number].store.tables():
                continue
            count += 1
            value: list[object] = [] if rng.random() < 0.3 else [count]
            try:
                self.write(number, name, rng.randrange(KEYS), value)
            except GossamerError as error:
                self.note("not written", number, name, error)

    async def _stop_writing(self) -> None:
        writer, self._writer = self._writer, None
        if writer is None:
            return
        writer.cancel()
        await asyncio.wait([writer])
        if not writer.cancelled() and (error := writer.exception()) is not None:
            raise error

    # -- what is known of it

    def together(self, one: int, other: int) -> bool:
        """Both lived throughout, and nothing ever came between them, nor between them and a third."""
        return one not in self.died and other not in self.died and frozenset((one, other)) not in self.parted

    def lasts(self, number: int) -> bool:
        """A session at that node that is to outlive it has done so."""
        return (self.cluster.discs is not None or number not in self.died) and number not in self.removed()

    def removed(self) -> set[int]:
        """Nodes that were removed for being down too long, as far as those that removed them still live."""
        names = {number: f"node{number}@" for number in self.nodes}
        gone = {cleaned.member for node in self.cluster.nodes.values() for cleaned in node.healing.cleaned}
        return {number for number, name in names.items() if any(one.startswith(name) for one in gone)}

    def restarted_stores(self) -> set[int]:
        """Nodes of this very life whose store was restarted."""
        return {number for number, pid in self.stores.items() if self._store(number) != pid}

    def _store(self, number: int) -> object:
        return self.cluster.nodes[number].runtime.whereis("mnesia_like")

    def episodes(self) -> Iterator[tuple[int, Incident]]:
        """Yield all heals in the histories of all nodes."""
        for number, node in sorted(self.cluster.nodes.items()):
            for episode in node.healing.history:
                yield number, episode

"""Gossip servers on the simulated network."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Literal, Self

from gossamer.gossip import (
    GossipServer,
    Join,
    JoinResult,
    KeyFile,
    Keyring,
    Keys,
    MemberMetadata,
    MembershipView,
    Status,
    cluster_key,
)
from gossamer.network import Address
from gossamer.supervisor import Runtime
from gossamer.testing import SimClock, SimNetwork

__all__ = ["Node", "cluster", "stop", "whole", "within"]


class Node:
    """Gossip of one node on a simulated host, and nothing else."""

    def __init__(self, sim: SimNetwork, number: int) -> None:
        self.sim = sim
        self.host = f"10.0.0.{number}"
        self.address: Address = (self.host, 7946)
        self.name = f"node{number}"
        self.key_file: KeyFile | None = None
        self.boot(first=True)

    def boot(self, *, first: bool = False) -> None:
        """A new process on the host: nothing of the old one is left."""
        self.network = self.sim.host(self.host) if first else self.sim.restart(self.host)
        self.clock = SimClock(asyncio.get_running_loop())
        self.view = MembershipView()
        self.runtime = Runtime(node=self.name)

    async def start(self, *seeds_: Node) -> Self:
        await self.runtime.start(
            GossipServer,
            name="gossip",
            metadata=MemberMetadata(self.name, creation=1, start_time=self.clock.wall()),
            bind=self.address,
            keyring=Keyring([cluster_key("cookie")], env="sim"),
            network=self.network,
            clock=self.clock,
            view=self.view,
            rng=self.network.rng,
            key_file=self.key_file,
        )
        if seeds_:
            await self.join(*seeds_)
        return self

    async def join(self, *others: Node) -> JoinResult:
        result: JoinResult = await self.runtime.call(
            "gossip", Join(tuple(other.address for other in others)), timeout=10
        )
        return result

    def crash(self) -> None:
        self.sim.crash(self.host)
        self.runtime.halt()

    def online(self) -> set[str]:
        return {m.name for m in self.view.members() if m.status is Status.ONLINE}

    async def keys(self, action: Literal["list", "install", "use", "remove"], key: bytes | str = "") -> Any:
        return await self.runtime.call("gossip", Keys(action, key))

    def downs(self) -> int:
        return self.view.counters["member_down"]


async def within(seconds: float, condition: Callable[[], bool]) -> float:
    """Wait until ``condition`` holds; seconds it took."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    while not condition():
        assert loop.time() - begun < seconds, f"not within {seconds} s"
        await asyncio.sleep(0.05)
    return loop.time() - begun


def whole(*nodes: Node) -> Callable[[], bool]:
    names = {node.name for node in nodes}
    return lambda: all(node.online() == names for node in nodes)


async def cluster(sim: SimNetwork, size: int) -> list[Node]:
    first = await Node(sim, 1).start()
    nodes = [first, *[await Node(sim, number).start(first) for number in range(2, size + 1)]]
    await within(10, whole(*nodes))
    return nodes


async def stop(*nodes: Node) -> None:
    for node in nodes:
        await node.runtime.stop()

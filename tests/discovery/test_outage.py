"""Hours without the source of a strategy: what is logged is bounded by what changes, not by what is tried."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, Self

import httpx
import pytest
from structlog.testing import capture_logs

from discovery.apiserver import pod, slice_of
from discovery.memory import Memory, MemoryClient
from gossamer.config.discovery import DnsConfig, EtcdConfig, K8sConfig
from gossamer.discovery import (
    DiscoveryFailedError,
    Dns,
    DnsAnswer,
    K8s,
    Static,
    Strategy,
    discovery_spec,
)
from gossamer.discovery.etcd import Etcd
from gossamer.gossip import JoinResult, Member, MemberMetadata, Status
from gossamer.network import Address
from gossamer.supervisor import Caller, GenServer, Reply, Runtime, Supervisor
from gossamer.testing import SimNetwork
from gossamer.testing.cluster import SimCluster, address_of

HOUR = 3600.0
FLAPS = 3


class Source(Protocol):
    """What a strategy asks. ``problem`` blank: it answers."""

    problem: str
    tries: int

    def strategy(self, number: int) -> Strategy: ...


class Names:
    """A resolver of the system's kind, which fails or does not answer, and a DNS server."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.problem = ""
        self.tries = 0

    def strategy(self, number: int) -> Strategy:
        if self.kind in ("static", "silent"):
            return Static([], domain_name="seeds.example", resolve=self._resolve)
        record_type: Any = self.kind
        return Dns(DnsConfig(name="seeds.example", record_type=record_type), lookup=self._look_up)

    async def _resolve(self, host: str) -> Sequence[str]:
        self.tries += 1
        while self.problem:
            if self.kind == "static":
                raise OSError(-3, self.problem)
            await asyncio.sleep(1)
        return [address_of(1), address_of(2)]

    async def _look_up(self, host: str, record_type: str) -> DnsAnswer:
        self.tries += 1
        if self.problem:
            raise DiscoveryFailedError(host, self.problem)
        if record_type == "srv":
            return DnsAnswer((("a.example", 7946), ("b.example", 7946)), 5)
        if host == "seeds.example":
            return DnsAnswer(((address_of(1), 0), (address_of(2), 0)), 5)
        if record_type == "aaaa":
            raise DiscoveryFailedError(host, "has no AAAA records")
        return DnsAnswer(((address_of(1 if host == "a.example" else 2), 0),), 5)


class Kubernetes:
    """An API server that fails in other words each time."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.problem = ""
        self.tries = 0

    def strategy(self, number: int) -> Strategy:
        config = K8sConfig(apiserver="http://api", credentials=Path("/nothing/is/mounted"))
        return K8s(config, transport=httpx.MockTransport(self._answer))

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.tries += 1
        if not self.problem:
            items = [slice_of(pod(address_of(1), "gossamer-0"), pod(address_of(2), "gossamer-1"))]
            return httpx.Response(200, json={"items": items})
        if self.kind == "refused":
            raise httpx.ConnectError(f"{self.problem} {self.tries}")
        if self.kind == "broken":
            raise httpx.ReadError(f"{self.problem} {self.tries}")
        if self.kind == "garbage":
            return httpx.Response(200, text=f"{self.problem} {self.tries}")
        return httpx.Response(int(self.kind), text=json.dumps({"message": f"{self.problem} {self.tries}"}))


class EtcdSource:
    def __init__(self, kind: str) -> None:
        self._memory = Memory()

    @property
    def tries(self) -> int:
        return self._memory.asked

    @property
    def problem(self) -> str:
        return self._memory.down

    @problem.setter
    def problem(self, problem: str) -> None:
        self._memory.down = problem

    def strategy(self, number: int) -> Strategy:
        client: Any = MemoryClient(self._memory)
        return Etcd(client, EtcdConfig(prefix="g"), node=f"node{number}", env="sim")


SOURCES: list[tuple[type[Names | Kubernetes | EtcdSource], str]] = [
    (Names, "static"),
    (Names, "a"),
    (Names, "srv"),
    (Kubernetes, "refused"),
    (Kubernetes, "broken"),
    (Kubernetes, "garbage"),
    (Kubernetes, "503"),
    (EtcdSource, "etcd"),
]


def told(logs: list[Any]) -> Counter[str]:
    names = ("seed", "joined", "lease", "leave", "stays", "etcd")
    return Counter(entry["event"] for entry in logs if entry["event"].startswith(names))


class Loop:
    """The autocluster loop of one node, without the gossip: whoever is looked for lets it in at once."""

    def __init__(self, strategy: Strategy) -> None:
        self.runtime = Runtime(node="node1")
        self._strategy = strategy
        self._view: Any = View()

    async def __aenter__(self) -> Self:
        await self.runtime.start(Gossip, self._view, name="gossip")
        await self.runtime.start(
            Supervisor,
            [
                discovery_spec(
                    self._strategy, view=self._view, rng=random.Random(1), retry_interval=5.0, standalone=None
                )
            ],
            name="top",
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.runtime.stop()


class View:
    standalone = False

    def __init__(self) -> None:
        self._members = [_member(1)]

    def members(self) -> list[Member]:
        return list(self._members)

    def join(self, addresses: Sequence[Address]) -> None:
        known = {member.endpoint for member in self._members}
        self._members += [_member(int(host[-1])) for host, port in addresses if (host, port) not in known]


class Gossip(GenServer):
    async def init(self, view: View) -> None:
        self._view = view

    async def handle_call(self, request: Any, caller: Caller) -> Reply:
        self._view.join(request.addresses)
        return Reply(JoinResult(request.addresses))


def _member(number: int) -> Member:
    name = f"node{number}"
    return Member("0" * 16, name, address_of(number), 7946, Status.ONLINE, 1, MemberMetadata(name))


@pytest.mark.parametrize(("kind", "how"), SOURCES, ids=[how for _, how in SOURCES])
async def test_an_hour_without_the_source_is_one_line(virtual_time: object, kind: Any, how: str) -> None:
    """Down at start, then up and down again and again: a line for each change, however many the tries."""
    source: Source = kind(how)
    source.problem = "no answer"
    with capture_logs() as logs:
        async with Loop(source.strategy(1)):
            await asyncio.sleep(HOUR)
            assert told(logs) == {"seed_not_resolved": 1}
            assert source.tries > 600
            source.problem = ""
            await asyncio.sleep(120)
            for _ in range(FLAPS):
                source.problem = "no answer"
                await asyncio.sleep(300)
                source.problem = ""
                await asyncio.sleep(300)
            counted = told(logs)
    assert counted["seed_not_resolved"] == counted["seeds_found_again"] == 1 + FLAPS
    # And that it has joined, once; etcd knows nobody else.
    assert counted.total() == 2 + 2 * FLAPS + (kind is not EtcdSource)


@pytest.mark.parametrize(
    ("kind", "how"), [(Names, "a"), (Names, "silent"), (EtcdSource, "etcd")], ids=["dns", "silent", "etcd"]
)
async def test_nodes_whose_source_is_down_serve_alone_and_join_when_it_is_up(
    sim: SimNetwork, kind: Any, how: str
) -> None:
    """Nor does an outage cost a member: a failure is not an empty list."""
    source: Source = kind(how)
    source.problem = "no answer"
    async with SimCluster(sim, 2, seeds=0, strategy=source.strategy) as cluster:
        await asyncio.sleep(60)
        assert {node.state for node in cluster.nodes.values()} == {"running"}
        assert {len(node.members.members()) for node in cluster.nodes.values()} == {1}
        source.problem = ""
        await cluster.settled(timeout=60)
        source.problem = "no answer"
        await asyncio.sleep(120)
        await cluster.settled(timeout=1)
        # One that restarts meanwhile is found by the other.
        cluster.crash(2)
        await asyncio.sleep(60)
        await cluster.restart(2)
        await cluster.settled(timeout=60)


async def test_seeds_that_are_dead_are_one_line_each(sim: SimNetwork) -> None:
    """One where nothing listens, one that is no host: in a cluster just as alone."""
    sim.host(address_of(3))
    with capture_logs() as logs:
        cluster = SimCluster(sim, 4, seeds=4)
        await cluster.start(1, 2)
        await cluster.settled(1, 2)
        await asyncio.sleep(300)
        dead = Counter(
            (entry["seed"], entry["reason"]) for entry in logs if entry["event"] == "seed_not_joined"
        )
        await cluster.stop_all()
    assert dead == {(f"{address_of(3)}:7946", "refused"): 2, (f"{address_of(4)}:7946", "unreachable"): 2}

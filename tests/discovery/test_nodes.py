"""Discovery in whole nodes on virtual time: who leaves stays out, who is alone starts all the same."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

import pytest
from structlog.testing import capture_logs

from gossamer.config import Endpoint
from gossamer.errors import UnavailableError, UsageError
from gossamer.node import Node
from gossamer.testing import SimHost, SimNetwork
from gossamer.testing.cluster import SimCluster

PORT = 7946


def endpoint(cluster: SimCluster, number: int) -> Endpoint:
    return Endpoint(cluster.address(number), PORT)


def online(node: Node) -> set[str]:
    return {
        member.name.partition("@")[0] for member in node.members.members() if member.status.name == "ONLINE"
    }


async def test_who_left_stays_out_also_after_a_restart_until_told_to_join(
    sim: SimNetwork, tmp_path: Path
) -> None:
    """All list all as seeds, so the others keep looking for the one that left."""
    cluster = SimCluster(sim, 3, seeds=3)
    cluster.discs = tmp_path
    async with cluster:
        await cluster.settled()
        await cluster.nodes[2].view.leave()
        await asyncio.sleep(60)
        assert online(cluster.nodes[1]) == {"node1", "node3"}
        for end in (cluster.stop, None):
            if end is None:
                cluster.crash(2)
            else:
                await end(2)
            await cluster.restart(2)
            assert cluster.nodes[2].state == "left"
            await asyncio.sleep(60)
            assert online(cluster.nodes[1]) == {"node1", "node3"}
            assert len(cluster.nodes[2].members.members()) == 1
        with pytest.raises(UnavailableError, match="stays alone until it is told to join"):
            await cluster.nodes[1].view.join([endpoint(cluster, 2)])
        await cluster.nodes[2].view.join([endpoint(cluster, 1)])
        await cluster.settled()
        # From now on it comes back by itself again.
        await cluster.stop(2)
        await cluster.restart(2)
        await cluster.settled()


async def test_neither_a_crash_of_gossip_nor_a_join_that_fails_brings_back_who_left(sim: SimNetwork) -> None:
    async with SimCluster(sim, 2, seeds=2) as cluster:
        await cluster.settled()
        out = cluster.nodes[2]
        await out.view.leave()
        with pytest.raises(UnavailableError, match="no seed joined"):
            await out.view.join([Endpoint("10.0.0.99", PORT)])
        await asyncio.sleep(60)
        assert online(cluster.nodes[1]) == {"node1"}
        gossip = out.runtime.whereis("gossip")
        assert gossip is not None
        out.runtime.exit(gossip, "kill")
        await asyncio.sleep(120)
        assert online(cluster.nodes[1]) == {"node1"}
        assert out.members.standalone


async def test_stopping_a_node_is_not_leaving(sim: SimNetwork, tmp_path: Path) -> None:
    cluster = SimCluster(sim, 2, seeds=1)
    cluster.discs = tmp_path
    async with cluster:
        await cluster.stop(2)
        await cluster.restart(2)
        await cluster.settled()
        with pytest.raises(UsageError, match="already in this cluster"):
            await cluster.nodes[2].view.join([endpoint(cluster, 1)])


async def test_a_singleton_joins_nobody_and_says_why(sim: SimNetwork) -> None:
    cluster = SimCluster(sim, 2, seeds=0, cluster={"discovery": "singleton"})
    async with cluster:
        assert {node.state for node in cluster.nodes.values()} == {"running"}
        with pytest.raises(UsageError, match="set another strategy, such as manual, and restart it"):
            await cluster.nodes[1].view.join([endpoint(cluster, 2)])
        assert online(cluster.nodes[1]) == {"node1"}


class Seed(asyncio.Protocol):
    """Takes connections at a seed's address, and lets nobody in."""

    def __init__(self, *, hangs_up: bool) -> None:
        self._hangs_up = hangs_up

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self._hangs_up:
            cast("asyncio.Transport", transport).close()


def waiting(node: Node) -> str:
    return " ".join(node.view.readiness().waiting)


def alarms(node: Node) -> list[str]:
    return [alarm.text for alarm in node.view.healing.alarms() if alarm.name == "not_joined"]


@pytest.mark.parametrize(("hangs_up", "why"), [(True, "closed"), (False, "silent")])
async def test_a_node_that_its_seed_does_not_let_in_says_so_and_tries_on_before_it_serves_alone(
    sim: SimNetwork, hangs_up: bool, why: str
) -> None:
    host = sim.host("10.0.0.1")
    listener = await host.listen(lambda: Seed(hangs_up=hangs_up), ("10.0.0.1", PORT))
    cluster = SimCluster(sim, 2, seeds=1, cluster={"join_timeout": 60.0})
    with capture_logs() as logs:
        starting = asyncio.create_task(cluster.start(2))
        await asyncio.sleep(50)
        node = cluster.nodes[2]
        assert (node.state, node.view.readiness().ready) == ("starting", False)
        assert f"10.0.0.1:7946 does not let this node in ({why}" in waiting(node)
        (text,) = alarms(node)
        assert why in text
        told = [line for line in logs if line["event"] == "join_rejected"]
        assert [(line["seeds"], line["serves_alone_after"]) for line in told] == [
            ({"10.0.0.1:7946": why}, 60.0)
        ]
        await starting
    # It serves in the end, and the alarm stays.
    assert 60 <= next(line["waited"] for line in logs if line["event"] == "started_alone") < 80
    assert node.view.readiness().ready
    assert alarms(node)
    listener.close()
    await cluster.start(1)
    await cluster.settled()
    assert not alarms(node)
    await cluster.stop_all()


async def test_a_node_told_never_to_serve_alone_waits_for_its_seed(sim: SimNetwork) -> None:
    listener = await sim.host("10.0.0.1").listen(lambda: Seed(hangs_up=True), ("10.0.0.1", PORT))
    cluster = SimCluster(sim, 2, seeds=1, cluster={"join_timeout": None})
    starting = asyncio.create_task(cluster.start(2))
    await asyncio.sleep(600)
    assert cluster.nodes[2].state == "starting"
    listener.close()
    await cluster.start(1)
    await starting
    await cluster.settled()
    await cluster.stop_all()


@pytest.mark.parametrize("settings", [{"join_timeout": None}, {}], ids=["off", "default"])
async def test_a_node_whose_seeds_are_not_there_starts_alone(
    sim: SimNetwork, settings: dict[str, object]
) -> None:
    """As the first of its cluster does."""
    cluster = SimCluster(sim, 3, seeds=2, cluster=settings)
    await asyncio.wait_for(cluster.start(3), 10)
    assert cluster.nodes[3].view.readiness().ready
    assert not alarms(cluster.nodes[3])
    await cluster.stop_all()


@pytest.mark.parametrize(
    ("hosts", "state"),
    [
        ([f"10.9.0.{number % 3 + 1}" for number in range(140)], "running"),
        ([f"10.9.0.{number + 1}" for number in range(140)], "running"),
        ([f"10.9.{number}.1" for number in range(140)], "starting"),
    ],
    ids=["a few addresses", "one network", "many networks"],
)
async def test_a_seed_whose_places_are_taken_brings_about_no_second_cluster(
    sim: SimNetwork, hosts: list[str], state: str
) -> None:
    """By 140 connections that say nothing, each made again when it ends: a few addresses keep nobody out, and
    neither does one network."""
    cluster = SimCluster(sim, 2, seeds=1)
    await cluster.start(1)
    flood = [asyncio.create_task(hold(sim.host(host), ("10.0.0.1", PORT))) for host in hosts]
    await asyncio.sleep(1)
    starting = asyncio.create_task(cluster.start(2))
    await asyncio.sleep(20)
    assert cluster.nodes[2].state == state
    for task in flood:
        task.cancel()
    await asyncio.wait(flood)
    await asyncio.wait_for(starting, 20)
    assert online(cluster.nodes[2]) == {"node1", "node2"}
    await cluster.settled()
    await cluster.stop_all()


async def hold(host: SimHost, address: tuple[str, int]) -> None:
    """Be connected, for ever."""

    class Held(asyncio.Protocol):
        def __init__(self) -> None:
            self.over = asyncio.get_running_loop().create_future()

        def connection_lost(self, exc: Exception | None) -> None:
            if not self.over.done():
                self.over.set_result(None)

    loop = asyncio.get_running_loop()
    while True:
        begun = loop.time()
        _, held = await host.connect(Held, address)
        await held.over
        if loop.time() - begun < 1:
            # Hung up on at once.
            await asyncio.sleep(0.2)

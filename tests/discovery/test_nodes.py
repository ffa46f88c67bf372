"""Discovery in whole nodes on virtual time: who leaves stays out, who is alone starts all the same."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gossamer.config import Endpoint
from gossamer.errors import UnavailableError, UsageError
from gossamer.node import Node
from gossamer.testing import SimNetwork
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

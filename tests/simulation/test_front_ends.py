"""Nodes that serve clients and have no store: what they acknowledge is kept by those that have one."""

import asyncio

from .clusters import nodes, restart, until
from .copied import COPIED, formed, having
from .flows import gone, numbered, resumed


def homes(cluster):
    """Numbers of the nodes that have a replica of anything."""
    return {number for number, node in cluster.nodes.items() if node.consensus.replicas}


@nodes(5, seeds=2, front_ends=(1, 5), **COPIED)
async def test_a_session_of_a_front_end_goes_on_at_another_with_what_was_acknowledged(sim, cluster):
    await formed(cluster)
    assert homes(cluster) == {2, 3, 4}
    await gone(cluster, 5, "c", "t/#", qos=2)
    speaker = await cluster.client(1)
    sent = await numbered(speaker, "t/1", 20, qos=2)
    cluster.crash(5)
    sent += await numbered(speaker, "t/1", 20, qos=2, first=20)
    client = await resumed(cluster, 1, "c", pause=2)
    assert client.payloads() == sent
    await restart(cluster, 5, pause=15)
    assert client.payloads() == sent
    assert having(cluster, "c") == [1]
    assert homes(cluster) == {2, 3, 4}


@nodes(4, seeds=2, **COPIED)
async def test_replicas_move_away_from_a_node_that_has_become_a_front_end(sim, cluster):
    await formed(cluster)
    await gone(cluster, 2, "c", "t", qos=1)
    sent = await numbered(await cluster.client(3), "t", 20)
    await cluster.stop(1)
    cluster.front_ends.add(1)
    await restart(cluster, 1, pause=5)
    await until(lambda: homes(cluster) == {2, 3, 4}, within=180, pause=1)
    cluster.crash(2)
    await asyncio.sleep(1)
    client = await resumed(cluster, 1, "c", pause=2)
    assert client.payloads() == sent


@nodes(2, seeds=1, front_ends=(1, 2), **COPIED)
async def test_a_cluster_without_any_store_serves_and_says_so(sim, cluster):
    await gone(cluster, 1, "c", "t", qos=1)
    assert await numbered(await cluster.client(2), "t", 3)
    ready = cluster.nodes[1].view.readiness()
    assert ready.ready
    assert any("inbox_store" in line for line in ready.waiting)

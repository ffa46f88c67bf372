"""Whole nodes that are cut apart and heal: seen once, only the minority reloads, nobody is dropped."""

import asyncio
from collections import Counter

import pytest

from gossamer.testing.traffic import Flow

from .clusters import all_healed, nodes, restart
from .flows import assert_whole, listening, lost


def raised(cluster):
    """How often every node raised ``inconsistent_database`` about every other."""
    return Counter(
        (number, int(event.peer[4 : event.peer.index("@")]))
        for number, node in cluster.nodes.items()
        for event in node.healing.raised
    )


@pytest.mark.parametrize(
    "groups",
    [([1, 2, 3], [4, 5]), ([1, 2], [3, 4], [5]), ([1, 2], [3, 4, 5])],
    ids=["3/2", "2/2/1", "leader in the minority"],
)
@nodes(seeds=2, start="in turn")
async def test_a_split_is_healed_and_no_client_is_dropped(sim, cluster, groups):
    listeners = await listening(cluster)
    flow = Flow(await cluster.client(groups[0][0]), "all/flow", pause=0.5).start()
    cluster.partition(*groups)
    for group in groups:
        await cluster.settled(*group)
    await listeners[5].subscribe("during/5", qos=1)
    await asyncio.sleep(sim.rng("length").uniform(5, 40))
    stores = {number: node.runtime.whereis("mnesia_like") for number, node in cluster.nodes.items()}
    cluster.heal()
    await all_healed(cluster)
    await flow.stop()
    across = {(a, b) for one in groups for a in one for other in groups if other is not one for b in other}
    assert raised(cluster) == Counter(dict.fromkeys(across, 1))
    survivors = max(groups, key=len)
    reloaded = {
        number
        for number, node in cluster.nodes.items()
        if node.runtime.whereis("mnesia_like") != stores[number]
    }
    assert reloaded == set(range(1, 6)) - set(survivors)
    (episode,) = cluster.nodes[1].healing.history
    assert set(episode.survivors) == {cluster.nodes[number].name for number in survivors}
    await assert_whole(cluster, listeners)
    for near in groups[0]:
        assert lost(flow, listeners[near]) == []


@nodes(3, start="in turn")
async def test_a_node_that_crashes_and_returns_is_no_split(sim, cluster):
    await listening(cluster)
    cluster.crash(3)
    await asyncio.sleep(20)
    await restart(cluster, 3, pause=10)
    assert not raised(cluster)

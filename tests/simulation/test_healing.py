"""Whole nodes that are cut apart and heal: seen once, only the minority reloads, nobody is dropped."""

import asyncio
from collections import Counter

import pytest

from gossamer.testing import seeds
from gossamer.testing.cluster import SimCluster

from .flows import Flow


def raised(cluster):
    """How often every node raised ``inconsistent_database`` about every other."""
    return Counter(
        (number, int(event.peer[4 : event.peer.index("@")]))
        for number, node in cluster.nodes.items()
        for event in node.healing.raised
    )


async def all_healed(cluster, count=1, within=120):
    begun = cluster.sim.loop.time()
    while not all(
        len(node.healing.history) >= count and not node.healing.open and node.healing.phase == "idle"
        for node in cluster.nodes.values()
    ):
        assert cluster.sim.loop.time() - begun < within, {
            number: (node.healing.phase, node.healing.open, node.healing.history)
            for number, node in cluster.nodes.items()
        }
        await asyncio.sleep(0.5)


async def begin(cluster):
    # One after another, so that the first is the oldest.
    for number in range(1, cluster.size + 1):
        await cluster.start(number)
    await cluster.settled()
    listeners = {}
    for number in cluster.nodes:
        listeners[number] = await cluster.client(number)
        await listeners[number].subscribe("heal/#", f"at/{number}", qos=1)
    await cluster.settled()
    return listeners


async def everybody_hears(cluster, listeners):
    await cluster.settled(timeout=90)
    assert all(listener.connected for listener in listeners.values())
    speaker = await cluster.client(2)
    await speaker.publish("heal/done", b"healed", qos=1)
    await asyncio.sleep(3)
    assert [listener.payloads().count(b"healed") for listener in listeners.values()] == [1] * len(listeners)


@pytest.mark.parametrize(
    "groups",
    [([1, 2, 3], [4, 5]), ([1, 2], [3, 4], [5]), ([1, 2], [3, 4, 5])],
    ids=["3/2", "2/2/1", "leader in the minority"],
)
@seeds(2)
async def test_a_split_is_healed_and_no_client_is_dropped(sim, cluster, groups):
    listeners = await begin(cluster)
    flow = Flow(await cluster.client(groups[0][0]), "heal/flow", pause=0.5).start()
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
    await everybody_hears(cluster, listeners)
    for near in groups[0]:
        assert flow.lost_by(listeners[near]) == []


@pytest.mark.parametrize("cuts", [[(1, 3)], [(1, 2), (1, 3), (2, 4)]], ids=["one pair", "overlapping"])
@pytest.mark.parametrize("one_way", [False, True])
async def test_partial_and_one_way_cuts_end_whole(sim, cluster, cuts, one_way):
    listeners = await begin(cluster)
    for one, other in cuts:
        cluster.cut(one, other, one_way=one_way)
    await asyncio.sleep(40)
    cluster.heal()
    await asyncio.sleep(60)
    assert all(not node.healing.open for node in cluster.nodes.values())
    assert all(count == 1 for count in raised(cluster).values())
    await everybody_hears(cluster, listeners)


async def test_a_node_that_crashes_and_returns_is_no_split(sim):
    cluster = SimCluster(sim, 3)
    await begin(cluster)
    cluster.crash(3)
    await asyncio.sleep(20)
    await cluster.restart(3)
    await cluster.settled()
    await asyncio.sleep(10)
    assert not raised(cluster)
    await cluster.stop_all()

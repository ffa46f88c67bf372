"""Members that stay away are removed, once, by a majority; whoever returns is a member again by itself."""

import asyncio

import pytest

from gossamer.autoheal import AUTOHEAL, SetAutoclean
from gossamer.testing import seeds
from gossamer.testing.cluster import SimCluster

from .flows import reaches

LIMIT = 60.0


@pytest.fixture
def cluster_of(sim):
    def make(size):
        return SimCluster(sim, size, cluster={"autoclean": LIMIT})

    return make


async def begin(cluster):
    for number in range(1, cluster.size + 1):
        await cluster.start(number)
    await cluster.settled()
    listeners = {}
    for number in cluster.nodes:
        listeners[number] = await cluster.client(number)
        await listeners[number].subscribe("clean/#", f"at/{number}", qos=1)
    await cluster.settled()
    return listeners


def removals(cluster):
    """Who removed whom, each as often as it happened."""
    return [
        (number, event.member[: event.member.index("@")])
        for number, node in cluster.nodes.items()
        for event in node.healing.cleaned
    ]


def known(node):
    return {member.name[: member.name.index("@")] for member in node.members.members()}


def traces(node, name):
    """What a node still keeps of another."""
    tables = node.store.replication.tables
    rows = [table for table, state in tables.items() if name in state.replicas and state.replicas[name].rows]
    places = [table for table in tables if node.store.replication.reach(table)[1] > len(known(node))]
    routes = [found for found, others, _ in node.router.routes() if name in others]
    return rows + places + routes


@seeds(2)
async def test_a_dead_member_goes_once_and_all_that_was_its_own_with_it(cluster_of):
    cluster = cluster_of(3)
    await begin(cluster)
    gone = cluster.nodes[3].name
    cluster.crash(3)
    await asyncio.sleep(LIMIT - 5)
    assert removals(cluster) == []
    await asyncio.sleep(30)
    assert removals(cluster) == [(1, "node3")]
    for node in cluster.nodes.values():
        assert known(node) == {"node1", "node2"}
        assert traces(node, gone) == []
    await asyncio.sleep(3 * LIMIT)
    assert len(removals(cluster)) == 1
    await cluster.restart(3)
    await cluster.settled()
    assert await reaches(cluster, 1, 3)
    await cluster.stop_all()


@seeds(3)
async def test_who_was_removed_while_it_lived_behind_a_split_rejoins_by_itself(cluster_of):
    cluster = cluster_of(5)
    listeners = await begin(cluster)
    cluster.partition([1, 2, 3], [4, 5])
    await asyncio.sleep(LIMIT + 30)
    # The smaller side has no majority, and removes nobody.
    assert sorted(removals(cluster)) == [(1, "node4"), (1, "node5")]
    assert known(cluster.nodes[1]) == {"node1", "node2", "node3"}
    assert known(cluster.nodes[4]) == {"node1", "node2", "node3", "node4", "node5"}
    await listeners[5].subscribe("during/5", qos=1)
    cluster.heal()
    await cluster.settled(timeout=90)
    assert all(listener.connected for listener in listeners.values())
    assert all(node.state == "running" for node in cluster.nodes.values())
    # It had been cut off, so that it heals as any other split does.
    await asyncio.sleep(60)
    (episode,) = cluster.nodes[1].healing.history
    assert {name[:5] for name in episode.reloaded} == {"node4", "node5"}
    assert all(not node.healing.open for node in cluster.nodes.values())
    assert await reaches(cluster, 4, 1)
    await cluster.stop_all()


async def test_nobody_is_removed_in_an_even_split(cluster_of):
    cluster = cluster_of(4)
    await begin(cluster)
    cluster.partition([1, 2], [3, 4])
    await asyncio.sleep(3 * LIMIT)
    assert removals(cluster) == []
    cluster.heal()
    await cluster.settled(timeout=90)
    await cluster.stop_all()


async def test_nobody_is_removed_while_a_split_waits_for_its_heal(sim):
    cluster = SimCluster(sim, 5, cluster={"autoclean": LIMIT, "autoheal": 300.0})
    await begin(cluster)
    cluster.partition([1, 2, 3], [4, 5])
    await asyncio.sleep(20)
    cluster.crash(3)
    cluster.heal()
    await asyncio.sleep(LIMIT + 30)
    assert cluster.nodes[1].healing.open
    assert removals(cluster) == []
    await asyncio.sleep(350)
    assert not cluster.nodes[1].healing.open
    assert removals(cluster) == [(1, "node3")]
    await cluster.stop_all()


async def test_the_limit_changes_at_run_time(cluster_of):
    cluster = cluster_of(3)
    await begin(cluster)
    for node in cluster.nodes.values():
        await node.runtime.call(AUTOHEAL, SetAutoclean(None))
    cluster.crash(2, "silence")
    await asyncio.sleep(3 * LIMIT)
    assert removals(cluster) == []
    await cluster.nodes[1].runtime.call(AUTOHEAL, SetAutoclean(10.0))
    await asyncio.sleep(2)
    assert removals(cluster) == [(1, "node2")]
    await cluster.stop_all()


async def test_a_restarted_observer_remembers_since_when_a_member_is_down(cluster_of, tmp_path):
    cluster = cluster_of(3)
    cluster.discs = tmp_path
    await begin(cluster)
    cluster.crash(3)
    await asyncio.sleep(LIMIT - 20)
    for number in (1, 2):
        cluster.crash(number)
        await asyncio.sleep(2)
        await cluster.restart(number)
    await cluster.settled(1, 2)
    begun = cluster.sim.loop.time()
    while not removals(cluster):
        assert cluster.sim.loop.time() - begun < 30
        await asyncio.sleep(1)
    assert [name for _, name in removals(cluster)] == ["node3"]
    await cluster.stop_all()

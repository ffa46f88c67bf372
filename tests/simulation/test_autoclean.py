"""Members that stay away are removed, once, by a majority; whoever returns is a member again by itself."""

import asyncio
from functools import partial

from gossamer.autoheal import AUTOHEAL, ChangeSetting

from .clusters import heal, nodes, restart, until
from .flows import listening, reaches

LIMIT = 60.0


cleaned = partial(nodes, start="in turn", cluster={"autoclean": LIMIT})


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
    places = [
        table for table in tables if node.store.replication.reachable_nodes(table)[1] > len(known(node))
    ]
    routes = [found for found, others, _ in node.router.routes() if name in others]
    return rows + places + routes


@cleaned(3, seeds=2)
async def test_a_dead_member_goes_once_and_all_that_was_its_own_with_it(sim, cluster):
    await listening(cluster)
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
    await restart(cluster, 3)
    assert await reaches(cluster, 1, 3)


@cleaned(5, seeds=3)
async def test_who_was_removed_while_it_lived_behind_a_split_rejoins_by_itself(sim, cluster):
    listeners = await listening(cluster)
    cluster.partition([1, 2, 3], [4, 5])
    await asyncio.sleep(LIMIT + 30)
    # The smaller side has no majority, and removes nobody.
    assert sorted(removals(cluster)) == [(1, "node4"), (1, "node5")]
    assert known(cluster.nodes[1]) == {"node1", "node2", "node3"}
    assert known(cluster.nodes[4]) == {"node1", "node2", "node3", "node4", "node5"}
    await listeners[5].subscribe("during/5", qos=1)
    await heal(cluster)
    assert all(listener.connected for listener in listeners.values())
    assert all(node.state == "running" for node in cluster.nodes.values())
    # It had been cut off, so that it heals as any other split does.
    await asyncio.sleep(60)
    (episode,) = cluster.nodes[1].healing.history
    assert {name[:5] for name in episode.reloaded} == {"node4", "node5"}
    assert all(not node.healing.open for node in cluster.nodes.values())
    assert await reaches(cluster, 4, 1)


@cleaned(4)
async def test_nobody_is_removed_in_an_even_split(sim, cluster):
    await listening(cluster)
    cluster.partition([1, 2], [3, 4])
    await asyncio.sleep(3 * LIMIT)
    assert removals(cluster) == []
    await heal(cluster)


@cleaned(5, cluster={"autoclean": LIMIT, "autoheal": 300.0})
async def test_nobody_is_removed_while_a_split_waits_for_its_heal(sim, cluster):
    await listening(cluster)
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


@cleaned(3)
async def test_the_limit_changes_at_run_time(sim, cluster):
    await listening(cluster)
    for node in cluster.nodes.values():
        await node.runtime.call(AUTOHEAL, ChangeSetting("autoclean", None))
    cluster.crash(2, "silence")
    await asyncio.sleep(3 * LIMIT)
    assert removals(cluster) == []
    await cluster.nodes[1].runtime.call(AUTOHEAL, ChangeSetting("autoclean", 10.0))
    await asyncio.sleep(2)
    assert removals(cluster) == [(1, "node2")]


@cleaned(3, discs=True)
async def test_a_restarted_observer_remembers_since_when_a_member_is_down(sim, cluster):
    await listening(cluster)
    cluster.crash(3)
    await asyncio.sleep(LIMIT - 20)
    for number in (1, 2):
        cluster.crash(number)
        await asyncio.sleep(2)
        await cluster.restart(number)
    await cluster.settled(1, 2)
    await until(lambda: removals(cluster), pause=1)
    assert [name for _, name in removals(cluster)] == ["node3"]

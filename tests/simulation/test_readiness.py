"""Which nodes take clients while the cluster is not as it should be."""

import asyncio

import pytest

from gossamer.distribution import Distribution
from gossamer.node.views import readiness
from gossamer.node.views.readiness import ALARM_AFTER, NEWCOMER

from .clusters import nodes, restart
from .flows import fill_disc


def ready(cluster):
    return {number: node.view.readiness().ready for number, node in sorted(cluster.nodes.items())}


@pytest.fixture
def stranger(monkeypatch):
    """Numbers of nodes whose links are refused on both sides from their next life on, as those of a release
    that does not fit are."""
    numbers = set()
    made = Distribution.__init__

    def init(self, runtime, *args, env="", **more):
        if int(runtime.node.partition("@")[0].removeprefix("node")) in numbers:
            env = "of another release"
        made(self, runtime, *args, env=env, **more)

    monkeypatch.setattr(Distribution, "__init__", init)
    return numbers


@nodes(3, seeds=2)
async def test_a_release_that_does_not_fit_makes_its_own_node_unready_and_no_other(sim, cluster, stranger):
    assert ready(cluster) == {1: True, 2: True, 3: True}
    stranger.add(3)
    await cluster.stop(3)
    seen = []

    async def probe():
        while True:
            await asyncio.sleep(1)
            seen.append(ready(cluster))

    probing = asyncio.create_task(probe())
    await cluster.restart(3)
    await asyncio.sleep(NEWCOMER + ALARM_AFTER + 5)
    probing.cancel()
    # Not once on the way.
    assert all(one[1] and one[2] and not one.get(3) for one in seen)
    first = cluster.nodes[1].view
    name = cluster.nodes[3].name
    assert first.readiness().waiting == (f"no link to {name}",)
    (alarm,) = [alarm for alarm in first.healing.alarms() if alarm.name == "peer_apart"]
    assert alarm.active
    assert alarm.text.startswith(f"{name} is online and has no part in the cluster as {first.name} sees it")
    # One that fits again is taken back, and the alarm is over.
    await cluster.stop(3)
    stranger.clear()
    await restart(cluster, 3)
    assert ready(cluster) == {1: True, 2: True, 3: True}
    assert not [alarm for alarm in first.healing.alarms() if alarm.name == "peer_apart"]


@nodes(2, seeds=2)
async def test_of_two_the_one_that_was_there_first_stays_in_service(sim, cluster, stranger):
    # Wall clocks differ by seconds.
    await asyncio.sleep(30)
    stranger.add(2)
    await cluster.stop(2)
    await cluster.restart(2)
    await asyncio.sleep(NEWCOMER + 5)
    assert ready(cluster) == {1: True, 2: False}


@nodes(seeds=2)
async def test_both_sides_of_a_split_serve_their_clients(sim, cluster):
    cluster.partition([1, 2, 3], [4, 5])
    await asyncio.sleep(60)
    assert all(ready(cluster).values())


@nodes(3, seeds=2, start=False)
async def test_a_node_that_starts_is_not_ready_before_it_has_the_others_tables(sim, cluster):
    await cluster.start(1, 2)
    await cluster.settled()
    starting = asyncio.create_task(cluster.start(3))
    while not starting.done():
        await asyncio.sleep(0.05)
        if 3 in cluster.nodes and cluster.nodes[3].state != "running":
            assert not cluster.nodes[3].view.readiness().ready
        assert cluster.nodes[1].view.readiness().ready
    await starting
    await cluster.settled()
    assert ready(cluster) == {1: True, 2: True, 3: True}


@nodes(3, seeds=2)
async def test_one_that_was_drained_or_has_left_is_not_ready_and_the_rest_is(sim, cluster):
    await asyncio.sleep(1)
    node = cluster.nodes[3]
    await node.view.drain()
    assert (node.view.readiness().ready, node.view.readiness().waiting) == (False, ("the node is drained",))
    await node.view.leave()
    assert "the node is left" in node.view.readiness().waiting
    await asyncio.sleep(10)
    assert ready(cluster) == {1: True, 2: True, 3: False}


@nodes(3)
async def test_a_member_that_is_down_is_an_alarm_until_it_is_back_or_removed(sim, cluster):
    name = cluster.nodes[3].name
    seers = [cluster.nodes[number].view for number in (1, 2)]

    def alarms():
        return [[a for a in view.healing.alarms() if a.name == "node_down"] for view in seers]

    assert alarms() == [[], []]
    crashed = [node.clock.wall() for node in (cluster.nodes[1], cluster.nodes[2])]
    cluster.crash(3)
    await asyncio.sleep(60)
    for (alarm,), then in zip(alarms(), crashed, strict=True):
        assert alarm.active
        assert alarm.text.startswith(f"{name} does not answer")
        # It says since when, and not when it was asked.
        assert then < alarm.since < then + 20
    assert all(view.readiness().ready for view in seers)
    await restart(cluster, 3)
    assert alarms() == [[], []]
    cluster.crash(3)
    await asyncio.sleep(30)
    await seers[0].force_leave(name)
    await asyncio.sleep(5)
    assert alarms() == [[], []]


@nodes(2, discs=True)
async def test_the_alarm_of_a_member_that_was_stopped_says_so(sim, cluster):
    name, wall = cluster.nodes[2].name, cluster.nodes[1].clock.wall
    begun = wall()
    await cluster.stop(2)
    stopped = wall()
    await asyncio.sleep(30)
    (alarm,) = cluster.nodes[1].view.healing.alarms()
    assert (alarm.name, alarm.active) == ("node_down", True)
    assert alarm.text.startswith(f"{name} was stopped")
    assert begun <= alarm.since <= stopped


@nodes(2, discs=True)
async def test_a_full_disc_is_an_alarm_and_the_node_not_ready_until_it_takes_writes(sim, cluster):
    node = cluster.nodes[1]
    filled = node.clock.wall()
    disc = await fill_disc(cluster, 1)
    await asyncio.sleep(30)
    readiness = node.view.readiness()
    assert not readiness.ready
    assert any("the disc takes no writes" in line and "free some space" in line for line in readiness.waiting)
    [alarm] = [a for a in node.view.healing.alarms() if a.name == "disc_failing"]
    assert node.name in alarm.text
    assert filled < alarm.since < filled + 10
    disc.limit_pages(0)
    await asyncio.sleep(5)
    assert node.view.readiness().ready
    assert not [a for a in node.view.healing.alarms() if a.name == "disc_failing"]


@nodes(1, discs=True)
async def test_a_node_whose_disc_is_nearly_full_says_so_before_a_write_fails(sim, cluster, monkeypatch):
    [node] = cluster.nodes.values()
    assert ready(cluster) == {1: True}
    monkeypatch.setattr(readiness, "ROOM", 1 << 62)
    assert ready(cluster) == {1: False}
    [waiting] = node.view.readiness().waiting
    assert "expected" in waiting
    assert [alarm.name for alarm in node.view.healing.alarms()] == ["disc_failing"]
    monkeypatch.undo()
    assert ready(cluster) == {1: True}
    assert not node.view.healing.alarms()

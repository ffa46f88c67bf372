"""Whole nodes that come, go and die, on virtual time: the cluster stays one and its routes stay true."""

import asyncio

import pytest

from gossamer.testing import LOSSY
from gossamer.testing.traffic import Flow

from .clusters import nodes, restart, until
from .flows import doubled, in_order, lost, reaches, subscriber


@nodes(10, seeds=3)
async def test_nodes_that_start_together_become_one_cluster(sim, cluster):
    assert await cluster.settled() < 10


@nodes(seeds=3, start=False)
async def test_nodes_that_join_one_by_one_hold_every_route(sim, cluster):
    rng = sim.rng("joins")
    order = rng.sample(range(1, 6), 5)
    listeners = []
    for number in order:
        await cluster.start(number)
        listener = await subscriber(cluster, number, f"own/{number}", "all/#", qos=1)
        listeners.append(listener)
        await asyncio.sleep(rng.uniform(0, 10))
    await cluster.settled()
    speaker = await cluster.client(rng.choice(order))
    await speaker.publish("all/of/you", b"hello", qos=1)
    await asyncio.sleep(2)
    assert [listener.payloads() for listener in listeners] == [[b"hello"]] * 5


@nodes(seeds=6)
@pytest.mark.parametrize("how", ["kill", "reset", "silence"])
async def test_a_crashed_node_is_noticed_its_routes_go_and_it_rejoins(sim, cluster, how):
    victim = sim.rng("victim").randrange(1, 6)
    await subscriber(cluster, victim, "on/the/victim", qos=1)
    survivor = victim % 5 + 1
    watcher = await subscriber(cluster, survivor, "elsewhere", qos=1)
    name = cluster.nodes[victim].name
    cluster.crash(victim, how)
    await until(
        lambda: not any(name in node.distribution.nodes() for node in cluster.nodes.values()), pause=0.1
    )
    speaker = await cluster.client(survivor)
    await speaker.publish("on/the/victim", b"anybody?", qos=1)  # acknowledged: nobody is there any more
    await restart(cluster, victim)
    assert await reaches(cluster, victim, survivor)
    assert await reaches(cluster, survivor, victim)
    assert watcher.connected


@nodes(3, seeds=3)
async def test_a_flow_between_two_nodes_survives_the_death_of_a_third(sim, cluster):
    listener = await subscriber(cluster, 3, "steady/#", qos=1)
    await subscriber(cluster, 2, "steady/#", qos=1)
    flow = Flow(await cluster.client(1), "steady/1", pause=0.01).start(count=1500)
    await asyncio.sleep(sim.rng("when").uniform(1, 3))
    cluster.crash(2, sim.rng("how").choice(["kill", "reset", "silence"]))
    await asyncio.sleep(5)
    await cluster.restart(2)
    await flow.finish()
    await asyncio.sleep(2)
    assert len(flow.acknowledged) == 1500
    assert listener.payloads() == flow.sent


@nodes(seeds=3)
async def test_bad_weather_delays_and_loses_nothing(sim, cluster):
    sim.weather(LOSSY)
    listeners = [await cluster.client(number, timeout=60) for number in range(1, 6)]
    for listener in listeners:
        await listener.subscribe("storm/#", qos=1)
    await asyncio.sleep(10)
    flows = [
        Flow(await cluster.client(number, timeout=60), f"storm/{number}", pause=0.1).start(count=60)
        for number in (1, 3, 5)
    ]
    for flow in flows:
        await flow.finish()
    sim.weather(sim.links.quality("10.0.0.1", "10.0.0.1"))
    await asyncio.sleep(10)
    await cluster.settled(timeout=60)
    for listener in listeners:
        for flow in flows:
            assert lost(flow, listener) == []
            assert in_order(listener, flow.topic)
        assert not doubled(listener)

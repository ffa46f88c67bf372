"""Persistent sessions outlive their node, whenever it dies."""

import asyncio
from functools import partial

import pytest

from gossamer.testing.traffic import Flow

from .clusters import nodes
from .flows import SESSION, doubled, gone, in_order, lost, resumed, session

lone = partial(nodes, 1, discs=True)


@lone(seeds=4)
async def test_what_was_acknowledged_is_delivered_after_a_crash(sim, cluster):
    client = await session(cluster, 1, "sleeper", "t/#", qos=2)
    lives = [client]
    rng = sim.rng("lives")
    flows = []
    for life in range(3):
        flows += [
            Flow(await cluster.client(1), f"t/{life}/{qos}", qos=qos, pause=0.002).start() for qos in (1, 2)
        ]
        await asyncio.sleep(rng.uniform(0.1, 0.4))
        if rng.random() < 0.5:
            lives[-1].drop()
            await asyncio.sleep(rng.uniform(0.1, 0.4))
        cluster.crash(1)
        await asyncio.sleep(1)
        for flow in flows[-2:]:
            await flow.stop()
        await cluster.restart(1)
        lives.append(await cluster.client(1, "sleeper", **SESSION))
        assert lives[-1].session_present
    await asyncio.sleep(2)
    got = [m for life in lives for m in life.messages]
    for flow in flows:
        assert len(flow.acknowledged) > 10
        mine = [m.payload for m in got if m.topic == flow.topic.encode()]
        assert not set(flow.acknowledged) - set(mine)


@lone(seeds=2)
async def test_subscriptions_come_back_with_their_options(sim, cluster):
    client = await session(cluster, 1, "c", "a/+", "b/#", qos=1)
    await client.unsubscribe("b/#")
    cluster.crash(1)
    await cluster.restart(1)
    speaker = await cluster.client(1)
    await speaker.publish("a/x", b"1", qos=1)
    await speaker.publish("b/x", b"2", qos=1)
    client = await resumed(cluster, 1, "c", pause=1)
    assert client.payloads() == [b"1"]


@lone(seeds=6)
async def test_what_a_client_is_told_is_on_disc(sim, cluster):
    """The node dies in the very moment in which CONNACK, SUBACK or UNSUBACK came."""
    for life in range(3):
        client = await cluster.client(1, f"c{life}", **SESSION)
        if life:
            await client.subscribe("t", qos=1)
        if life == 2:
            await client.unsubscribe("t")
        cluster.crash(1, "kill")
        await cluster.restart(1)
        again = await cluster.client(1, f"c{life}", **SESSION)
        assert again.session_present
        assert set(cluster.nodes[1].broker.sessions[f"c{life}"].subscriptions) == (
            {"t"} if life == 1 else set()
        )


@lone(seeds=6)
@pytest.mark.parametrize("expiry", [0, 3600])
async def test_a_clean_start_is_on_disc_once_it_is_told(sim, cluster, expiry):
    await session(cluster, 1, "c", "t", qos=1)
    await asyncio.sleep(1)
    new = await cluster.client(1, "c", clean_start=True, session_expiry=expiry)
    assert not new.session_present
    cluster.crash(1, "kill")
    await cluster.restart(1)
    again = await cluster.client(1, "c", **SESSION)
    assert again.session_present == bool(expiry)
    assert not cluster.nodes[1].broker.sessions["c"].subscriptions


@lone()
async def test_expiry_goes_on_while_the_node_is_down(sim, cluster):
    for name, expiry in (("short", 100), ("long", 10_000)):
        client = await cluster.client(1, name, session_expiry=expiry)
        await client.subscribe("t", qos=1)
        client.drop()
    await asyncio.sleep(50)
    cluster.crash(1)
    await asyncio.sleep(60)
    await cluster.restart(1)
    assert set(cluster.nodes[1].broker.sessions) == {"long"}
    await asyncio.sleep(10_000)
    assert not cluster.nodes[1].broker.sessions


@lone()
async def test_a_clean_start_leaves_nothing_on_disc(sim, cluster):
    client = await session(cluster, 1, "c", "t", qos=1)
    speaker = await cluster.client(1)
    client.drop()
    await asyncio.sleep(1)
    await speaker.publish("t", b"x", qos=1)
    client = await cluster.client(1, "c", clean_start=True)
    await client.disconnect()
    await asyncio.sleep(1)
    cluster.crash(1)
    await cluster.restart(1)
    client = await cluster.client(1, "c", **SESSION)
    await asyncio.sleep(1)
    assert (client.session_present, client.payloads()) == (False, [])


@lone(seeds=2)
async def test_order_is_kept_across_an_orderly_restart(sim, cluster):
    await gone(cluster, 1, "c", "t", qos=1)
    await asyncio.sleep(1)
    flow = Flow(await cluster.client(1), "t", pause=0.001)
    flow.start(100)
    await flow.finish()
    await cluster.stop(1)
    await cluster.restart(1)
    client = await cluster.client(1, "c", **SESSION)
    await asyncio.sleep(2)
    assert client.payloads() == flow.sent
    assert not doubled(client)
    assert in_order(client, "t")


@lone(seeds=2)
async def test_any_process_may_be_killed_and_what_was_acknowledged_survives_the_node(sim, cluster):
    """Clients of a killed listener are dropped and come back; of the rest they notice nothing but a delay."""
    await gone(cluster, 1, "c", "t", qos=1)
    flow = Flow(await cluster.client(1), "t", pause=0.01).start()
    node = cluster.nodes[1]
    rng = sim.rng("which")
    for label in ("disc", "mqtt_cluster", "replicator", "tables", "routes", "mqtt_ticker", "disc"):
        pids = [pid for pid in node.runtime.processes() if node.runtime.find(pid).label == label]
        assert pids, f"no process is labelled {label}"
        node.runtime.exit(pids[0], "kill")
        before = len(flow.acknowledged)
        await asyncio.sleep(rng.uniform(1, 3))
        assert node.state == "running"
        assert len(flow.acknowledged) > before, f"nothing is acknowledged after {label} was killed"
    await flow.stop()
    cluster.crash(1)
    await cluster.restart(1)
    client = await resumed(cluster, 1, "c", pause=5)
    assert not lost(flow, client)
    assert in_order(client, "t")

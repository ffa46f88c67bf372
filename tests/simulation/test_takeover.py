"""A client that comes to another node finds its session there, whole."""

import asyncio

import pytest

from gossamer.testing import seeds

from .flows import Flow, doubled


@seeds(4)
@pytest.mark.parametrize("cluster", [3], indirect=True)
async def test_a_session_follows_its_client_and_nothing_is_lost_or_doubled(sim, cluster):
    await cluster.start()
    await cluster.settled()
    flows = [Flow(await cluster.client(n), f"t/{n}", pause=0.003) for n in (1, 2, 3)]
    client = await cluster.client(1, "mover", session_expiry=300)
    await client.subscribe("t/#", qos=1)
    for flow in flows:
        flow.start()
    lives = [client]
    rng = sim.rng("moves")
    for number in (2, 3, 1, 2):
        await asyncio.sleep(rng.uniform(0.1, 1))
        if rng.random() < 0.5:
            lives[-1].drop()
        lives.append(await cluster.client(number, "mover", clean_start=False, session_expiry=300))
        assert lives[-1].session_present
    await asyncio.sleep(0.5)
    for flow in flows:
        await flow.stop()
    await asyncio.sleep(3)
    got = [m for life in lives for m in life.messages]
    for flow in flows:
        assert len(flow.acknowledged) > 50
        mine = [m.payload for m in got if m.topic == flow.topic.encode()]
        assert not set(flow.acknowledged) - set(mine)
        # Only what was in flight when the connection ended may come again, and says so.
        first = [m.payload for m in got if m.topic == flow.topic.encode() and not m.dup]
        assert len(first) == len(set(first))
    assert sum("mover" in node.broker.sessions for node in cluster.nodes.values()) == 1


@seeds(2)
@pytest.mark.parametrize("cluster", [3], indirect=True)
async def test_clean_start_ends_the_session_on_the_other_node(sim, cluster):
    await cluster.start()
    await cluster.settled()
    old = await cluster.client(1, "c", session_expiry=300)
    await old.subscribe("t", qos=1)
    await asyncio.sleep(1)
    new = await cluster.client(2, "c")
    await asyncio.sleep(1)
    assert not new.session_present
    assert old.left == 0x8E
    assert "c" not in cluster.nodes[1].broker.sessions
    speaker = await cluster.client(3)
    await speaker.publish("t", b"x", qos=1)
    await asyncio.sleep(1)
    assert new.messages == []


@seeds(6)
@pytest.mark.parametrize("cluster", [3], indirect=True)
@pytest.mark.parametrize("victim", [1, 2])
async def test_a_node_that_dies_in_the_middle_leaves_a_usable_session(sim, cluster, victim):
    await cluster.start()
    await cluster.settled()
    old = await cluster.client(1, "c", session_expiry=300)
    await old.subscribe("t", qos=1)
    await asyncio.sleep(1)
    moving = asyncio.create_task(cluster.client(2, "c", clean_start=False, session_expiry=300, timeout=30))
    await asyncio.sleep(sim.rng("when").uniform(0, 0.02))
    cluster.crash(victim, "kill")
    await asyncio.wait([moving])
    moving.exception()
    await asyncio.sleep(60)
    client = await cluster.client(3, "c", clean_start=False, session_expiry=300, timeout=30)
    await client.subscribe("t", qos=1)
    speaker = await cluster.client(3)
    await speaker.publish("t", b"x", qos=1)
    await asyncio.sleep(2)
    assert client.payloads() == [b"x"]
    assert not doubled(client)


@seeds(1)
@pytest.mark.parametrize("cluster", [2], indirect=True)
async def test_a_storm_of_takeovers_ends_with_every_session_in_one_place(sim, cluster):
    await cluster.start()
    await cluster.settled()
    names = [f"c{number}" for number in range(200)]
    for name in names:
        client = await cluster.client(1, name, session_expiry=300)
        await client.subscribe(f"t/{name}", qos=1)
    moved = await asyncio.gather(
        *(cluster.client(2, name, clean_start=False, session_expiry=300, timeout=60) for name in names)
    )
    assert all(client.session_present for client in moved)
    await asyncio.sleep(5)
    assert set(names) <= set(cluster.nodes[2].broker.sessions)
    assert not set(names) & set(cluster.nodes[1].broker.sessions)


@seeds(4)
@pytest.mark.parametrize("cluster", [3], indirect=True)
async def test_a_client_that_gives_up_waiting_finds_its_session_later(sim, cluster):
    await cluster.start()
    await cluster.settled()
    old = await cluster.client(1, "c", session_expiry=300)
    await old.subscribe("t", qos=1)
    old.drop()
    await asyncio.sleep(1)
    moving = asyncio.create_task(cluster.client(2, "c", clean_start=False, session_expiry=300))
    await asyncio.sleep(sim.rng("when").uniform(0, 0.02))
    if moving.done():
        moving.result().drop()
    moving.cancel()
    speaker = await cluster.client(3)
    await speaker.publish("t", b"x", qos=1)
    await asyncio.sleep(20)
    await speaker.publish("t", b"y", qos=1)
    client = await cluster.client(3, "c", clean_start=False, session_expiry=300)
    await asyncio.sleep(1)
    assert client.session_present
    assert client.payloads() == [b"x", b"y"]

"""A session is its user's, wherever in the cluster it is, or on its way."""

import asyncio

import pytest
from mqtt.harness import trusting

from gossamer.mqtt.client import RefusedError
from gossamer.testing.traffic import Flow

from .clusters import nodes, restart, until
from .flows import SESSION, gone, numbered, resumed, session, stop

NOT_AUTHORIZED = 0x87
ALICE, BOB = {"username": "alice"}, {"username": "bob"}


def name_users(cluster, *numbers):
    """Nodes take clients for who they say they are."""
    for number in numbers or cluster.nodes:
        broker = cluster.nodes[number].broker
        broker.access._authenticator = trusting()
        broker.table._owned = True


async def refused(cluster, number, name, **options):
    with pytest.raises(RefusedError) as error:
        await cluster.client(number, name, timeout=30, **options)
    assert error.value.reason == NOT_AUTHORIZED


@nodes(3, discs=True)
@pytest.mark.parametrize("connected", [True, False])
@pytest.mark.parametrize("clean", [True, False])
async def test_another_user_on_another_node_is_refused_and_the_session_stays(sim, cluster, connected, clean):
    name_users(cluster)
    alice = await session(cluster, 1, "c", "t", qos=1, **ALICE)
    if not connected:
        alice.drop()
    await asyncio.sleep(1)
    for user in (BOB, {}):
        await refused(cluster, 2, "c", **SESSION | {"clean_start": clean}, **user)
        await refused(cluster, 1, "c", **SESSION | {"clean_start": clean}, **user)
    assert cluster.nodes[2].broker.access.decisions["session", "owner", "deny"] == 2
    assert cluster.nodes[1].broker.sessions["c"].online is connected
    assert "c" not in cluster.nodes[2].broker.sessions
    sent = await numbered(await cluster.client(2), "t", 3)
    again = await resumed(cluster, 3, "c", pause=2, **ALICE)
    assert [*alice.payloads(), *again.payloads()] == sent
    assert cluster.nodes[3].broker.sessions["c"].username == "alice"


@nodes(3, seeds=3)
async def test_a_session_on_its_way_is_its_users_and_nothing_is_lost(sim, cluster):
    name_users(cluster)
    flow = Flow(await cluster.client(3), "t", pause=0.003)
    lives = [await session(cluster, 1, "c", "t", qos=1, **ALICE)]
    flow.start()
    rng = sim.rng("strangers")
    for number in (2, 3, 1, 2):
        await asyncio.sleep(rng.uniform(0.1, 0.5))
        moving = asyncio.create_task(resumed(cluster, number, "c", **ALICE))
        for at in (1, 2, 3):
            await asyncio.sleep(rng.uniform(0, 0.01))
            await refused(cluster, at, "c", clean_start=rng.random() < 0.5, session_expiry=300, **BOB)
        lives.append(await moving)
    await asyncio.sleep(0.5)
    await stop([flow])
    await asyncio.sleep(3)
    first = [m.payload for life in lives for m in life.messages if not m.dup]
    assert len(first) == len(set(first))
    assert not set(flow.acknowledged) - {m.payload for life in lives for m in life.messages}


@nodes(2)
async def test_a_stranger_who_waits_does_not_end_the_wait_of_the_user(sim, cluster):
    """Both come to a node whose neighbour, where the session is, takes its time to answer."""
    name_users(cluster)
    await gone(cluster, 1, "c", "t", qos=1, **ALICE)
    await asyncio.sleep(1)
    cluster.cut(1, 2)
    coming = asyncio.create_task(cluster.client(2, "c", timeout=30, **SESSION, **ALICE))
    await asyncio.sleep(0.1)
    stranger = asyncio.create_task(refused(cluster, 2, "c", **SESSION, **BOB))
    await asyncio.sleep(0.5)
    cluster.heal()
    assert (await coming).session_present
    await stranger


@nodes(3, discs=True, sessions={"replication": "auto"})
@pytest.mark.parametrize("clean", [True, False])
async def test_with_copies_it_stays_its_users_while_its_node_is_down(sim, cluster, clean):
    copies = [node.broker.copies for node in cluster.nodes.values()]
    await until(lambda: all(one.begun() for one in copies), within=90, pause=0.5)
    await asyncio.sleep(15)
    name_users(cluster)
    await gone(cluster, 1, "c", "secret/#", qos=1, **ALICE)
    sent = await numbered(await cluster.client(1), "secret/plan", 3)
    await asyncio.sleep(3)
    cluster.crash(1)
    await asyncio.sleep(10)
    for user in (BOB, {}):
        await refused(cluster, 2, "c", **SESSION | {"clean_start": clean}, **user)
    alice = await resumed(cluster, 3, "c", pause=2, **ALICE)
    assert alice.payloads() == sent


@nodes(2, discs=True)
async def test_what_was_left_behind_goes_to_no_other_user(sim, cluster):
    """Its node is down when another user comes, who cannot be told from the first one then."""
    name_users(cluster)
    await gone(cluster, 1, "c", "secret/#", qos=1, **ALICE)
    await asyncio.sleep(0.1)
    await numbered(await cluster.client(1), "secret/plan", 3)
    cluster.crash(1)
    await asyncio.sleep(30)
    bob = await cluster.client(2, "c", **SESSION, **BOB)
    assert not bob.session_present
    await restart(cluster, 1)
    name_users(cluster, 1)
    await until(lambda: "c" not in cluster.nodes[1].broker.sessions, within=60)
    assert bob.messages == []
    assert cluster.nodes[2].broker.sessions["c"].subscriptions == {}
    assert cluster.nodes[1].broker.fanout.drops["session_superseded"] == 3

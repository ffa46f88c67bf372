"""SUBACK with success says that every node that is not declared down forwards to the subscriber."""

import asyncio

import pytest
import pytest_asyncio

from gossamer.mqtt.client import RefusedError
from gossamer.testing import seeds
from gossamer.testing.cluster import SimCluster


@pytest_asyncio.fixture
async def trio(sim, request):
    made = SimCluster(sim, 3, mqtt=getattr(request, "param", {}))
    await made.start()
    await made.settled()
    yield made
    await made.stop_all()


async def published_at(cluster, number, topic):
    speaker = await cluster.client(number)
    await speaker.publish(topic, b"%d" % number, qos=1)


@seeds(2)
async def test_suback_waits_for_a_node_that_is_cut_off_one_way_and_not_declared_down(sim, trio):
    """The third node reaches both, so nobody is declared down, and the row never arrives."""
    listener = await trio.client(1)
    trio.cut(1, 2, one_way=True)
    subscribing = asyncio.create_task(listener.subscribe("t", qos=1, timeout=300))
    await asyncio.sleep(60)
    assert trio.nodes[2].name in trio.nodes[1].distribution.nodes()
    assert not subscribing.done()
    trio.heal()
    await subscribing
    for number in (1, 2, 3):
        await published_at(trio, number, "t")
    await asyncio.sleep(2)
    assert sorted(listener.payloads()) == [b"1", b"2", b"3"]


@seeds(2)
async def test_suback_waits_for_a_node_whose_link_begins_anew(sim, trio):
    """As after a cut that only one side took for the other's death."""
    listener = await trio.client(1)
    there, links = trio.nodes[2].name, trio.nodes[1].distribution
    trio.cut(1, 2)
    links.renew(links.peers[there], links.peers[there].creation, "forgotten by the peer")
    assert there not in links.nodes()
    subscribing = asyncio.create_task(listener.subscribe("t", qos=1, timeout=60))
    await asyncio.sleep(1)
    assert not subscribing.done()
    trio.heal()
    await subscribing
    await published_at(trio, 2, "t")
    await asyncio.sleep(2)
    assert listener.payloads() == [b"2"]


@seeds(2)
async def test_suback_comes_once_nodes_beyond_a_split_are_declared_down(sim, trio):
    listener = await trio.client(1)
    trio.partition([1, 2], [3])
    begun = sim.loop.time()
    await listener.subscribe("t", qos=1, timeout=60)
    assert trio.nodes[3].name not in trio.nodes[1].distribution.nodes()
    assert 2 < sim.loop.time() - begun < 20
    for number in (1, 2):
        await published_at(trio, number, "t")
    await asyncio.sleep(2)
    assert sorted(listener.payloads()) == [b"1", b"2"]


@seeds(1)
@pytest.mark.parametrize("trio", [{"unconfirmed_subscriptions": "refuse"}], indirect=True)
async def test_an_unconfirmed_subscription_is_refused_and_leaves_no_route(sim, trio):
    listener = await trio.client(1)
    trio.cut(1, 2, one_way=True)
    with pytest.raises(RefusedError, match="0x80"):
        await listener.subscribe("t", qos=1)
    assert [session.revised for session in trio.nodes[1].broker.sessions.values()] == [0]
    trio.heal()
    await trio.settled()
    await published_at(trio, 3, "t")
    await asyncio.sleep(2)
    assert listener.payloads() == []


@seeds(1)
async def test_a_node_that_is_alone_waits_for_nobody(sim):
    cluster = SimCluster(sim, 1)
    await cluster.start()
    begun = sim.loop.time()
    client = await cluster.client(1, "c", clean_start=False, session_expiry=300)
    await client.subscribe("t/#", qos=1)
    assert sim.loop.time() - begun < 0.2
    await cluster.stop_all()

"""SUBACK with success says that every node that is not declared down forwards to the subscriber."""

import asyncio

import pytest

from gossamer.mqtt.client import RefusedError

from .clusters import heal, nodes
from .flows import session


async def published_at(cluster, number, topic):
    speaker = await cluster.client(number)
    await speaker.publish(topic, b"%d" % number, qos=1)


@nodes(3, seeds=2)
async def test_suback_waits_for_a_node_that_is_cut_off_one_way_and_not_declared_down(sim, cluster):
    """The third node reaches both, so nobody is declared down, and the row never arrives."""
    listener = await cluster.client(1)
    cluster.cut(1, 2, one_way=True)
    subscribing = asyncio.create_task(listener.subscribe("t", qos=1, timeout=300))
    await asyncio.sleep(60)
    assert cluster.nodes[2].name in cluster.nodes[1].distribution.nodes()
    assert not subscribing.done()
    cluster.heal()
    await subscribing
    for number in (1, 2, 3):
        await published_at(cluster, number, "t")
    await asyncio.sleep(2)
    assert sorted(listener.payloads()) == [b"1", b"2", b"3"]


@nodes(3, seeds=2)
async def test_suback_waits_for_a_node_whose_link_begins_anew(sim, cluster):
    """As after a cut that only one side took for the other's death."""
    listener = await cluster.client(1)
    there, links = cluster.nodes[2].name, cluster.nodes[1].distribution
    cluster.cut(1, 2)
    links.renew(links.peers[there], links.peers[there].creation, "forgotten by the peer")
    assert there not in links.nodes()
    subscribing = asyncio.create_task(listener.subscribe("t", qos=1, timeout=60))
    await asyncio.sleep(1)
    assert not subscribing.done()
    cluster.heal()
    await subscribing
    await published_at(cluster, 2, "t")
    await asyncio.sleep(2)
    assert listener.payloads() == [b"2"]


@nodes(3, seeds=2)
async def test_suback_comes_once_nodes_beyond_a_split_are_declared_down(sim, cluster):
    listener = await cluster.client(1)
    cluster.partition([1, 2], [3])
    begun = sim.loop.time()
    await listener.subscribe("t", qos=1, timeout=60)
    assert cluster.nodes[3].name not in cluster.nodes[1].distribution.nodes()
    assert 2 < sim.loop.time() - begun < 20
    for number in (1, 2):
        await published_at(cluster, number, "t")
    await asyncio.sleep(2)
    assert sorted(listener.payloads()) == [b"1", b"2"]


HASTY = {
    "probe_interval": 0.1,
    "probe_timeout": 0.05,
    "suspicion_floor": 0.5,
    "suspicion_confirmations": 1,
}
"""Gossip that declares a frozen node down in less than a second, with some seeds."""


@nodes(3, seeds=3, cluster={"gossip": HASTY})
async def test_what_a_frozen_node_is_sent_reaches_those_who_subscribed_without_it(sim, cluster):
    """However soon the others declare it down, it asks for their routes before it goes on."""
    speaker, listener = await cluster.client(1), await cluster.client(3)
    cluster.freeze(1)
    publishing = asyncio.create_task(speaker.publish("t", b"1", qos=1, timeout=60))
    subscribing = asyncio.create_task(listener.subscribe("t", qos=1, timeout=60))
    await asyncio.wait([subscribing])
    cluster.thaw(1)
    await asyncio.gather(subscribing, publishing)
    await asyncio.sleep(5)
    assert listener.payloads() == [b"1"]


@nodes(3, mqtt={"unconfirmed_subscriptions": "refuse"})
async def test_an_unconfirmed_subscription_is_refused_and_leaves_no_route(sim, cluster):
    listener = await cluster.client(1)
    cluster.cut(1, 2, one_way=True)
    with pytest.raises(RefusedError, match="0x80"):
        await listener.subscribe("t", qos=1)
    assert [session.revised for session in cluster.nodes[1].broker.sessions.values()] == [0]
    await heal(cluster)
    await published_at(cluster, 3, "t")
    await asyncio.sleep(2)
    assert listener.payloads() == []


@nodes(1)
async def test_a_node_that_is_alone_waits_for_nobody(sim, cluster):
    begun = sim.loop.time()
    await session(cluster, 1, "c", "t/#", qos=1)
    assert sim.loop.time() - begun < 0.2

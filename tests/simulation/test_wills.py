"""Delayed wills of clients that go from node to node while nodes sleep, are cut off or leave."""

import asyncio
from functools import partial

import pytest

from gossamer.config import Endpoint
from gossamer.mqtt.codec.packets import Will
from gossamer.mqtt.codec.properties import Properties

from .clusters import heal, nodes
from .flows import SESSION

ALL = (1, 2, 3)


async def watchers(cluster):
    """A session at each node that is told of every will."""
    found = []
    for number in ALL:
        found.append(await cluster.client(number, f"watcher{number}", session_expiry=3000))
        await found[-1].subscribe("will/#", qos=2)
    await cluster.settled()
    return found


async def mortal(cluster, number, *, delay):
    """A client whose connection has just ended, and whose will counts down."""
    will = Will(topic=b"will/x", payload=b"gone", qos=2, properties=Properties(will_delay=delay))
    client = await cluster.client(number, "mortal", session_expiry=300, will=will)
    await asyncio.sleep(0.5)
    client.drop()


def payloads(watching):
    return [watcher.payloads() for watcher in watching]


@nodes(3, seeds=3)
@pytest.mark.parametrize("seconds", [12, 80])
async def test_a_delayed_will_is_void_at_a_node_that_slept_while_its_client_came_and_went(
    sim, cluster, seconds
):
    watching = await watchers(cluster)
    await mortal(cluster, 2, delay=8)
    await asyncio.sleep(1)
    cluster.freeze(2)
    # Until it is taken for dead, and is not asked for the session: that would be the first that it reads.
    await asyncio.sleep(5)
    back = await cluster.client(3, "mortal", **SESSION)
    await back.disconnect()
    await asyncio.sleep(seconds - 5)
    cluster.thaw(2)
    await cluster.settled(timeout=90)
    await asyncio.sleep(100)
    assert payloads(watching) == [[], [], []]


@nodes(3, seeds=2)
@pytest.mark.parametrize("alone", [1, 3])
async def test_a_delayed_will_of_a_session_that_a_cut_leaves_with_two_nodes_comes_once(sim, cluster, alone):
    """The session moves from 3 to 1, has just come there, and 3 is not told so before the cut ends."""
    watching = await watchers(cluster)
    broker = cluster.nodes[1].broker
    revive = broker.table.revive

    def revive_behind_a_cut(session, pending):
        cluster.partition([alone], [number for number in ALL if number != alone])
        revive(session, pending)

    broker.table.revive = revive_behind_a_cut
    await mortal(cluster, 3, delay=2)
    broker.runtime.spawn(partial(broker.takeovers.fetch, "mortal", clean=False), label="moving")
    await asyncio.sleep(20)
    await heal(cluster, pause=100)
    assert payloads(watching) == [[b"gone"]] * 3


@nodes(3, discs=True)
@pytest.mark.parametrize("dies", [True, False])
@pytest.mark.parametrize("stops", [True, False])
async def test_a_node_that_leaves_publishes_no_will_of_the_others(sim, cluster, dies, stops):
    """Neither one that counts down at a node that stays, nor one that it held for a node that is silent."""
    watching = await watchers(cluster)
    await mortal(cluster, 3, delay=20)
    if dies:
        cluster.crash(3, "silence")
    await asyncio.sleep(10)
    assert bool(cluster.nodes[1].broker.wills.held) == dies
    await cluster.nodes[1].view.leave()
    await asyncio.sleep(2)
    if stops:
        await cluster.stop(1)
        await cluster.restart(1)
    await asyncio.sleep(100)
    assert watching[1].payloads() == [b"gone"]
    await cluster.nodes[1].view.join([Endpoint(host="10.0.0.2", port=7946)])
    await asyncio.sleep(60)
    if stops:
        watching[0] = await cluster.client(1, "watcher1", **SESSION)
        await asyncio.sleep(5)
    # What was published while its node was no member is not for the other.
    assert payloads(watching[:2]) == [[], [b"gone"]]

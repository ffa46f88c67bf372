"""Delayed wills of clients that go from node to node while nodes sleep, are cut off or leave."""

import asyncio

import pytest

from gossamer.mqtt.codec.packets import Will
from gossamer.mqtt.codec.properties import Properties
from gossamer.testing import seeds

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


@seeds(3)
@pytest.mark.parametrize("cluster", [3], indirect=True)
@pytest.mark.parametrize("seconds", [12, 80])
async def test_a_delayed_will_is_void_at_a_node_that_slept_while_its_client_came_and_went(
    sim, cluster, seconds
):
    await cluster.start()
    await cluster.settled()
    watching = await watchers(cluster)
    await mortal(cluster, 2, delay=8)
    await asyncio.sleep(1)
    cluster.freeze(2)
    # Until it is taken for dead, and is not asked for the session: that would be the first that it reads.
    await asyncio.sleep(5)
    back = await cluster.client(3, "mortal", clean_start=False, session_expiry=300)
    await back.disconnect()
    await asyncio.sleep(seconds - 5)
    cluster.thaw(2)
    await cluster.settled(timeout=90)
    await asyncio.sleep(100)
    assert payloads(watching) == [[], [], []]

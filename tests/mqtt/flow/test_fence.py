"""A node that was stopped for a while takes nothing of its clients before it knows what its peers have."""

import asyncio

import pytest

from gossamer.mqtt.codec import packets as p
from gossamer.mqtt.flow.fence import LIMIT, STALL, Fence


class Peers:
    """What the fence asks."""

    def __init__(self, world, **options):
        self.up = ["node2", "node3"]
        self.level = set()
        self.asked = asyncio.Event()
        world.broker.fanout.fence = self.fence = Fence(
            now=world.broker.fanout.now,
            spawn=lambda function: world.runtime.spawn(function, label="fence"),
            peers=lambda: list(self.up),
            level=self.is_level,
            **options,
        )

    async def is_level(self, peer):
        self.asked.set()
        return peer in self.level


@pytest.fixture
def peers(world):
    return Peers(world)


async def opened(world):
    """Wait until the process that asks is gone."""
    async with asyncio.timeout(5):
        while [pid for pid in world.runtime.processes() if world.runtime.find(pid).label == "fence"]:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await world.settle()


async def test_what_comes_after_a_pause_waits_until_every_peer_is_level(world, peers):
    client = await world.subscriber("c", "a", qos=1, version=p.V5)
    world.clock.at += STALL + 0.1
    # Read before any timer runs.
    client.publish("a", b"1", qos=1, packet_id=1)
    await world.settle()
    peers.fence.beat()
    client.publish("a", b"2", qos=1, packet_id=2)
    peers.level.add("node2")
    assert await client.got() == []
    assert client.transport.paused
    peers.level.add("node3")
    await opened(world)
    packets = await client.got()
    assert [x.payload for x in packets if isinstance(x, p.Publish)] == [b"1", b"2"]
    assert peers.fence.count == 1


async def test_a_peer_that_never_answers_is_waited_for_a_bounded_time(world, peers):
    client = await world.client("c")
    world.clock.at += STALL + 0.1
    peers.fence.beat()
    client.send(p.Pingreq())
    assert await client.got() == []
    for _ in range(int(LIMIT)):
        world.clock.at += 1
        peers.fence.beat()
    await opened(world)
    assert await client.got() == [p.Pingresp()]


async def test_where_others_declare_a_node_down_sooner_it_is_fenced_sooner(world):
    peers = Peers(world, suspicion_floor=0.75)
    client = await world.client("c")
    world.clock.at += 0.75
    client.send(p.Pingreq())
    assert await client.got() == [p.Pingresp()]
    world.clock.at += 0.8
    client.send(p.Pingreq())
    assert await client.got() == []
    peers.level.update(peers.up)
    await opened(world)
    assert await client.got() == [p.Pingresp()]


async def test_a_patient_cluster_is_no_reason_to_fence_later(world):
    peers = Peers(world, suspicion_floor=60)
    world.clock.at += STALL + 0.1
    peers.fence.beat()
    assert peers.fence.count == 1


async def test_neither_a_short_stall_nor_a_node_alone_is_fenced(world, peers):
    client = await world.client("c")
    world.clock.at += STALL
    client.send(p.Pingreq())
    assert await client.got() == [p.Pingresp()]
    peers.up.clear()
    world.clock.at += 60
    client.send(p.Pingreq())
    assert await client.got() == [p.Pingresp()]
    assert peers.fence.count == 0

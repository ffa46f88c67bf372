"""A delayed message is published by the node that took it, also when that was restarted in between."""

import asyncio

import pytest

from gossamer.mqtt.client import RefusedError

from .clusters import nodes, restart
from .flows import subscriber


@nodes(2, seeds=2, discs=True)
async def test_delayed_messages_cross_nodes_and_outlive_a_crash(sim, cluster):
    listener = await subscriber(cluster, 2, "t/#", qos=1)
    speaker = await cluster.client(1)
    begun = sim.loop.time()
    for qos in (0, 1, 2):
        await speaker.publish(f"$delayed/5/t/{qos}", b"soon", qos=qos)
    with pytest.raises(RefusedError, match="0x90"):
        await speaker.publish("$delayed/nonsense/t/x", b"never", qos=1)
    await asyncio.sleep(4)
    assert not listener.messages
    await asyncio.sleep(3)
    assert sorted(message.topic for message in listener.messages) == [b"t/0", b"t/1", b"t/2"]

    for number in range(5):
        await speaker.publish(f"$delayed/{20 + number}/t/kept", b"%d" % number, qos=1)
    cluster.crash(1)
    await asyncio.sleep(22 - (sim.loop.time() - begun) % 1)
    assert len(listener.messages) == 3
    await restart(cluster, 1, pause=15)
    assert listener.payloads()[3:] == [b"%d" % number for number in range(5)]
    assert cluster.nodes[1].broker.delayed.count == 0

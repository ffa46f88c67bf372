"""What crosses between nodes: once to each node that has a subscriber, and nothing to any other."""

import asyncio

import pytest

from .clusters import nodes


@nodes(3, seeds=2)
@pytest.mark.parametrize("qos", [0, 1])
async def test_a_message_is_forwarded_once_to_each_node_that_wants_it(sim, cluster, qos):
    """Three overlapping subscriptions of two clients on node 3 cost one forward; node 2 wants nothing."""
    first, second = await cluster.client(3), await cluster.client(3, version=5)
    await first.subscribe("a/+", "a/#", qos=1)
    await second.subscribe("a/b", qos=1)
    speaker = await cluster.client(1)
    for number in range(10):
        await speaker.publish("a/b", b"%d" % number, qos=qos)
        # A turn of its own for each, so that each would be a frame of its own.
        await asyncio.sleep(0.5)
    assert len(first.messages) == len(second.messages) == 10
    forwarders = cluster.nodes[1].router.forwarders()
    counts = {name: forwarder.counts["frames"] for name, forwarder in forwarders.items()}
    assert counts["node3@10.0.0.3"] == 10
    assert counts.get("node2@10.0.0.2", 0) == 0

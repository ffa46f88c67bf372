"""One client in the cluster has an exclusive subscription, also after two have had it in a split."""

import asyncio

import pytest

from gossamer.errors import PeerError

from .clusters import nodes
from .flows import subscriber


async def refused(client, topic_filter) -> int:
    with pytest.raises(PeerError) as refusal:
        await client.subscribe(topic_filter, qos=1)
    return refusal.value.reason


@nodes(3, seeds=3)
async def test_the_second_is_refused_and_after_a_split_the_earlier_stays(sim, cluster):
    first, second = await cluster.client(1, version=5), await cluster.client(3, version=5)
    await first.subscribe("$exclusive/work", qos=1)
    assert await refused(second, "$exclusive/work") == 0x97
    assert await refused(await cluster.client(2, version=4), "$exclusive/work") == 0x80
    await first.disconnect()
    await asyncio.sleep(1)

    cluster.partition([1, 2], [3])
    await cluster.settled(1, 2, timeout=60)
    await cluster.settled(3, timeout=60)
    # Rows of a node that is gone are kept for the grace time; the first one gave its claim back before.
    early = await subscriber(cluster, 1, "$exclusive/work", qos=1, version=5)
    await asyncio.sleep(2)
    await second.subscribe("$exclusive/work", qos=1)
    cluster.heal()
    await asyncio.sleep(60)
    speaker = await cluster.client(2)
    await speaker.publish("work", b"after", qos=1)
    await asyncio.sleep(2)
    assert early.payloads() == [b"after"]
    assert second.payloads() == []
    assert second.connected, "nobody is dropped for it"
    assert cluster.nodes[3].router.stats()["exclusive_evicted"] == 1
    assert await refused(second, "$exclusive/work") == 0x97

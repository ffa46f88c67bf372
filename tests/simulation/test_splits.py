"""Networks that are cut: both sides serve on, and become one cluster again when they can.

What must hold after cuts of every other shape, with crashes between them: ``test_seeded_splits``.
"""

import asyncio

import pytest

from gossamer.testing import SLOW

from .clusters import heal, nodes
from .flows import SESSION, assert_whole, listening, reaches, session


@nodes(seeds=4)
@pytest.mark.parametrize(
    "groups",
    [([1, 2, 3], [4, 5]), ([1], [2, 3, 4, 5]), ([1, 2], [3, 4], [5]), ([1], [2], [3], [4], [5])],
    ids=["3/2", "1/4", "2/2/1", "total"],
)
async def test_a_split_heals_and_each_side_serves_meanwhile(sim, cluster, groups):
    listeners = await listening(cluster)
    cluster.partition(*groups)
    for group in groups:
        await cluster.settled(*group, timeout=60)
    for group in groups:
        source, target = group[0], group[-1]
        assert await reaches(cluster, source, target)
        # What changes on one side during the split must be known on the other after it.
        await listeners[target].subscribe(f"during/{target}", qos=1)
    await asyncio.sleep(sim.rng("length").uniform(0, 60))
    cluster.heal()
    await assert_whole(cluster, listeners)


@nodes(seeds=3)
async def test_a_slow_link_is_no_split(sim, cluster):
    listeners = await listening(cluster)
    sim.shape("10.0.0.1", "10.0.0.2", SLOW)
    await asyncio.sleep(60)
    assert not list(cluster.differences())
    sim.shape("10.0.0.1", "10.0.0.2", None)
    await assert_whole(cluster, listeners)


@nodes(3, seeds=6, discs=True)
async def test_what_was_unsubscribed_behind_a_cut_is_not_routed_after_it(sim, cluster):
    """Nor what the other side kept for the session, which knew of no unsubscribing."""
    listener = await session(cluster, 3, "c", "gone", "stays", qos=1)
    speaker = await cluster.client(1)
    cluster.partition([1, 2], [3])
    await asyncio.sleep(sim.rng("when").uniform(0.5, 20))
    for topic in ("gone", "stays"):
        await speaker.publish(topic, b"during", qos=1, timeout=60)
    await listener.unsubscribe("gone")
    await heal(cluster)
    for topic in ("gone", "stays"):
        await speaker.publish(topic, b"after", qos=1)
    await asyncio.sleep(5)
    assert [(m.topic, m.payload) for m in listener.messages] == [
        (b"stays", b"during"),
        (b"stays", b"after"),
    ]
    assert not any(
        "gone" in [name for name, *_ in node.broker.router.routes()] for node in cluster.nodes.values()
    )


@nodes(3, seeds=6)
async def test_of_two_connections_on_both_sides_of_a_cut_the_later_stays(sim, cluster):
    earlier = await cluster.client(3, "c", **SESSION)
    cluster.partition([1, 2], [3])
    await asyncio.sleep(sim.rng("when").uniform(1, 20))
    later = await cluster.client(1, "c", **SESSION, timeout=60)
    assert earlier.connected
    await heal(cluster, pause=2)
    assert later.connected
    assert not earlier.connected

"""Routes that went wrong on one node are found by comparing with the peers, and put right."""

import asyncio

from gossamer.routes import Findings

from .clusters import nodes
from .flows import subscriber

HERE, THERE = "node1@10.0.0.1", "node3@10.0.0.3"


async def verify(node, request="verify") -> Findings:
    return await node.runtime.call("routes", request, timeout=60.0)


def forget(node, topic_filter):
    """Lose a row of node 3, in the copy of its table and in the index, as no event ever would."""
    del node.store.table("routes")._state.replicas[THERE].rows[topic_filter]
    bit = node.router._nodes.get(THERE).bit
    assert node.router._index.set_bits(topic_filter, bit, 0) is not None
    node.router._routes.clear()


@nodes(3, seeds=2)
async def test_routes_lost_and_invented_are_found_and_repaired(sim, cluster):
    listener, speaker = await cluster.client(3), await cluster.client(1)
    await listener.subscribe(*(f"a/{n}/+" for n in range(20)), "$share/g/b", qos=1)
    await asyncio.sleep(1)
    first = await verify(cluster.nodes[1])
    assert (first.wrong, first.peers, first.silent) == (0, 2, 0)

    node = cluster.nodes[1]
    forget(node, "a/7/+")
    node.store.table("routes")._state.replicas[THERE].rows["ghost"] = 1
    node.store.table("routes")._state.replicas[THERE].rows["$share/g/b"] = 5
    await speaker.publish("a/7/x", b"lost", qos=1)
    await asyncio.sleep(1)
    assert not listener.messages

    told = await verify(node, "check")
    assert (told.unheard, told.unwanted) == (1, 0), "a check looks and touches nothing"
    found = await verify(node)
    # The invented rows were taken for true until the peer denied them.
    assert found.unheard >= 1
    assert (await verify(node)).wrong <= 2
    assert (await verify(node)).wrong == 0
    assert not [line for line in cluster.differences() if "$share" not in line]
    await speaker.publish("a/7/x", b"found", qos=1)
    await asyncio.sleep(1)
    assert [message.payload for message in listener.messages] == [b"found"]
    assert node.router.stats()["repaired"] >= 3
    assert node.router.stats()["peers_compared"] >= 8


@nodes(2)
async def test_the_audit_runs_by_itself_and_a_peer_that_is_gone_does_not_stop_it(sim, cluster):
    await subscriber(cluster, 1, "x")
    await asyncio.sleep(70)
    counts = cluster.nodes[1].router.stats()
    assert counts["peers_compared"] >= 1
    assert counts["found_wrong"] == 0
    cluster.crash(2)
    found = await verify(cluster.nodes[1])
    assert found.wrong == 0
    assert found.peers == 0


@nodes(3, seeds=2)
async def test_churn_is_no_difference(sim, cluster):
    """While clients come and go, what is on its way is not taken for wrong."""
    stop = asyncio.Event()

    async def churn(number):
        client = await cluster.client(number)
        for turn in range(100_000):
            if stop.is_set():
                return
            await client.subscribe(*(f"c/{number}/{turn + n}" for n in range(20)))
            await client.unsubscribe(*(f"c/{number}/{turn + n}" for n in range(15)))
            await asyncio.sleep(0.05)

    tasks = [asyncio.create_task(churn(number)) for number in (2, 3)]
    await asyncio.sleep(1)
    for _ in range(4):
        found = await verify(cluster.nodes[1])
        assert (found.wrong, found.peers) == (0, 2), found
    stop.set()
    await asyncio.gather(*tasks)

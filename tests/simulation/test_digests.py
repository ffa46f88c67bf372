"""Checksums of tables tell nodes that hold the same from those that do not."""

import asyncio

from .clusters import nodes
from .flows import subscriber


async def digests(node):
    return await node.view.digests()


@nodes(3, seeds=2)
async def test_nodes_agree_until_one_of_them_loses_a_row(sim, cluster):
    listener = await subscriber(cluster, 3, *(f"a/{n}/+" for n in range(5000)))
    await listener.publish("a/1/x", b"kept", qos=1, retain=True)
    await cluster.settled()
    await asyncio.sleep(5)
    first, *others = [await digests(node) for node in cluster.nodes.values()]
    assert others == [first] * len(others)
    assert {"routes", "retained"} <= {digest.name for digest in first}
    assert ("routes", 5000) in {(digest.name, digest.rows) for digest in first}
    rows = cluster.nodes[1].store.table("routes")._state.replicas["node3@10.0.0.3"].rows
    rows["a/7/+"] = 77
    (changed,) = set(await digests(cluster.nodes[1])) - set(first)
    assert (changed.name, changed.owner, changed.rows) == ("routes", "node3@10.0.0.3", 5000)

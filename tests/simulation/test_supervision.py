"""Every process of a running node is killed in turn: it comes back, and who need not notice does not."""

import asyncio

from gossamer.testing.traffic import Flow

from .clusters import nodes
from .flows import doubled, lost, reaches, subscriber


async def processes(node):
    """Every process below the root as (path of labels, pid), parents first."""

    def walk(branch, path):
        for child in branch.children:
            here = (*path, child.label or child.name or child.type)
            yield here, child.pid
            yield from walk(child, here)

    return [found for root in await node.runtime.tree() for found in walk(root, ())]


async def whole_again(cluster):
    await cluster.settled(timeout=60)
    assert await reaches(cluster, 1, 3, within=2)
    assert await reaches(cluster, 3, 1, within=2)


@nodes(3, seeds=2)
async def test_any_process_of_a_node_may_be_killed(sim, cluster):
    listener = await subscriber(cluster, 3, "steady/#", qos=1)
    flow = Flow(await cluster.client(2), "steady/1", pause=0.1).start()
    node = cluster.nodes[1]
    paths = [path for path, _ in await processes(node)]
    assert len(paths) > 10
    killed = set()
    for path in paths:
        # Their pids change with every restart.
        pid = dict(await processes(node)).get(path)
        if pid is None:
            continue
        node.runtime.exit(pid, "kill")
        killed.add(path)
        await asyncio.sleep(sim.rng(str(path)).uniform(2, 5))
        assert node.state == "running", f"{path} killed: the node is {node.state}"
        await whole_again(cluster)
    assert {path[0] for path in killed} >= {"distribution", "routes", "gossip", "membership", "discovery"}
    await flow.stop()
    await asyncio.sleep(1)
    # The other two nodes' clients noticed nothing of all this.
    assert lost(flow, listener) == []
    assert not doubled(listener)
    assert listener.connected


@nodes(3, seeds=2)
async def test_clients_outlive_what_is_not_theirs(sim, cluster):
    client = await subscriber(cluster, 1, "mine/#", qos=1)
    node = cluster.nodes[1]
    for name in ("gossip", "routes", "membership", "discovery", "distribution"):
        pid = dict(await processes(node))[(name,)]
        node.runtime.exit(pid, "kill")
        await asyncio.sleep(sim.rng(name).uniform(0, 3))
        await cluster.settled(timeout=60)
        assert client.connected, f"dropped when {name} was killed"
        assert await reaches(cluster, 3, 1, within=2)
    speaker = await cluster.client(2)
    await speaker.publish("mine/still", b"here", qos=1)
    await asyncio.sleep(1)
    assert client.payloads() == [b"here"]


@nodes(3)
async def test_too_many_deaths_end_the_node_and_the_cluster_goes_on(sim, cluster):
    node = cluster.nodes[1]
    for _ in range(50):
        pid = node.runtime.whereis("discovery")
        if pid is not None:
            node.runtime.exit(pid, "kill")
        await asyncio.sleep(0.05)
    failure = await asyncio.wait_for(node.wait(), 60)
    assert failure is not None
    assert failure.reason
    del cluster.nodes[1]
    sim.crash("10.0.0.1")
    await cluster.settled(timeout=60)
    assert await reaches(cluster, 2, 3)

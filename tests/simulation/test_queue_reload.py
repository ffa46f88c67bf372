"""Queues of a configuration that is read again while the nodes run."""

import asyncio

from gossamer.config import config_from
from gossamer.queues import append, show

from .clusters import nodes, until
from .test_queues import JOBS, declared


async def read_again(cluster, number, *queues):
    """Have a node read a configuration that declares these; return what came of each."""
    node = cluster.nodes[number]
    node.reread = lambda: config_from({"queues": list(queues)})
    return await node.view.reload_queues()


async def settings_of(cluster, name):
    return (await cluster.nodes[2].runtime.run(show, name))[1].settings


@nodes(3, seeds=2, **JOBS)
async def test_queues_are_added_and_changed_and_those_that_are_declared_no_more_stay(sim, cluster):
    await declared(cluster, "jobs")
    log = {"name": "log", "type": "stream"}
    more = {"name": "jobs", "limits": {"max_depth": 7}, "topics": ["orders/#"]}
    assert await read_again(cluster, 1, more, log) == {"jobs": "changed", "log": "added"}
    assert '"max_depth":7' in await settings_of(cluster, "jobs")
    # Other nodes find it so, and then it is as they have it.
    assert await read_again(cluster, 2, more, log) == {}
    speaker = await cluster.client(3)
    await asyncio.sleep(5)
    await speaker.publish("orders/1", b"x", qos=1)
    await until(lambda: "jobs" in cluster.nodes[3].queues.captures)
    (left,) = (await read_again(cluster, 1, more)).items()
    assert left == ("log", "declared no more, and left as it is; gossamer queues delete deletes it")
    assert '"stream"' in await settings_of(cluster, "log")
    assert await read_again(cluster, 1, more) == {}
    assert [queue.name for queue in cluster.nodes[1].config.queues] == ["jobs"]


@nodes(3, seeds=2, **JOBS)
async def test_what_cannot_be_changed_is_refused_with_the_reason_and_others_are_changed(sim, cluster):
    await declared(cluster, "jobs")
    run = cluster.nodes[1].runtime.run
    await run(append, "jobs", b"x")
    before = await settings_of(cluster, "jobs")
    moved = {"name": "jobs", "replication": {"group": "hot"}}
    came = await read_again(cluster, 1, moved, {"name": "other"})
    assert came["other"] == "added"
    assert came["jobs"].startswith("refused: queue jobs: replication.group is hot")
    assert "gossamer queues move jobs --group hot" in came["jobs"]
    came = await read_again(cluster, 1, {"name": "jobs", "type": "stream"}, {"name": "other"})
    assert "type is stream, and the queue is classic with 1 messages" in came["jobs"]
    assert "gossamer queues purge jobs" in came["jobs"]
    assert await settings_of(cluster, "jobs") == before
    # What was read before stays, at this node, too.
    assert [queue.type for queue in cluster.nodes[1].config.queues if queue.name == "jobs"] == ["classic"]
    # Of a queue without messages the type may change.
    came = await read_again(cluster, 1, {"name": "other", "type": "stream"})
    assert came["other"] == "changed"

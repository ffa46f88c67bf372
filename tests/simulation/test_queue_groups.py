"""Settings of replication groups on whole clusters: who must have a message, who takes and who
delivers it."""

import asyncio

import pytest

from gossamer.config import QueueConfig
from gossamer.errors import UsageError
from gossamer.mqtt.client import RefusedError
from gossamer.queues import create, delete, kind_of, list_queues, move

from .clusters import nodes, restart, until
from .test_queues import consumer, declared, leader_of, replicas, settled


def configured(**raft):
    """Options of a cluster whose replication groups are so."""
    return {"discs": True, "queues": [{"name": "jobs"}], "cluster": {"raft": raft}}


async def published(client, payload, timeout=30.0):
    """Publish to the queue; return the reason code and the reason."""
    try:
        await client.publish("$queue/jobs/", payload, qos=1, timeout=timeout)
    except RefusedError as error:
        return error.reason, str(error)
    return 0, ""


async def whole(cluster, group="default"):
    """Wait until a group has all voters."""
    await until(lambda: len(replicas(cluster, group)) == 3, within=60, pause=0.5)
    await asyncio.sleep(5)


@nodes(3, seeds=4, **configured(min_in_sync_replicas=3))
async def test_a_message_is_acknowledged_by_all_replicas_or_refused_and_consumers_go_on(sim, cluster):
    await declared(cluster, "jobs")
    await whole(cluster)
    leader = leader_of(cluster)
    worker = await consumer(cluster, leader, "worker", settle="explicit")
    speaker = await cluster.client(leader)
    assert await published(speaker, b"by all") == (0, "")
    cluster.crash(next(n for n in cluster.nodes if n != leader))
    # Until the leader has seen it, a message waits for the third: its publisher is not told that all have it.
    reason, _ = await published(speaker, b"by two")
    assert reason in (0x80, 0x83)
    await asyncio.sleep(3)
    reason, _ = await published(speaker, b"refused")
    assert reason == 0x83
    await until(lambda: worker.payloads()[:1] == [b"by all"])
    assert await settled(worker, "jobs", "$ack", worker.messages[:1]) == 0
    down = ({1, 2, 3} - set(cluster.nodes)).pop()
    await restart(cluster, down, pause=10)
    assert await published(speaker, b"again") == (0, "")
    await until(lambda: b"again" in worker.payloads())
    assert b"refused" not in worker.payloads()


@nodes(1, seeds=1, **configured(min_in_sync_replicas=2))
async def test_a_lone_node_that_is_to_have_others_takes_nothing_until_they_are_there(sim, cluster):
    await declared(cluster, "jobs")
    await asyncio.sleep(3)
    speaker = await cluster.client(1)
    reason, _ = await published(speaker, b"x")
    assert reason == 0x83


@nodes(3, seeds=3, **configured(ack_timeout="1s"))
async def test_a_message_that_no_quorum_has_in_time_is_answered_with_an_error_and_may_be_sent_again(
    sim, cluster
):
    await declared(cluster, "jobs")
    await whole(cluster)
    leader = leader_of(cluster)
    speaker = await cluster.client(leader)
    others = [n for n in cluster.nodes if n != leader]
    for number in others:
        cluster.cut(leader, number)
    began = asyncio.get_running_loop().time()
    tasks = [asyncio.create_task(published(speaker, b"%d" % number)) for number in range(3)]
    await asyncio.sleep(0.5)
    tasks.append(asyncio.create_task(published(speaker, b"later")))
    for number, task in enumerate(tasks):
        assert (await task)[0] == 0x80
        waited = asyncio.get_running_loop().time() - began
        assert waited < (1.2 if number < 3 else 1.7)


@nodes(3, seeds=3, **configured(write_policy="reject"))
async def test_who_does_not_lead_refuses_and_names_the_leader_who_takes_it(sim, cluster):
    await declared(cluster, "jobs")
    await whole(cluster)
    leader = leader_of(cluster)
    for number in cluster.nodes:
        client = await cluster.client(number)
        reason, _ = await published(client, b"%d" % number)
        assert reason == (0 if number == leader else 0x83)
    # Consuming and settling are for every node.
    worker = await consumer(
        cluster, next(n for n in cluster.nodes if n != leader), "worker", settle="explicit"
    )
    await until(lambda: worker.payloads() == [b"%d" % leader])
    assert await settled(worker, "jobs", "$ack", worker.messages) == 0


@nodes(3, seeds=3, **configured(distribution_mode="forward"))
async def test_the_leader_sends_messages_to_consumers_at_nodes_that_have_replicas_too(sim, cluster):
    await declared(cluster, "jobs")
    await whole(cluster)
    leader = leader_of(cluster)
    workers = [await consumer(cluster, number, f"w{number}") for number in cluster.nodes]
    assert not any(one.replica for node in cluster.nodes.values() for one in node.queues.consumers.values())
    speaker = await cluster.client(leader)
    sent = [b"%d" % number for number in range(60)]
    for payload in sent[:30]:
        await speaker.publish("$queue/jobs/", payload, qos=1)
    await until(lambda: sum(len(worker.messages) for worker in workers) == 30, within=1)
    assert sorted(one for worker in workers for one in worker.payloads()) == sorted(sent[:30])
    cluster.crash(leader)
    living = await cluster.client(min(cluster.nodes))
    for payload in sent[30:]:
        await living.publish("$queue/jobs/", payload, qos=1, timeout=30)
    await until(lambda: {one for w in workers for one in w.payloads()} == set(sent), within=30)


@nodes(3, seeds=2, **configured(groups={"slow": {"heartbeat": "3s", "election_timeout": "10s"}}))
async def test_a_group_elects_by_its_own_times(sim, cluster):
    await declared(cluster, "jobs")
    await cluster.nodes[1].runtime.run(create, "other", QueueConfig(replication={"group": "slow"}))
    await whole(cluster, "slow")
    # It is handed over to the node that should lead it.
    await asyncio.sleep(30)
    terms = {n: node.consensus.replicas[kind_of("slow")].term for n, node in cluster.nodes.items()}
    await asyncio.sleep(60)
    assert terms == {n: node.consensus.replicas[kind_of("slow")].term for n, node in cluster.nodes.items()}
    leader = leader_of(cluster, "slow")
    cluster.crash(leader)
    gone = asyncio.get_running_loop().time()

    def led():
        return any(kind_of("slow") in node.consensus.leading for node in cluster.nodes.values())

    await until(led, within=40)
    assert 6 <= asyncio.get_running_loop().time() - gone <= 25


def groups_of(cluster):
    """Replication groups of which some node has a replica."""
    kinds = {kind for node in cluster.nodes.values() for kind in node.consensus.replicas}
    return {kind.removeprefix("queues/") for kind in kinds if kind.startswith("queues/")}


@nodes(3, seeds=3, **configured(groups={"kept": {}}))
async def test_a_group_is_made_at_first_use_and_ends_everywhere_when_no_queue_uses_it(sim, cluster):
    await declared(cluster, "jobs")
    run = cluster.nodes[2].runtime.run
    await run(create, "other", QueueConfig(replication={"group": "new"}))
    await whole(cluster, "new")
    speaker = await cluster.client(3)
    await speaker.publish("$queue/other/", b"x", qos=1)
    # It is in use, for however long.
    await asyncio.sleep(90)
    assert groups_of(cluster) == {"default", "kept", "new"}
    # A queue of another group is its second use, and goes back.
    assert await run(move, "jobs", "new") == "new"
    await run(delete, "other")
    await asyncio.sleep(90)
    assert "new" in groups_of(cluster)
    assert await run(move, "jobs", "default") == "default"
    down = 3
    cluster.crash(down)
    await until(lambda: groups_of(cluster) == {"default", "kept"}, within=120, pause=1)
    # Who was down has it no more, either, and it may be made again.
    await restart(cluster, down, pause=10)
    await until(lambda: groups_of(cluster) == {"default", "kept"}, within=20, pause=1)
    run = cluster.nodes[2].runtime.run
    await run(create, "other", QueueConfig(replication={"group": "new"}))
    assert ("new", "other") in [(group, stats.name) for group, stats in await run(list_queues)]
    await whole(cluster, "new")


@nodes(3, seeds=1, **configured(auto_provision_groups=False))
async def test_where_groups_are_not_made_at_first_use_one_that_is_not_there_is_refused(sim, cluster):
    await declared(cluster, "jobs")
    await whole(cluster)
    run = cluster.nodes[2].runtime.run
    with pytest.raises(UsageError, match="auto_provision_groups"):
        await run(create, "other", QueueConfig(replication={"group": "new"}))
    with pytest.raises(UsageError, match="auto_provision_groups"):
        await run(move, "jobs", "new")

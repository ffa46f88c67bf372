"""Queues that go to another replication group while clients use them: nothing is lost, refused or doubled."""

import asyncio
from functools import partial

import pytest

from gossamer.config import QueueConfig
from gossamer.queues import SharedLettersError, create, kind_of, list_queues, move, questions, replay, show

from .clusters import nodes, until
from .test_queues import GROUPS, consumer, declared, leader_of, settled, user_of

STEADY = {"name": "steady", "retry": {"initial_backoff": "1s"}, "visibility_timeout": "60s"}
MOVED = GROUPS | {"queues": [*GROUPS["queues"], STEADY]}


async def led(cluster):
    """Wait until both groups have their leader."""
    await declared(cluster, "steady", "hot")
    await until(
        lambda: all(
            any(kind_of(group) in node.consensus.leading for node in cluster.nodes.values())
            for group in ("default", "hot")
        )
    )


async def in_group(cluster, number, queue, group):
    """Whether a queue is in a group, and nowhere else."""
    found = await cluster.nodes[number].runtime.run(list_queues)
    return [(has, stats.moving_to) for has, stats in found if stats.name == queue] == [(group, "")]


class Parts:
    """Crashes a node when the ``at``th part of a queue that moves is read."""

    def __init__(self, monkeypatch, cluster, dying, at):
        self.count, self.at = 0, at
        self.crash = lambda: cluster.crash(dying)
        self.read = questions.move_part
        monkeypatch.setattr(questions, "move_part", self)

    async def __call__(self, group, name, position):
        self.count += 1
        if self.count == self.at:
            asyncio.get_running_loop().call_soon(self.crash)
        return await self.read(group, name, position)


@nodes(3, seeds=6, **MOVED)
@pytest.mark.parametrize(("dies", "asked"), [("default", "another"), ("default", "it"), ("hot", "another")])
async def test_a_queue_moves_while_messages_flow_though_a_leader_dies(sim, cluster, monkeypatch, dies, asked):
    await led(cluster)
    dying = leader_of(cluster, dies)
    living = [number for number in cluster.nodes if number != dying]
    late = await consumer(cluster, living[0], "late", queue="steady", group="late")
    await late.disconnect()
    workers = [await consumer(cluster, number, f"w{number}", queue="steady") for number in living]
    speakers = [await cluster.client(number) for number in living]
    # It waits for the group that nobody is in, so that the queue moves in many parts.
    sent = [b"%07d" % number + b"x" * 200_000 for number in range(20)]
    for payload in sent:
        await speakers[0].publish("$queue/steady/", payload, qos=1, timeout=30)

    async def speak(number, client):
        for at in range(100):
            payload = f"{number}-{at}".encode()
            await client.publish("$queue/steady/", payload, qos=1, timeout=30)
            sent.append(payload)
            await asyncio.sleep(0.02)

    tasks = [asyncio.create_task(speak(n, client)) for n, client in enumerate(speakers)]
    await asyncio.sleep(0.5)
    parts = Parts(monkeypatch, cluster, dying, at=sim.rng("move").randrange(1, 17))
    mover = dying if asked == "it" else living[0]
    moving = asyncio.create_task(cluster.nodes[mover].runtime.run(partial(move, "steady", "hot")))
    await asyncio.gather(*tasks)
    assert parts.count > parts.at
    async with asyncio.timeout(60):
        while not await in_group(cluster, living[0], "steady", "hot"):  # noqa: ASYNC110
            await asyncio.sleep(0.5)
    await until(lambda: len([one for w in workers for one in w.payloads()]) >= len(sent), within=60)
    await asyncio.sleep(5)
    assert sorted(one for w in workers for one in w.payloads()) == sorted(sent)
    assert all(user_of(one)["attempt"] == "1" for w in workers for one in w.messages)
    late = await consumer(cluster, living[1], "late", queue="steady", group="late")
    await until(lambda: len(late.messages) >= len(sent), within=60)
    assert sorted(late.payloads()) == sorted(sent)
    moving.cancel()
    await asyncio.gather(moving, return_exceptions=True)


@nodes(3, seeds=2, **MOVED)
async def test_what_consumers_have_stays_with_them_and_is_settled_in_the_new_group(sim, cluster):
    await led(cluster)
    worker = await consumer(cluster, 2, "worker", queue="steady", settle="explicit")
    speaker = await cluster.client(1)
    for number in range(3):
        await speaker.publish("$queue/steady/", b"%d" % number, qos=1)
    await until(lambda: len(worker.messages) == 3)
    assert await settled(worker, "steady", "$reject", worker.messages[:1]) == 0
    run = cluster.nodes[3].runtime.run
    assert await run(move, "steady", "hot") == "hot"
    assert await settled(worker, "steady", "$ack", worker.messages[1:2]) == 0
    await asyncio.sleep(5)
    assert len(worker.messages) == 3
    assert await settled(worker, "steady", "$ack", worker.messages[2:]) == 0
    # Its dead letters are with it, and its consumer has what comes now.
    assert await in_group(cluster, 1, "steady.dlq", "hot")
    assert await run(replay, "steady") == ("steady.dlq", 1)
    await until(lambda: worker.payloads() == [b"0", b"1", b"2", b"0"])
    assert (await run(show, "steady"))[1].stats.depth == 1
    assert await run(move, "steady", "default") == "default"


@nodes(3, seeds=1, **MOVED)
async def test_a_queue_that_shares_its_dead_letters_is_not_moved(sim, cluster):
    await led(cluster)
    run = cluster.nodes[1].runtime.run
    for name in ("a", "b"):
        await run(create, name, QueueConfig(dlq={"queue": "graves"}))
    await run(create, "graves", QueueConfig())
    for name in ("a", "graves"):
        with pytest.raises(SharedLettersError):
            await run(move, name, "hot")

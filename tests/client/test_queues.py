"""Queues for clients outside the cluster: what is published is done by one of them, whatever node dies."""

import asyncio

import pytest
import pytest_asyncio
import structlog

from gossamer.client import RefusedError, RejectJob, RetryJob
from gossamer.errors import UsageError
from gossamer.mqtt.codec import packets as p
from gossamer.mqtt.codec.properties import Properties
from gossamer.queues import NotHeldError, QueueFullError, TooLargeError, UnknownQueueError, kind_of, show
from gossamer.testing.cluster import SimCluster

QUEUES = [
    {"name": "jobs", "retry": {"initial_backoff": "1s"}, "visibility_timeout": "30s"},
    {"name": "small", "limits": {"max_depth": 1, "max_message_size": 1024}},
]


@pytest_asyncio.fixture
async def cluster(sim, tmp_path):
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    made = SimCluster(sim, 3, queues=QUEUES)
    made.discs = tmp_path
    async with made:
        await made.settled()
        port = made.nodes[1].queues
        await until(lambda: {"jobs", "small"} <= set(port.groups) and port.listed)
        yield made
    structlog.reset_defaults()


async def until(holds, within=60.0):
    async with asyncio.timeout(within):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.1)


async def take(consumer, number):
    """So many jobs, none of them settled."""
    async with asyncio.timeout(60):
        return [await anext(consumer) for _ in range(number)]


def leader_of(cluster):
    return next(n for n, node in cluster.nodes.items() if kind_of("default") in node.consensus.leading)


async def shown(cluster, queue="jobs"):
    node = next(iter(cluster.nodes.values()))
    return (await node.runtime.run(show, queue))[1]


async def test_jobs_published_at_one_node_are_done_once_at_others(cluster, client_of):
    queue = (await client_of(1)).queue("jobs")
    consumers = [(await client_of(n)).queue("jobs").consume(group="workers", in_flight=4) for n in (2, 3)]
    done = []

    async def work(consumer):
        async for job in consumer:
            async with job:
                done.append((job.key, job.payload, job.headers["unit"], job.attempt))

    workers = [asyncio.create_task(work(consumer)) for consumer in consumers]
    offsets = [await queue.publish(f"{n}", key=f"orders/{n}", headers={"unit": "kg"}) for n in range(40)]
    assert offsets == list(range(40))
    await until(lambda: len(done) == 40)
    assert sorted(done) == sorted((f"orders/{n}", b"%d" % n, "kg", 1) for n in range(40))
    await asyncio.sleep(2)
    assert (await shown(cluster)).stats.depth == 0
    for consumer in consumers:
        consumer.close()
    await asyncio.gather(*workers)


async def test_a_body_that_raises_has_its_job_come_again_and_named_exceptions_say_more(cluster, client_of):
    client = await client_of()
    queue = client.queue("jobs")
    for payload in (b"fails", b"never", b"later", b"fine"):
        await queue.publish(payload)
    seen, raised = [], 0
    async with queue.consume(in_flight=1) as consumer:
        while len(seen) < 6:
            try:
                async with asyncio.timeout(60), await anext(consumer) as job:
                    seen.append((job.payload, job.attempt))
                    match job.payload, job.attempt:
                        case b"fails", 1:
                            raise ValueError("not like this")
                        case b"never", _:
                            raise RejectJob("no such order")
                        case b"later", 1:
                            raise RetryJob("the shop is closed", delay=5)
            except ValueError:
                raised += 1
    assert raised == 1
    assert seen[:1] == [(b"fails", 1)]
    assert sorted(seen) == [
        (b"fails", 1),
        (b"fails", 2),
        (b"fine", 1),
        (b"later", 1),
        (b"later", 2),
        (b"never", 1),
    ]
    assert seen[-1] == (b"later", 2)
    async with client.queue("jobs.dlq").consume() as undertaker:
        (dead,) = await take(undertaker, 1)
        assert (dead.payload, dead.note) == (b"never", "jobs, consumer group default: no such order")
        await dead.ack()


async def test_by_hand_and_what_is_settled_twice_or_too_late(cluster, client_of):
    client = await client_of(2)
    queue = client.queue("jobs")
    for n in range(3):
        await queue.publish(b"%d" % n)
    consumer = queue.consume(group="w")
    one, two, three = await take(consumer, 3)
    await one.ack()
    await two.nack("not now", delay=0)
    await three.reject("never")
    # It was said what is to become of it.
    await one.reject()
    (again,) = await take(consumer, 1)
    assert (again.id, again.payload, again.attempt) == ("jobs:1", b"1", 2)
    two.settled = False
    with pytest.raises(NotHeldError):
        await two.ack()
    consumer.close()
    with pytest.raises(StopAsyncIteration):
        await anext(consumer)
    assert (await shown(cluster, "jobs.dlq")).stats.depth == 1


async def test_batches_are_full_or_late_and_are_settled_at_once(cluster, client_of):
    queue = (await client_of()).queue("jobs")
    for n in range(7):
        await queue.publish(b"%d" % n)
    loop = asyncio.get_running_loop()
    async with queue.consume(in_flight=5) as consumer:
        async with await consumer.batch(5, within=10) as jobs:
            assert [job.payload for job in jobs] == [b"0", b"1", b"2", b"3", b"4"]
            await jobs[0].reject("not this one")
        began = loop.time()
        async with await consumer.batch(5, within=3) as jobs:
            assert [job.payload for job in jobs] == [b"5", b"6"]
            assert loop.time() - began == pytest.approx(3, abs=0.5)
        with pytest.raises(UsageError):
            await consumer.batch(6, within=1)
    found = (await shown(cluster)).stats
    assert (found.depth, found.settled, found.dead) == (0, 6, 1)


@pytest.mark.parametrize("victim", ["attached", "leader"])
async def test_everything_published_is_done_when_a_node_dies(cluster, client_of, victim):
    leader = leader_of(cluster)
    dying = leader if victim == "leader" else next(n for n in (1, 2, 3) if n != leader)
    others = [n for n in (1, 2, 3) if n != dying]
    speaker = (await client_of(dying, *others)).queue("jobs")
    worker = await client_of(dying, *others)
    consumer = worker.queue("jobs").consume(group="workers", in_flight=8)
    done = []

    async def work():
        async for job in consumer:
            async with job:
                await asyncio.sleep(0.05)
                done.append(job.payload)

    working = asyncio.create_task(work())
    keeper = worker.runtime.whereis("keeper")
    sent = [b"%d" % n for n in range(60)]
    for n, payload in enumerate(sent):
        if n == 30:
            cluster.crash(dying)
        await speaker.publish(payload)
    await until(lambda: set(done) == set(sent), within=90)
    assert worker.attached_to in [node.name for node in cluster.nodes.values()]
    assert worker.runtime.whereis("keeper") == keeper
    await asyncio.sleep(3)
    assert (await shown(cluster)).stats.depth == 0
    consumer.close()
    await working


async def test_what_a_client_has_goes_to_another_as_soon_as_it_closes_or_is_cancelled(cluster, client_of):
    one, two = await client_of(1), await client_of(2)
    await one.queue("jobs").publish(b"x")
    lazy = one.queue("jobs").consume(group="w")
    (job,) = await take(lazy, 1)
    other = two.queue("jobs").consume(group="w")
    waiting = asyncio.create_task(take(other, 1))
    await asyncio.sleep(3)
    assert not waiting.done()
    lazy.close()
    (job,) = await asyncio.wait_for(waiting, 3)
    assert job.attempt == 2

    async def hang():
        async with job:
            await asyncio.Event().wait()

    hanging = asyncio.create_task(hang())
    await asyncio.sleep(1)
    hanging.cancel()
    (job,) = await asyncio.wait_for(take(other, 1), 3)
    assert job.attempt == 3


async def test_a_consumer_that_has_joined_gets_what_is_published_though_another_group_is_done_with_it(
    cluster, client_of
):
    client = await client_of(1)
    queue = client.queue("jobs")
    async with queue.consume(group="fast") as fast, queue.consume(group="slow") as slow:
        await queue.publish(b"x")
        async with (await take(fast, 1))[0]:
            pass
        assert [job.payload for job in await take(slow, 1)] == [b"x"]
    with pytest.raises(UnknownQueueError):
        await client.queue("nope").consume().join()


async def test_what_cannot_be_is_said(cluster, client_of):
    client = await client_of(2)
    with pytest.raises(UnknownQueueError):
        await client.queue("nope").publish(b"x")
    with pytest.raises(UnknownQueueError):
        await anext(client.queue("nope").consume())
    small = client.queue("small")
    with pytest.raises(TooLargeError):
        await small.publish(b"x" * 2000)
    await small.publish(b"x")
    with pytest.raises(QueueFullError):
        await small.publish(b"x")
    with pytest.raises(RefusedError):
        await anext(small.consume(group="g" * 65))
    with pytest.raises(UsageError):
        small.consume(in_flight=0)


async def test_mqtt_clients_and_python_clients_do_each_others_jobs(cluster, client_of):
    python, mqtt = await client_of(1), await cluster.client(3)
    properties = Properties(user=(("unit", "kg"),))
    await mqtt.publish("$queue/jobs/orders/7", b"from mqtt", qos=1, properties=properties)
    consumer = python.queue("jobs").consume(group="workers")
    (job,) = await take(consumer, 1)
    assert (job.key, job.payload, job.headers) == ("orders/7", b"from mqtt", {"unit": "kg"})
    await job.ack()
    consumer.close()
    user = (("consumer-group", "workers"), ("settle", "puback"))
    packet = p.Subscribe(
        packet_id=9, subscriptions=(p.Subscription("$queue/jobs/#", 1),), properties=Properties(user=user)
    )
    await mqtt.ask(packet, p.Suback, 9)
    await python.queue("jobs").publish("from python", key="k", headers={"unit": "g"})
    await until(lambda: mqtt.messages)
    (message,) = mqtt.messages
    assert (message.topic, message.payload) == (b"$queue/jobs/k", b"from python")
    assert dict(message.properties.user)["unit"] == "g"

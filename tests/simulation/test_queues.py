"""Queues on whole clusters: what a publisher was told is in the queue is done by one consumer of each group,
whatever dies."""

import asyncio
from functools import partial

import pytest
from msgspec.structs import replace

from gossamer.config import QueueConfig
from gossamer.mqtt.client import ClientLostError, RefusedError
from gossamer.mqtt.codec import packets as p
from gossamer.mqtt.codec.properties import Properties
from gossamer.queues import (
    QUEUES,
    DeadLettersElsewhereError,
    GroupChangeError,
    Job,
    NoDeadLetterError,
    NotDoneError,
    NotHeldError,
    ack,
    consume,
    create,
    delete,
    kind_of,
    nack,
    reject,
    replay,
)
from gossamer.supervisor import ChildSpec, GenServer, Supervisor, receive

from .clusters import heal, nodes, restart, until

JOBS = {
    "discs": True,
    "queues": [{"name": "jobs", "retry": {"initial_backoff": "1s"}, "visibility_timeout": "10s"}],
}


async def declared(cluster, *queues):
    """Wait until the queues are there."""
    port = next(iter(cluster.nodes.values())).queues
    await until(lambda: set(queues) <= set(port.groups) and port.listed, within=60, pause=0.5)


async def consumer(cluster, number, client_id, queue="jobs", *, group="workers", **user):
    """A client that consumes."""
    client = await cluster.client(number, client_id)
    user = {"consumer-group": group, "settle": "puback"} | user
    packet = p.Subscribe(
        packet_id=9,
        subscriptions=(p.Subscription(f"$queue/{queue}/#", 1),),
        properties=Properties(user=tuple(user.items())),
    )
    answer = await client.ask(packet, p.Suback, 9)
    assert answer.reasons == (1,), answer
    return client


def leader_of(cluster, group="default"):
    """Number of the node that leads a group."""
    return next(n for n, node in cluster.nodes.items() if kind_of(group) in node.consensus.leading)


@nodes(3, seeds=3, **JOBS)
async def test_each_message_goes_to_one_consumer_wherever_it_is(sim, cluster):
    await declared(cluster, "jobs")
    workers = [await consumer(cluster, n, f"w{n}") for n in (1, 2, 3)]
    other = await consumer(cluster, 2, "audit", group="audit")
    speaker = await cluster.client(1)
    sent = [f"{n}".encode() for n in range(60)]
    for payload in sent:
        await speaker.publish("$queue/jobs/key", payload, qos=1)
    await until(lambda: sum(len(w.messages) for w in workers) >= 60 and len(other.messages) >= 60)
    await asyncio.sleep(1)
    got = [payload for worker in workers for payload in worker.payloads()]
    assert sorted(got) == sorted(sent) == sorted(other.payloads())
    assert all(len(worker.messages) > 5 for worker in workers)


@nodes(3, seeds=4, **JOBS)
async def test_nothing_that_was_acknowledged_is_lost_when_the_leader_dies(sim, cluster):
    await declared(cluster, "jobs")
    workers = [await consumer(cluster, n, f"w{n}") for n in (1, 2, 3)]
    dying = leader_of(cluster)
    speakers = [await cluster.client(n) for n in cluster.nodes if n != dying]
    acknowledged = []

    async def speak(number, client):
        for at in range(100):
            payload = f"{number}-{at}".encode()
            await client.publish("$queue/jobs/", payload, qos=1, timeout=30)
            acknowledged.append(payload)
            await asyncio.sleep(0.02)

    tasks = [asyncio.create_task(speak(n, client)) for n, client in enumerate(speakers)]
    await asyncio.sleep(1)
    cluster.crash(dying)
    await asyncio.gather(*tasks)
    living = [w for n, w in enumerate(workers, 1) if n != dying]
    await until(lambda: {one for w in workers for one in w.payloads()} >= set(acknowledged), within=60)
    assert all(w.connected for w in living)
    await restart(cluster, dying)


@nodes(3, seeds=3, **JOBS)
async def test_what_a_consumer_has_not_settled_goes_to_another_when_its_node_dies(sim, cluster):
    await declared(cluster, "jobs")
    dying = next(n for n in (1, 2, 3) if n != leader_of(cluster))
    lazy = await consumer(cluster, dying, "lazy", settle="explicit")
    speaker = await cluster.client(leader_of(cluster))
    for number in range(20):
        await speaker.publish("$queue/jobs/", b"%d" % number, qos=1)
    await until(lambda: len(lazy.messages) == 20)
    steady = await consumer(cluster, leader_of(cluster), "steady")
    cluster.crash(dying)
    await until(lambda: len(steady.messages) == 20, within=20)
    assert all(user_of(message)["attempt"] == "2" for message in steady.messages)
    await asyncio.sleep(3)
    await restart(cluster, dying)


@nodes(3, seeds=2, **JOBS)
async def test_what_a_consumer_has_goes_to_another_as_soon_as_it_is_gone(sim, cluster):
    await declared(cluster, "jobs")
    lazy = await consumer(cluster, 1, "lazy", settle="explicit")
    speaker = await cluster.client(2)
    await speaker.publish("$queue/jobs/k", b"x", qos=1)
    await until(lambda: lazy.messages)
    steady = await consumer(cluster, 3, "steady")
    lazy.drop()
    await until(lambda: steady.messages, within=1)
    assert steady.messages[0].topic == b"$queue/jobs/k"


@nodes(3, seeds=3, **JOBS)
async def test_a_cut_off_consumer_settles_nothing_and_its_messages_are_done_by_others(sim, cluster):
    await declared(cluster, "jobs")
    leader = leader_of(cluster)
    alone, other = [n for n in (1, 2, 3) if n != leader]
    cut_off = await consumer(cluster, alone, "cut-off", settle="explicit")
    speaker = await cluster.client(leader)
    for number in range(5):
        await speaker.publish("$queue/jobs/", b"%d" % number, qos=1)
    await until(lambda: len(cut_off.messages) == 5)
    steady = await consumer(cluster, other, "steady")
    cluster.cut(alone, leader)
    cluster.cut(alone, other)
    asked = asyncio.create_task(settled(cut_off, "jobs", "$ack", cut_off.messages, timeout=30))
    await until(lambda: len(steady.messages) == 5, within=30)
    assert await asked >= 0x80
    await heal(cluster)
    await until(lambda: len(steady.messages) >= 5)
    # It is a consumer again, and has its part of what is new.
    for number in range(10):
        await speaker.publish("$queue/jobs/", b"later %d" % number, qos=1)
    await until(lambda: len(cut_off.messages) > 5, within=10)
    assert await settled(cut_off, "jobs", "$ack", cut_off.messages[5:]) == 0


@nodes(3, seeds=2, **JOBS)
async def test_ack_nack_and_reject_by_publishing(sim, cluster):
    await declared(cluster, "jobs")
    worker = await consumer(cluster, 1, "worker", settle="explicit")
    speaker = await cluster.client(2)
    for payload in (b"done", b"later", b"never"):
        await speaker.publish("$queue/jobs/", payload, qos=1)
    await until(lambda: len(worker.messages) == 3)
    done, later, never = worker.messages
    assert await settled(worker, "jobs", "$ack", [done]) == 0
    assert await settled(worker, "jobs", "$nack", [later], delay="5") == 0
    nacked = asyncio.get_running_loop().time()
    assert await settled(worker, "jobs", "$reject", [never], reason="no such part") == 0
    # It has none of them any more.
    assert await settled(worker, "jobs", "$ack", [done]) == 0x83
    await until(lambda: len(worker.messages) == 4)
    assert 4 < asyncio.get_running_loop().time() - nacked < 7
    again = worker.messages[3]
    assert (again.payload, user_of(again)["attempt"]) == (b"later", "2")
    undertaker = await consumer(cluster, 3, "undertaker", queue="jobs.dlq")
    await until(lambda: undertaker.messages)
    assert undertaker.payloads() == [b"never"]
    assert user_of(undertaker.messages[0])["dead-letter"] == "jobs, consumer group workers: no such part"


@nodes(3, seeds=2, **JOBS)
async def test_what_cannot_be_is_said_with_its_reason(sim, cluster):
    await declared(cluster, "jobs")
    client = await cluster.client(1)
    for topic, reason in (("$queue/nope/x", 0x90), ("$queue/jobs/$fly", 0x90)):
        with pytest.raises((RefusedError, ClientLostError)) as refused:
            await client.publish(topic, b"", qos=1)
        if isinstance(refused.value, RefusedError):
            assert refused.value.reason == reason
        else:
            client = await cluster.client(1)
    for topic_filter in ("$queue/nope/#", "$queue/jobs", "$queue/+/#", "$queue/jobs/x/#"):
        with pytest.raises(RefusedError) as refused:
            await client.subscribe(topic_filter, qos=1)
        assert refused.value.reason == 0x8F
    assert await settled(client, "jobs", "$ack", [], timeout=5) == 0x83


CAPTURED = {
    "discs": True,
    "queues": [
        {"name": "orders", "topics": ["shop/+/orders"]},
        {"name": "small", "limits": {"max_depth": 2}, "topics": ["shop/small/#"]},
    ],
}


@nodes(3, seeds=2, **CAPTURED)
async def test_what_is_published_to_captured_topics_is_in_the_queue_once_and_with_subscribers(sim, cluster):
    await declared(cluster, "orders")
    subscriber = await cluster.client(2)
    await subscriber.subscribe("shop/#", qos=1)
    for number, qos in ((1, 0), (2, 1), (3, 2)):
        speaker = await cluster.client(number)
        await speaker.publish("shop/berlin/orders", b"%d" % number, qos=qos)
    worker = await consumer(cluster, 3, "worker", queue="orders")
    await until(lambda: len(worker.messages) == 3)
    await asyncio.sleep(2)
    assert sorted(worker.payloads()) == sorted(subscriber.payloads()) == [b"1", b"2", b"3"]
    assert {message.topic for message in worker.messages} == {b"$queue/orders/shop/berlin/orders"}


@nodes(3, seeds=2, **CAPTURED)
async def test_a_full_queue_refuses_what_is_published_and_a_client_of_3_1_1_is_ended(sim, cluster):
    await declared(cluster, "small")
    client = await cluster.client(1)
    for qos in (1, 2):
        await client.publish("$queue/small/", b"x", qos=qos)
    for topic, qos in (("$queue/small/", 1), ("$queue/small/", 2), ("shop/small/x", 1)):
        with pytest.raises(RefusedError) as refused:
            await client.publish(topic, b"x", qos=qos)
        assert refused.value.reason == 0x97
    old = await cluster.client(1, version=4)
    with pytest.raises(ClientLostError):
        await old.publish("$queue/small/", b"x", qos=1)


@nodes(3, seeds=2, **JOBS)
async def test_clients_of_3_1_1_consume_by_the_group_in_the_filter(sim, cluster):
    await declared(cluster, "jobs")
    old = await cluster.client(1, version=4)
    await old.subscribe("$queue/jobs/$group/workers", qos=1)
    other = await consumer(cluster, 2, "new")
    speaker = await cluster.client(3)
    for number in range(10):
        await speaker.publish("$queue/jobs/", b"%d" % number, qos=1)
    await until(lambda: len(old.messages) + len(other.messages) == 10)
    assert len(old.messages) == 5
    await old.unsubscribe("$queue/jobs/$group/workers")
    await speaker.publish("$queue/jobs/", b"last", qos=1)
    await until(lambda: b"last" in other.payloads())


@nodes(3, seeds=3, **JOBS)
async def test_all_nodes_die_at_once_and_everything_is_still_there(sim, cluster):
    await declared(cluster, "jobs")
    speaker = await cluster.client(1)
    for number in range(30):
        await speaker.publish("$queue/jobs/", b"%d" % number, qos=1)
    for number in (1, 2, 3):
        cluster.crash(number)
    await cluster.start()
    await declared(cluster, "jobs")
    worker = await joined_when_it_can(cluster, 2, "worker")
    await until(lambda: len(set(worker.payloads())) == 30, within=30)
    assert len(worker.messages) == 30


async def joined_when_it_can(cluster, number, client_id):
    """A consumer, as soon as its queue has a leader."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await consumer(cluster, number, client_id)
            except AssertionError:
                await asyncio.sleep(1)


def user_of(message):
    return dict(message.properties.user)


async def settled(client, queue, what, messages, *, reason="", delay="", timeout=10):
    """Settle messages by a publish; return its reason code."""
    user = [("message-id", user_of(message)["message-id"]) for message in messages]
    properties = Properties(user=(*user, ("group-id", "workers"), ("reason", reason), ("delay", delay)))
    try:
        await client.publish(f"$queue/{queue}/{what}", qos=1, properties=properties, timeout=timeout)
    except RefusedError as error:
        return error.reason
    return 0


class Worker(GenServer):
    """Does jobs, and dies of the first that says so."""

    async def init(self, done):
        self.done = done
        await consume("jobs", group="workers", limit=5)

    async def handle_info(self, message):
        if not isinstance(message, Job):
            return
        if message.payload == b"poison" and message.attempt == 1:
            raise RuntimeError("a job that cannot be done yet")
        if message.payload == b"never":
            await reject(message, "nobody can")
        elif message.payload == b"later" and message.attempt == 1:
            await nack(message, "not now")
        else:
            self.done.append(message.payload)
            await ack(message)


@nodes(3, seeds=2, **JOBS)
async def test_a_process_does_jobs_and_what_it_has_comes_again_when_it_dies(sim, cluster):
    await declared(cluster, "jobs")
    done = []
    runtime = cluster.nodes[2].runtime

    async def supervise():
        children = [ChildSpec("worker", partial(Worker.start_link, done))]
        return await Supervisor.start(children, intensity=3, period=5.0)

    supervisor = await runtime.run(supervise)
    speaker = await cluster.client(1)
    payloads = [b"one", b"later", b"poison", b"never", b"two"]
    for payload in payloads:
        await speaker.publish("$queue/jobs/", payload, qos=1)
    await until(lambda: len(done) >= 4, within=20)
    assert sorted(set(done)) == [b"later", b"one", b"poison", b"two"]
    undertaker = await consumer(cluster, 3, "undertaker", queue="jobs.dlq")
    await until(lambda: undertaker.payloads() == [b"never"])
    runtime.exit(supervisor, "shutdown")
    await asyncio.sleep(3)
    # Nobody has what comes now but whoever comes next.
    await speaker.publish("$queue/jobs/", b"last", qos=1)
    other = await consumer(cluster, 3, "other")
    await until(lambda: other.payloads() == [b"last"])


@nodes(5, seeds=3, **JOBS)
async def test_consumers_at_nodes_without_a_replica_get_their_jobs_from_the_leader_and_its_successor(
    sim, cluster
):
    await declared(cluster, "jobs")
    await until(lambda: len(replicas(cluster)) == 3, within=60, pause=0.5)
    leader = leader_of(cluster)
    without = [number for number in cluster.nodes if number not in replicas(cluster)]
    workers = [await consumer(cluster, number, f"w{number}") for number in without]
    servers = {number: node.runtime.whereis(QUEUES) for number, node in cluster.nodes.items()}
    speaker = await cluster.client(without[0])
    sent = [b"%d" % number for number in range(40)]
    for payload in sent[:20]:
        await speaker.publish("$queue/jobs/", payload, qos=1)
    await until(lambda: sum(len(worker.messages) for worker in workers) == 20, within=5)
    cluster.crash(leader)
    for payload in sent[20:]:
        await speaker.publish("$queue/jobs/", payload, qos=1, timeout=30)
    await until(lambda: {one for worker in workers for one in worker.payloads()} == set(sent), within=10)
    assert all(len(worker.messages) >= 10 for worker in workers)
    # None of them had to begin anew.
    assert servers.items() >= {n: node.runtime.whereis(QUEUES) for n, node in cluster.nodes.items()}.items()


def replicas(cluster, group="default"):
    """Numbers of the nodes that have the log of a group."""
    return {n for n, node in cluster.nodes.items() if kind_of(group) in node.consensus.replicas}


GROUPS = {
    "discs": True,
    "queues": [{"name": "jobs"}, {"name": "hot", "replication": {"group": "hot"}}],
}


@nodes(3, seeds=2, **GROUPS)
async def test_a_queue_stays_in_its_replication_group_whatever_the_configuration_says_later(sim, cluster):
    await declared(cluster, "jobs", "hot")
    await until(lambda: any(kind_of("hot") in node.consensus.leading for node in cluster.nodes.values()))
    speaker = await cluster.client(1)
    for queue in ("jobs", "hot"):
        await speaker.publish(f"$queue/{queue}/", queue.encode(), qos=1)
    run = cluster.nodes[1].runtime.run
    with pytest.raises(GroupChangeError):
        await run(create, "hot", QueueConfig())
    await run(create, "made", QueueConfig(replication={"group": "hot"}))
    cluster.change_queues([{"name": "jobs", "replication": {"group": "hot"}}])
    await cluster.stop(2)
    await restart(cluster, 2, pause=10)
    client = await cluster.client(2)
    await client.publish("$queue/jobs/", b"more", qos=1)
    workers = [await consumer(cluster, 2, f"w-{name}", queue=name) for name in ("jobs", "hot", "made")]
    await until(lambda: workers[0].payloads() == [b"jobs", b"more"])
    await until(lambda: workers[1].payloads() == [b"hot"])


@nodes(3, seeds=2, **GROUPS)
async def test_dead_letters_are_in_the_group_of_their_queue_and_go_back_to_it(sim, cluster):
    await declared(cluster, "jobs", "hot")
    await until(lambda: any(kind_of("hot") in node.consensus.leading for node in cluster.nodes.values()))
    run = cluster.nodes[1].runtime.run
    worker = await consumer(cluster, 2, "worker", queue="hot", settle="explicit")
    other = await consumer(cluster, 3, "audit", queue="hot", group="audit")
    speaker = await cluster.client(1)
    await speaker.publish("$queue/hot/", b"x", qos=1)
    await until(lambda: worker.messages and other.messages)
    with pytest.raises(DeadLettersElsewhereError):
        await run(create, "hot.dlq", QueueConfig())
    assert await settled(worker, "hot", "$reject", worker.messages) == 0
    await asyncio.sleep(6)
    with pytest.raises(DeadLettersElsewhereError):
        await run(create, "new", QueueConfig(dlq={"queue": "hot.dlq"}))
    assert await run(replay, "hot") == ("hot.dlq", 1)
    await until(lambda: worker.payloads() == [b"x", b"x"])
    assert user_of(worker.messages[1])["attempt"] == "1"
    assert await settled(worker, "hot", "$ack", worker.messages[1:]) == 0
    assert other.payloads() == [b"x"]
    with pytest.raises(NoDeadLetterError):
        await run(partial(replay, "hot", offset=0))


@nodes(3, seeds=2, **JOBS)
async def test_a_queue_that_is_made_again_gives_its_messages_to_the_consumers_of_the_one_before(sim, cluster):
    await declared(cluster, "jobs")
    run = cluster.nodes[1].runtime.run
    await run(create, "r", QueueConfig())
    worker = await consumer(cluster, 2, "worker", queue="r", settle="explicit")
    speaker = await cluster.client(1)
    await speaker.publish("$queue/r/", b"first", qos=1)
    await until(lambda: worker.payloads() == [b"first"])
    await run(delete, "r")
    await run(create, "r", QueueConfig())
    await speaker.publish("$queue/r/", b"second", qos=1)
    await until(lambda: worker.payloads() == [b"first", b"second"], within=15)


@nodes(3, seeds=2, **JOBS)
async def test_who_sends_again_what_is_refused_then_is_not_told_that_it_is_done(sim, cluster):
    """QoS 2: the first is still on its way when its client comes back, and fails after that."""
    await declared(cluster, "jobs")
    options = {"clean_start": False, "session_expiry": 100}
    first = await cluster.client(1, "p", **options)
    await asyncio.sleep(3)
    for number in (2, 3):
        cluster.crash(number)
    sent = p.Publish(topic=b"$queue/jobs/", payload=b"x", qos=2, packet_id=7)
    first._send(sent)
    await asyncio.sleep(1)
    first.drop()
    second = await cluster.client(1, "p", **options, timeout=30)
    assert second.session_present
    try:
        answer = await second.ask(replace(sent, dup=True), p.Pubrec, 7)
    except ClientLostError:
        pass
    else:
        assert answer.reason >= 0x80
    await cluster.start(2, 3)
    await declared(cluster, "jobs")
    third = await cluster.client(1, "p", **options, timeout=30)
    async with asyncio.timeout(60):
        while (await third.ask(replace(sent, dup=True), p.Pubrec, 7)).reason >= 0x80:  # noqa: ASYNC110
            await asyncio.sleep(1)
    worker = await joined_when_it_can(cluster, 2, "worker")
    await until(lambda: worker.payloads()[:1] == [b"x"], within=10)


@nodes(3, seeds=4, **JOBS)
async def test_a_process_that_consumes_goes_on_when_the_server_of_its_node_is_restarted(sim, cluster):
    await declared(cluster, "jobs")
    node = cluster.nodes[2]
    done = []
    worker = node.runtime.spawn(worker_of("jobs", done), label="worker")
    speaker = await cluster.client(3)
    for number in range(30):
        await speaker.publish("$queue/jobs/", b"%d" % number, qos=1)
        if number % 10 == 4:
            before = node.runtime.whereis(QUEUES)
            node.runtime.exit(before, "kill")
            await until(lambda was=before: node.runtime.whereis(QUEUES) not in (None, was))
    await until(lambda: {one for one, _ in done} >= {b"%d" % number for number in range(30)}, within=30)
    # Nobody else consumes, and it was not thought to be gone: only what it could not settle came again.
    assert all(attempt == 1 for _, attempt in done)
    assert len(node.queues.consumers) == 1
    # Its end is noticed by the server that did not see it begin.
    node.runtime.exit(worker, "kill")
    await until(lambda: not node.queues.consumers)


def worker_of(queue, done):
    """A process that does jobs, and says each until that is known."""

    async def work():
        await consume(queue, group="workers", limit=5)
        while True:
            job = await receive()
            while True:
                try:
                    await ack(job)
                except NotDoneError:
                    await asyncio.sleep(0.2)
                except NotHeldError:
                    break
                else:
                    break
            done.append((job.payload, job.attempt))

    return work

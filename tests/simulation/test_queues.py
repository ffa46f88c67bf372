"""Queues on whole clusters: what a publisher was told is in the queue is done by one consumer of each group,
whatever dies."""

import asyncio

from gossamer.mqtt.codec import packets as p
from gossamer.mqtt.codec.properties import Properties
from gossamer.queues import kind_of

from .clusters import nodes, restart, until

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

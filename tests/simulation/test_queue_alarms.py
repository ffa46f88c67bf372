"""Who leads a queue raises its alarms, and who leads it next goes on."""

import asyncio

from .clusters import nodes, restart, until
from .test_queues import consumer, declared, leader_of

QUEUES = {
    "discs": True,
    "queues": [
        {"name": "jobs", "unattended_after": "20s", "visibility_timeout": "5s", "limits": {"max_depth": 10}}
    ],
}


def alarms(cluster):
    """Since when each alarm of queues stands, by node and name."""
    return {
        (number, alarm.name): alarm.since
        for number, node in cluster.nodes.items()
        for alarm in node.view.healing.alarms()
        if alarm.name.startswith("queue_")
    }


@nodes(3, seeds=2, **QUEUES)
async def test_messages_that_nobody_consumes_are_an_alarm_of_the_leader_and_of_the_next(sim, cluster):
    await declared(cluster, "jobs")
    worker = await consumer(cluster, leader_of(cluster), "worker", settle="explicit")
    speaker = await cluster.client(leader_of(cluster) % 3 + 1)
    await speaker.publish("$queue/jobs/", b"x", qos=1)
    await until(lambda: worker.messages)
    await until(lambda: set(alarms(cluster)) == {(leader_of(cluster), "queue_consumer_stuck")}, within=20)
    worker.drop()
    await until(lambda: set(alarms(cluster)) == {(leader_of(cluster), "queue_unattended")}, within=60)
    leader = leader_of(cluster)
    since = alarms(cluster)[leader, "queue_unattended"]
    assert 15 < cluster.nodes[leader].clock.wall() - since < 40
    for _ in range(9):
        await speaker.publish("$queue/jobs/", b"x", qos=1)
    await until(lambda: (leader, "queue_full") in alarms(cluster), within=10)
    cluster.crash(leader)
    living = {number for number in (1, 2, 3) if number != leader}
    await until(
        lambda: {(n, name) for n, name in alarms(cluster) if n in living} in at_one(living), within=60
    )
    await restart(cluster, leader)
    following = leader_of(cluster)
    assert abs(alarms(cluster)[following, "queue_unattended"] - since) < 15
    again = await consumer(cluster, following, "again")
    await until(lambda: len(again.messages) == 10)
    await until(lambda: not alarms(cluster), within=20)
    await asyncio.sleep(1)


def at_one(numbers):
    """Both alarms, at one of these nodes."""
    return [{(number, "queue_unattended"), (number, "queue_full")} for number in numbers]

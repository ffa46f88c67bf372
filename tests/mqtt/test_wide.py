"""A fan-out to many subscribers of this node shares the loop with everybody else."""

import asyncio

import pytest

from gossamer.mqtt import fanout, intake
from gossamer.mqtt import packets as p

SUBSCRIBERS = 25
MESSAGES = 40


@pytest.fixture
def narrow(monkeypatch):
    """What is wide begins at a few subscribers."""
    monkeypatch.setattr(fanout, "FLUSHED", 4)
    monkeypatch.setattr(intake, "DELIVERIES", 60)


async def settled(world, client):
    """Every packet, over as many turns as it takes."""
    got = await client.got()
    for _ in range(200):
        got += await client.got()
    return got


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("version", [p.V4, p.V5])
async def test_the_order_of_a_publisher_is_kept_over_turns(world, narrow, qos, version):
    subscribers = [await world.client(f"s{n}", version=version) for n in range(SUBSCRIBERS)]
    for subscriber in subscribers:
        await subscriber.subscribe("t/+", qos=qos)
    publisher = await world.client("p")
    sent = [
        p.Publish(topic=b"t/%d" % (n % 3), payload=b"%d" % n, qos=qos, packet_id=n + 1 if qos else None)
        for n in range(MESSAGES)
    ]
    publisher.send(*sent)
    publisher.publish("t/0", b"the next read", qos=qos, packet_id=99 if qos else None)
    acknowledged = [packet.packet_id for packet in await settled(world, publisher)]
    assert acknowledged == ([*range(1, MESSAGES + 1), 99] if qos else [])
    for subscriber in subscribers:
        payloads = [packet.payload for packet in await settled(world, subscriber)]
        assert payloads == [packet.payload for packet in sent] + [b"the next read"]


async def test_a_turn_has_its_measure_and_others_are_served_in_between(world, narrow):
    subscribers = [await world.client(f"s{n}") for n in range(SUBSCRIBERS)]
    for subscriber in subscribers:
        await subscriber.subscribe("wide", qos=1)
    other, listener = await world.client("other"), await world.client("listener")
    await listener.subscribe("narrow")
    publisher = await world.client("p")
    before = world.broker.hub.sent
    writes = [subscriber.transport.writes for subscriber in subscribers]
    publisher.send(*(p.Publish(topic=b"wide", payload=b"x", qos=1, packet_id=n + 1) for n in range(MESSAGES)))
    assert world.broker.hub.sent - before <= 60 + SUBSCRIBERS
    assert publisher.transport.paused, "no more is read from it before its turn comes again"
    other.publish("narrow", b"in between")
    most = 0
    for _ in range(400):
        now = [subscriber.transport.writes for subscriber in subscribers]
        most = max(most, sum(now) - sum(writes))
        writes = now
        await asyncio.sleep(0)
    assert most <= 4
    assert [packet.payload for packet in await listener.got()] == [b"in between"]
    assert not publisher.transport.paused
    for subscriber in subscribers[:2]:
        assert len(await settled(world, subscriber)) == MESSAGES


async def test_a_publisher_that_goes_in_between_has_sent_what_was_taken(world, narrow):
    subscribers = [await world.client(f"s{n}") for n in range(SUBSCRIBERS)]
    for subscriber in subscribers:
        await subscriber.subscribe("wide")
    publisher = await world.client("p")
    publisher.send(
        *(p.Publish(topic=b"wide", payload=b"%d" % n, qos=1, packet_id=n + 1) for n in range(MESSAGES))
    )
    publisher.transport.abort()
    got = [packet.payload for packet in await settled(world, subscribers[0])]
    assert got == [b"%d" % n for n in range(len(got))]
    assert 0 < len(got) < MESSAGES

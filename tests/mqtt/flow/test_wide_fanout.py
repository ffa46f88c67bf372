"""A fan-out to many subscribers of this node shares the loop with everybody else."""

import asyncio
import itertools

import pytest

from gossamer.mqtt import encode as p_encode
from gossamer.mqtt.codec import packets as p
from gossamer.mqtt.connection import publish_reader as intake
from gossamer.mqtt.flow import wide_fanout as wide
from gossamer.mqtt.publish import fanout, plan
from gossamer.routes import SubscriptionOptions

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
    before = world.broker.fanout.sent
    writes = [subscriber.transport.writes for subscriber in subscribers]
    publisher.send(*(p.Publish(topic=b"wide", payload=b"x", qos=1, packet_id=n + 1) for n in range(MESSAGES)))
    assert world.broker.fanout.sent - before <= 60 + SUBSCRIBERS
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


@pytest.fixture
def sliced(monkeypatch):
    """A message for more than a few sessions goes out in slices."""
    for module in (fanout, plan, wide):
        monkeypatch.setattr(module, "SLICE", 5)


async def crowd(world, topic_filter, *, count=SUBSCRIBERS, qos=1, version=p.V4, identifier=None):
    found = [await world.client(f"{topic_filter}{n}", version=version) for n in range(count)]
    for client in found:
        await client.subscribe(topic_filter, qos=qos, identifier=identifier)
    return found


def who_has_it(world, clients):
    return sum(bool(client.channel.session.inflight) for client in clients)


@pytest.mark.parametrize("version", [p.V4, p.V5])
@pytest.mark.parametrize("way", ["plain", "retained", "identifiers"])
async def test_one_message_for_very_many_takes_several_turns(world, sliced, version, way):
    subscribers = await crowd(
        world, "wide", version=version, identifier=7 if way == "identifiers" and version == p.V5 else None
    )
    publisher = await world.client("p", version=version)
    publisher.publish("wide", b"x", qos=1, packet_id=1, retain=way == "retained")
    seen = [who_has_it(world, subscribers)]
    assert not publisher.transport.written.endswith(b"\x40\x02\0\1")
    while seen[-1] < SUBSCRIBERS:
        await asyncio.sleep(0)
        seen.append(who_has_it(world, subscribers))
    assert seen[0] == 5
    assert max(after - before for before, after in itertools.pairwise(seen)) <= 5
    assert [packet.packet_id for packet in await settled(world, publisher)] == [1]
    for subscriber in subscribers:
        assert [packet.payload for packet in await subscriber.got()] == [b"x"]
    assert not world.broker.fanout.wide.jobs


async def test_order_is_kept_for_who_has_not_had_its_turn(world, sliced):
    """Another topic of the same publisher, another publisher's, and another QoS."""
    subscribers = await crowd(world, "wide")
    for client in subscribers[-3:]:
        await client.subscribe("narrow/+", qos=1)
    publisher, other = await world.client("p"), await world.client("o")
    publisher.send(
        p.Publish(topic=b"wide", payload=b"1", qos=1, packet_id=1),
        p.Publish(topic=b"narrow/a", payload=b"2", qos=0),
        p.Publish(topic=b"wide", payload=b"3", qos=1, packet_id=2),
        p.Publish(topic=b"narrow/a", payload=b"4", qos=1, packet_id=3),
        p.Publish(topic=b"narrow/b", payload=b"5", qos=2, packet_id=4),
    )
    other.publish("narrow/a", b"other", qos=1, packet_id=9)
    answers = await settled(world, publisher)
    assert [(type(a), a.packet_id) for a in answers] == [
        (p.Puback, 1),
        (p.Puback, 2),
        (p.Puback, 3),
        (p.Pubrec, 4),
    ]
    for client in subscribers:
        got = [
            x.payload
            for x in await settled(world, client)
            if isinstance(x, p.Publish) and x.payload != b"other"
        ]
        assert got == ([b"1", b"2", b"3", b"4", b"5"] if client in subscribers[-3:] else [b"1", b"3"])


async def test_others_are_served_while_a_message_for_very_many_goes_out(world, sliced):
    subscribers = await crowd(world, "wide")
    listener = await world.subscriber("listener", "narrow", qos=1)
    publisher, other = await world.client("p"), await world.client("o")
    publisher.publish("wide", b"x", qos=1, packet_id=1)
    other.publish("narrow", b"in between", qos=1, packet_id=1)
    assert who_has_it(world, subscribers) == 5
    assert listener.channel.session.inflight
    publisher.transport.close()
    await settled(world, listener)
    assert who_has_it(world, subscribers) == SUBSCRIBERS


async def test_a_peer_hears_of_a_batch_once_all_have_it(world, sliced):
    subscribers = await crowd(world, "wide")
    record = p_encode(p.Publish(topic=b"wide", payload=b"x", qos=1, packet_id=1), 4)
    hold = world.broker.ingest("peer", record)
    heard = []
    hold.then(lambda: heard.append(who_has_it(world, subscribers)))
    assert heard == []
    await settled(world, subscribers[0])
    assert heard == [SUBSCRIBERS]


async def test_those_that_wait_for_a_message_are_told_though_one_of_them_fails(world, sliced):
    subscribers = await crowd(world, "wide")
    world.broker.publish("wide", b"x", qos=1)
    told = []

    def fail(_done):
        raise RuntimeError("its connection is gone")

    spread = world.broker.fanout.wide
    spread.append_acked(b"", fail)
    spread.append_acked(b"", told.append)
    spread.after(lambda: told.append("after"))
    await settled(world, subscribers[0])
    assert told == [True, "after"]


async def test_a_program_that_publishes_when_it_gets_it_disturbs_nobody(world, sliced):
    subscribers = await crowd(world, "wide", identifier=None)

    class Program:
        def deliver(self, message, delivery):
            world.broker.publish("wide", b"again", qos=1) if message.payload == b"x" else None

    world.broker.router.subscribe("wide", Program(), SubscriptionOptions(qos=1))
    world.broker.publish("wide", b"x", qos=1)
    for subscriber in subscribers:
        got = [packet.payload for packet in await settled(world, subscriber)]
        assert sorted(got) == [b"again", b"x"]

"""What holds on one node holds across two: whole nodes on a simulated network, in virtual time."""

import asyncio

import pytest

from gossamer.mqtt.codec.packets import V4, V5, Puback, Publish, Will
from gossamer.mqtt.codec.properties import Properties
from gossamer.testing.cluster import SimCluster

from .statements import keeps

SENT = Properties(
    payload_format=1,
    content_type="text/plain",
    response_topic="reply/here",
    correlation_data=b"\0\1\xff",
    user=(("b", "1"), ("a", "2"), ("b", "1"), ("", "ä")),
)


@pytest.fixture
async def cluster(sim):
    async with SimCluster(sim, 2) as cluster:
        await cluster.settled()
        yield cluster


async def arrived(client, count):
    async with asyncio.timeout(30):
        while len(client.messages) < count:  # noqa: ASYNC110 - virtual time
            await asyncio.sleep(0.05)
    await asyncio.sleep(1)
    assert len(client.messages) == count
    return client.messages


@keeps(
    v4="4.6.0-5,6 3.8.4-6",
    v5="3.3.2-4,15,16,17,18,20 3.3.4-3 4.6.0-5,6 3.8.4-8",
)
async def test_properties_qos_and_order_cross_nodes(cluster):
    sub = await cluster.client(2, version=V5)
    old = await cluster.client(2, version=V4)
    shared = await cluster.client(2, version=V5)
    await sub.subscribe("t/#", qos=2)
    await old.subscribe("t/#", qos=2)
    await shared.subscribe("$share/g/t/#", qos=2)
    pub = await cluster.client(1, version=V5)
    for n in range(9):
        properties = SENT if n % 3 else None
        await pub.publish("t/x", b"%d" % n, qos=n % 3, properties=properties)
    for client in (sub, shared):
        got = await arrived(client, 9)
        assert [x.payload for x in got if x.qos] == [b"%d" % n for n in range(9) if n % 3]
        assert [x.payload for x in got if not x.qos] == [b"0", b"3", b"6"]
        assert all(x.properties == (SENT if x.qos else Properties()) for x in got)
    assert [x.payload for x in await arrived(old, 9) if x.qos] == [b"%d" % n for n in range(9) if n % 3]


@keeps(v5="3.3.2-6 3.3.2-17,18 3.3.1-5", v4="3.3.1-5,6")
async def test_what_is_retained_on_one_node_is_sent_by_the_other(cluster):
    pub = await cluster.client(1, version=V5)
    large = b"z" * 5000
    for topic, payload in (("r/small", b"x"), ("r/large", large)):
        await pub.publish(topic, payload, qos=1, retain=True, properties=SENT)
    await pub.publish("r/gone", b"x", qos=1, retain=True)
    await pub.publish("r/gone", b"", qos=1, retain=True)
    await asyncio.sleep(1)
    sub = await cluster.client(2, version=V5)
    await sub.subscribe("r/#", qos=1)
    got = await arrived(sub, 2)
    assert sorted((x.topic, x.payload, x.retain) for x in got) == [
        (b"r/large", large, True),
        (b"r/small", b"x", True),
    ]
    assert all(x.properties == SENT for x in got)


@keeps(v5="3.1.3-10 3.1.2-8", v4="3.1.2-8")
async def test_a_will_crosses_nodes_with_its_properties(cluster):
    sub = await cluster.client(2, version=V5)
    await sub.subscribe("w", qos=1)
    client = await cluster.client(
        1, version=V5, will=Will(topic=b"w", payload=b"gone", qos=1, properties=SENT)
    )
    client.drop()
    [got] = await arrived(sub, 1)
    assert (got.payload, got.properties) == (b"gone", SENT)


@keeps(
    v4="3.1.2-4 3.2.2-2 4.4.0-1 3.1.4-2",
    v5="3.1.2-5 3.2.2-3 4.4.0-1 3.1.4-3 3.3.2-6,17",
)
async def test_a_session_is_the_same_on_the_other_node(cluster):
    """Its subscriptions, what waits for it with its properties and what is left of their time."""
    sub = await cluster.client(1, "roamer", version=V5, clean_start=False, session_expiry=600)
    await sub.subscribe("t", qos=2)
    sub.drop()
    await asyncio.sleep(1)
    pub = await cluster.client(1, version=V5)
    await pub.publish("t", b"1", qos=1, properties=Properties(message_expiry=100, user=SENT.user))
    await asyncio.sleep(40)
    back = await cluster.client(2, "roamer", version=V5, clean_start=False, session_expiry=600)
    assert back.session_present
    [got] = await arrived(back, 1)
    assert got.properties.user == SENT.user
    assert 50 <= got.properties.message_expiry <= 60
    again = await cluster.client(1, "roamer", version=V5, clean_start=False, session_expiry=600)
    assert again.session_present
    await back.lost
    assert back.left == 0x8E


@keeps(v5="3.4.2-1 3.5.2-1")
async def test_a_publisher_hears_that_nobody_in_the_cluster_has_subscribed(cluster):
    pub = await cluster.client(1, version=V5)

    async def reason():
        return (await pub.ask(Publish(topic=b"t", payload=b"1", qos=1, packet_id=9), Puback, 9)).reason

    assert await reason() == 0x10
    sub = await cluster.client(2, version=V5)
    await sub.subscribe("t")
    assert await reason() == 0
    await sub.unsubscribe("t")
    await asyncio.sleep(1)
    assert await reason() == 0x10
    await sub.subscribe("$share/g/t")
    assert await reason() == 0


@keeps(v5="3.3.2-6 4.4.0-1")
async def test_what_moved_in_flight_is_sent_again_with_what_is_left_of_its_time(cluster):
    options = {"version": V5, "clean_start": False, "session_expiry": 600}
    sub = await cluster.client(1, "roamer", **options)
    await sub.subscribe("t", qos=1)
    sub._deliver = sub.messages.append  # never acknowledged
    pub = await cluster.client(1, version=V5)
    await pub.publish("t", b"1", qos=1, properties=Properties(message_expiry=100))
    [got] = await arrived(sub, 1)
    assert got.properties.message_expiry == 100
    await asyncio.sleep(40)
    back = await cluster.client(2, "roamer", **options)
    [again] = await arrived(back, 1)
    assert again.dup
    assert 50 <= again.properties.message_expiry <= 60

"""PUBLISH in, PUBLISH out: QoS, flags, properties, flow control."""

import pytest

from gossamer.mqtt import encode
from gossamer.mqtt.codec import packets as p
from gossamer.mqtt.codec.properties import NONE, Properties

BOTH = [p.V4, p.V5]


@pytest.mark.parametrize("sub_version", BOTH)
@pytest.mark.parametrize("pub_version", BOTH)
@pytest.mark.parametrize("sub_qos", [0, 1, 2])
@pytest.mark.parametrize("pub_qos", [0, 1, 2])
async def test_a_message_arrives_at_the_lower_of_both_qos(world, pub_version, sub_version, pub_qos, sub_qos):
    """[MQTT-3.8.4-6] of 3.1.1, [MQTT-3.8.4-8] of 5.0"""
    sub = await world.client("s", version=sub_version)
    await sub.subscribe("a/+", qos=sub_qos)
    pub = await world.client("p", version=pub_version)
    for n in range(3):
        pub.publish("a/b", b"x%d" % n, qos=pub_qos, packet_id=n + 1 if pub_qos else None)
    got = await sub.got()
    qos = min(pub_qos, sub_qos)
    assert [(x.topic, x.payload, x.qos, x.dup, x.retain) for x in got] == [
        (b"a/b", b"x%d" % n, qos, False, False) for n in range(3)
    ]
    assert [x.packet_id for x in got] == ([1, 2, 3] if qos else [None] * 3)
    ack = {0: [], 1: [p.Puback(n) for n in (1, 2, 3)], 2: [p.Pubrec(n) for n in (1, 2, 3)]}
    assert await pub.got() == ack[pub_qos]


@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_a_message_that_nobody_wants_is_counted_whatever_its_qos(world, qos):
    pub = await world.client("p")
    for n in range(3):
        pub.publish("a/b", b"x", qos=qos, packet_id=n + 1 if qos else None)
    await pub.got()
    assert world.broker.hub.drops["no_subscribers"] == 3


async def test_topics_and_sizes_may_change_within_a_read(world):
    sub = await world.client("s")
    await sub.subscribe("#", qos=1)
    five = await world.client("s5", version=p.V5)
    await five.subscribe("#", qos=1)
    pub = await world.client("p")
    sent = []
    for n in range(60):
        qos = (n // 7) % 2
        sent.append(
            p.Publish(
                topic=b"t%d" % (n // 9),
                payload=b"y" * (n * 7 % 400),
                qos=qos,
                packet_id=n + 1 if qos else None,
            )
        )
    pub.send(*sent)
    want = [(x.topic, x.payload, x.qos) for x in sent]
    assert [(x.topic, x.payload, x.qos) for x in await sub.got()] == want
    assert [(x.topic, x.payload, x.qos) for x in await five.got()] == want
    assert [x.packet_id for x in await pub.got()] == [x.packet_id for x in sent if x.qos]


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize("size", [1, 2, 3, 7, 50])
async def test_how_the_stream_is_cut_does_not_matter(world, version, size):
    sub = await world.client("s", version=version)
    await sub.subscribe("a/b", qos=1)
    pub = await world.client("p", version=version)
    sent = [
        p.Publish(topic=b"a/b", payload=b"z" * (n % 5 * 60), qos=n % 2, packet_id=n + 1 if n % 2 else None)
        for n in range(20)
    ]
    stream = b"".join(encode(x, version) for x in sent)
    for at in range(0, len(stream), size):
        pub.raw(stream[at : at + size])
    assert [(x.payload, x.qos) for x in await sub.got()] == [(x.payload, x.qos) for x in sent]


async def test_a_socket_is_written_once_a_turn(world):
    sub = await world.client("s")
    await sub.subscribe("#")
    one = await world.client("p1")
    two = await world.client("p2")
    before = sub.transport.writes
    for n in range(5):
        one.publish("a", b"%d" % n)
        two.publish("b", b"%d" % n)
    assert len(await sub.got()) == 10
    assert sub.transport.writes == before + 1


async def test_a_session_survives_a_change_of_version(world):
    sub = await world.client("s", clean_start=False)
    await sub.subscribe("a", qos=1)
    pub = await world.client("p")
    pub.publish("a", b"1", qos=1, packet_id=1)
    await sub.got()
    sub.transport.close()
    await world.settle()
    pub.publish("a", b"2", qos=1, packet_id=2)
    back = world.dial()
    await back.connect("s", version=p.V5, clean_start=False, properties=Properties(session_expiry=60))
    assert [(x.payload, x.properties) for x in back._early] == [(b"1", NONE), (b"2", NONE)]
    pub.publish("a", b"3")
    assert [x.payload for x in await back.got()] == [b"3"]


async def test_the_queue_of_an_absent_session_is_bounded_and_keeps_the_newest(make_world):
    world = await make_world(max_queued=3)
    sub = await world.client("s", clean_start=False)
    await sub.subscribe("a", qos=1)
    sub.transport.close()
    await world.settle()
    pub = await world.client("p")
    for n in range(5):
        pub.publish("a", b"%d" % n, qos=1, packet_id=n + 1)
    back = world.dial()
    await back.connect("s", clean_start=False)
    assert [x.payload for x in back._early] == [b"2", b"3", b"4"]
    assert world.broker.stats()["dropped_queue_full"] == 2


async def test_qos_0_is_not_kept_for_an_absent_session_but_counted(world):
    sub = await world.client("s", clean_start=False)
    await sub.subscribe("a")
    sub.transport.close()
    await world.settle()
    pub = await world.client("p")
    for n in range(5):
        pub.publish("a", b"%d" % n)
    await world.settle()
    assert world.broker.stats()["dropped_offline"] == 5


async def test_python_code_publishes_too(world):
    sub = await world.client("s")
    await sub.subscribe("a", qos=1)
    safe = []
    assert world.broker.publish("a", b"1", qos=1, on_safe=safe.append) == 1
    assert [x.payload for x in await sub.got()] == [b"1"]
    assert safe == [True]


async def test_a_python_subscriber_gets_messages(world):
    from gossamer.routes import SubscriptionOptions

    class Actor:
        def __init__(self):
            self.got = []

        def deliver(self, message, delivery):
            self.got.append((message.topic, message.payload, min(message.qos, delivery.qos)))

    actor = Actor()
    world.router.subscribe("a/#", actor, SubscriptionOptions(qos=1))
    pub = await world.client("p")
    pub.publish("a/1", b"0")
    pub.publish("a/1", b"0")
    pub.publish("a/2", b"1", qos=1, packet_id=1)
    pub.publish("a/3", b"2", qos=2, packet_id=2)
    await world.settle()
    assert actor.got == [(b"a/1", b"0", 0), (b"a/1", b"0", 0), (b"a/2", b"1", 1), (b"a/3", b"2", 1)]


async def test_a_smaller_receive_maximum_after_a_reconnect_is_respected(world):
    """[MQTT-3.3.4-9]"""
    options = {"version": p.V5, "clean_start": False}
    sub = await world.client("s", properties=Properties(session_expiry=60), **options)
    await sub.subscribe("a", qos=1)
    for n in range(5):
        world.broker.publish("a", b"%d" % n, qos=1)
    await sub.got()
    sub.transport.close()
    await world.settle()
    world.broker.publish("a", b"5", qos=1)
    sub = world.dial()
    await sub.connect("s", properties=Properties(session_expiry=60, receive_maximum=2), **options)
    got = sub._early
    assert [(x.payload, x.dup) for x in got] == [(b"0", True), (b"1", True)]
    for n in (2, 3, 4, 5):
        sub.send(p.Puback(got.pop(0).packet_id))
        got += await sub.got()
        assert [(x.payload, x.dup) for x in got[-1:]] == [(b"%d" % n, n < 5)]


async def test_a_session_that_leaves_again_before_all_was_resent_loses_nothing(world):
    options = {"version": p.V5, "clean_start": False}
    sub = await world.client("s", properties=Properties(session_expiry=60), **options)
    await sub.subscribe("a", qos=1)
    for n in range(4):
        world.broker.publish("a", b"%d" % n, qos=1)
    for _ in range(2):
        await sub.got()
        sub.transport.close()
        await world.settle()
        sub = world.dial()
        await sub.connect("s", properties=Properties(session_expiry=60, receive_maximum=1), **options)
    payloads = []
    got = sub._early
    while got:
        payloads.append(got[0].payload)
        sub.send(p.Puback(got[0].packet_id))
        got = await sub.got()
    assert payloads == [b"0", b"1", b"2", b"3"]

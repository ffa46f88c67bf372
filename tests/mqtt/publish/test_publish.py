"""PUBLISH in, PUBLISH out: what is counted, written and sent again, and how programs take part."""

import pytest

from gossamer.mqtt.codec import packets as p
from gossamer.mqtt.codec.properties import Properties
from gossamer.routes import SubscriptionOptions


@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_a_message_that_nobody_wants_is_counted_whatever_its_qos(world, qos):
    pub = await world.client("p")
    for n in range(3):
        pub.publish("a/b", b"x", qos=qos, packet_id=n + 1 if qos else None)
    await pub.got()
    assert world.broker.fanout.drops["no_subscribers"] == 3


async def test_a_socket_is_written_once_a_turn(world):
    sub = await world.subscriber("s", "#")
    one = await world.client("p1")
    two = await world.client("p2")
    before = sub.transport.writes
    for n in range(5):
        one.publish("a", b"%d" % n)
        two.publish("b", b"%d" % n)
    assert len(await sub.got()) == 10
    assert sub.transport.writes == before + 1


async def test_qos_0_is_not_kept_for_an_absent_session_but_counted(world):
    sub = await world.subscriber("s", "a", clean_start=False)
    await sub.drop()
    pub = await world.client("p")
    for n in range(5):
        pub.publish("a", b"%d" % n)
    await world.settle()
    assert world.broker.stats()["dropped_offline"] == 5


async def test_python_code_publishes_too(world):
    sub = await world.subscriber("s", "a", qos=1)
    safe = []
    assert world.broker.publish("a", b"1", qos=1, on_safe=safe.append) == 1
    assert [x.payload for x in await sub.got()] == [b"1"]
    assert safe == [True]


async def test_a_python_subscriber_gets_messages(world):
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
    sub = await world.subscriber("s", "a", qos=1, properties=Properties(session_expiry=60), **options)
    for n in range(5):
        world.broker.publish("a", b"%d" % n, qos=1)
    await sub.got()
    await sub.drop()
    world.broker.publish("a", b"5", qos=1)
    sub = await world.client("s", properties=Properties(session_expiry=60, receive_maximum=2), **options)
    got = sub.early
    assert [(x.payload, x.dup) for x in got] == [(b"0", True), (b"1", True)]
    for n in (2, 3, 4, 5):
        sub.send(p.Puback(got.pop(0).packet_id))
        got += await sub.got()
        assert [(x.payload, x.dup) for x in got[-1:]] == [(b"%d" % n, n < 5)]

"""Retained messages (3.3.1.3, 3.8.3.1)."""

import pytest

from gossamer.mqtt.codec import packets as p
from gossamer.mqtt.codec.properties import Properties

from .conftest import BOTH, QOS, V5
from .statements import keeps


@pytest.fixture
async def pub(world):
    return await world.client("pub", version=V5, keep_alive=0)


async def retained(client, topic_filter="t/+", **options):
    """What a new subscription is sent."""
    _, *found = await client.subscribe(topic_filter, **options)
    return found


@keeps(v4="3.3.1-5,6,7,8 3.8.4-6", v5="3.3.1-5,9 3.8.4-8")
@BOTH
@QOS
async def test_the_last_message_with_retain_is_kept_and_sent_to_new_subscribers(world, pub, version, qos):
    pub.publish("t/a", b"older", retain=True, qos=2, packet_id=1)
    pub.publish("t/a", b"newer", retain=True, qos=qos, packet_id=2 if qos else None)
    pub.publish("t/b", b"other", retain=True)
    sub = await world.client("s", version=version)
    found = await retained(sub, qos=2)
    assert sorted((x.topic, x.payload, x.qos, x.retain, x.dup) for x in found) == [
        (b"t/a", b"newer", qos, True, False),
        (b"t/b", b"other", 0, True, False),
    ]
    low = await world.client("low", version=version)
    assert {x.qos for x in await retained(low, qos=0)} == {0}


@keeps(v4="3.3.1-12", v5="3.3.1-8")
async def test_without_retain_nothing_is_stored_removed_or_replaced(world, pub):
    pub.publish("t/a", b"kept", retain=True)
    pub.publish("t/a", b"passes")
    pub.publish("t/a", b"")
    pub.publish("t/b", b"passes")
    sub = await world.client("s")
    assert [x.payload for x in await retained(sub)] == [b"kept"]


@keeps(v4="3.3.1-10,11", v5="3.3.1-6,7")
@BOTH
async def test_an_empty_one_is_passed_on_and_removes_what_was_kept(world, pub, version):
    sub = await world.subscriber("s", "t/+", version=version)
    pub.publish("t/a", b"kept", retain=True)
    pub.publish("t/a", b"", retain=True)
    pub.publish("t/b", b"", retain=True)
    assert [(x.topic, x.payload) for x in await sub.got()] == [
        (b"t/a", b"kept"),
        (b"t/a", b""),
        (b"t/b", b""),
    ]
    assert len(world.broker.retained) == 0
    late = await world.client("late", version=version)
    assert await retained(late) == []


@keeps(v4="3.3.1-9", v5="3.3.1-12,13")
@QOS
@pytest.mark.parametrize("flag", [False, True])
async def test_the_flag_of_what_is_passed_on(world, pub, qos, flag):
    old = await world.subscriber("old", "t", qos=2)
    plain = await world.subscriber("plain", "t", qos=2, version=V5)
    keeping = await world.client("keeping", version=V5)
    await keeping.subscribe("t", qos=2, retain_as_published=True)
    pub.publish("t", b"1", qos=qos, retain=flag, packet_id=1 if qos else None)
    assert [x.retain for x in await old.got()] == [False]
    assert [x.retain for x in await plain.got()] == [False]
    assert [x.retain for x in await keeping.got()] == [flag]


@keeps(v5="3.3.1-12,13")
async def test_retain_as_published_holds_for_what_waited(world, pub):
    options = {"version": V5, "properties": Properties(session_expiry=60)}
    sub = await world.client("s", **options)
    await sub.subscribe("t", qos=1, retain_as_published=True)
    await sub.subscribe("u", qos=1)
    await sub.drop()
    for n, topic in enumerate("tu", 1):
        pub.publish(topic, b"1", qos=1, retain=True, packet_id=n)
    back = await world.client("s", clean_start=False, **options)
    assert [(x.topic, x.retain) for x in back.early] == [(b"t", True), (b"u", False)]


@keeps(v5="3.3.1-9,10,11 3.8.4-4")
@pytest.mark.parametrize(("handling", "new", "again"), [(0, 1, 1), (1, 1, 0), (2, 0, 0)])
@pytest.mark.parametrize("qos", [0, 1])
async def test_retain_handling(world, pub, handling, new, again, qos):
    pub.publish("t/a", b"1", retain=True, qos=1, packet_id=1)
    sub = await world.client("s", version=V5)
    assert len(await retained(sub, retain_handling=handling, qos=qos)) == new
    assert len(await retained(sub, retain_handling=handling, qos=1)) == again
    sub.send(p.Unsubscribe(packet_id=1, filters=("t/+",)))
    await sub.got()
    assert len(await retained(sub, retain_handling=handling)) == new


@keeps(v4="3.8.4-3", v5="3.8.4-3,4")
@BOTH
async def test_subscribing_again_loses_nothing(world, pub, version):
    """Publishes before and behind the SUBSCRIBE in one stream all arrive."""
    sub = await world.subscriber("s", "t/+", version=version)
    pub.publish("t/a", b"0", retain=True)
    for n in range(1, 5):
        sub.send(
            p.Publish(topic=b"t/b", payload=b"%d" % n),
            p.Subscribe(packet_id=n, subscriptions=(p.Subscription("t/+", n % 3),)),
            p.Publish(topic=b"t/c", payload=b"%d" % n),
        )
    got = [x for x in await sub.got() if isinstance(x, p.Publish)]
    for topic in (b"t/b", b"t/c"):
        assert [x.payload for x in got if x.topic == topic] == [b"%d" % n for n in range(1, 5)]
    assert [x.payload for x in got if x.retain] == [b"0"] * 4


@keeps(v5="3.3.4-3 3.3.2-17,18")
async def test_what_is_kept_keeps_its_properties_and_the_subscriptions_identifier_is_added(world, pub):
    properties = Properties(content_type="t", user=(("b", "1"), ("a", "2")), message_expiry=60)
    pub.publish("t/a", b"1", retain=True, properties=properties)
    world.later(10)
    sub = await world.client("s", version=V5)
    [got] = await retained(sub, identifier=7)
    assert got.properties.user == properties.user
    assert got.properties.content_type == "t"
    assert got.properties.message_expiry == 50
    assert got.properties.subscription_identifiers == (7,)


@keeps(v5="3.3.2-5")
async def test_what_has_expired_is_not_sent(world, pub):
    pub.publish("t/a", b"1", retain=True, properties=Properties(message_expiry=5))
    world.later(6)
    assert await retained(await world.client("s", version=V5)) == []

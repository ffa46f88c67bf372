"""SUBSCRIBE, UNSUBSCRIBE, retained messages, overlapping subscriptions."""

import pytest

from gossamer.mqtt import Message, ReasonCode
from gossamer.mqtt.codec import packets as p
from gossamer.mqtt.codec.properties import Properties
from gossamer.mqtt.connection.subscribing import HELD, UNCONFIRMED_NODE
from gossamer.mqtt.publish.retained import LocalRetained
from mqtt.fakes import FakeRouter


async def test_suback_has_the_packet_identifier_and_a_reason_for_each_filter(world):
    """[MQTT-3.8.4-1], [MQTT-3.8.4-2], [MQTT-3.8.4-6], [MQTT-3.9.3-1]"""
    client = await world.client("c", version=p.V5)
    deep = "/" * 200
    wanted = (
        p.Subscription("a", 0),
        p.Subscription(deep, 1),
        p.Subscription("c", 2),
        p.Subscription("$exclusive/$share/g/a", 1),
    )
    client.send(p.Subscribe(packet_id=77, subscriptions=wanted))
    [suback] = await client.got()
    assert (suback.packet_id, suback.reasons) == (
        77,
        (0, ReasonCode.TOPIC_FILTER_INVALID, 2, ReasonCode.TOPIC_FILTER_INVALID),
    )
    old = await world.client("old")
    old.send(p.Subscribe(packet_id=78, subscriptions=(p.Subscription(deep, 0), p.Subscription("a", 1))))
    assert await old.got() == [p.Suback(packet_id=78, reasons=(0x80, 1))]


async def test_suback_waits_until_peers_see_the_route(fake_world):
    world = fake_world
    world.router.seen = 0
    client = await world.client("c")
    client.send(p.Subscribe(packet_id=1, subscriptions=(p.Subscription("a"),)), p.Pingreq())
    assert await client.got() == [p.Pingresp()]
    world.router.show(1)
    assert await client.got() == [p.Suback(packet_id=1, reasons=(0,))]


async def test_suback_is_held_while_a_live_node_has_not_confirmed_the_route(fake_world):
    world = fake_world
    world.router.seen = 0
    world.router.patient = False
    client = await world.client("c")
    client.send(p.Subscribe(packet_id=1, subscriptions=(p.Subscription("a"),)), p.Pingreq())
    assert await client.got() == [p.Pingresp()]
    world.router.show(1)
    assert await client.got() == [p.Suback(packet_id=1, reasons=(0,))]


async def test_a_client_with_many_held_subacks_is_not_read_from(fake_world):
    world = fake_world
    world.router.seen = 0
    client = await world.client("c")
    for number in range(1, HELD + 1):
        assert not client.transport.paused
        client.send(p.Subscribe(packet_id=number, subscriptions=(p.Subscription("a"),)))
        await world.settle()
    assert client.transport.paused
    world.router.show(HELD)
    assert await client.got() == [p.Suback(packet_id=n, reasons=(0,)) for n in range(1, HELD + 1)]
    assert not client.transport.paused


@pytest.mark.parametrize("version", [p.V4, p.V5])
async def test_an_unconfirmed_subscription_is_refused_and_undone_where_that_is_configured(
    make_world, version
):
    world = await make_world(router=FakeRouter(), mqtt={"unconfirmed_subscriptions": "refuse"})
    client = await world.client("c", version=version)
    await client.subscribe("old")
    world.router.patient = False
    world.router.seen = 0
    wanted = (p.Subscription("old", 1), p.Subscription("new"))
    client.send(p.Subscribe(packet_id=7, subscriptions=wanted))
    [suback] = await client.got()
    assert suback.reasons == (1, 0x80)
    if version == p.V5:
        assert suback.properties.reason_string == "not confirmed by node2@far; subscribe again later"
    pub = await world.client("p")
    pub.publish("new")
    pub.publish("old")
    assert [x.topic for x in await client.got()] == [b"old"]


async def test_who_takes_an_unconfirmed_subscription_is_told_which_nodes_are_missing(make_world):
    world = await make_world(router=FakeRouter(), mqtt={"unconfirmed_subscriptions": "accept"})
    world.router.patient = False
    world.router.seen = 0
    old = await world.client("old")
    old.send(p.Subscribe(packet_id=7, subscriptions=(p.Subscription("a"),)))
    assert await old.got() == [p.Suback(packet_id=7, reasons=(0,))]
    new = await world.client("new", version=p.V5)
    new.send(p.Subscribe(packet_id=8, subscriptions=(p.Subscription("a"),)))
    [suback] = await new.got()
    assert suback.reasons == (0,)
    assert suback.properties.user == ((UNCONFIRMED_NODE, "node2@far"),)
    assert suback.properties.reason_string == "what is published at node2@far may not come yet"


async def test_a_client_that_leaves_while_suback_waits_leaves_nothing_behind(fake_world):
    world = fake_world
    world.router.seen = 0
    client = await world.client("c")
    client.send(p.Subscribe(packet_id=1, subscriptions=(p.Subscription("a"),)))
    await world.settle()
    client.transport.close()
    await world.settle()
    assert not [pid for pid in world.runtime.processes() if world.runtime.find(pid).label == "mqtt_suback"]


async def test_a_subscription_is_replaced_not_doubled(world):
    """[MQTT-3.8.4-3]"""
    client = await world.client("c")
    await client.subscribe("a", qos=0)
    await client.subscribe("a", qos=1)
    pub = await world.client("p")
    pub.publish("a", qos=1, packet_id=1)
    assert [x.qos for x in await client.got()] == [1]


async def test_unsubscribe_ends_delivery_and_is_always_answered(world):
    """[MQTT-3.10.4-1], [MQTT-3.10.4-2], [MQTT-3.10.4-4] to [MQTT-3.10.4-6], [MQTT-3.11.3-1]"""
    client = await world.client("c", version=p.V5)
    await client.subscribe("a", "b")
    client.send(p.Unsubscribe(packet_id=9, filters=("a", "nothing")))
    assert await client.got() == [p.Unsuback(packet_id=9, reasons=(0, ReasonCode.NO_SUBSCRIPTION_EXISTED))]
    pub = await world.client("p")
    pub.publish("a")
    pub.publish("b")
    assert [x.topic for x in await client.got()] == [b"b"]


async def test_what_is_in_flight_is_still_delivered_after_unsubscribe(world):
    """[MQTT-3.10.4-3]"""
    client = await world.client("c", clean_start=False)
    await client.subscribe("a", qos=1)
    pub = await world.client("p")
    pub.publish("a", b"1", qos=1, packet_id=1)
    await client.got()
    client.send(p.Unsubscribe(packet_id=9, filters=("a",)))
    client.transport.close()
    await world.settle()
    back = world.dial()
    await back.connect("c", clean_start=False)
    assert [x.payload for x in back._early] == [b"1"]


async def test_overlapping_subscriptions_give_one_copy_with_all_identifiers(world):
    """[MQTT-3.3.4-2] to [MQTT-3.3.4-4]"""
    client = await world.client("c", version=p.V5)
    await client.subscribe("a/+", qos=0, identifier=1)
    await client.subscribe("a/#", qos=1, identifier=2)
    pub = await world.client("p")
    pub.publish("a/b", qos=1, packet_id=1)
    [got] = await client.got()
    assert (got.qos, sorted(got.properties.subscription_identifiers)) == (1, [1, 2])


async def test_no_local_keeps_a_clients_own_messages_from_it(world):
    """[MQTT-3.8.3-3]"""
    client = await world.client("c", version=p.V5)
    await client.subscribe("a", no_local=True)
    client.publish("a", b"mine")
    client.publish("a", b"mine", qos=1, packet_id=1)
    other = await world.client("o")
    other.publish("a", b"theirs")
    assert [x.payload for x in await client.got() if isinstance(x, p.Publish)] == [b"theirs"]


async def test_retain_as_published(world):
    """[MQTT-3.3.1-12], [MQTT-3.3.1-13]"""
    keep = await world.client("keep", version=p.V5)
    await keep.subscribe("a", retain_as_published=True)
    clear = await world.client("clear", version=p.V5)
    await clear.subscribe("a")
    pub = await world.client("p")
    pub.publish("a", b"1", retain=True)
    assert [x.retain for x in await keep.got()] == [True]
    assert [x.retain for x in await clear.got()] == [False]


async def test_a_retained_message_is_sent_to_new_subscribers(world):
    """[MQTT-3.3.1-5] to [MQTT-3.3.1-8]"""
    pub = await world.client("p")
    pub.publish("a/b", b"old", retain=True)
    pub.publish("a/b", b"new", retain=True, qos=1, packet_id=1)
    pub.publish("a/b", b"not retained")
    pub.publish("a/c", b"gone", retain=True)
    pub.publish("a/c", b"", retain=True)
    sub = await world.client("s")
    [_, got] = await sub.subscribe("a/+", qos=1)
    assert (got.payload, got.retain, got.qos) == (b"new", True, 1)


@pytest.mark.parametrize(("handling", "first", "second"), [(0, 1, 1), (1, 1, 0), (2, 0, 0)])
async def test_retain_handling(world, handling, first, second):
    """[MQTT-3.3.1-9] to [MQTT-3.3.1-11]"""
    world.broker.publish("a", b"1", retain=True)
    sub = await world.client("s", version=p.V5)
    for count in (first, second):
        got = await sub.subscribe("a", retain_handling=handling)
        assert len(got) - 1 == count


async def test_an_expired_retained_message_is_not_sent(world):
    world.broker.publish("a", b"1", retain=True, properties=Properties(message_expiry=5))
    world.later(6)
    sub = await world.client("s", version=p.V5)
    assert len(await sub.subscribe("a")) == 1


async def test_subscriptions_of_a_session_are_limited(make_world):
    world = await make_world(max_subscriptions=1)
    client = await world.client("c", version=p.V5)
    [suback] = await client.subscribe("a", "b", "a")
    assert suback.reasons == (0, ReasonCode.QUOTA_EXCEEDED, 0)


@pytest.mark.parametrize(
    ("topic_filter", "found"),
    [
        ("#", {"a", "a/b", "a/b/c", "/x"}),
        ("a", {"a"}),
        ("a/#", {"a", "a/b", "a/b/c"}),
        ("a/+", {"a/b"}),
        ("+", {"a"}),
        ("+/+", {"a/b", "/x"}),
        ("a/b/#", {"a/b", "a/b/c"}),
        ("$SYS/#", {"$SYS/x"}),
        ("+/x", {"/x"}),
        ("nothing", set()),
    ],
)
def test_the_store_of_retained_messages_finds_by_filter(topic_filter, found):
    """[MQTT-4.7.1-2], [MQTT-4.7.2-1]"""
    store = LocalRetained()
    topics = ("a", "a/b", "a/b/c", "/x", "$SYS/x")
    for topic in topics:
        store.put(Message(topic.encode(), b"1"))
    assert set(store.topics(topic_filter)) == found
    for topic in topics:
        store.put(Message(topic.encode(), b""))
    assert len(store) == 0
    assert not store._tree._root.below


@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_each_message_goes_to_one_member_of_a_share_group_and_to_ordinary_subscribers(world, qos):
    """[MQTT-4.8.2-1] to [MQTT-4.8.2-4]"""
    members = [await world.client(f"m{n}", version=p.V4 + n % 2) for n in range(3)]
    for member in members:
        await member.subscribe("$share/g/a/+", qos=2)
    plain = await world.client("plain")
    await plain.subscribe("a/b", qos=2)
    pub = await world.client("p")
    pub.send(
        *[
            p.Publish(topic=b"a/b", payload=b"%d" % n, qos=qos, packet_id=n + 1 if qos else None)
            for n in range(9)
        ]
    )
    assert len(await pub.got()) == (9 if qos else 0)
    got = [[int(x.payload) for x in await member.got()] for member in members]
    assert sorted(n for some in got for n in some) == list(range(9))
    assert all(len(some) == 3 for some in got)
    assert [int(x.payload) for x in await plain.got()] == list(range(9))


async def test_retained_messages_are_not_for_share_groups(world):
    world.broker.publish("a", b"1", retain=True)
    member = await world.client("m", version=p.V5)
    assert len(await member.subscribe("$share/g/a")) == 1
    member.send(p.Unsubscribe(packet_id=1, filters=("$share/g/a",)))
    assert await member.got() == [p.Unsuback(packet_id=1, reasons=(0,))]
    world.broker.publish("a", b"2")
    assert await member.got() == []

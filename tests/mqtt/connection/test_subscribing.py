"""SUBSCRIBE, UNSUBSCRIBE, retained messages, overlapping subscriptions."""

import pytest

from gossamer.mqtt import Message, ReasonCode
from gossamer.mqtt.codec import packets as p
from gossamer.mqtt.connection.subscribing import HELD, UNCONFIRMED_NODE
from gossamer.mqtt.publish.retained import LocalRetained
from mqtt.fakes import FakeRouter


@pytest.mark.parametrize("patient", [True, False])
async def test_suback_waits_until_peers_see_the_route(fake_world, patient):
    """Also of a live node that has not confirmed it in time."""
    world = fake_world
    world.router.seen = 0
    world.router.patient = patient
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
    client = await world.subscriber("c", "old", version=version)
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
    await client.drop()
    assert not [pid for pid in world.runtime.processes() if world.runtime.find(pid).label == "mqtt_suback"]


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

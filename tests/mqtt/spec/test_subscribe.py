"""SUBSCRIBE, UNSUBSCRIBE and their answers (3.8 to 3.11), topics (4.7), shared subscriptions (4.8)."""

import pytest

from gossamer.mqtt import ReasonCode
from gossamer.mqtt.codec import packets as p
from gossamer.mqtt.codec.properties import Properties
from gossamer.mqtt.codec.reasons import SUBACK_REASONS, UNSUBACK_REASONS
from gossamer.routes import matches

from .conftest import BOTH, QOS, V4, V5, breaking
from .statements import keeps
from .wire import publish, subscribe, unsubscribe, varint

DEEP = "/" * 200
"""A filter that is well formed and that this node does not accept."""


def payloads(packets):
    return [x.payload for x in packets if isinstance(x, p.Publish)]


@keeps(
    v4="3.8.4-1,2,4,5 3.9.3-1,2 2.3.1-7",
    v5="3.8.4-1,2,5,6,7 3.9.3-1,2 2.2.1-6",
)
@BOTH
async def test_suback_answers_every_filter_in_order(world, version):
    client = await world.client("c", version=version)
    client.raw(subscribe(version, ("a", 2), (DEEP, 1), ("b", 0), ("b", 1), ("c/#", 1), packet_id=513))
    await world.settle()
    refused = 0x80 if version == V4 else ReasonCode.TOPIC_FILTER_INVALID
    [suback] = await client.got()
    assert (suback.packet_id, suback.reasons) == (513, (2, refused, 0, 1, 1))
    assert set(suback.reasons) <= SUBACK_REASONS[version]
    for topic in ("a", "b", "c/d"):
        world.broker.publish(topic, topic.encode(), qos=2)
    assert [(x.topic, x.qos) for x in await client.got()] == [(b"a", 2), (b"b", 1), (b"c/d", 1)]


@keeps(v4="3.8.4-3", v5="3.8.4-3")
@BOTH
async def test_the_same_filter_again_replaces_the_subscription(world, version):
    client = await world.client("c", version=version)
    for qos in (2, 0, 1):
        await client.subscribe("t", qos=qos)
        world.broker.publish("t", b"x", qos=2)
        assert [x.qos for x in await client.got()] == [qos]
    assert list(world.broker.sessions["c"].subscriptions) == ["t"]


@keeps(v5="3.8.4-3 3.3.4-3")
async def test_options_and_identifier_are_replaced_as_well(world):
    client = await world.client("c", version=V5)
    await client.subscribe("t", identifier=1, no_local=True)
    await client.subscribe("t", identifier=2)
    client.publish("t", b"mine")
    [got] = await client.got()
    assert got.properties.subscription_identifiers == (2,)
    await client.subscribe("t")
    client.publish("t", b"mine")
    [got] = await client.got()
    assert got.properties.subscription_identifiers == ()


@keeps(v4="3.3.5-1", v5="3.3.4-2,3,4,5")
@BOTH
@QOS
async def test_overlapping_subscriptions(world, version, qos):
    """One copy, with the highest QoS and every identifier."""
    client = await world.client("c", version=version)
    for n, (topic_filter, granted) in enumerate([("t/+", 0), ("t/#", 2), ("+/x", 1), ("u", 2)], 1):
        await client.subscribe(topic_filter, qos=granted, identifier=n if version == V5 and n != 3 else None)
    world.broker.publish("t/x", b"1", qos=qos)
    [got] = await client.got()
    assert got.qos == qos
    assert sorted(got.properties.subscription_identifiers) == ([1, 2] if version == V5 else [])


@keeps(v5="3.3.4-3")
@pytest.mark.parametrize("identifier", [1, 127, 128, 16_383, 16_384, 268_435_455])
async def test_every_subscription_identifier_is_sent_back(world, identifier):
    client = await world.subscriber("c", "t", identifier=identifier, version=V5)
    world.broker.publish("t", b"1")
    await world.settle()
    assert bytes(client.transport.written).endswith(
        publish(5, "t", b"1", properties=b"\x0b" + varint(identifier))
    )


@keeps(v5="3.8.3-3")
@QOS
async def test_no_local(world, qos):
    """The messages of one's own stay away, also behind a reconnect, and whoever else publishes is heard."""
    options = {"version": V5, "properties": Properties(session_expiry=60)}
    client = await world.client("c", **options)
    await client.subscribe("t", qos=2, no_local=True)
    client.publish("t", b"mine", qos=qos, packet_id=1 if qos else None)
    await client.drop()
    back = await world.client("c", clean_start=False, **options)
    assert payloads(back.early) == []
    back.publish("t", b"mine", qos=qos, packet_id=2 if qos else None)
    other = await world.client("o")
    other.publish("t", b"theirs", qos=qos, packet_id=1 if qos else None)
    assert payloads(await back.got()) == [b"theirs"]


@keeps(v5="3.8.3-3")
@QOS
async def test_no_local_counts_for_the_will_of_the_client_too(world, qos):
    """The identifier decides, and a will is published for the client that left it."""
    will = p.Will(topic=b"t", payload=b"mine", qos=qos)
    client = await world.client("c", version=V5, properties=Properties(session_expiry=60), will=will)
    await client.subscribe("t", qos=2, no_local=True)
    other = await world.client("o", version=V5)
    await other.subscribe("t", qos=2, no_local=True)
    client.transport.close()
    assert payloads(await other.got()) == [b"mine"]
    back = await world.client("c", clean_start=False, version=V5, properties=Properties(session_expiry=60))
    assert payloads(back.early) == []


@keeps(v5="3.8.3-3 3.3.4-2,3,4")
@QOS
async def test_no_local_counts_for_its_own_subscription_alone(world, qos):
    """What the client published comes by the others, at their QoS; what anybody else did comes by all."""
    client = await world.client("c", version=V5)
    await client.subscribe("t/#", qos=2, identifier=1, no_local=True)
    await client.subscribe("t/+", qos=0, identifier=2)
    await client.subscribe("+/x", qos=1, identifier=3)
    other = await world.client("o", version=V5)
    for publisher in (client, other):
        publisher.publish("t/x", b"1", qos=qos, packet_id=1 if qos else None)
    mine, theirs = [x for x in await client.got() if isinstance(x, p.Publish)]
    assert (mine.qos, theirs.qos) == (min(qos, 1), qos)
    assert set(mine.properties.subscription_identifiers) == {2, 3}
    assert set(theirs.properties.subscription_identifiers) == {1, 2, 3}
    client.send(p.Unsubscribe(packet_id=8, filters=("t/+", "+/x")))
    await client.got()
    client.publish("t/x", b"2", qos=qos, packet_id=2 if qos else None)
    assert [x for x in await client.got() if isinstance(x, p.Publish)] == []


BAD = {
    "no filter": ("3.8.3-3", "3.8.3-2", lambda v: subscribe(v), 0x82),
    "QoS 3": ("3-8.3-4", "", lambda v: subscribe(v, ("t", 3)), 0x82),
    "bit 6": ("3-8.3-4", "3.8.3-5", lambda v: subscribe(v, ("t", 0x40)), 0x81),
    "bit 7": ("3-8.3-4", "3.8.3-5", lambda v: subscribe(v, ("fine", 0), ("t", 0x80)), 0x81),
    "an empty filter": ("4.7.3-1", "4.7.3-1", lambda v: subscribe(v, ("", 0)), 0x81),
    "# in the middle": ("4.7.1-2", "4.7.1-1", lambda v: subscribe(v, ("t/#/u", 0)), 0x81),
    "# behind a character": ("4.7.1-2", "4.7.1-1", lambda v: subscribe(v, ("t#", 0)), 0x81),
    "# before a character": ("4.7.1-2", "4.7.1-1", lambda v: subscribe(v, ("t/#u", 0)), 0x81),
    "+ behind a character": ("4.7.1-3", "4.7.1-2", lambda v: subscribe(v, ("t+", 0)), 0x81),
    "+ before a character": ("4.7.1-3", "4.7.1-2", lambda v: subscribe(v, ("t/+u/v", 0)), 0x81),
    "two wildcards": ("4.7.1-3", "4.7.1-2", lambda v: subscribe(v, ("++", 0)), 0x81),
    "nothing to unsubscribe": ("3.10.3-2", "3.10.3-2", lambda v: unsubscribe(v), 0x82),
    "an empty filter to unsubscribe": ("4.7.3-1", "4.7.3-1", lambda v: unsubscribe(v, "t", ""), 0x81),
    "# in the middle to unsubscribe": ("4.7.1-2", "4.7.1-1", lambda v: unsubscribe(v, "#/t"), 0x81),
}
BAD_5 = {
    "retain handling 3": ("", lambda v: subscribe(v, ("t", 0x30)), 0x82),
    "identifier 0": ("", lambda v: subscribe(v, ("t", 0), properties=b"\x0b\0"), 0x82),
    "two identifiers": ("", lambda v: subscribe(v, ("t", 0), properties=b"\x0b\1\x0b\2"), 0x82),
    "no local, shared": ("3.8.3-4", lambda v: subscribe(v, ("$share/g/t", 4)), 0x82),
    "no share name": ("4.8.2-1", lambda v: subscribe(v, ("$share//t", 0)), 0x81),
    "nothing behind $share/": ("4.8.2-1", lambda v: subscribe(v, ("$share/", 0)), 0x81),
    "no filter of the share": ("4.8.2-2", lambda v: subscribe(v, ("$share/g", 0)), 0x81),
    "an empty filter of the share": ("4.8.2-2", lambda v: subscribe(v, ("$share/g/", 0)), 0x81),
    "a share name with +": ("4.8.2-2", lambda v: subscribe(v, ("$share/g+/t", 0)), 0x81),
    "a share name with #": ("4.8.2-2", lambda v: subscribe(v, ("$share/#/t", 0)), 0x81),
    "a bad filter of a share": ("4.7.1-1", lambda v: subscribe(v, ("$share/g/#/t", 0)), 0x81),
}


@keeps(v4="4.8.0-1", v5="4.13.1-1")
@breaking(BAD, BAD_5)
async def test_a_packet_that_breaks_a_rule_ends_the_connection(
    world, witness, is_ended, version, make, reason
):
    client = await world.client("bad", version=version)
    client.raw(make(version))
    await is_ended(client, version, reason)
    await witness.is_well()


@keeps(
    v4="3.10.4-1,2,4,5,6 2.3.1-7",
    v5="3.10.4-1,2,4,5,6 3.11.3-1,2 2.2.1-6",
)
@BOTH
async def test_unsubscribe(world, version):
    client = await world.subscriber("c", "t/+", "t/#", "T/x", "u", version=version)
    client.raw(unsubscribe(version, "t/+", "t/x", "none", "u", "u", packet_id=513))
    await world.settle()
    if version == V4:
        assert bytes(client.transport.written).endswith(b"\xb0\x02\x02\x01")
        await client.got()
    else:
        [unsuback] = await client.got()
        assert (unsuback.packet_id, unsuback.reasons) == (513, (0, 0x11, 0x11, 0, 0x11))
        assert set(unsuback.reasons) <= UNSUBACK_REASONS
    for topic in ("t/x", "T/x", "u"):
        world.broker.publish(topic, topic.encode())
    assert payloads(await client.got()) == [b"t/x", b"T/x"]
    client.raw(unsubscribe(version, "t/#", "T/x"))
    await client.got()
    for topic in ("t/x", "T/x"):
        world.broker.publish(topic, b"1")
    assert await client.got() == []


@keeps(v4="3.10.4-3", v5="3.10.4-3")
@BOTH
@pytest.mark.parametrize("qos", [1, 2])
async def test_what_was_begun_is_delivered_behind_unsubscribe(world, version, qos):
    client = await world.subscriber("c", "t", qos=2, version=version)
    world.broker.publish("t", b"1", qos=qos)
    [got] = await client.got()
    client.send(p.Unsubscribe(packet_id=9, filters=("t",)))
    assert [type(x) for x in await client.got()] == [p.Unsuback]
    client.send(p.Puback(got.packet_id) if qos == 1 else p.Pubrec(got.packet_id))
    assert await client.got() == ([p.Pubrel(got.packet_id)] if qos == 2 else [])


MATCHES = [
    ("sport/tennis/p/#", ["sport/tennis/p", "sport/tennis/p/ranking", "sport/tennis/p/a/b"]),
    ("sport/#", ["sport", "sport/tennis/p"]),
    ("#", ["sport", "/finance", "a//b", " "]),
    ("sport/+", ["sport/", "sport/tennis"]),
    ("+/+", ["/finance", "sport/"]),
    ("/+", ["/finance", "/"]),
    ("+", ["sport", "ACCOUNTS"]),
    ("+/tennis/#", ["sport/tennis", "/tennis/x"]),
    ("a//b", ["a//b"]),
    ("$SYS/#", ["$SYS/x", "$SYS"]),
    ("$SYS/+", ["$SYS/x"]),
]  # fmt: skip
OTHERS = {"accounts", "sport/tennis", "sport/a/b", "$x", "$SYS/a/b"}
TOPICS = sorted({name for _, names in MATCHES for name in names} | OTHERS)


@keeps(v4="4.7.2-1 4.7.3-4 3.3.2-3 4.7.1-2,3 4.7.1-1", v5="4.7.2-1 4.7.3-4 3.3.2-3 4.7.1-1,2 4.7.0-1")
@BOTH
@pytest.mark.parametrize(("topic_filter", "names"), MATCHES, ids=[f for f, _ in MATCHES])
async def test_which_names_a_filter_matches(world, version, topic_filter, names):
    client = await world.subscriber("c", topic_filter, version=version)
    for name in TOPICS:
        world.broker.publish(name, name.encode())
    got = {x.payload.decode() for x in await client.got()}
    assert set(names) <= got
    assert got == {name for name in TOPICS if matches(topic_filter, name)}
    assert topic_filter.startswith("$") or not [name for name in got if name.startswith("$")]


@keeps(v4="4.7.2-1", v5="4.7.2-1")
@BOTH
@pytest.mark.parametrize("topic_filter", ["#", "+/broker/uptime", "+/#"])
async def test_sys_topics_are_for_who_asks_for_them(world, version, topic_filter):
    wild = await world.subscriber("wild", topic_filter, version=version)
    plain = await world.subscriber("plain", "$SYS/broker/uptime", version=version)
    [pid] = [x for x in world.runtime.processes() if world.runtime.find(x).label == "mqtt_sys"]
    world.runtime.send(pid, "now")
    assert await wild.got() == []
    assert [x.topic for x in await plain.got()] == [b"$SYS/broker/uptime"]


# Shared subscriptions.


@keeps(v5="4.8.2-1,2,3")
@QOS
async def test_each_message_goes_to_one_member_at_its_granted_qos_and_to_ordinary_subscribers(world, qos):
    members = [await world.client(f"m{n}", version=V5) for n in range(3)]
    for n, member in enumerate(members):
        await member.subscribe("$share/g ä/t/+", qos=n)
    plain = await world.subscriber("plain", "t/x")
    sent = [b"%d" % n for n in range(9)]
    for payload in sent:
        world.broker.publish("t/x", payload, qos=qos)
    got = [await member.got() for member in members]
    assert sorted(payload for some in got for payload in payloads(some)) == sent
    assert [len(some) for some in got] == [3] * 3
    assert payloads(await plain.got()) == sent
    for n, some in enumerate(got):
        assert {x.qos for x in some} <= {min(n, qos)}


@keeps(v5="4.8.2-4,5 4.4.0-1")
async def test_a_qos_2_message_under_way_is_its_members_alone(world):
    one = await world.client("one", version=V5, properties=Properties(session_expiry=60))
    await one.subscribe("$share/g/t", qos=2)
    for n in range(2):
        world.broker.publish("t", b"%d" % n, qos=2)
    sent = await one.got()
    two = await world.subscriber("two", "$share/g/t", qos=2, version=V5)
    await one.drop()
    world.later(30)
    back = await world.client("one", version=V5, clean_start=False, properties=Properties(session_expiry=60))
    assert [(x.packet_id, x.payload, x.dup) for x in back.early] == [
        (x.packet_id, x.payload, True) for x in sent
    ]
    await back.drop()
    world.later(61)
    assert "one" not in world.broker.sessions
    assert payloads(await two.got()) == []


@keeps(v5="4.8.2-6 4.4.0-2")
@pytest.mark.parametrize("qos", [1, 2])
async def test_what_a_member_refuses_goes_to_nobody_else(world, qos):
    one = await world.client("one", version=V5, properties=Properties(session_expiry=60))
    await one.subscribe("$share/g/t", qos=2)
    world.broker.publish("t", b"1", qos=qos)
    [got] = await one.got()
    two = await world.subscriber("two", "$share/g/t", qos=2, version=V5)
    one.send(p.Puback(got.packet_id, 0x80) if qos == 1 else p.Pubrec(got.packet_id, 0x80))
    one.send(p.Disconnect(properties=Properties(session_expiry=0)))
    assert payloads(await two.got()) == []


@keeps(v5="3.3.1-9")
async def test_retained_messages_are_not_for_shared_subscriptions(world):
    world.broker.publish("t", b"1", retain=True)
    client = await world.client("c", version=V5)
    assert len(await client.subscribe("$share/g/t")) == 1

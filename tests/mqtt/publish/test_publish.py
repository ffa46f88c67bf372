"""PUBLISH in, PUBLISH out: QoS, flags, properties, flow control."""

import pytest

from gossamer.mqtt import ReasonCode, encode
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


async def test_properties_travel_unaltered_and_in_order(world):
    """[MQTT-3.3.2-4], [MQTT-3.3.2-15] to [MQTT-3.3.2-18], [MQTT-3.3.2-20]"""
    properties = Properties(
        payload_format=1,
        content_type="text/plain",
        response_topic="r",
        correlation_data=b"\0\1",
        user=(("b", "1"), ("a", "2"), ("b", "1")),
    )
    sub = await world.client("s", version=p.V5)
    await sub.subscribe("a")
    old = await world.client("old")
    await old.subscribe("a")
    pub = await world.client("p", version=p.V5)
    pub.publish("a", b"1", properties=properties)
    [got] = await sub.got()
    assert got.properties == properties
    assert [x.payload for x in await old.got()] == [b"1"]


async def test_a_message_that_waited_says_how_long_it_still_lives(world):
    """[MQTT-3.3.2-5], [MQTT-3.3.2-6]"""
    sub = await world.client("s", version=p.V5, properties=Properties(session_expiry=600))
    await sub.subscribe("a", qos=1)
    sub.transport.close()
    await world.settle()
    pub = await world.client("p", version=p.V5)
    pub.publish("a", b"short", qos=1, packet_id=1, properties=Properties(message_expiry=5))
    pub.publish("a", b"long", qos=1, packet_id=2, properties=Properties(message_expiry=60))
    world.later(10)
    back = world.dial()
    await back.connect("s", version=p.V5, clean_start=False, properties=Properties(session_expiry=600))
    [got] = back._early
    assert (got.payload, got.properties.message_expiry) == (b"long", 50)


async def test_topic_aliases_stand_for_topics(world):
    """[MQTT-3.3.2-12]"""
    sub = await world.client("s")
    await sub.subscribe("a/b")
    pub = await world.client("p", version=p.V5)
    pub.publish("a/b", b"1", properties=Properties(topic_alias=3))
    pub.publish("", b"2", properties=Properties(topic_alias=3))
    assert [(x.topic, x.payload) for x in await sub.got()] == [(b"a/b", b"1"), (b"a/b", b"2")]


@pytest.mark.parametrize(
    ("alias", "reason"), [(9999, ReasonCode.TOPIC_ALIAS_INVALID), (3, ReasonCode.PROTOCOL_ERROR)]
)
async def test_an_alias_that_was_not_agreed_ends_the_connection(world, alias, reason):
    """[MQTT-3.3.2-9], [MQTT-3.3.2-7]"""
    pub = await world.client("p", version=p.V5)
    pub.publish("", b"2", properties=Properties(topic_alias=alias))
    [goodbye] = await pub.got()
    assert goodbye.reason == reason


async def test_aliases_are_used_towards_clients_that_allow_them(world):
    """[MQTT-3.3.2-11]"""
    sub = await world.client("s", version=p.V5, properties=Properties(topic_alias_maximum=1))
    await sub.subscribe("#", qos=1)
    pub = await world.client("p")
    for topic in ("long/topic", "long/topic", "other"):
        pub.publish(topic, qos=1, packet_id=1)
    got = await sub.got()
    assert [(x.topic, x.properties.topic_alias) for x in got] == [
        (b"long/topic", 1),
        (b"", 1),
        (b"other", None),
    ]


async def test_a_client_with_a_small_packet_limit_is_spared_large_ones(world):
    """[MQTT-3.1.2-24], [MQTT-3.1.2-25]"""
    sub = await world.client("s", version=p.V5, properties=Properties(maximum_packet_size=50))
    await sub.subscribe("a", qos=1)
    pub = await world.client("p")
    pub.publish("a", b"x" * 100, qos=1, packet_id=1)
    pub.publish("a", b"y", qos=1, packet_id=2)
    assert [x.payload for x in await sub.got()] == [b"y"]
    assert world.broker.stats()["dropped_too_large"] == 1


async def test_a_client_may_not_send_subscription_identifiers(world):
    """[MQTT-3.3.4-6]"""
    pub = await world.client("p", version=p.V5)
    pub.publish("a", properties=Properties(subscription_identifiers=(1,)))
    [goodbye] = await pub.got()
    assert goodbye.reason == ReasonCode.PROTOCOL_ERROR


async def test_qos_2_is_delivered_once_however_often_it_is_sent(world):
    """[MQTT-4.3.3-10] and the QoS 2 flow as a whole"""
    sub = await world.client("s")
    await sub.subscribe("a", qos=2)
    pub = await world.client("p", clean_start=False)
    pub.publish("a", b"1", qos=2, packet_id=5)
    pub.publish("a", b"1", qos=2, packet_id=5, dup=True)
    assert await pub.got() == [p.Pubrec(5), p.Pubrec(5)]
    pub.transport.close()
    await world.settle()
    pub = world.dial()
    assert (await pub.connect("p", clean_start=False)).session_present
    pub.publish("a", b"1", qos=2, packet_id=5, dup=True)
    pub.send(p.Pubrel(5))
    assert await pub.got() == [p.Pubrec(5), p.Pubcomp(5)]
    pub.publish("a", b"2", qos=2, packet_id=5)
    got = await sub.got()
    assert [x.payload for x in got] == [b"1", b"2"]
    sub.send(*(p.Pubrec(x.packet_id) for x in got))
    assert await sub.got() == [p.Pubrel(1), p.Pubrel(2)]
    sub.send(p.Pubcomp(1), p.Pubcomp(2))
    await world.settle()
    assert not world.broker.sessions["s"].inflight


async def test_an_unknown_pubrel_is_answered(world):
    client = await world.client("c", version=p.V5)
    client.send(p.Pubrel(9))
    assert await client.got() == [p.Pubcomp(9, ReasonCode.PACKET_IDENTIFIER_NOT_FOUND)]


async def test_unacknowledged_messages_are_sent_again_with_dup(world):
    """[MQTT-4.4.0-1], [MQTT-3.3.1-1], [MQTT-4.6.0-1]"""
    sub = await world.client("s", clean_start=False)
    await sub.subscribe("a", qos=2)
    pub = await world.client("p")
    for n, qos in enumerate((1, 2, 1, 2), 1):
        pub.publish("a", b"%d" % n, qos=qos, packet_id=n)
    got = await sub.got()
    sub.send(p.Puback(got[0].packet_id), p.Pubrec(got[1].packet_id))
    await world.settle()
    sub.transport.close()
    await world.settle()
    sub = world.dial()
    await sub.connect("s", clean_start=False)
    assert [
        (type(x), getattr(x, "payload", None), getattr(x, "dup", None), x.packet_id) for x in sub._early
    ] == [
        (p.Pubrel, None, None, 2),
        (p.Publish, b"3", True, 3),
        (p.Publish, b"4", True, 4),
    ]


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


async def test_no_more_than_receive_maximum_is_in_flight(world):
    """[MQTT-3.3.4-9]"""
    sub = await world.client("s", version=p.V5, properties=Properties(receive_maximum=2))
    await sub.subscribe("a", qos=1)
    pub = await world.client("p")
    for n in range(5):
        pub.publish("a", b"%d" % n, qos=1, packet_id=n + 1)
    got = await sub.got()
    assert [x.payload for x in got] == [b"0", b"1"]
    sub.send(p.Puback(got[0].packet_id))
    assert [x.payload for x in await sub.got()] == [b"2"]


async def test_publishing_more_than_the_servers_receive_maximum_ends_the_connection(make_world):
    """[MQTT-3.3.4-7]"""
    world = await make_world(max_inflight=2)
    pub = await world.client("p", version=p.V5)
    for n in range(3):
        pub.publish("a", qos=2, packet_id=n + 1)
    assert (await pub.got())[-1].reason == ReasonCode.RECEIVE_MAXIMUM_EXCEEDED


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


async def test_a_wildcard_in_a_topic_name_ends_the_connection(world):
    """[MQTT-3.3.2-2]"""
    pub = await world.client("p", version=p.V5)
    pub.raw(b"\x30\x05\0\1#\0x")
    [goodbye] = await pub.got()
    assert goodbye.reason == ReasonCode.MALFORMED_PACKET


@pytest.mark.parametrize("version", BOTH)
async def test_packet_identifier_zero_ends_the_connection(world, version):
    """[MQTT-2.3.1-1], [MQTT-2.2.1-3]"""
    pub = await world.client("p", version=version)
    pub.raw(encode(p.Publish(topic=b"a", qos=1, packet_id=0), version))
    assert pub.closed


async def test_a_duplicate_puback_is_harmless(world):
    sub = await world.client("s")
    await sub.subscribe("a", qos=2)
    pub = await world.client("p")
    pub.publish("a", qos=2, packet_id=1)
    [got] = await sub.got()
    sub.send(p.Puback(got.packet_id), p.Puback(999), p.Pubcomp(got.packet_id))
    sub.send(p.Pubrec(got.packet_id))
    assert await sub.got() == [p.Pubrel(1)]


async def test_packet_identifiers_in_use_are_skipped(world):
    """[MQTT-2.2.1-4]"""
    sub = await world.client("s")
    await sub.subscribe("a", qos=1)
    pub = await world.client("p")
    pub.publish("a", b"first", qos=1, packet_id=1)
    await sub.got()
    session = world.broker.sessions["s"]
    session.last_id = 65535
    pub.publish("a", b"second", qos=1, packet_id=2)
    assert [x.packet_id for x in await sub.got()] == [2]


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

"""PUBLISH (3.3) and its delivery (4.3, 4.6, 4.9): what is answered, passed on, in what order, how many."""

import pytest

from gossamer.mqtt import ReasonCode
from gossamer.mqtt.codec import packets as p
from gossamer.mqtt.codec.properties import Properties
from gossamer.routes import SubscriptionOptions
from mqtt.fakes import FakeForwarder, FakeRouter

from .conftest import BOTH, QOS, V4, V5, breaking
from .statements import keeps
from .wire import packet, publish, s, u16


def payloads(packets):
    return [x.payload for x in packets if isinstance(x, p.Publish)]


@keeps(
    v4="3.3.4-1 3.8.4-6 3.3.2-3 4.3.1-1 4.3.2-1,2 4.3.3-1,2 3.3.1-3",
    v5="3.3.4-1 3.8.4-8 3.3.2-3 4.3.1-1 4.3.2-2,4 4.3.3-2,4,8,11 3.3.1-3",
)
@BOTH
@pytest.mark.parametrize("granted", [0, 1, 2])
@QOS
@pytest.mark.parametrize("dup", [False, True])
async def test_a_message_is_answered_by_its_qos_and_delivered_at_the_lower_one(
    world, version, granted, qos, dup
):
    """An incoming DUP says nothing of the outgoing one."""
    sub = await world.subscriber("s", "t/+", qos=granted, version=version)
    pub = await world.client("p", version=version)
    pub.raw(
        publish(
            version, "t/x", b"1", flags=qos << 1 | (8 if dup and qos else 0), packet_id=7 if qos else None
        )
    )
    assert await pub.got() == [[], [p.Puback(7)], [p.Pubrec(7)]][qos]
    if qos == 2:
        pub.send(p.Pubrel(7))
        assert await pub.got() == [p.Pubcomp(7)]
    low = min(granted, qos)
    await world.settle()
    sent = publish(version, "t/x", b"1", flags=low << 1, packet_id=1 if low else None)
    assert bytes(sub.transport.written).endswith(sent)
    assert len(await sub.got()) == 1
    sub.send(*[[], [p.Puback(1)], [p.Pubrec(1)]][low])
    assert await sub.got() == ([p.Pubrel(1)] if low == 2 else [])
    sub.send(*([p.Pubcomp(1)] if low == 2 else []))
    assert world.broker.sessions["s"].inflight == {}


@keeps(v4="4.3.2-2 4.3.3-2 2.3.1-2,3", v5="4.3.2-5 4.3.3-12 2.2.1-3")
@BOTH
@pytest.mark.parametrize("flags", [2, 10])
async def test_behind_its_acknowledgement_an_identifier_is_a_new_message(world, version, flags):
    sub = await world.subscriber("s", "t", qos=2, version=version)
    pub = await world.client("p", version=version)
    for n in range(3):
        pub.raw(publish(version, "t", b"%d" % n, flags=flags, packet_id=7))
        pub.raw(publish(version, "t", b"%d" % n, flags=flags + 2, packet_id=8) + packet(0x62, u16(8)))
    assert payloads(await sub.got()) == [b"0", b"0", b"1", b"1", b"2", b"2"]


@keeps(v4="2.3.1-4 4.3.2-1 4.3.3-1", v5="2.2.1-4 4.3.2-1 4.3.3-1")
@BOTH
async def test_an_identifier_in_use_is_not_used_again(make_world, version):
    world = await make_world(max_inflight=65535)
    sub = await world.subscriber("s", "t", qos=2, version=version)
    session = world.broker.sessions["s"]
    session.last_id = 65533
    for _ in range(3):
        world.broker.publish("t", b"x", qos=1)
    assert [x.packet_id for x in await sub.got()] == [65534, 65535, 1]
    session.last_id = 65532
    for n in range(3):
        world.broker.publish("t", b"x", qos=1 + n % 2)
    assert [x.packet_id for x in await sub.got()] == [65533, 2, 3]


@keeps(
    v4="4.6.0-1,2,3,4,5,6",
    v5="4.6.0-1,2,3,4,5,6",
)
@BOTH
async def test_order_is_kept_for_each_publisher_and_topic(world, version):
    """A mix of topics, QoS and read boundaries; acknowledgements come back in the order of the messages."""
    sub = await world.subscriber("s", "#", qos=2, version=version)
    pub = await world.client("p", version=version)
    stream = b""
    want = []
    for n in range(60):
        qos = (n // 4) % 3
        stream += publish(version, f"t/{n % 3}", b"%d" % n, flags=qos << 1, packet_id=n + 1 if qos else None)
        want.append(b"%d" % n)
    for at in range(0, len(stream), 37):
        pub.raw(stream[at : at + 37])
    assert payloads(await sub.got()) == want
    acks = await pub.got()
    assert [x.packet_id for x in acks] == [n + 1 for n in range(60) if (n // 4) % 3]
    pub.send(*(p.Pubrel(x.packet_id) for x in acks if isinstance(x, p.Pubrec)))
    assert [x.packet_id for x in await pub.got()] == [x.packet_id for x in acks if isinstance(x, p.Pubrec)]


class FailsOnce:
    """A program that is subscribed, and fails with the first message it gets."""

    def __init__(self):
        self.got = []

    def deliver(self, message, delivery):
        self.got.append(message.payload)
        if len(self.got) == 1:
            raise RuntimeError("the program fails")


@BOTH
async def test_what_could_not_be_passed_on_is_passed_on_when_it_is_sent_again(world, version):
    sub = await world.subscriber("s", "t", qos=2, version=version, clean_start=False, **lasts(version))
    program = FailsOnce()
    world.broker.router.subscribe("t", program, SubscriptionOptions(qos=2))
    pub = await world.client("p", version=version, clean_start=False, **lasts(version))
    pub.raw(publish(version, "t", b"x", flags=4, packet_id=7))
    assert [x for x in await pub.got() if isinstance(x, p.Pubrec)] == []
    assert pub.closed, "or it would not send it again"
    pub = await world.client("p", version=version, clean_start=False, **lasts(version))
    for _ in range(2):
        pub.raw(publish(version, "t", b"x", flags=12, packet_id=7))
        assert [(type(x), x.packet_id) for x in await pub.got()] == [(p.Pubrec, 7)]
    assert program.got == [b"x"] * 2
    assert payloads(await sub.got()) == [b"x"]
    pub.send(p.Pubrel(7))
    assert [type(x) for x in await pub.got()] == [p.Pubcomp]


def lasts(version):
    return {"properties": Properties(session_expiry=1000)} if version == V5 else {}


@keeps(v4="4.6.0-2,3", v5="4.6.0-2,3 3.3.4-8")
@BOTH
async def test_a_client_may_acknowledge_in_any_order(world, version):
    sub = await world.subscriber("s", "t", qos=2, version=version)
    for n in range(6):
        world.broker.publish("t", b"x", qos=1 + n % 2)
    sent = await sub.got()
    for x in reversed(sent):
        sub.send(p.Puback(x.packet_id) if x.qos == 1 else p.Pubrec(x.packet_id))
    releases = await sub.got()
    assert [x.packet_id for x in releases] == [x.packet_id for x in reversed(sent) if x.qos == 2]
    sub.send(*(p.Pubcomp(x.packet_id) for x in releases))
    await world.settle()
    assert world.broker.sessions["s"].inflight == {}


@keeps(v5="3.3.4-9,10 4.9.0-1,2,3")
@pytest.mark.parametrize("quota", [1, 2, 5])
async def test_no_more_is_in_flight_than_the_client_takes(world, quota):
    """QoS 1 and 2 count together, QoS 2 until PUBCOMP; everything else goes on."""
    sub = await world.subscriber("s", "t", qos=2, version=V5, properties=Properties(receive_maximum=quota))
    for n in range(12):
        world.broker.publish("t", b"%d" % n, qos=1 + n % 2)
    world.broker.publish("t", b"free", qos=0)
    sub.send(p.Pingreq(), p.Subscribe(packet_id=9, subscriptions=(p.Subscription("other"),)))
    got = await sub.got()
    assert payloads(got) == [b"%d" % n for n in range(quota)] + [b"free"]
    assert [type(x) for x in got[-2:]] == [p.Pingresp, p.Suback]
    seen = payloads(got)[:-1]
    open_ = [x for x in got if isinstance(x, p.Publish) and x.qos]
    while open_:
        x = open_.pop(0)
        if isinstance(x, p.Pubrel):
            sub.send(p.Pubcomp(x.packet_id))
        elif x.qos == 1:
            sub.send(p.Puback(x.packet_id))
        else:
            sub.send(p.Pubrec(x.packet_id))
            [release] = await sub.got()
            assert isinstance(release, p.Pubrel), "PUBREC below 0x80 does not free a place"
            open_.insert(0, release)
            continue
        more = await sub.got()
        assert len(open_) + len(more) <= quota
        seen += payloads(more)
        open_ += more
    assert seen == [b"%d" % n for n in range(12)]


@keeps(v5="3.3.4-9 4.9.0-2")
async def test_a_refused_message_frees_its_place(world):
    sub = await world.subscriber("s", "t", qos=2, version=V5, properties=Properties(receive_maximum=1))
    for n in range(3):
        world.broker.publish("t", b"%d" % n, qos=2)
    for n in range(3):
        [got] = await sub.got()
        assert got.payload == b"%d" % n
        sub.send(p.Pubrec(got.packet_id, 0x80))


@keeps(v5="3.3.4-7 4.9.0-1,2")
@pytest.mark.parametrize("before", [0, 2])
@pytest.mark.parametrize("qos", [1, 2])
async def test_more_than_the_servers_receive_maximum_is_refused(make_world, is_ended, before, qos):
    world = await make_world(max_inflight=4)
    pub = world.dial()
    told = await pub.connect("p", version=V5)
    assert told.properties.receive_maximum == 4
    for n in range(1, 5):
        pub.raw(publish(5, "t", b"x", flags=4, packet_id=n))
    for n in range(1, before + 1):
        pub.send(p.Pubrel(n), p.Publish(topic=b"t", qos=2, packet_id=10 + n))
    # What is sent again is not one more.
    pub.raw(publish(5, "t", b"x", flags=12, packet_id=4))
    await pub.got()
    assert not pub.closed
    pub.raw(publish(5, "t", b"x", flags=qos << 1, packet_id=99))
    await is_ended(pub, V5, ReasonCode.RECEIVE_MAXIMUM_EXCEEDED)


@keeps(v4="4.3.3-2")
async def test_3_1_1_knows_no_receive_maximum(make_world):
    world = await make_world(max_inflight=4)
    pub = await world.client("p")
    for n in range(1, 9):
        pub.raw(publish(4, "t", b"x", flags=4, packet_id=n))
    pub.raw(publish(4, "t", b"x", flags=2, packet_id=90))
    assert len(await pub.got()) == 9


@keeps(v5="3.3.4-7,8")
async def test_qos_1_that_waits_for_a_peer_counts_with_qos_2(make_world, is_ended):
    world = await make_world(max_inflight=4, router=FakeRouter())
    peer = FakeForwarder()
    world.router.add_peer("far", peer)
    pub = await world.client("p", version=V5)
    pub.raw(publish(5, "here", b"x", flags=4, packet_id=1) + publish(5, "far", b"x", flags=4, packet_id=2))
    pub.raw(publish(5, "far", b"x", flags=2, packet_id=3) + publish(5, "far", b"x", flags=2, packet_id=4))
    pub.send(p.Pingreq())
    assert [type(x) for x in await pub.got()] == [p.Pubrec, p.Pingresp]
    peer.settle()
    assert [type(x) for x in await pub.got()] == [p.Pubrec, p.Puback, p.Puback]
    pub.raw(b"".join(publish(5, "far", b"x", flags=2, packet_id=n) for n in (5, 6)))
    await pub.got()
    pub.raw(publish(5, "far", b"x", flags=2, packet_id=7))
    await is_ended(pub, V5, ReasonCode.RECEIVE_MAXIMUM_EXCEEDED)


@keeps(v5="3.3.2-5,6 4.3.3-7,13")
@pytest.mark.parametrize("qos", [1, 2])
async def test_a_message_lives_as_long_as_its_expiry_unless_it_was_sent(world, qos):
    """What waits is sent with what is left of it; what was sent before goes on to its end."""
    options = {"version": V5, "properties": Properties(session_expiry=600, receive_maximum=1)}
    sub = await world.subscriber("s", "t", qos=2, identifier=3, **options)
    pub = await world.client("p", version=V5)
    for n, seconds in ((1, 5), (2, 5), (3, 60)):
        expiry = Properties(message_expiry=seconds)
        pub.publish("t", b"%d" % n, qos=qos, packet_id=n, properties=expiry)
    [first] = await sub.got()
    assert first.properties.message_expiry == 5
    world.later(20)
    sub.send(p.Puback(first.packet_id) if qos == 1 else p.Pubrec(first.packet_id))
    if qos == 2:
        assert await sub.got() == [p.Pubrel(first.packet_id)]
        sub.send(p.Pubcomp(first.packet_id))
    [third] = await sub.got()
    assert (third.payload, third.properties.message_expiry) == (b"3", 40)
    assert third.properties.subscription_identifiers == (3,)


@keeps(v5="3.3.2-4,15,16,17,18,20 3.1.2-29")
async def test_properties_are_passed_on_as_they_are_and_in_order(world):
    sent = (
        b"\x01\x01" + b"\x08" + s("reply/here") + b"\x09" + s(b"\0\1\xff") + b"\x03" + s("a/b")
        + b"".join(b"\x26" + s(k) + s(v) for k, v in ("b1", "a2", "b1", "b3"))
    )  # fmt: skip
    sub = await world.client("s", version=V5, properties=Properties(request_problem_information=0))
    await sub.subscribe("t", qos=1)
    old = await world.subscriber("old", "t", qos=1)
    pub = await world.client("p", version=V5)
    for qos in (0, 1, 2):
        pub.raw(publish(5, "t", b"1", flags=qos << 1, packet_id=qos or None, properties=sent))
        [got] = await sub.got()
        assert got.properties.user == (("b", "1"), ("a", "2"), ("b", "1"), ("b", "3"))
        body = bytes(sub.transport.written)[-len(sent) - 2 :]
        for one in (b"\x01\x01", b"\x08" + s("reply/here"), b"\x09" + s(b"\0\1\xff"), b"\x03" + s("a/b")):
            assert one in body
        assert payloads(await old.got()) == [b"1"]


BAD = {
    "a wildcard, #": ("3.3.2-2 4.7.1-1", "3.3.2-2 4.7.0-1", lambda v: publish(v, "t/#"), 0x81),
    "a wildcard, +": (
        "3.3.2-2 4.7.1-1",
        "3.3.2-2 4.7.0-1",
        lambda v: publish(v, "+/t", flags=2, packet_id=1),
        0x81,
    ),
    "no topic": ("4.7.3-1", "", lambda v: publish(v, ""), 0x82),
}
BAD_5 = {
    "an identifier of the server": ("3.3.4-6", lambda v: publish(v, "t", properties=b"\x0b\1"), 0x82),
    "a wildcard to respond to": ("3.3.2-14", lambda v: publish(v, "t", properties=b"\x08" + s("r/#")), 0x82),
    "a payload format of 2": ("", lambda v: publish(v, "t", properties=b"\x01\2"), 0x82),
    "alias 0": ("3.3.2-8", lambda v: publish(v, "t", properties=b"\x23\0\0"), 0x94),
    "alias 65": ("3.3.2-9 3.2.2-17", lambda v: publish(v, "t", properties=b"\x23\0\x41"), 0x94),
    "an alias nobody set": ("3.3.2-7", lambda v: publish(v, "", properties=b"\x23\0\1"), 0x82),
}  # fmt: skip


@keeps(v4="4.8.0-1", v5="4.13.1-1")
@breaking(BAD, BAD_5)
async def test_a_publish_that_breaks_a_rule_ends_the_connection(
    world, witness, is_ended, version, make, reason
):
    client = await world.client("bad", version=version)
    client.raw(
        publish(version, "before", b"1", flags=1) + make(version) + publish(version, "witness", b"late")
    )
    await is_ended(client, version, reason)
    assert len(world.broker.retained) == 1, "what came before it counts"
    await witness.is_well()


@keeps(v4="4.8.0-1", v5="3.14.2-1")
@BOTH
@QOS
async def test_a_name_that_is_well_formed_and_not_taken_here(world, witness, is_ended, version, qos):
    client = await world.client("bad", version=version)
    client.raw(publish(version, "/" * 200, flags=qos << 1, packet_id=1 if qos else None))
    await is_ended(client, version, ReasonCode.TOPIC_NAME_INVALID)
    await witness.is_well()


@keeps(v4="3.3.5-2", v5="3.4.2-1 3.5.2-1 4.3.3-9")
@BOTH
@QOS
@pytest.mark.parametrize("retain", [False, True])
async def test_a_publish_that_is_not_authorised(world, version, qos, retain):
    """3.1.1 is acknowledged, 5.0 is told."""
    sub = await world.subscriber("s", "$SYS/#", qos=2)
    pub = await world.client("p", version=version)
    pub.publish("$SYS/x", b"1", qos=qos, retain=retain, packet_id=7 if qos else None)
    got = await pub.got()
    assert [x.reason for x in got] == ([0 if version == V4 else ReasonCode.NOT_AUTHORIZED] if qos else [])
    if qos == 2:
        pub.send(p.Pubrel(7))
        assert [x.reason for x in await pub.got()] == [0 if version == V4 else 0x92]
    assert payloads(await sub.got()) == []
    assert len(world.broker.retained) == 0
    assert not pub.closed


@keeps(v5="3.4.2-1 3.5.2-1 3.14.2-1")
@QOS
async def test_a_payload_that_is_not_what_it_says(capable, is_ended, qos):
    world = await capable(validate_payloads=True)
    sub = await world.subscriber("s", "t", version=V5)
    pub = await world.client("p", version=V5)
    for payload in ("é".encode(), b""):
        pub.publish("t", payload, properties=Properties(payload_format=1))
    pub.publish("t", b"\xff", properties=Properties(payload_format=0))
    pub.publish("t", b"\xfe")
    pub.publish("t", b"\xfd", qos=qos, packet_id=1 if qos else None, properties=Properties(payload_format=1))
    assert payloads(await sub.got()) == ["é".encode(), b"", b"\xff", b"\xfe"]
    if qos:
        assert [x.reason for x in await pub.got()] == [ReasonCode.PAYLOAD_FORMAT_INVALID]
    else:
        await is_ended(pub, V5, ReasonCode.PAYLOAD_FORMAT_INVALID)
    bad = p.Will(topic=b"w", payload=b"\xff", properties=Properties(payload_format=1))
    refused = world.dial()
    assert (await refused.connect("w", version=V5, will=bad)).reason == ReasonCode.PAYLOAD_FORMAT_INVALID

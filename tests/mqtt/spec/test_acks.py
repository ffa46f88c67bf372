"""PUBACK, PUBREC, PUBREL and PUBCOMP (3.4 to 3.7): what may stand in them, and what may be left out."""

import pytest
from structlog.testing import capture_logs

from gossamer.mqtt import ReasonCode
from gossamer.mqtt.codec import packets as p
from gossamer.mqtt.codec.errors import MqttProtocolError
from gossamer.mqtt.codec.properties import Properties
from gossamer.mqtt.codec.reasons import PUBACK_REASONS, PUBREL_REASONS

from .conftest import BOTH, V5
from .statements import keeps
from .wire import packet, props, s, u16

ACKS = {0x40: PUBACK_REASONS, 0x50: PUBACK_REASONS, 0x62: PUBREL_REASONS, 0x70: PUBREL_REASONS}


@keeps(v5="3.4.2-1 3.5.2-1 3.6.2-1 3.7.2-1")
@pytest.mark.parametrize("first", ACKS)
async def test_reason_codes_that_an_acknowledgement_cannot_have_are_malformed(
    world, witness, is_ended, first
):
    for reason in range(256):
        client = await world.client("c", version=V5)
        client.raw(packet(first, u16(5) + bytes((reason,))))
        if reason in ACKS[first]:
            await client.got()
            assert not client.closed
        else:
            await is_ended(client, V5, ReasonCode.MALFORMED_PACKET)
    await witness.is_well()


@keeps(v5="3.6.2-1 3.7.2-1 2.2.1-5")
async def test_what_nobody_knows_is_answered_with_that(world):
    client = await world.client("c", version=V5)
    client.send(p.Pubrec(5), p.Pubrel(6), p.Puback(7), p.Pubcomp(8))
    assert await client.got() == [p.Pubrel(5, 0x92), p.Pubcomp(6, 0x92)]
    await world.settle()
    assert bytes(client.transport.written).endswith(b"\x62\x03\0\5\x92" + b"\x70\x03\0\6\x92")
    old = await world.client("old")
    old.send(p.Pubrec(5), p.Pubrel(6), p.Puback(7), p.Pubcomp(8))
    assert await old.got() == [p.Pubrel(5), p.Pubcomp(6)]


@keeps(v5="2.2.2-1")
@pytest.mark.parametrize("tail", [b"", b"\0", b"\0\0", b"\0" + props(5, b"\x1f" + s("because"))])
async def test_acknowledgements_may_leave_out_what_is_nothing(world, tail):
    sub = await world.subscriber("s", "t", qos=1, version=V5)
    world.broker.publish("t", b"1", qos=1)
    [got] = await sub.got()
    sub.raw(packet(0x40, u16(got.packet_id) + tail))
    await world.settle()
    assert world.broker.sessions["s"].inflight == {}


@keeps(v5="3.4.2-1 3.5.2-1")
async def test_a_publisher_hears_that_nobody_has_subscribed(world):
    """Whatever the message is like, and only then; an answer that was sent before is a plain one."""
    pub = await world.client("p", version=V5)
    old = await world.client("old")
    nobody = ReasonCode.NO_MATCHING_SUBSCRIBERS

    async def answers(topic):
        for qos in (1, 2):
            for n, more in enumerate(({}, {"retain": True}, {"properties": Properties(content_type="x")})):
                for client in (pub, old):
                    options = more if client is pub else {}
                    client.publish(topic, b"x", qos=qos, packet_id=10 * qos + n, **options)
                    if qos == 2:
                        client.publish(topic, b"x", qos=qos, packet_id=10 * qos + n, dup=True, **options)
        return [x.reason for x in await pub.got()], [x.reason for x in await old.got()]

    assert await answers("t") == ([nobody] * 3 + [nobody, 0] * 3, [0] * 9)
    sub = await world.subscriber("s", "t", qos=1, version=V5, properties=Properties(session_expiry=600))
    await sub.subscribe("$share/g/u", qos=1)
    sub.transport.close()
    pub.send(*(p.Pubrel(n) for n in (20, 21, 22)))
    old.send(*(p.Pubrel(n) for n in (20, 21, 22)))
    await pub.got(), await old.got()
    for topic in ("t", "u"):
        assert await answers(topic) == ([0] * 9, [0] * 9)
        pub.send(*(p.Pubrel(n) for n in (20, 21, 22)))
        old.send(*(p.Pubrel(n) for n in (20, 21, 22)))
        await pub.got(), await old.got()


@keeps(v5="3.4.2-1 3.5.2-1")
@BOTH
@pytest.mark.parametrize(
    "topic",
    ["$share/g/t", "$share/", "$exclusive/t", "$delayed/soon/t", "$delayed/5", "$delayed/5/$share/g/t"],
)
async def test_a_topic_that_can_only_be_a_filter_is_refused(world, witness, version, topic):
    """3.1.1 has no word for it, and QoS 0 no answer: it is counted and logged all the same."""
    pub = await world.client("p", version=version)
    with capture_logs() as lines:
        for qos in (0, 1, 2):
            pub.publish(topic, b"x", qos=qos, packet_id=qos or None, retain=qos == 1)
        got = await pub.got()
    reason = ReasonCode.TOPIC_NAME_INVALID if version == V5 else 0
    assert [(type(x), x.reason) for x in got] == [(p.Puback, reason), (p.Pubrec, reason)]
    assert all(x.properties.reason_string for x in got) == (version == V5)
    assert [line["topic"] for line in lines if line["event"] == "topic_refused"] == [topic] * 3
    assert world.broker.access.decisions["publish", "broker", "deny"] == 3
    why = "SECONDS/TOPIC" if topic.startswith("$delayed") else "filters, not topics"
    with pytest.raises(MqttProtocolError, match=why):
        world.broker.publish(topic, b"x")
    client = world.dial(version)
    will = p.Will(topic=topic.encode(), payload=b"x")
    client.send(p.Connect(client_id="w", version=version, will=will))
    assert [x.reason for x in await client.got()] == [ReasonCode.TOPIC_NAME_INVALID] * (version == V5)
    assert client.closed
    assert len(world.broker.retained) == 0
    await witness.is_well()


async def test_one_message_too_many_to_delay_is_refused(make_world):
    world = await make_world(max_delayed=1)
    pub = await world.client("p", version=V5)
    for qos in (1, 2, 1):
        pub.publish("$delayed/60/t", b"x", qos=qos, packet_id=qos)
    got = [x.reason for x in await pub.got()]
    assert got == [ReasonCode.SUCCESS, ReasonCode.QUOTA_EXCEEDED, ReasonCode.QUOTA_EXCEEDED]
    assert world.broker.delayed.count == 1
    assert world.broker.fanout.drops["too_many_delayed"] == 2

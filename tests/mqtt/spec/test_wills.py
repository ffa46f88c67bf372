"""Wills (3.1.2.5 to 3.1.2.7, 3.1.3.2): published once, when and as their client asked."""

import pytest
from structlog.testing import capture_logs

from gossamer.mqtt import ReasonCode
from gossamer.mqtt.codec import packets as p
from gossamer.mqtt.codec.properties import NONE, Properties

from .conftest import BOTH, QOS, V4, V5
from .statements import keeps


@pytest.fixture
async def watcher(world):
    client = await world.client("watcher", version=V5, keep_alive=0)
    await client.subscribe("will/#", qos=2, retain_as_published=True)
    return client


def will(**options):
    return p.Will(topic=b"will/x", payload=b"gone", **options)


ENDS = {
    "breaks": lambda world, client: client.transport.close(),
    "falls silent": lambda world, client: world.later(100),
    "says nonsense": lambda world, client: client.raw(b"\x00\x00"),
    "is kicked": lambda world, client: world.broker.kick("c"),
    "reconnects": lambda world, client: world.dial().send(p.Connect(client_id="c")),
    "crashes": lambda world, client: world.runtime.exit(client.channel.pid, "kill"),
}


@keeps(v4="3.1.2-8,10,16,17", v5="3.1.2-7,8,10,14,15")
@BOTH
@pytest.mark.parametrize("retain", [False, True])
@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
async def test_a_will_is_published_once_when_the_connection_ends_without_a_goodbye(
    world, watcher, version, retain, end
):
    client = await world.client("c", version=version, will=will(qos=1, retain=retain), keep_alive=20)
    assert await watcher.got() == []
    end(world, client)
    [got] = await watcher.got()
    assert (got.topic, got.payload, got.qos, got.retain) == (b"will/x", b"gone", 1, retain)
    assert client.closed
    assert len(world.broker.retained) == retain
    world.later(10_000)
    assert await watcher.got() == []


@keeps(v4="3.1.2-10 3.14.4-3", v5="3.1.2-8,10 3.14.4-3")
@BOTH
async def test_a_goodbye_takes_the_will_back(world, watcher, version):
    client = await world.client("c", version=version, will=will(retain=True))
    client.send(p.Disconnect())
    await world.settle()
    world.later(10_000)
    assert await watcher.got() == []
    assert len(world.broker.retained) == 0


@keeps(v5="3.1.2-8,10")
@pytest.mark.parametrize("reason", [0x04, 0x80, 0x81, 0x98])
async def test_any_other_goodbye_does_not(world, watcher, reason):
    client = await world.client("c", version=V5, will=will())
    client.send(p.Disconnect(reason=reason))
    assert len(await watcher.got()) == 1


@keeps(v4="3.1.2-12", v5="3.1.2-10")
@BOTH
async def test_without_a_will_none_is_published_and_none_is_inherited(world, watcher, version):
    client = await world.client("c", version=version, will=will())
    client.send(p.Disconnect())
    client = await world.client("c", version=version)
    client.transport.close()
    assert await watcher.got() == []


@keeps(v5="3.1.2-8 3.1.3-9")
@pytest.mark.parametrize(
    ("delay", "expiry", "due"), [(0, 60, 0), (10, 60, 10), (60, 10, 10), (10, 0, 0), (10, 10, 10)]
)
async def test_a_will_waits_for_its_delay_or_the_end_of_the_session(world, watcher, delay, expiry, due):
    client = await world.client(
        "c",
        version=V5,
        properties=Properties(session_expiry=expiry) if expiry else NONE,
        will=will(properties=Properties(will_delay=delay, content_type="t")),
    )
    client.transport.close()
    if due:
        assert await watcher.got() == []
        world.later(due - 0.5)
        assert await watcher.got() == []
        world.later(2)
    [got] = await watcher.got()
    assert got.properties == Properties(content_type="t")
    world.later(1000)
    assert await watcher.got() == []


@keeps(v5="3.1.2-8 3.1.3-9")
@pytest.mark.parametrize(("after", "clean", "count"), [(5, False, 0), (5, True, 1), (15, False, 1)])
async def test_whoever_is_back_in_time_has_no_will_published(world, watcher, after, clean, count):
    """With clean start the session ends, and with that the will is due."""
    options = {"version": V5, "properties": Properties(session_expiry=100)}
    client = await world.client("c", will=will(properties=Properties(will_delay=10)), **options)
    await client.drop()
    world.later(after)
    back = await world.client("c", clean_start=clean, **options)
    back.send(p.Disconnect())
    await world.settle()
    world.later(1000)
    assert len(await watcher.got()) == count


@keeps(v5="3.1.2-8")
@pytest.mark.parametrize(("delay", "clean", "count"), [(0, False, 1), (10, False, 0), (10, True, 1)])
async def test_takeover_publishes_the_will_unless_it_is_delayed_and_the_session_goes_on(
    world, watcher, delay, clean, count
):
    options = {"version": V5, "properties": Properties(session_expiry=100)}
    await world.client("c", will=will(properties=Properties(will_delay=delay)), **options)
    await world.client("c", clean_start=clean, **options)
    assert len(await watcher.got()) == count


@keeps(v5="3.1.3-10")
async def test_a_wills_properties_are_those_of_its_message(world, watcher):
    properties = Properties(
        payload_format=1,
        message_expiry=60,
        content_type="text/plain",
        response_topic="r",
        correlation_data=b"\0",
        user=(("b", "1"), ("a", "2"), ("b", "1")),
    )
    client = await world.client("c", version=V5, will=will(properties=properties))
    world.later(30)
    client.transport.close()
    [got] = await watcher.got()
    assert got.properties == properties


@keeps(v4="3.1.2-9", v5="3.1.2-9")
@BOTH
@QOS
async def test_a_will_may_be_empty_and_of_any_qos(world, watcher, version, qos):
    client = await world.client(
        "c", version=version, will=p.Will(topic=b"will/e", payload=b"", qos=qos, retain=True)
    )
    client.transport.close()
    [got] = await watcher.got()
    assert (got.payload, got.qos, got.retain) == (b"", qos, True)
    assert len(world.broker.retained) == 0


@keeps(v4="3.1.4-1 3.2.2-6", v5="3.1.4-2")
@BOTH
async def test_a_will_that_could_not_be_published_is_refused(world, version):
    """Well formed, but of more levels than this node takes; 3.1.1 has no code for that."""
    client = world.dial(version)
    client.send(p.Connect(client_id="c", version=version, will=p.Will(topic=b"/" * 200, payload=b"")))
    got = [x.reason for x in await client.got()]
    assert got == ([] if version == V4 else [ReasonCode.TOPIC_NAME_INVALID])
    assert client.closed


@keeps(v5="3.1.4-2")
@pytest.mark.parametrize(
    ("topic", "reason", "by", "why"),
    [
        (b"$SYS/x", ReasonCode.NOT_AUTHORIZED, "acl", "not allowed"),
        (b"$share/g/t", ReasonCode.TOPIC_NAME_INVALID, "broker", "filters, not topics"),
        (b"$delayed/soon/t", ReasonCode.TOPIC_NAME_INVALID, "broker", "SECONDS/TOPIC"),
    ],
)
async def test_a_will_that_no_client_may_leave_is_refused_counted_and_logged(world, topic, reason, by, why):
    """As a PUBLISH to that topic is."""
    client = world.dial()
    with capture_logs() as lines:
        connack = await client.connect("c", version=V5, will=p.Will(topic=topic, payload=b""))
    assert connack.reason == reason
    assert why in connack.properties.reason_string
    assert world.broker.access.decisions["will", by, "deny"] == 1
    assert [line["topic"] for line in lines if line.get("action") == "will"] == [topic.decode()]

"""Between nodes: what is forwarded, when it is acknowledged, what a peer's batch does here."""

from types import SimpleNamespace

import pytest

from gossamer.mqtt import ReasonCode
from gossamer.mqtt.codec import packets as p
from gossamer.mqtt.codec.properties import NONE, Properties
from mqtt.fakes import FakeForwarder, FakeRouter


@pytest.mark.parametrize("sub_version", [4, 5])
@pytest.mark.parametrize("pub_version", [4, 5])
@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_a_message_crosses_nodes(two, pub_version, sub_version, qos):
    here, there, _, carry = two
    back = FakeForwarder()
    there.router.add_peer("a/#", back)
    sub = await there.subscriber("s", "a/+", qos=2, version=sub_version)
    pub = await here.client("p", version=pub_version)
    sent = [
        p.Publish(
            topic=b"a/%d" % (n // 4), payload=b"z" * (n % 3 * 70), qos=qos, packet_id=n + 1 if qos else None
        )
        for n in range(12)
    ]
    pub.send(*sent)
    await here.settle()
    carry()
    assert [(x.topic, x.payload, x.qos) for x in await sub.got()] == [(x.topic, x.payload, qos) for x in sent]
    assert back.records == [], "what a peer sent is not forwarded again"
    counts = [
        (w.broker.stats()["messages_received"], w.broker.stats()["messages_from_peers"])
        for w in (here, there)
    ]
    assert counts == [(12, 0), (0, 12)]


async def test_mixed_traffic_keeps_its_order_across_nodes(two):
    here, there, _, carry = two
    sub = await there.subscriber("s", "a/#", qos=2, version=5)
    pub = await here.client("p", version=5)
    sent = []
    for n in range(40):
        qos = (n // 3) % 3
        properties = Properties(content_type="t") if n % 5 == 0 else NONE
        sent.append(
            p.Publish(
                topic=b"a/b",
                payload=b"%d" % n,
                qos=qos,
                packet_id=n + 1 if qos else None,
                properties=properties,
            )
        )
    pub.send(*sent)
    await here.settle()
    carry()
    assert [(x.payload, x.qos, x.properties) for x in await sub.got()] == [
        (x.payload, x.qos, x.properties) for x in sent
    ]
    assert [x.packet_id for x in await pub.got()] == [x.packet_id for x in sent if x.qos]


async def test_an_acknowledgement_waits_for_the_peer(two):
    here, _, forwarder, carry = two
    pub = await here.client("p")
    pub.publish("a/1", qos=1, packet_id=1)
    pub.publish("a/1", qos=2, packet_id=2)
    assert await pub.got() == []
    assert len(forwarder.waiting) == 2
    carry()
    assert await pub.got() == [p.Puback(1), p.Pubrec(2)]


async def test_acknowledgements_keep_the_order_of_the_publishes(two):
    """[MQTT-4.6.0-2], [MQTT-4.6.0-3]"""
    here, _, _, carry = two
    pub = await here.client("p")
    pub.publish("a/1", qos=1, packet_id=1)
    pub.publish("local", qos=1, packet_id=2)
    pub.publish("local", qos=2, packet_id=3)
    pub.send(p.Pingreq())
    assert await pub.got() == [p.Pingresp()]
    carry()
    assert await pub.got() == [p.Puback(1), p.Puback(2), p.Pubrec(3)]


async def test_acknowledgements_of_one_read_keep_the_order_of_its_publishes(two):
    """Those in between that are for subscribers of this node alone wait as well."""
    here, _, _, carry = two
    await here.subscriber("s", "local", qos=1)
    pub = await here.client("p")
    topics = (b"a/1", b"local", b"a/1", b"local", b"local", b"a/2")
    pub.send(*(p.Publish(topic=topic, qos=1, packet_id=n) for n, topic in enumerate(topics, 1)))
    assert await pub.got() == []
    carry()
    assert await pub.got() == [p.Puback(n) for n in range(1, 7)]


async def test_all_peers_must_have_it(two):
    here, _, forwarder, _ = two
    second = FakeForwarder()
    here.router.add_peer("a/1", second)
    pub = await here.client("p")
    pub.publish("a/1", qos=1, packet_id=1)
    await here.settle()
    forwarder.settle()
    assert await pub.got() == []
    second.settle()
    assert await pub.got() == [p.Puback(1)]


async def test_a_peer_that_went_down_does_not_hold_the_acknowledgement_back(two):
    here, _, forwarder, _ = two
    pub = await here.client("p")
    pub.publish("a/1", qos=1, packet_id=1)
    await here.settle()
    forwarder.settle(done=False)
    assert await pub.got() == [p.Puback(1)]
    assert here.broker.stats()["dropped_peer_down"] == 1


async def test_a_read_of_qos_1_publishes_is_one_record(two):
    here, _, forwarder, _ = two
    pub = await here.client("p")
    pub.send(*[p.Publish(topic=b"a/1", payload=b"x", qos=1, packet_id=n + 1) for n in range(20)])
    assert len(forwarder.records) == 1


async def test_a_publisher_far_ahead_of_its_peers_is_not_read(make_world):
    world = await make_world(router=FakeRouter(), max_inflight=4)
    forwarder = FakeForwarder()
    world.router.add_peer("a", forwarder)
    pub = await world.client("p")
    for n in range(5):
        pub.publish("a", qos=1, packet_id=n + 1)
    assert pub.transport.paused
    forwarder.settle()
    assert not pub.transport.paused
    five = await world.client("five", version=5)
    for n in range(5):
        five.publish("a", qos=1, packet_id=n + 1)
    assert (await five.got())[-1].reason == ReasonCode.RECEIVE_MAXIMUM_EXCEEDED


async def test_acknowledgements_for_a_client_that_left_go_nowhere(two):
    here, _, forwarder, _ = two
    pub = await here.client("p")
    pub.publish("a/1", qos=1, packet_id=1)
    await pub.drop()
    forwarder.settle()


async def test_expiry_counts_across_nodes(two):
    here, there, _, carry = two
    sub = await there.subscriber("s", "a/1", version=5)
    here.broker.publish("a/1", b"x", properties=Properties(message_expiry=30))
    carry()
    [got] = await sub.got()
    assert got.properties.message_expiry == 30


async def test_a_bad_record_is_counted_and_harms_nobody(two):
    _, there, _, _ = two
    sub = await there.subscriber("s", "a/1")
    for bad in (
        b"\x30",
        b"\x30\x7fxx",
        b"\xff\0",
        b"\x05",
        b"\x05\x30\x03\0\1#",
        b"\x30\x03\0\1#",
        b"\x30\x02\0\x09",
    ):
        there.router.callback("here", b"\x30\x06\0\3a/1!" + bad)
    assert [x.payload for x in await sub.got()] == [b"!"] * 7
    assert there.broker.stats()["dropped_bad_record"] == 7


async def test_a_record_for_a_share_group_goes_to_one_member(make_world):
    there = await make_world()
    members = [await there.client(f"m{n}") for n in range(2)]
    for member in members:
        await member.subscribe("$share/g/a", qos=1)
    everybody = await there.subscriber("e", "a")
    group = next(iter(there.router.resolve(b"a").groups))
    there.broker.ingest.group("here", group, b"\x32\x06\0\1a\0\1x" * 4 + b"\x05\x30\x05\0\1a\0y")
    counts = [len(await member.got()) for member in members]
    assert sorted(counts) == [2, 3]
    assert await everybody.got() == []


async def test_what_falls_to_another_node_in_a_share_group_is_acknowledged_by_it(two, monkeypatch):
    here, _, forwarder, _ = two
    route = here.router.resolve(b"g")
    route.groups = (SimpleNamespace(name="group"),)
    monkeypatch.setattr(here.router, "pick", lambda group, publisher, topic: forwarder, raising=False)
    pub = await here.client("p")
    pub.publish("g", b"1", qos=1, packet_id=1)
    assert await pub.got() == []
    assert len(forwarder.records) == 1
    forwarder.settle()
    assert await pub.got() == [p.Puback(1)]

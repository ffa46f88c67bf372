"""What brokers tell of the messages between them: the same of each, wherever it went."""

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gossamer.mqtt.codec import packets as p
from gossamer.mqtt.codec.properties import NONE, Properties
from mqtt.fakes import FakeForwarder, FakeRouter
from mqtt.recording import each, record


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("version", [4, 5])
async def test_a_message_is_followed_across_nodes(two, qos, version):
    here, there, _, carry = two
    at_here, at_there = record(here), record(there, "there")
    await there.subscriber("s", "a/#", qos=qos)
    pub = await here.client("p", version=version)
    at_here(), at_there()
    for number in range(1, 4):
        properties = Properties(content_type="t") if version == 5 and number == 2 else NONE
        pub.publish("a/b", qos=qos, packet_id=number if qos else None, properties=properties)
    await here.settle()
    carry()
    await there.settle()
    assert each(at_here(), "published", "forwarded") == {
        ("published", "here", n, "p"): 1 for n in (1, 2, 3)
    } | {("forwarded", "here", n, "there"): 1 for n in (1, 2, 3)}
    assert each(at_there(), "received", "delivered") == {
        ("received", "here", n, "here"): 1 for n in (1, 2, 3)
    } | {("delivered", "here", n, "s"): 1 for n in (1, 2, 3)}


async def test_acknowledgements_end_the_way_of_a_message(two):
    here, there, _, carry = two
    at_here, at_there = record(here), record(there, "there")
    sub = await there.subscriber("s", "a/#", qos=2)
    pub = await here.client("p")
    pub.send(*[p.Publish(topic=b"a/b", payload=b"x", qos=1, packet_id=n) for n in (1, 2)])
    pub.publish("a/b", qos=2, packet_id=3)
    await here.settle()
    assert at_here("acknowledged") == []
    carry()
    await here.settle()
    pub.send(p.Pubrel(packet_id=3))
    told = at_here("acknowledged")
    assert [(r["message"], r["count"], r["role"]) for r in told] == [(1, 2, "publisher"), (3, 1, "publisher")]
    first, second, third = (x.packet_id for x in await sub.got() if isinstance(x, p.Publish))
    sub.send(p.Puback(packet_id=first), p.Puback(packet_id=second), p.Pubrec(packet_id=third))
    sub.send(p.Pubcomp(packet_id=third))
    told = at_there("acknowledged")
    assert [(r["message"], r["count"], r["client"], r["role"]) for r in told] == [
        (1, 2, "s", "subscriber"),
        (3, 1, "s", "subscriber"),
    ]


async def test_pseudonyms_are_the_same_everywhere_under_one_key(two):
    here, there, _, _ = two
    at_here, at_there = record(here, pseudonyms=True), record(there, "there", pseudonyms=True)
    await here.client("alice@example.org")
    await there.client("alice@example.org")
    await there.client("bob")
    [name] = {r["client"] for r in at_here()}
    names = [r["client"] for r in at_there()]
    assert names[0] == name
    assert names[1] != name
    assert "alice" not in name


async def test_without_recording_nothing_is_carried(two):
    here, there, forwarder, carry = two
    pub = await here.client("p")
    pub.publish("a/b", b"plain")
    await here.settle()
    assert forwarder.records[0][0] == 0x30
    # And a node that does not record takes what one that does sends.
    record(here)
    sub = await there.subscriber("s", "a/#", qos=1)
    for number in (1, 2):
        pub.publish("a/b", qos=1, packet_id=number)
    pub.publish("a/b")
    await here.settle()
    carry()
    assert len([x for x in await sub.got() if isinstance(x, p.Publish)]) == 4


async def test_all_nodes_keep_the_same_messages_of_a_sample(two):
    here, there, _, carry = two
    at_here, at_there = record(here, sample=0.1), record(there, "there", sample=0.9)
    sub = await there.subscriber("s", "a/#", qos=1)
    pubs = [await here.client(f"p{n}") for n in range(3)]
    for step in range(300):
        pub = pubs[step % 3]
        pub.send(*[p.Publish(topic=b"a/b", payload=b"z" * (step % 4)) for _ in range(step % 7)])
        pub.publish("a/c", qos=1, packet_id=1 + step)
        await here.settle()
        carry()
        sub.send(*[p.Puback(packet_id=x.packet_id) for x in await sub.got() if x.packet_id])
    published = {key[2] for key in each(at_here(), "published")}
    told = at_there()
    assert 60 < len(published) < 180
    assert {key[2] for key in each(told, "received")} == published
    assert {key[2] for key in each(told, "delivered")} == published


async def test_what_a_link_does_not_take_is_a_drop_with_its_reason(two):
    here, _, forwarder, _ = two
    rows = record(here)
    here.router.awaits = lambda peer, topic: topic == b"a/kept"
    pub = await here.client("p")
    pub.send(*[p.Publish(topic=b"a/b", payload=b"\x07")] * 3)
    pub.send(*[p.Publish(topic=b"a/kept", payload=b"x", qos=1, packet_id=n) for n in (1, 2)])
    pub.publish("a/b", qos=1, packet_id=3)
    await here.settle()
    records = b"".join(forwarder.records)
    here.router.dropped("there", records, "congested", False)
    told = [(r["message"], r["count"], r["peer"], r["reason"]) for r in rows("dropped")]
    assert told == [(1, 6, "there", "congested")]
    # Its persistent sessions get what they wait for when it is back.
    here.router.dropped("there", records, "peer_down", True)
    told = [(r["message"], r["count"], r["reason"]) for r in rows("dropped")]
    assert told == [(1, 3, "peer_down"), (6, 1, "peer_down")]


async def test_what_was_not_recorded_is_no_drop(two):
    here, _, forwarder, _ = two
    pub = await here.client("p")
    pub.publish("a/b", b"\x07")
    await here.settle()
    rows = record(here)
    here.router.dropped("there", forwarder.records[0], "congested", False)
    assert rows("dropped") == []


TRAFFIC = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from(["a/b", "a/c", "d", "a/b"]),
        st.integers(0, 2),
        st.booleans(),
        st.booleans(),
    ),
    min_size=1,
    max_size=40,
)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(TRAFFIC, st.sampled_from([1.0, 0.5]))
async def test_the_record_says_what_the_clients_saw(make_world, traffic, share):
    """Whatever is published however, every copy that a client got is told once, and nothing else."""
    here, there = await make_world(router=FakeRouter()), await make_world(router=FakeRouter())
    forwarder = FakeForwarder()
    here.router.add_peer("a/#", forwarder)
    at_here, at_there = record(here, sample=share), record(there, "there")
    subs = {
        "s4": (here, await here.client("s4")),
        "s5": (here, await here.client("s5", version=5)),
        "t4": (there, await there.client("t4")),
    }
    await subs["s4"][1].subscribe("a/+", qos=1)
    await subs["s5"][1].subscribe("#", qos=2)
    await subs["t4"][1].subscribe("a/b", qos=1)
    pubs = [await here.client("p0"), await here.client("p1", version=5), await here.client("p2")]
    at_here(), at_there()
    saw = Counter()
    numbered = []
    for number, (who, topic, qos, decorated, retain) in enumerate(traffic, 1):
        properties = Properties(content_type="t") if decorated and who == 1 else NONE
        pubs[who].publish(
            topic,
            str(number).encode(),
            qos=qos,
            packet_id=number if qos else None,
            properties=properties,
            retain=retain and who == 2,
        )
        numbered.append(number)
        await here.settle()
        for x in forwarder.records:
            there.router.callback("here", x)
        forwarder.records.clear()
        forwarder.settle()
    await there.settle()
    told = at_here() + at_there()
    names = {row["message"]: row for row in told if row["event"] == "published"}
    for name, (_, client) in subs.items():
        for packet in await client.got():
            if isinstance(packet, p.Publish) and (share == 1.0 or int(packet.payload) in names):
                saw["delivered", "here", int(packet.payload), name] += 1
    assert each(told, "delivered") == saw
    if share == 1.0:
        assert sorted(names) == numbered

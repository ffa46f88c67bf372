"""Runs of publishes are told in few rows, and each message under its own number."""

from collections import Counter

from gossamer.mqtt.codec import packets as p
from gossamer.mqtt.flow import wide_fanout
from gossamer.mqtt.publish import fanout, plan
from mqtt.fakes import FakeForwarder
from mqtt.recording import each, numbers_of, record


async def test_a_run_is_one_row_a_kind_of_event(fake_world):
    rows = record(fake_world)
    await fake_world.subscriber("s", "a/+")
    pub = await fake_world.client("p")
    rows()
    pub.send(*[p.Publish(topic=b"a/b", payload=b"xyz") for _ in range(50)])
    await fake_world.settle()
    published, routed, delivered = rows()
    assert published | {"seq": 0} == {
        "seq": 0,
        "event": "published",
        "origin": "here",
        "origin_creation": 1,
        "message": 1,
        "count": 50,
        "topic": "a/b",
        "qos": 0,
        "retain": False,
        "size": 150,
        "payload_hash": None,
        "client": "p",
    }
    assert (routed["filters"], routed["nodes"]) == (("a/+",), ())
    assert (delivered["event"], delivered["client"], delivered["count"]) == ("delivered", "s", 50)


async def test_topics_and_sizes_of_a_run_are_told_apart(fake_world):
    rows = record(fake_world)
    fake_world.router.add_peer("#", FakeForwarder())
    pub = await fake_world.client("p")
    rows()
    # Topics that go to the same nodes and to nobody here have one plan.
    sent = [(b"a", b"1"), (b"a", b"22"), (b"b", b""), (b"a", b"4444"), (b"a", b"4444")]
    pub.send(*[p.Publish(topic=topic, payload=payload) for topic, payload in sent])
    await fake_world.settle()
    told = [(r["message"], r["count"], r["topic"], r["size"]) for r in rows("published")]
    assert sum(count for _, count, _, _ in told) == 5
    by_topic = Counter()
    for _, _, topic, size in told:
        by_topic[topic] += size
    assert by_topic == {"a": 11, "b": 0}


def acknowledged(rows, client):
    """Of which messages a subscriber has had its last word, in order."""
    return [
        number
        for row in rows("acknowledged")
        if (row["role"], row["client"]) == ("subscriber", client)
        for number in numbers_of(row)
    ]


async def test_a_read_of_which_the_window_takes_a_part_is_told_whole(make_world):
    world = await make_world(max_inflight=3)
    rows = record(world)
    sub = await world.subscriber("s", "t/+", qos=1)
    pub = await world.client("p")
    topics = [b"t/a"] * 2 + [b"t/b"] * 3 + [b"t/a"] * 3
    pub.send(*[p.Publish(topic=topic, payload=b"", qos=1, packet_id=n + 1) for n, topic in enumerate(topics)])
    await world.settle()
    told = rows("published", "delivered", "acknowledged")
    assert sum(row["count"] for row in told if row["event"] == "published") == 8
    assert each(told, "delivered") == Counter(("delivered", "here", n, "s") for n in (1, 2, 3))
    assert [(row["client"], row["message"], row["count"]) for row in told if row.get("role")] == [("p", 1, 8)]
    seen = []
    while got := [packet for packet in await sub.got() if isinstance(packet, p.Publish)]:
        for packet in got:
            sub.send(p.Puback(packet.packet_id))
            await world.settle()
            seen += acknowledged(rows, "s")
    assert seen == list(range(1, 9))


async def test_a_run_behind_a_wide_fan_out_is_told_under_its_own_numbers(make_world, monkeypatch):
    for module in (fanout, plan, wide_fanout):
        monkeypatch.setattr(module, "SLICE", 1)
    world = await make_world(max_inflight=3)
    sub, last, pub = await world.client("a"), await world.client("s"), await world.client("p")
    await sub.subscribe("wide", qos=1)
    for topic in ("wide", "t"):
        await last.subscribe(topic, qos=1)
    pub.publish("wide", b"", qos=1, packet_id=9)
    assert not last.channel.session.inflight
    rows = record(world)
    pub.send(*[p.Publish(topic=b"t", payload=b"", qos=1, packet_id=n) for n in (1, 2, 3)])
    got = await last.got()
    assert each(rows("delivered"), "delivered") == Counter(("delivered", "here", n, "s") for n in (2, 3))
    last.send(*[p.Puback(packet.packet_id) for packet in got])
    await world.settle()
    assert acknowledged(rows, "s") == [2, 3]
    # The window had no room for the last one until then.
    assert [packet.topic for packet in await last.got()] == [b"t"]


async def test_who_acknowledges_what_it_has_just_sent_itself_is_told_so(fake_world):
    rows = record(fake_world)
    both = await fake_world.subscriber("b", "t", qos=1)
    sent = [p.Publish(topic=b"t", payload=b"", qos=1, packet_id=n) for n in (1, 2, 3)]
    # Its first delivery will have the packet identifier 1.
    both.send(sent[0], sent[1], p.Puback(1), sent[2])
    await fake_world.settle()
    assert acknowledged(rows, "b") == [1]
    both.send(p.Puback(3), p.Puback(2))
    await fake_world.settle()
    assert acknowledged(rows, "b") == [3, 2]

"""What a broker tells of its messages while they are recorded: every one of them, once."""

from collections import Counter

from gossamer.mqtt.codec import packets as p
from gossamer.mqtt.codec.properties import Properties
from mqtt.fakes import FakeRouter
from mqtt.recording import each, record


async def test_a_single_message_has_a_hash_under_the_key_and_no_payload(fake_world):
    rows = record(fake_world)
    pub = await fake_world.client("p")
    for payload in (b"one", b"two", b"one"):
        pub.publish("a", payload)
        pub.publish("a", payload, qos=1, packet_id=1)
        await fake_world.settle()
    hashes = [row["payload_hash"] for row in rows("published")]
    assert len(set(hashes)) == 2
    assert hashes[0] == hashes[1] == hashes[4]
    assert None not in hashes


async def test_nobody_there_is_a_drop(fake_world):
    rows = record(fake_world)
    pub = await fake_world.client("p")
    pub.publish("a")
    pub.publish("a", qos=1, packet_id=1)
    pub.publish("a", qos=2, packet_id=2)
    await fake_world.settle()
    told = rows("dropped")
    assert [(row["message"], row["reason"]) for row in told] == [(n, "no_subscribers") for n in (1, 2, 3)]


async def test_what_is_queued_is_delivered_when_it_is_sent(fake_world):
    rows = record(fake_world)
    sub = await fake_world.subscriber("s", "a", qos=1, version=5, properties=Properties(session_expiry=60))
    sub.send(p.Disconnect())
    pub = await fake_world.client("p")
    for number in (1, 2, 3):
        pub.publish("a", qos=1, packet_id=number)
    await fake_world.settle()
    assert rows("delivered") == []
    again = fake_world.dial()
    await again.connect("s", version=5, clean_start=False, properties=Properties(session_expiry=60))
    await fake_world.settle()
    assert each(rows(), "delivered") == {("delivered", "here", n, "s"): 1 for n in (1, 2, 3)}
    # Sent again, since it was not acknowledged: that is not another delivery.
    third = fake_world.dial()
    await third.connect("s", version=5, clean_start=False, properties=Properties(session_expiry=60))
    await fake_world.settle()
    assert rows("delivered") == []
    third.send(*[p.Puback(packet_id=n) for n in (1, 2, 3)])
    assert each(rows(), "acknowledged") == {("acknowledged", "here", n, "s"): 1 for n in (1, 2, 3)}


async def test_a_full_queue_drops_the_oldest_and_says_which(make_world):
    world = await make_world(router=FakeRouter(), max_queued=2)
    rows = record(world)
    sub = await world.subscriber("s", "a", qos=1, version=5, properties=Properties(session_expiry=60))
    sub.send(p.Disconnect())
    pub = await world.client("p")
    for number in range(1, 6):
        pub.publish("a", qos=1, packet_id=number)
    await world.settle()
    told = [(r["message"], r["client"], r["reason"]) for r in rows("dropped")]
    assert told == [(n, "s", "queue_full") for n in (1, 2, 3)]
    world.broker.kick("s")
    told = rows("dropped", "ended")
    assert [(r["event"], r.get("message"), r["count"], r["reason"]) for r in told] == [
        ("dropped", 4, 2, "session_ended"),
        ("ended", None, 1, "kicked"),
    ]


async def test_qos_0_that_does_not_reach_its_socket_was_not_delivered(make_world):
    world = await make_world(router=FakeRouter(), max_write_buffer=1000)
    rows = record(world)
    slow, quick = await world.client("slow"), await world.client("quick")
    await slow.subscribe("a")
    await quick.subscribe("a")
    slow.transport.stuck = 1500
    slow.channel.write_full = True
    pub = await world.client("p")
    pub.send(*[p.Publish(topic=b"a", payload=b"x")] * 2)
    await world.settle()
    told = rows("delivered", "dropped")
    assert [(r["event"], r["client"], r["count"]) for r in told] == [
        ("dropped", "slow", 2),
        ("delivered", "quick", 2),
    ]
    assert told[0]["reason"] == "slow_consumer"


async def test_an_expired_message_and_one_too_large_are_dropped(fake_world):
    rows = record(fake_world)
    away = await fake_world.subscriber("s", "a", qos=1, version=5, properties=Properties(session_expiry=600))
    away.send(p.Disconnect())
    small = await fake_world.client("t", version=5, properties=Properties(maximum_packet_size=30))
    await small.subscribe("a", qos=1)
    pub = await fake_world.client("p", version=5)
    pub.publish("a", b"z" * 50, qos=1, packet_id=1, properties=Properties(message_expiry=5))
    await fake_world.settle()
    fake_world.later(10)
    back = fake_world.dial()
    await back.connect("s", version=5, clean_start=False, properties=Properties(session_expiry=600))
    told = {(r["client"], r["reason"]) for r in rows("dropped")}
    assert told == {("s", "expired"), ("t", "too_large")}


async def test_retained_messages_keep_their_name(fake_world):
    rows = record(fake_world)
    pub = await fake_world.client("p")
    pub.publish("a", retain=True)
    await fake_world.settle()
    [stored] = rows("retained")
    await fake_world.subscriber("s", "a")
    await fake_world.settle()
    [told] = rows("delivered")
    assert (told["message"], told["reason"], told["retain"]) == (stored["message"], "retained", True)


async def test_a_will_and_a_delayed_message_are_published_when_they_are_due(fake_world):
    rows = record(fake_world)
    await fake_world.subscriber("s", "#")
    doomed = fake_world.dial()
    await doomed.connect("d", will=p.Will(topic=b"last/words", payload=b"x"))
    doomed.publish("$delayed/5/later")
    await fake_world.settle()
    assert rows("published") == []
    doomed.transport.close()
    await fake_world.settle()
    fake_world.later(6)
    await fake_world.settle()
    assert [(r["topic"], r["client"]) for r in rows("published")] == [("last/words", "d"), ("later", "d")]


async def test_sessions_and_subscriptions_are_told(fake_world):
    rows = record(fake_world)
    client = await fake_world.client("s", version=5, properties=Properties(session_expiry=60))
    await client.subscribe("a", "b/#", qos=1)
    client.send(p.Unsubscribe(packet_id=8, filters=("a", "never")))
    client.send(p.Disconnect())
    await fake_world.settle()
    await fake_world.client("s")
    told = [(r["event"], r.get("filter"), r.get("reason")) for r in rows()]
    assert told == [
        ("connected", None, None),
        ("subscribed", "a", None),
        ("subscribed", "b/#", None),
        ("unsubscribed", "a", None),
        ("disconnected", None, "disconnected by client"),
        ("ended", None, "clean_start"),
        ("connected", None, None),
    ]


async def test_a_buffer_that_is_full_loses_rows_and_no_message(fake_world):
    rows = record(fake_world, limit=10)
    sub = await fake_world.subscriber("s", "a")
    pub = await fake_world.client("p")
    for _ in range(30):
        pub.publish("a")
        await fake_world.settle()
    assert len([x for x in await sub.got() if isinstance(x, p.Publish)]) == 30
    told = rows()
    assert told[-1]["event"] == "gap"
    assert told[-1]["seq"] - told[-1]["count"] == told[-2]["seq"] + 1


async def test_the_filters_that_matched_are_those_of_the_moment(fake_world):
    """Topics may share all that is known of their subscribers, and subscriptions come and go."""
    rows = record(fake_world)
    sub = await fake_world.subscriber("s", "a/+", "a/b")
    pub = await fake_world.client("p")

    async def matched():
        rows()
        for topic in ("a/b", "a/c", "a/b"):
            pub.publish(topic)
            await fake_world.settle()
        return [set(row["filters"]) for row in rows("routed")]

    assert await matched() == [{"a/+", "a/b"}, {"a/+"}, {"a/+", "a/b"}]
    sub.send(p.Unsubscribe(packet_id=8, filters=("a/b",)))
    await fake_world.settle()
    assert await matched() == [{"a/+"}] * 3


async def test_what_a_member_leaves_is_recorded_as_given_to_another_one(make_world):
    world = await make_world(max_inflight=1)
    rows = record(world)
    one = await world.subscriber("one", "$share/g/t/+", qos=1, clean_start=True)
    publisher = await world.client("publisher")
    publisher.send(*[p.Publish(topic=b"t/x", payload=b"%d" % n, qos=1, packet_id=n + 1) for n in range(3)])
    [_] = [packet for packet in await one.got() if isinstance(packet, p.Publish)]
    two = await world.subscriber("two", "$share/g/t/+", qos=1)
    one.transport.abort()
    payloads = []
    while got := [packet for packet in await two.got() if isinstance(packet, p.Publish)]:
        payloads += [packet.payload for packet in got]
        two.send(*[p.Puback(packet.packet_id) for packet in got])
    assert payloads == [b"0", b"1", b"2"]
    told = rows("published", "routed", "delivered", "acknowledged", "dropped")
    numbers = sorted({row["message"] for row in told if row["event"] == "published"})
    assert {row["share"] for row in told if row["event"] == "delivered"} == {"g"}
    # The first was with one client when it left, the others waited for it.
    assert each(told, "delivered") == Counter(
        [("delivered", "here", numbers[0], "one"), *(("delivered", "here", n, "two") for n in numbers)]
    )
    assert each(told, "dropped") == Counter(("dropped", "here", n, "one") for n in numbers[1:])
    taken = each([row for row in told if row.get("role") == "subscriber"], "acknowledged")
    assert taken == Counter(("acknowledged", "here", n, "two") for n in numbers)

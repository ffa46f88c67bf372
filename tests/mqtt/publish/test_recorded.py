"""What a broker tells of its messages while they are recorded: every one of them, once, wherever it went."""

import asyncio
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gossamer.audit import KINDS, Tape, Trail, schema
from gossamer.clock import HybridLogicalClock
from gossamer.mqtt.codec import packets as p
from gossamer.mqtt.codec.properties import NONE, Properties
from gossamer.mqtt.flow import wide_fanout
from gossamer.mqtt.publish import fanout, plan
from gossamer.routes.topics import matches
from mqtt.fakes import FakeForwarder, FakeRouter

NAMES = {number: name for name, number in KINDS.items()}
FIELDS = {event.name: event.columns for event in schema.EVENTS}


def record(world, node="here", *, sample=1.0, limit=100_000, **options):
    """Record what ``world`` does; a function that returns the rows since its last call."""
    tape = Tape(limit=limit, wall=world.clock.wall, clock=HybridLogicalClock())
    trail = Trail(
        tape,
        node=node,
        creation=1,
        hub=world.broker.hub,
        key=b"k" * 16,
        pseudonyms=options.pop("pseudonyms", False),
        filters_of=lambda topic: [
            f for f, held in getattr(world.router, "filters", {}).items() if held and matches(f, topic)
        ],
        soon=asyncio.get_running_loop().call_soon,
    )
    trail.sample = sample
    world.broker.hub.trail = trail

    def rows(*kinds):
        found = []
        for number, kind, _, _, *values in tape.take():
            name = NAMES[kind]
            row = {"seq": number, "event": name, "count": 1, **dict(zip(FIELDS[name], values, strict=True))}
            clients = row.get("client")
            found += [{**row, "client": c} for c in (clients if isinstance(clients, tuple) else [clients])]
        return [row for row in found if not kinds or row["event"] in kinds]

    rows.trail = trail
    return rows


def each(rows, *kinds):
    """How often each (event, message, client or peer) is told."""
    told = Counter()
    for row in rows:
        if row["event"] in kinds:
            for number in range(row["message"], row["message"] + row["count"]):
                who = row["peer"] if row["event"] in ("forwarded", "received") else row["client"]
                told[row["event"], row["origin"], number, who] += 1
    return told


@pytest.fixture
async def two(make_world):
    here, there = await make_world(router=FakeRouter()), await make_world(router=FakeRouter())
    forwarder = FakeForwarder()
    here.router.add_peer("a/#", forwarder)

    def carry():
        records, forwarder.records = forwarder.records, []
        for each_record in [b"".join(records)] if records else []:
            there.router.callback("here", each_record)
        forwarder.settle()

    return here, there, forwarder, carry


async def test_a_run_is_one_row_a_kind_of_event(fake_world):
    rows = record(fake_world)
    sub = await fake_world.client("s")
    await sub.subscribe("a/+")
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


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("version", [4, 5])
async def test_a_message_is_followed_across_nodes(two, qos, version):
    here, there, _, carry = two
    at_here, at_there = record(here), record(there, "there")
    sub = await there.client("s")
    await sub.subscribe("a/#", qos=qos)
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
    sub = await there.client("s")
    await sub.subscribe("a/#", qos=2)
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


async def test_what_is_queued_is_delivered_when_it_is_sent(fake_world):
    rows = record(fake_world)
    sub = await fake_world.client("s", version=5, properties=Properties(session_expiry=60))
    await sub.subscribe("a", qos=1)
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
    sub = await world.client("s", version=5, properties=Properties(session_expiry=60))
    await sub.subscribe("a", qos=1)
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
    away = await fake_world.client("s", version=5, properties=Properties(session_expiry=600))
    await away.subscribe("a", qos=1)
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
    sub = await fake_world.client("s")
    await sub.subscribe("a")
    await fake_world.settle()
    [told] = rows("delivered")
    assert (told["message"], told["reason"], told["retain"]) == (stored["message"], "retained", True)


async def test_a_will_and_a_delayed_message_are_published_when_they_are_due(fake_world):
    rows = record(fake_world)
    sub = await fake_world.client("s")
    await sub.subscribe("#")
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
    sub = await there.client("s")
    await sub.subscribe("a/#", qos=1)
    for number in (1, 2):
        pub.publish("a/b", qos=1, packet_id=number)
    pub.publish("a/b")
    await here.settle()
    carry()
    assert len([x for x in await sub.got() if isinstance(x, p.Publish)]) == 4


async def test_all_nodes_keep_the_same_messages_of_a_sample(two):
    here, there, _, carry = two
    at_here, at_there = record(here, sample=0.1), record(there, "there", sample=0.9)
    sub = await there.client("s")
    await sub.subscribe("a/#", qos=1)
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


async def test_a_tape_that_is_full_loses_rows_and_no_message(fake_world):
    rows = record(fake_world, limit=10)
    sub = await fake_world.client("s")
    await sub.subscribe("a")
    pub = await fake_world.client("p")
    for _ in range(30):
        pub.publish("a")
        await fake_world.settle()
    assert len([x for x in await sub.got() if isinstance(x, p.Publish)]) == 30
    told = rows()
    assert told[-1]["event"] == "gap"
    assert told[-1]["seq"] - told[-1]["count"] == told[-2]["seq"] + 1


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
    # Its lasting sessions get what they wait for when it is back.
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


async def test_the_filters_that_matched_are_those_of_the_moment(fake_world):
    """Topics may share all that is known of their subscribers, and subscriptions come and go."""
    rows = record(fake_world)
    sub = await fake_world.client("s")
    await sub.subscribe("a/+", "a/b")
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
    one = await world.client("one", clean_start=True)
    await one.subscribe("$share/g/t/+", qos=1)
    publisher = await world.client("publisher")
    publisher.send(*[p.Publish(topic=b"t/x", payload=b"%d" % n, qos=1, packet_id=n + 1) for n in range(3)])
    [_] = [packet for packet in await one.got() if isinstance(packet, p.Publish)]
    two = await world.client("two")
    await two.subscribe("$share/g/t/+", qos=1)
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


def acknowledged(rows, client):
    """Of which messages a subscriber has had its last word, in order."""
    return [
        number
        for row in rows("acknowledged")
        if (row["role"], row["client"]) == ("subscriber", client)
        for number in range(row["message"], row["message"] + row["count"])
    ]


async def test_a_read_of_which_the_window_takes_a_part_is_told_whole(make_world):
    world = await make_world(max_inflight=3)
    rows = record(world)
    sub = await world.client("s")
    await sub.subscribe("t/+", qos=1)
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
    both = await fake_world.client("b")
    await both.subscribe("t", qos=1)
    sent = [p.Publish(topic=b"t", payload=b"", qos=1, packet_id=n) for n in (1, 2, 3)]
    # Its first delivery will have the packet identifier 1.
    both.send(sent[0], sent[1], p.Puback(1), sent[2])
    await fake_world.settle()
    assert acknowledged(rows, "b") == [1]
    both.send(p.Puback(3), p.Puback(2))
    await fake_world.settle()
    assert acknowledged(rows, "b") == [3, 2]

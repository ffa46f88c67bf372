"""What a client may get wrong with queues: each is answered with a reason code and what to do, and nobody
else notices."""

import pytest

from gossamer.mqtt import ReasonCode
from gossamer.mqtt.codec import packets as p
from gossamer.mqtt.codec.properties import Properties
from mqtt.queueing import LocalQueues

V4, V5 = p.V4, p.V5
MINE = ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR
FULL = ReasonCode.QUOTA_EXCEEDED
BAD_FILTER = ReasonCode.TOPIC_FILTER_INVALID


@pytest.fixture
def queues():
    small = {"limits": {"max_message_size": 1024, "max_bytes": 2048, "max_depth": 3}}
    return LocalQueues(jobs={}, small=small, readings={"type": "stream"})


@pytest.fixture
async def world(make_world, queues):
    """There is a client of whom nobody else takes notice, which consumes and publishes to the end."""
    made = await make_world(queues=queues)
    made.steady = await made.client("steady", version=V5)
    await subscribed(made.steady, "$queue/readings/#", ("settle", "puback"))
    yield made
    made.steady.publish("$queue/readings/", b"end", qos=1, packet_id=99)
    got = await made.steady.got()
    assert [one.payload for one in got if isinstance(one, p.Publish)] == [b"end"]
    assert [(one.packet_id, one.reason) for one in got if isinstance(one, p.Puback)] == [(99, 0)]
    assert not made.steady.closed


def user(*pairs):
    return Properties(user=pairs)


def offsets_of(packets):
    """Offset and attempt of each message among packets."""
    told = [dict(one.properties.user) for one in packets if isinstance(one, p.Publish)]
    return [(int(one["offset"]), int(one["attempt"])) for one in told]


async def given(client):
    """Offset and attempt of each message that came."""
    return offsets_of(await client.got())


async def subscribed(client, topic_filter, *pairs):
    """Subscribe; return the reason code and the reason. What came with it is in ``early``."""
    subscriptions = (p.Subscription(topic_filter, 1),)
    properties = user(*pairs) if client.version == V5 else Properties()
    client.send(p.Subscribe(packet_id=8, subscriptions=subscriptions, properties=properties))
    got = await client.got()
    [suback] = [one for one in got if isinstance(one, p.Suback)]
    client.early = [one for one in got if one is not suback]
    return suback.reasons[0], suback.properties.reason_string or ""


async def published(client, topic, payload=b"x", *pairs, qos=1):
    """Publish; return the reason code and the reason."""
    client.publish(topic, payload, qos=qos, packet_id=5, properties=user(*pairs))
    [answer] = await client.got()
    assert isinstance(answer, p.Puback if qos == 1 else p.Pubrec)
    if qos == 2 and not answer.reason:
        client.send(p.Pubrel(5))
        await client.got()
    return answer.reason, answer.properties.reason_string or ""


async def settled(client, *message_ids, what="$ack"):
    """Settle jobs; return the reason code and the reason."""
    return await published(client, f"$queue/jobs/{what}", b"", *(("message-id", one) for one in message_ids))


async def worker(world, client_id="worker"):
    """A client that consumes the jobs."""
    client = await world.client(client_id, version=V5)
    assert (await subscribed(client, "$queue/jobs/#", ("consumer-group", "g")))[0] == 1
    return client


@pytest.mark.parametrize(
    ("topic_filter", "pairs", "said"),
    [
        ("$queue/nope/#", (), "queue 'nope': there is none; make it with"),
        ("$queue/jobs", (), "expected $queue/NAME/#"),
        ("$queue/+/#", (), "expected $queue/NAME/#"),
        ("$queue/jobs/k/#", (), "expected $queue/NAME/#"),
        ("$share/g/$queue/jobs/#", (), "the user property consumer-group shares a queue"),
        ("$queue/jobs/#", (("consumer-group", ""),), "consumer-group: got '', expected a name"),
        ("$queue/jobs/#", (("consumer-group", "g" * 65),), "expected a name of 1 to 64"),
        ("$queue/jobs/#", (("consumer-group", "a/b"),), "consumer-group: got 'a/b'"),
        ("$queue/jobs/#", (("consumer-group", "a\tb"),), "printable characters"),
        (
            "$queue/jobs/#",
            (("consumer-group", "a"), ("consumer-group", "b")),
            "'a and b', expected it once",
        ),
        ("$queue/jobs/$group/a", (("consumer-group", "b"),), "the consumer group of the filter"),
        ("$queue/jobs/#", (("offset", "-1"),), "offset: got '-1', expected first, last"),
        ("$queue/jobs/#", (("offset", "soon"),), "offset: got 'soon'"),
        ("$queue/jobs/#", (("offset", "9" * 40),), "offset: got '99"),
        ("$queue/jobs/#", (("offset", "timestamp:noon"),), "offset: got 'timestamp:noon'"),
        ("$queue/jobs/#", (("offset", "first"), ("offset", "first")), "expected it once"),
        ("$queue/jobs/#", (("offset", "7"),), "a number up to its next one"),
        ("$queue/jobs/#", (("settle", "pubak"),), "settle: got 'pubak', expected puback"),
    ],
)
async def test_what_cannot_be_consumed_is_said(world, topic_filter, pairs, said):
    client = await world.client("c", version=V5)
    reason, why = await subscribed(client, topic_filter, *pairs)
    assert (reason, said in why) == (BAD_FILTER, True), why
    # The connection goes on, and what is right works.
    assert await subscribed(client, "$queue/jobs/#", ("consumer-group", "g")) == (1, "")


async def test_a_client_of_3_1_1_is_told_by_the_code_that_it_knows(world):
    client = await world.client("c")
    for topic_filter in ("$queue/nope/#", "$queue/jobs/x", "$queue/jobs/$group/"):
        assert await subscribed(client, topic_filter) == (0x80, "")
    assert await subscribed(client, "$queue/jobs/$group/g") == (1, "")


async def test_a_new_group_begins_anywhere_up_to_what_comes_next(world):
    client = await world.client("c", version=V5)
    for _ in range(3):
        assert (await published(client, "$queue/small/"))[0] == 0
    for group, offset, code, offsets in (
        ("a", "3", 1, []),
        ("b", "4", BAD_FILTER, []),
        ("c", "1", 1, [(1, 1), (2, 1)]),
    ):
        one = await world.client(group, version=V5)
        reason, _ = await subscribed(one, "$queue/small/#", ("consumer-group", group), ("offset", offset))
        assert (reason, offsets_of(one.early)) == (code, offsets)


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        ((), "message-id: got '', expected jobs:OFFSET"),
        ((("message-id", "jobs"),), "message-id: got 'jobs'"),
        ((("message-id", "jobs:one"),), "expected jobs:OFFSET, as it came"),
        ((("message-id", "small:0"),), "message-id: got 'small:0'"),
        ((("message-id", "jobs:-1"),), "message-id: got 'jobs:-1'"),
        ((("message-id", "jobs:" + "9" * 30),), "message-id: got 'jobs:9"),
        ((("message-id", "jobs:0"), ("group-id", "nope")), "does not consume it in consumer group 'nope'"),
        ((("message-id", "jobs:0"), ("group-id", "g"), ("group-id", "h")), "group-id: got 'g and h'"),
        ((("message-id", "jobs:0"), ("delay", "soon")), "delay: got 'soon', expected whole seconds"),
        ((("message-id", "jobs:7"),), "the message is not with this consumer"),
        (tuple(("message-id", f"jobs:{n}") for n in range(7, 900)), "the message is not with this consumer"),
    ],
)
async def test_what_cannot_be_settled_is_said_and_is_no_question_for_a_quorum(world, queues, pairs, said):
    client = await worker(world)
    await published(world.steady, "$queue/jobs/")
    assert await given(client) == [(0, 1)]
    before = queues.asked
    reason, why = await published(client, "$queue/jobs/$ack", b"", *pairs)
    assert (reason, said in why, queues.asked) == (MINE, True, before), why
    assert await settled(client, "jobs:0", "jobs:0") == (0, "")
    assert (await settled(client, "jobs:0"))[0] == MINE


async def test_of_several_messages_those_are_settled_that_the_client_has_and_it_is_told_of_the_others(world):
    client = await worker(world)
    await published(world.steady, "$queue/jobs/")
    assert await given(client) == [(0, 1)]
    reason, why = await settled(client, "jobs:0", "jobs:7")
    assert (reason, "the message is not with this consumer" in why) == (MINE, True)
    assert (await settled(client, "jobs:0"))[0] == MINE


@pytest.mark.parametrize("what", ["$ack", "$nack", "$reject"])
async def test_who_does_not_consume_settles_nothing(world, what):
    client = await worker(world)
    await published(world.steady, "$queue/jobs/")
    assert await given(client) == [(0, 1)]
    for queue in ("jobs", "nope"):
        named = ("message-id", f"{queue}:0")
        reason, why = await published(world.steady, f"$queue/{queue}/{what}", b"", named)
        assert (reason, "subscribe first" in why) == (MINE, True)
    assert await settled(client, "jobs:0") == (0, "")


async def test_a_client_of_3_1_1_that_settles_by_publishing_is_ended_since_it_can_name_nothing(world):
    client = await world.client("old")
    await subscribed(client, "$queue/jobs/$group/g")
    await published(world.steady, "$queue/jobs/")
    await client.got()
    client.publish("$queue/jobs/$ack", b"jobs:0", qos=1, packet_id=5)
    assert await client.got() == []
    assert client.closed
    other = await worker(world)
    assert offsets_of(other.early) == [(0, 2)]


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize(
    ("topic", "payload", "code", "said"),
    [
        ("$queue/nope/", b"x", ReasonCode.TOPIC_NAME_INVALID, "make it with"),
        ("$queue/small/", bytes(1025), FULL, "larger than limits.max_message_size; send less, or raise it"),
        ("$queue/small/" + "k" * 600, bytes(600), FULL, "larger than limits.max_message_size"),
    ],
)
async def test_what_a_queue_does_not_take_is_said(world, topic, payload, code, said, qos):
    client = await world.client("c", version=V5)
    reason, why = await published(client, topic, payload, qos=qos)
    assert (reason, said in why) == (code, True), why
    assert await published(client, "$queue/small/", qos=qos) == (0, "")
    old = await world.client("old")
    old.publish(topic, payload, qos=qos, packet_id=1)
    assert await old.got() == []
    assert old.closed


@pytest.mark.parametrize(("payload", "room"), [(b"x", 3), (bytes(900), 2)])
@pytest.mark.parametrize("qos", [1, 2])
async def test_a_full_queue_says_so_by_depth_and_by_bytes_and_takes_more_once_there_is_room(
    world, payload, room, qos
):
    client = await world.client("c", version=V5)
    for _ in range(room):
        assert (await published(client, "$queue/small/", payload))[0] == 0
    reason, why = await published(client, "$queue/small/", payload, qos=qos)
    assert (reason, "limits.max_depth or limits.max_bytes is reached; try again once" in why) == (FULL, True)
    old = await world.client("old")
    old.publish("$queue/small/", payload, qos=1, packet_id=1)
    assert await old.got() == []
    assert old.closed
    one = await world.client("w", version=V5)
    await subscribed(one, "$queue/small/#")
    assert await published(one, "$queue/small/$ack", b"", ("message-id", "small:0")) == (0, "")
    assert await published(client, "$queue/small/", payload, qos=qos) == (0, "")


@pytest.mark.parametrize("topic", ["$queue/", "$queue/jobs/$fly", "$queue//k"])
async def test_a_topic_that_can_be_of_no_queue_ends_the_connection_with_the_reason(world, topic):
    client = await world.client("c", version=V5)
    client.publish(topic, qos=1, packet_id=1)
    [end] = await client.got()
    assert (type(end), end.reason) == (p.Disconnect, ReasonCode.TOPIC_NAME_INVALID)
    assert "expected $queue/NAME/KEY" in end.properties.reason_string
    assert client.closed


async def test_what_is_sent_with_qos_0_and_not_taken_ends_nothing(world):
    client = await world.client("c", version=V5)
    client.publish("$queue/nope/", b"x")
    client.publish("$queue/small/", bytes(4000))
    assert await client.got() == []
    assert not client.closed


async def test_a_consumer_that_never_acks_loses_its_messages_to_others_and_is_given_no_more(world, queues):
    lazy = await worker(world)
    for _ in range(3):
        await published(world.steady, "$queue/jobs/")
    assert await given(lazy) == [(0, 1), (1, 1), (2, 1)]
    steady = await worker(world, "w2")
    queues.tick(31)
    assert await given(steady) == [(0, 2), (1, 2), (2, 2)]
    await published(world.steady, "$queue/jobs/")
    assert (await given(lazy), await given(steady)) == ([], [(3, 1)])


async def test_a_consumer_that_acknowledges_no_packet_has_no_more_than_its_receive_maximum(world):
    client = await world.client("slow", version=V5, properties=Properties(receive_maximum=2))
    await subscribed(client, "$queue/jobs/#", ("settle", "puback"))
    for _ in range(5):
        await published(world.steady, "$queue/jobs/")
    got = await client.got()
    assert offsets_of(got) == [(0, 1), (1, 1)]
    client.send(p.Puback(got[0].packet_id))
    assert await given(client) == [(2, 1)]


async def test_acknowledgements_that_come_together_are_settled_in_one_step(world, queues):
    client = await world.client("quick", version=V5)
    await subscribed(client, "$queue/jobs/#", ("settle", "puback"))
    for _ in range(6):
        await published(world.steady, "$queue/jobs/")
    got = [one.packet_id for one in await client.got()]
    before = queues.asked
    client.send(*map(p.Puback, got[:5]))
    await client.got()
    assert queues.asked == before + 1
    # By what settles them when the client leaves in the same breath, too.
    client.send(p.Puback(got[5]), p.Unsubscribe(packet_id=9, filters=("$queue/jobs/#",)))
    await client.got()
    other = await world.client("other", version=V5)
    await subscribed(other, "$queue/jobs/#")
    assert offsets_of(other.early) == []

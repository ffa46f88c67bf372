"""What the two sides allow each other: packet sizes (3.1.2.11.4, 3.2.2.3.6) and topic aliases (3.3.2.3.4)."""

import pytest

from gossamer.mqtt import ReasonCode
from gossamer.mqtt.codec import packets as p
from gossamer.mqtt.codec.properties import Properties

from .conftest import V5
from .statements import cites, keeps
from .wire import publish, s, subscribe, unsubscribe


def limited(size, **more):
    return Properties(maximum_packet_size=size, **more)


@keeps(v5="3.1.2-24,25")
@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_no_publish_is_larger_than_the_client_takes(world, qos):
    """Up to the last byte; what is larger is dropped as if it had been delivered, and frees its place."""
    limit = 60
    client = await world.subscriber("c", "t", qos=2, version=V5, properties=limited(limit, receive_maximum=1))
    head = len(publish(5, "t", flags=qos << 1, packet_id=1 if qos else None))
    for size in (limit - head + 1, limit - head, 300, limit - head - 1):
        world.broker.publish("t", b"z" * size, qos=qos)
    got = []
    for _ in range(4):
        more = await client.got()
        got += [len(x.payload) for x in more if isinstance(x, p.Publish)]
        for x in more:
            if isinstance(x, p.Pubrel):
                client.send(p.Pubcomp(x.packet_id))
            elif x.qos:
                client.send(p.Puback(x.packet_id) if x.qos == 1 else p.Pubrec(x.packet_id))
    assert got == [limit - head, limit - head - 1]
    assert world.broker.stats()["dropped_too_large"] == 2
    assert world.broker.sessions["c"].inflight == {}


@keeps(v5="3.1.2-24,25")
async def test_a_smaller_limit_at_the_next_connection_blocks_nothing(world):
    options = {"version": V5, "clean_start": False}
    client = await world.client("c", properties=Properties(session_expiry=60, receive_maximum=2), **options)
    await client.subscribe("t", qos=1)
    for size in (200, 200, 300, 5):
        world.broker.publish("t", b"z" * size, qos=1)
    await client.got()
    await client.drop()
    back = await world.client("c", properties=limited(100, session_expiry=60, receive_maximum=1), **options)
    assert [len(x.payload) for x in back.early] == [5]


@keeps(v5="3.1.2-24 3.1.2-25")
async def test_no_retained_message_is_larger_either(world):
    for n, size in enumerate((10, 200)):
        world.broker.publish(f"t/{n}", b"z" * size, retain=True)
    client = await world.client("c", version=V5, properties=limited(80))
    _, got = await client.subscribe("t/+")
    assert len(got.payload) == 10


# Reason strings. Each: what makes the broker say one, in which packet, and the statements that bound it.


SAID = {
    "is refused": (lambda c: c.publish("$SYS/x", b"1", qos=1, packet_id=1), p.Puback, True, "3.4.2-2,3"),
    "is refused with PUBREC": (
        lambda c: c.publish("$SYS/x", b"1", qos=2, packet_id=1),
        p.Pubrec,
        True,
        "3.5.2-2,3",
    ),
    "receives nothing": (lambda c: c.send(p.Pubrec(9)), p.Pubrel, False, "3.6.2-2,3"),
    "releases nothing": (lambda c: c.send(p.Pubrel(9)), p.Pubcomp, False, "3.7.2-2,3"),
    "has no such filter": (lambda c: c.raw(subscribe(5, ("/" * 200, 0))), p.Suback, True, "3.9.2-1,2"),
    "has nothing to unsubscribe": (lambda c: c.raw(unsubscribe(5, "none")), p.Unsuback, False, "3.11.2-1,2"),
    "breaks a rule": (lambda c: c.raw(publish(5, "#")), p.Disconnect, True, "3.14.2-3,4"),
}


@keeps(v5="3.1.2-24,29")
@pytest.mark.parametrize(
    ("act", "kind", "says"),
    [pytest.param(*row, id=name, marks=cites(v5=v5)) for name, (*row, v5) in SAID.items()],
)
@pytest.mark.parametrize("problems", [None, 0, 1])
@pytest.mark.parametrize("limit", [None, 60, 30, 12])
async def test_why_is_said_to_who_wants_it_and_has_room_for_it(world, act, kind, says, problems, limit):
    """No reason string makes a packet too large, and none comes where the client wants no problem
    information, but in DISCONNECT. User properties are never added."""
    room = limit or 2**32 - 1
    client = await world.client("c", version=V5)
    # As if it had said so in CONNECT; CONNACK takes some room itself.
    client.channel.asked = Properties(request_problem_information=problems, maximum_packet_size=limit)
    before = len(client.transport.written)
    act(client)
    got = await client.got()
    sent = bytes(client.transport.written[before:])
    assert len(sent) <= room
    [answer] = [x for x in got if isinstance(x, kind)]
    assert answer.properties.user == ()
    why = answer.properties.reason_string
    if not says or (problems == 0 and kind is not p.Disconnect):
        assert why is None
    elif limit is None:
        assert why


@keeps(v5="3.1.2-24,25 3.9.2-1")
async def test_an_answer_that_is_too_large_even_so_is_not_sent(world):
    client = await world.client("c", version=V5, properties=limited(30))
    filters = [(f"t/{n}", 0) for n in range(40)]
    client.raw(subscribe(5, *filters) + unsubscribe(5, *(name for name, _ in filters)))
    client.send(p.Pingreq())
    assert await client.got() == [p.Pingresp()]


@keeps(v5="3.2.2-15")
async def test_a_packet_that_is_larger_than_the_server_takes_is_refused_on_its_header(make_world, is_ended):
    world = await make_world(max_packet_size="2KiB")
    client = world.dial()
    told = await client.connect("c", version=V5)
    assert told.properties.maximum_packet_size == 2048
    await client.subscribe("t")
    client.raw(publish(5, "t", b"z" * (2048 - 7)))
    [got] = await client.got()
    assert len(publish(5, "t", got.payload)) == 2048
    client.raw(publish(5, "t", b"z" * (2048 - 6))[:3])
    await is_ended(client, V5, ReasonCode.PACKET_TOO_LARGE)


# Topic aliases.


def aliased(n):
    return b"\x23" + n.to_bytes(2, "big")


@keeps(v5="3.3.2-12 3.3.2-7 3.2.2-17")
async def test_every_alias_up_to_the_servers_maximum_stands_for_a_topic(world, is_ended):
    sub = await world.subscriber("s", "#")
    pub = world.dial()
    told = await pub.connect("p", version=V5)
    maximum = told.properties.topic_alias_maximum
    for n in range(1, maximum + 1):
        pub.raw(publish(5, f"t/{n}", b"set", properties=aliased(n)))
        pub.raw(publish(5, "", b"used", properties=aliased(n)))
    pub.raw(
        publish(5, "again", b"set", properties=aliased(1)) + publish(5, "", b"used", properties=aliased(1))
    )
    topics = [f"t/{n}".encode() for n in range(1, maximum + 1) for _ in range(2)] + [b"again"] * 2
    assert [x.topic for x in await sub.got()] == topics
    await pub.drop()
    back = await world.client("p", version=V5)
    back.raw(publish(5, "", b"carried over", properties=aliased(1)))
    await is_ended(back, V5, ReasonCode.PROTOCOL_ERROR)


@keeps(v5="3.2.2-18 3.3.2-9")
async def test_without_a_maximum_no_alias_is_taken(make_world, is_ended):
    world = await make_world(topic_alias_maximum=0)
    pub = world.dial()
    assert (await pub.connect("p", version=V5)).properties.topic_alias_maximum is None
    pub.raw(publish(5, "t", properties=aliased(1)))
    await is_ended(pub, V5, ReasonCode.TOPIC_ALIAS_INVALID)


@keeps(v5="3.1.2-26,27 3.3.2-10,11")
@pytest.mark.parametrize("maximum", [None, 0, 1, 2])
@pytest.mark.parametrize("qos", [0, 1])
async def test_no_more_aliases_are_sent_than_the_client_takes(world, maximum, qos):
    sub = await world.client("s", version=V5, properties=Properties(topic_alias_maximum=maximum))
    await sub.subscribe("#", qos=qos)
    topics = ["first", "second", "third"]
    for topic in topics * 2:
        world.broker.publish(topic, b"x", qos=qos)
    known = {}
    for x, want in zip(await sub.got(), topics * 2, strict=True):
        alias = x.properties.topic_alias
        if alias is not None:
            assert 1 <= alias <= (maximum or 0)
            if x.topic:
                known[alias] = x.topic
        assert (x.topic or known[alias]).decode() == want
    assert len(known) == (maximum or 0)


@keeps(v5="3.3.2-7 3.3.2-11")
async def test_aliases_towards_the_client_end_with_the_connection(world):
    options = {
        "version": V5,
        "properties": Properties(topic_alias_maximum=5, session_expiry=60),
        "clean_start": False,
    }
    sub = await world.subscriber("s", "#", qos=1, **options)
    world.broker.publish("first", b"1", qos=1)
    world.broker.publish("first", b"2", qos=1)
    assert [x.topic for x in await sub.got()] == [b"first", b""]
    await sub.drop()
    world.broker.publish("first", b"3", qos=1)
    back = await world.client("s", **options)
    assert [(x.topic, x.payload) for x in back.early] == [
        (b"first", b"1"),
        (b"first", b"2"),
        (b"first", b"3"),
    ]


@keeps(v5="3.2.2-15 3.3.2-12")
async def test_an_alias_may_be_set_and_used_at_every_qos(world):
    sub = await world.subscriber("s", "t", qos=2, version=V5)
    pub = await world.client("p", version=V5)
    for n, topic in enumerate(["t", "", "", "t", ""], 1):
        pub.raw(
            publish(
                5, topic, b"%d" % n, flags=(n % 3) << 1, packet_id=n if n % 3 else None, properties=aliased(3)
            )
        )
    got = await sub.got()
    assert [(x.topic, x.qos) for x in got] == [(b"t", n % 3) for n in range(1, 6)]
    assert all(x.properties.topic_alias is None for x in got)
    assert s("t") in bytes(sub.transport.written)

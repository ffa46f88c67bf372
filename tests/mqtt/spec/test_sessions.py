"""Sessions (3.1.2.4, 3.1.2.10, 4.1, 4.4, 4.5): who keeps what, for how long, and what is sent again."""

import pytest

from gossamer.mqtt import ReasonCode
from gossamer.mqtt.codec import packets as p
from gossamer.mqtt.codec.properties import NONE, Properties

from .conftest import BOTH, V4, V5
from .statements import keeps


def persistent(version, seconds=600):
    return NONE if version == V4 else Properties(session_expiry=seconds)


async def come(world, client_id, version, *, clean=False, **options):
    """A client of a session that outlives it."""
    options.setdefault("properties", persistent(version))
    return await world.client(client_id, version=version, clean_start=clean, **options)


@keeps(
    v4="3.1.2-4,5,6 3.1.3-2 3.1.4-3 3.2.2-1,2,3 4.1.0-1 4.5.0-1",
    v5="3.1.2-4,5,6,23 3.1.3-2 3.1.4-4 3.2.2-2,3 4.1.0-1 4.5.0-1",
)
@BOTH
async def test_a_session_goes_on_unless_its_client_wants_a_clean_one(world, version):
    pub = await world.client("pub", version=version)
    first = await come(world, "s", version)
    assert not first.connack.session_present
    await first.subscribe("t/+", qos=2)
    await first.drop()
    for n, qos in enumerate((0, 1, 2)):
        pub.publish("t/x", b"%d" % n, qos=qos, packet_id=n or None)
    second = await come(world, "s", version)
    assert second.connack.session_present
    assert [(x.payload, x.qos, x.dup) for x in second.early] == [(b"1", 1, False), (b"2", 2, False)]
    other = await come(world, "other", version)
    assert not other.connack.session_present
    await second.drop()
    clean = await come(world, "s", version, clean=True)
    assert not clean.connack.session_present
    assert clean.early == []
    pub.publish("t/x", b"3")
    assert await clean.got() == []


@keeps(v4="3.1.2-6 4.1.0-2", v5="4.1.0-1,2 3.1.2-23")
@BOTH
async def test_a_session_that_is_not_kept_lasts_as_long_as_its_connection(world, version):
    client = await come(world, "s", version, clean=True, properties=NONE)
    await client.subscribe("t")
    world.later(30)
    assert "s" in world.broker.sessions
    await client.drop()
    assert "s" not in world.broker.sessions
    back = await come(world, "s", version, clean=False)
    assert not back.connack.session_present


@keeps(v5="4.1.0-1,2 3.1.2-23")
@pytest.mark.parametrize("seconds", [1, 60, 3600])
async def test_a_session_ends_when_its_expiry_has_passed_and_not_before(world, seconds):
    client = await come(world, "s", V5, properties=persistent(V5, seconds), keep_alive=0)
    world.later(seconds * 10)
    assert "s" in world.broker.sessions
    await client.drop()
    world.later(seconds - 0.5)
    assert "s" in world.broker.sessions
    world.later(1.5)
    assert "s" not in world.broker.sessions


@keeps(v5="4.1.0-2")
async def test_an_expiry_of_all_ones_means_never(make_world):
    world = await make_world(max_session_expiry=2**32 - 1)
    client = await come(world, "s", V5, properties=persistent(V5, 2**32 - 1))
    assert client.connack.properties.session_expiry is None
    await client.drop()
    world.later(1e9)
    assert "s" in world.broker.sessions


@keeps(v5="3.1.2-23 4.1.0-2")
async def test_disconnect_may_change_the_expiry_and_the_server_may_shorten_it(make_world, is_ended):
    world = await make_world(max_session_expiry=100)
    client = await come(world, "s", V5, properties=persistent(V5, 1000))
    assert client.connack.properties.session_expiry == 100
    client.send(p.Disconnect(properties=Properties(session_expiry=10)))
    await world.settle()
    world.later(9)
    assert "s" in world.broker.sessions
    world.later(2)
    assert "s" not in world.broker.sessions
    client = await come(world, "s", V5, properties=NONE)
    client.send(p.Disconnect(properties=Properties(session_expiry=10)))
    await is_ended(client, V5, ReasonCode.PROTOCOL_ERROR)
    client = await come(world, "s", V5)
    client.send(p.Disconnect(properties=Properties(session_expiry=0)))
    await world.settle()
    assert "s" not in world.broker.sessions


@keeps(v4="3.1.2-7", v5="3.1.2-4")
@BOTH
async def test_retained_messages_are_no_part_of_the_session(world, version):
    client = await world.client("s", version=version)
    client.publish("t", b"kept", retain=True)
    await client.drop()
    back = await world.client("s", version=version)
    [_, got] = await back.subscribe("t")
    assert got.payload == b"kept"


@keeps(v4="3.1.4-2", v5="3.1.4-3 3.14.2-2 3.14.4-1,2")
@pytest.mark.parametrize("newer", [V4, V5])
@BOTH
async def test_a_second_client_with_the_identifier_ends_the_first(world, is_ended, version, newer):
    first = await come(world, "s", version)
    await first.subscribe("t", qos=1)
    second = await come(world, "s", newer)
    goodbye = await is_ended(first, version, ReasonCode.SESSION_TAKEN_OVER)
    if goodbye is not None:
        assert goodbye.properties.session_expiry is None
    assert second.connack.session_present
    before = len(first.transport.written)
    world.broker.publish("t", b"1", qos=1)
    assert [x.payload for x in await second.got()] == [b"1"]
    assert len(first.transport.written) == before


@keeps(
    v4="4.4.0-1 3.3.1-1,3 2.3.1-3,4 4.3.2-1 4.5.0-2",
    v5="4.4.0-1 3.3.1-1,3 4.3.2-3 4.3.3-3 4.5.0-2 3.2.2-5",
)
@pytest.mark.parametrize("newer", [V4, V5])
@BOTH
async def test_what_is_not_acknowledged_is_sent_again_in_order(world, version, newer):
    """Identifiers kept, DUP set, at a reconnect and at no other time."""
    sub = await come(world, "s", version, keep_alive=0)
    await sub.subscribe("t", qos=2)
    for n in range(4):
        world.broker.publish("t", b"%d" % n, qos=1 + n % 2)
    sent = await sub.got()
    assert [x.dup for x in sent] == [False] * 4
    world.later(1000)
    assert await sub.got() == []
    sub.send(p.Puback(sent[0].packet_id))
    await sub.drop()
    for _ in range(2):
        back = await come(world, "s", newer)
        assert [(x.packet_id, x.payload, x.qos, x.dup) for x in back.early] == [
            (x.packet_id, x.payload, x.qos, True) for x in sent[1:]
        ]
        await back.drop()
    clean = await come(world, "s", newer, clean=True)
    assert clean.early == []


@keeps(v5="3.3.2-6 4.4.0-1")
@pytest.mark.parametrize("qos", [1, 2])
async def test_what_is_sent_again_says_what_is_left_of_its_time(world, qos):
    """Also of what the client has no room for yet, and when nothing is left."""
    sub = await come(world, "s", V5, properties=Properties(session_expiry=600, receive_maximum=2))
    await sub.subscribe("t", qos=2, identifier=7)
    for n in range(3):
        properties = Properties(message_expiry=100, content_type="x")
        world.broker.publish("t", b"%d" % n, qos=qos, properties=properties)
    world.later(10)
    first, second = await sub.got()
    assert first.properties.message_expiry == second.properties.message_expiry == 100
    sub.send(p.Puback(first.packet_id) if qos == 1 else p.Pubrec(first.packet_id, 0x80))
    [third] = await sub.got()
    assert third.properties.message_expiry == 90
    await sub.drop()
    world.later(20)
    back = await come(world, "s", V5, properties=Properties(session_expiry=600, receive_maximum=1))
    world.later(10)
    back.send(p.Puback(second.packet_id) if qos == 1 else p.Pubrec(second.packet_id, 0x80))
    again = back.early + await back.got()
    assert [(x.packet_id, x.payload, x.dup) for x in again] == [
        (x.packet_id, x.payload, True) for x in (second, third)
    ]
    assert [x.properties.message_expiry for x in again] == [70, 60]
    assert {x.properties.content_type for x in again} == {"x"}
    assert {x.properties.subscription_identifiers for x in again} == {(7,)}
    await back.drop()
    old = await come(world, "s", V4)
    assert [x.payload for x in old.early] == [b"2"]
    await old.drop()
    world.later(500)
    [late] = (await come(world, "s", V5)).early
    assert (late.payload, late.properties.message_expiry) == (b"2", 0)


@keeps(v5="4.3.3-7 4.4.0-1 3.3.2-5")
@pytest.mark.parametrize("qos", [1, 2])
async def test_what_was_sent_does_not_expire_but_what_waits_behind_it_does(world, qos):
    options = {"properties": Properties(session_expiry=600, receive_maximum=1)}
    sub = await come(world, "s", V5, **options)
    await sub.subscribe("t", qos=2)
    for n in range(2):
        world.broker.publish("t", b"%d" % n, qos=qos, properties=Properties(message_expiry=5))
    assert [x.payload for x in await sub.got()] == [b"0"]
    await sub.drop()
    world.later(60)
    back = await come(world, "s", V5, **options)
    [again] = back.early
    assert (again.payload, again.dup) == (b"0", True)
    back.send(p.Puback(again.packet_id) if qos == 1 else p.Pubrec(again.packet_id, 0x80))
    assert await back.got() == []
    assert world.broker.stats()["dropped_expired"] == 1


@keeps(v4="4.4.0-1 4.3.3-1 4.6.0-4", v5="4.4.0-1 4.3.3-4,5,6 4.6.0-4")
@BOTH
async def test_pubrel_is_sent_again_and_publish_is_not(world, version):
    sub = await come(world, "s", version)
    await sub.subscribe("t", qos=2)
    for n in range(3):
        world.broker.publish("t", b"%d" % n, qos=2)
    sent = await sub.got()
    sub.send(*(p.Pubrec(x.packet_id) for x in sent[:2]))
    assert await sub.got() == [p.Pubrel(x.packet_id) for x in sent[:2]]
    await sub.drop()
    back = await come(world, "s", version)
    assert back.early[:2] == [p.Pubrel(x.packet_id) for x in sent[:2]]
    assert [(x.packet_id, x.dup) for x in back.early[2:]] == [(sent[2].packet_id, True)]
    back.send(*(p.Pubcomp(x.packet_id) for x in sent[:2]), p.Pubrec(sent[2].packet_id))
    await back.got()
    back.send(p.Pubcomp(sent[2].packet_id))
    await back.drop()
    assert (await come(world, "s", version)).early == []


@keeps(v4="4.3.3-2 4.4.0-1", v5="4.3.3-10,11,12 4.4.0-1 3.2.2-4,5")
@BOTH
async def test_a_qos_2_message_is_taken_once_over_reconnects(world, version):
    watcher = await world.subscriber("w", "t", qos=2, version=version)
    message = p.Publish(topic=b"t", payload=b"once", qos=2, packet_id=9)
    again = p.Publish(topic=b"t", payload=b"once", qos=2, packet_id=9, dup=True)
    pub = await come(world, "p", version)
    pub.send(message)
    assert await pub.got() == [p.Pubrec(9)]
    await pub.drop()
    pub = await come(world, "p", version)
    pub.send(again, again)
    assert await pub.got() == [p.Pubrec(9), p.Pubrec(9)]
    pub.send(p.Pubrel(9))
    assert await pub.got() == [p.Pubcomp(9)]
    pub.send(p.Pubrel(9))
    reason = 0 if version == V4 else ReasonCode.PACKET_IDENTIFIER_NOT_FOUND
    assert await pub.got() == [p.Pubcomp(9, reason)]
    pub.send(again)
    assert await pub.got() == [p.Pubrec(9)]
    assert len([x for x in await watcher.got() if isinstance(x, p.Publish)]) == 2


@keeps(v5="4.4.0-2 4.3.3-9")
async def test_a_refusal_acknowledges_for_good(world):
    sub = await come(world, "s", V5)
    await sub.subscribe("t", qos=2)
    world.broker.publish("t", b"1", qos=1)
    world.broker.publish("t", b"2", qos=2)
    one, two = await sub.got()
    sub.send(p.Puback(one.packet_id, 0x80), p.Pubrec(two.packet_id, 0x97))
    assert await sub.got() == []
    await sub.drop()
    assert (await come(world, "s", V5)).early == []


@keeps(v4="3.1.2-23,24", v5="3.1.2-20,22 3.2.2-22 4.13.2-1")
@BOTH
async def test_one_and_a_half_keep_alives_of_silence_end_the_connection(world, is_ended, version):
    client = await world.client("s", version=version, keep_alive=10)
    for _ in range(3):
        world.later(14)
        client.send(p.Pingreq())
    world.later(14.5)
    assert not client.closed
    world.later(1.5)
    await is_ended(client, version, ReasonCode.KEEP_ALIVE_TIMEOUT)
    free = await world.client("free", version=version, keep_alive=0)
    world.later(1e6)
    assert not free.closed


@keeps(v5="3.1.2-21 3.2.2-21")
async def test_the_servers_keep_alive_counts(make_world, is_ended):
    world = await make_world(max_keepalive="1m")
    client = world.dial()
    told = await client.connect("s", version=V5, keep_alive=600)
    assert told.properties.server_keep_alive == 60
    world.later(91)
    await is_ended(client, V5, ReasonCode.KEEP_ALIVE_TIMEOUT)
    modest = world.dial()
    assert (await modest.connect("m", version=V5, keep_alive=30)).properties.server_keep_alive is None


@keeps(v4="3.12.4-1", v5="3.12.4-1")
@BOTH
async def test_pingreq_is_answered(world, version):
    client = await world.client("s", version=version)
    client.raw(b"\xc0\0" * 3)
    await world.settle()
    assert bytes(client.transport.written).endswith(b"\xd0\0" * 3)


@keeps(v4="3.14.4-1,2", v5="3.14.4-1,2")
@BOTH
async def test_nothing_behind_disconnect_counts_and_the_server_closes(world, witness, version):
    client = await world.client("s", version=version)
    before = len(client.transport.written)
    client.send(p.Disconnect(), p.Publish(topic=b"witness", payload=b"late"), p.Pingreq())
    await world.settle()
    assert client.closed
    assert len(client.transport.written) == before
    await witness.is_well()


@keeps(v4="4.8.0-2", v5="4.13.1-1")
@BOTH
async def test_an_error_of_the_servers_own_ends_the_connection_that_met_it(
    world, witness, monkeypatch, version
):
    client = await world.client("s", version=version)

    def broken(*_):
        raise MemoryError("no room")

    monkeypatch.setattr(world.broker.retained, "put", broken)
    client.publish("t", b"1", retain=True, qos=1, packet_id=1)
    await world.settle()
    assert client.closed
    monkeypatch.undo()
    await witness.is_well()

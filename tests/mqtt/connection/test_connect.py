"""CONNECT, CONNACK and how connections begin and end."""

import asyncio

import pytest

from gossamer.mqtt import Chain, PasswordFile, ReasonCode
from gossamer.mqtt.codec import packets as p
from gossamer.mqtt.codec.properties import Properties


async def test_the_first_packet_must_be_connect(world):
    """[MQTT-3.1.0-1]"""
    client = world.dial()
    client.raw(b"\xc0\0")
    assert client.closed
    assert await client.got() == []


async def test_a_second_connect_ends_the_connection(world):
    """[MQTT-3.1.0-2]"""
    client = await world.client(version=p.V5)
    client.send(p.Connect(client_id="c", version=p.V5))
    [goodbye] = await client.got()
    assert goodbye.reason == ReasonCode.PROTOCOL_ERROR
    assert client.closed


@pytest.mark.parametrize("level", [3, 6])
async def test_an_unknown_protocol_level_is_told_so(world, level):
    """[MQTT-3.1.2-2]"""
    client = world.dial()
    client.raw(b"\x10\x0d\0\4MQTT" + bytes((level, 2)) + b"\0\0\0\1x")
    assert bytes(client.transport.written) == b"\x20\x02\x00\x01"
    assert client.closed


async def test_connect_may_come_byte_by_byte_with_more_behind(world):
    from gossamer.mqtt import encode

    client = world.dial()
    stream = encode(p.Connect(client_id="slow"), 4) + b"\xc0\0"
    for at in range(len(stream)):
        client.raw(stream[at : at + 1])
    assert [type(x) for x in await client.got()] == [p.Connack, p.Pingresp]


async def test_packets_pipelined_behind_connect_are_served(world):
    from gossamer.mqtt import encode

    client = world.dial()
    subscribe = p.Subscribe(packet_id=1, subscriptions=(p.Subscription("a"),))
    client.raw(
        b"".join(
            encode(x, 4) for x in (p.Connect(client_id="x"), subscribe, p.Publish(topic=b"a", payload=b"1"))
        )
    )
    assert [type(x) for x in await client.got()] == [p.Connack, p.Suback, p.Publish]


async def test_anonymous_is_off_unless_told(make_world):
    world = await make_world(anonymous=False)
    client = world.dial()
    connack = await client.connect(version=p.V5)
    assert connack.reason == ReasonCode.NOT_AUTHORIZED
    assert client.closed
    old = world.dial()
    assert (await old.connect()).reason == 5


async def test_passwords_are_verified_off_the_loop(make_world):
    from argon2 import PasswordHasher

    hasher = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    world = await make_world(authenticator=Chain([PasswordFile({"ann": hasher.hash("right")})]))
    for password, reason in ((b"right", 0), (b"wrong", ReasonCode.BAD_USER_NAME_OR_PASSWORD)):
        client = world.dial()
        client.version = p.V5
        client.send(p.Connect(client_id="c", version=p.V5, username="ann", password=password))
        while not client.transport.written:  # noqa: ASYNC110 - a thread is at work
            await asyncio.sleep(0.001)
        [connack] = await client.got()
        assert connack.reason == reason


async def test_what_follows_a_refused_connect_is_not_processed(make_world):
    """[MQTT-3.1.4-5] of 3.1.1, [MQTT-3.1.4-6] of 5.0"""
    from gossamer.mqtt import encode

    world = await make_world(anonymous=False)
    client = world.dial()
    client.raw(
        encode(p.Connect(client_id="x"), 4) + encode(p.Publish(topic=b"a", retain=True, payload=b"1"), 4)
    )
    await world.settle()
    assert len(world.broker.retained) == 0


async def test_an_empty_client_id_is_assigned_one(world):
    """[MQTT-3.1.3-6], [MQTT-3.2.2-16]"""
    client = world.dial()
    connack = await client.connect("", version=p.V5)
    assert connack.properties.assigned_client_id
    assert connack.properties.assigned_client_id in world.broker.sessions


async def test_an_empty_client_id_needs_a_clean_session_in_3_1_1(world):
    """[MQTT-3.1.3-8]"""
    client = world.dial()
    assert (await client.connect("", clean_start=False)).reason == 2
    assert client.closed


async def test_a_session_is_resumed_unless_clean_start(world):
    """[MQTT-3.1.2-4], [MQTT-3.1.2-5], [MQTT-3.2.2-2], [MQTT-3.2.2-3]"""
    for clean, present in ((False, False), (False, True), (True, False)):
        client = world.dial()
        connack = await client.connect(
            "s", version=p.V5, clean_start=clean, properties=Properties(session_expiry=60)
        )
        assert connack.session_present is present
        client.send(p.Disconnect())
        await world.settle()


async def test_a_session_ends_when_its_expiry_has_passed(world):
    """[MQTT-3.1.2-23], [MQTT-4.1.0-2]"""
    client = await world.client("s", version=p.V5, properties=Properties(session_expiry=60))
    client.send(p.Disconnect())
    world.later(59)
    assert "s" in world.broker.sessions
    world.later(2)
    assert "s" not in world.broker.sessions


async def test_without_expiry_a_session_ends_with_its_connection(world):
    client = await world.client("s", version=p.V5)
    await client.subscribe("a")
    client.transport.close()
    await world.settle()
    assert world.broker.sessions == {}
    assert not list(world.router.routes())


async def test_disconnect_may_shorten_but_not_revive_the_expiry(world):
    """MQTT 3.14.2.2.2"""
    client = await world.client("s", version=p.V5)
    client.send(p.Disconnect(properties=Properties(session_expiry=60)))
    [goodbye] = await client.got()
    assert goodbye.reason == ReasonCode.PROTOCOL_ERROR


async def test_a_second_connection_takes_the_session_over(world):
    """[MQTT-3.1.4-3]"""
    first = await world.client("s", version=p.V5, properties=Properties(session_expiry=60))
    await first.subscribe("a")
    second = world.dial()
    connack = await second.connect(
        "s", version=p.V5, clean_start=False, properties=Properties(session_expiry=60)
    )
    assert connack.session_present
    [goodbye] = await first.got()
    assert goodbye.reason == ReasonCode.SESSION_TAKEN_OVER
    assert first.closed
    other = await world.client("o")
    other.publish("a", b"1")
    assert [x.payload for x in await second.got()] == [b"1"]


async def test_a_silent_client_is_dropped_after_one_and_a_half_keep_alives(world):
    """[MQTT-3.1.2-24] of 3.1.1, [MQTT-3.1.2-22] of 5.0"""
    client = await world.client("k", version=p.V5, keep_alive=10)
    world.later(14)
    client.send(p.Pingreq())
    world.later(14)
    assert [type(x) for x in await client.got()] == [p.Pingresp]
    world.later(2)
    [goodbye] = await client.got()
    assert goodbye.reason == ReasonCode.KEEP_ALIVE_TIMEOUT


async def test_a_dribble_of_bytes_is_no_sign_of_life(world):
    client = await world.client("k", keep_alive=10)
    for byte in b"\x30\x7f\0\1ab":
        world.later(3)
        client.raw(bytes((byte,)))
    assert client.closed


async def test_keep_alive_zero_turns_it_off(world):
    client = await world.client("k", keep_alive=0)
    world.later(100_000)
    assert not client.closed


async def test_a_connection_without_connect_is_closed(world):
    client = world.dial()
    client.raw(b"\x10")
    world.later(11)
    assert client.closed


async def test_the_server_may_set_the_keep_alive(make_world):
    """[MQTT-3.2.2-21]"""
    world = await make_world(max_keepalive="1m")
    client = world.dial()
    connack = await client.connect(version=p.V5, keep_alive=600)
    assert connack.properties.server_keep_alive == 60


async def test_too_many_connections_are_refused_and_counted(make_world):
    world = await make_world(listener={"max_connections": 2})
    first = await world.client("a")
    world.dial()
    third = world.dial()
    assert third.closed
    assert world.broker.refused == {("tcp:0", "connections"): 1}
    assert world.broker.stats()["connections_refused"] == 1
    first.send(p.Disconnect())
    assert not world.dial().closed


async def test_an_unknown_authentication_method_is_refused(world):
    client = world.dial()
    connack = await client.connect(version=p.V5, properties=Properties(authentication_method="SCRAM"))
    assert connack.reason == ReasonCode.BAD_AUTHENTICATION_METHOD


async def test_a_malformed_packet_ends_only_its_own_connection(world):
    good = await world.client("good")
    bad = await world.client("bad", version=p.V5)
    bad.raw(b"\x36\x05\0\1a\0\1")
    [goodbye] = await bad.got()
    assert goodbye.reason == ReasonCode.MALFORMED_PACKET
    good.send(p.Pingreq())
    assert await good.got() == [p.Pingresp()]


async def test_what_came_before_a_malformed_packet_counts(world):
    """A whole read is parsed in one go; the publish in front of the fault is delivered all the same."""
    good = await world.client("good")
    await good.subscribe("a")
    bad = await world.client("bad")
    bad.raw(b"\x30\x04\0\1a1" + b"\x30\x04\0\1a2" + b"\x36\x05\0\1a\0\1" + b"\x30\x04\0\1a3")
    assert [x.payload for x in await good.got()] == [b"1", b"2"]


async def test_an_oversized_packet_is_refused_on_its_header(make_world):
    """[MQTT-3.2.2-15]"""
    world = await make_world(max_packet_size="1KiB")
    client = await world.client("big", version=p.V5)
    client.raw(b"\x30\xff\xff\x7f")
    [goodbye] = await client.got()
    assert goodbye.reason == ReasonCode.PACKET_TOO_LARGE

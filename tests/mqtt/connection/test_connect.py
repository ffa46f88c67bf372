"""CONNECT, CONNACK and how connections begin and end."""

import asyncio

from argon2 import PasswordHasher

from gossamer.mqtt import Chain, PasswordFile, ReasonCode, encode
from gossamer.mqtt.codec import packets as p


async def test_connect_may_come_byte_by_byte_with_more_behind(world):
    client = world.dial()
    stream = encode(p.Connect(client_id="slow"), 4) + b"\xc0\0"
    for at in range(len(stream)):
        client.raw(stream[at : at + 1])
    assert [type(x) for x in await client.got()] == [p.Connack, p.Pingresp]


async def test_anonymous_is_off_unless_told(make_world):
    world = await make_world(anonymous=False)
    client = world.dial()
    connack = await client.connect(version=p.V5)
    assert connack.reason == ReasonCode.NOT_AUTHORIZED
    assert client.closed
    old = world.dial()
    assert (await old.connect()).reason == 5


async def test_passwords_are_verified_off_the_loop(make_world):
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


async def test_a_dribble_of_bytes_is_no_sign_of_life(world):
    client = await world.client("k", keep_alive=10)
    for byte in b"\x30\x7f\0\1ab":
        world.later(3)
        client.raw(bytes((byte,)))
    assert client.closed


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


async def test_what_came_before_a_malformed_packet_counts(world):
    """A whole read is parsed in one go; the publish in front of the fault is delivered all the same."""
    good = await world.subscriber("good", "a")
    bad = await world.client("bad")
    bad.raw(b"\x30\x04\0\1a1" + b"\x30\x04\0\1a2" + b"\x36\x05\0\1a\0\1" + b"\x30\x04\0\1a3")
    assert [x.payload for x in await good.got()] == [b"1", b"2"]

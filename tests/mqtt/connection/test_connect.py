"""CONNECT, CONNACK and how connections begin and end."""

import structlog

from gossamer.mqtt import encode
from gossamer.mqtt.codec import packets as p


async def test_connect_may_come_byte_by_byte_with_more_behind(world):
    client = world.dial()
    stream = encode(p.Connect(client_id="slow"), 4) + b"\xc0\0"
    for at in range(len(stream)):
        client.raw(stream[at : at + 1])
    assert [type(x) for x in await client.got()] == [p.Connack, p.Pingresp]


async def test_a_dribble_of_bytes_is_no_sign_of_life(world):
    client = await world.client("k", keep_alive=10)
    for byte in b"\x30\x7f\0\1ab":
        world.later(3)
        client.raw(bytes((byte,)))
    assert client.closed


async def test_what_came_before_a_malformed_packet_counts(world):
    """A whole read is parsed in one go; the publish in front of the fault is delivered all the same."""
    good = await world.subscriber("good", "a")
    bad = await world.client("bad")
    bad.raw(b"\x30\x04\0\1a1" + b"\x30\x04\0\1a2" + b"\x36\x05\0\1a\0\1" + b"\x30\x04\0\1a3")
    assert [x.payload for x in await good.got()] == [b"1", b"2"]


async def test_clients_that_speak_nonsense_fill_no_log(world):
    with structlog.testing.capture_logs() as logs:
        for _ in range(500):
            world.dial().raw(b"GET / HTTP/1.1\r\n")
        world.later(60)
        world.dial().raw(b"GET / HTTP/1.1\r\n")
    lines = [line for line in logs if line["event"] == "client_refused"]
    assert len(lines) == 11
    assert lines[-1]["left_out"] == 490

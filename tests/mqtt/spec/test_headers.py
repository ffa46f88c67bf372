"""Fixed headers, variable byte integers and packet identifiers (2.1 to 2.3)."""

import pytest

from gossamer.mqtt import ReasonCode
from gossamer.mqtt.codec import packets as p

from .conftest import V4, V5
from .statements import cites, keeps
from .wire import connect, packet, props, publish, s, subscribe, u16, unsubscribe, varint

BOTH = pytest.mark.parametrize("version", [V4, V5])
MALFORMED = ReasonCode.MALFORMED_PACKET

# What a client may send, as type and body; each type has one set of flags that is right.
BODIES = {
    4: lambda v: u16(1),
    5: lambda v: u16(1),
    6: lambda v: u16(1),
    7: lambda v: u16(1),
    8: lambda v: u16(1) + props(v) + s("t") + b"\0",
    10: lambda v: u16(1) + props(v) + s("t"),
    12: lambda v: b"",
    14: lambda v: b"",
    15: lambda v: b"\x19" + props(v, b"\x15" + s("m")),
}
RIGHT = {6: 2, 8: 2, 10: 2}
FLAGS = [
    pytest.param(6, marks=cites(v4="3.6.1-1", v5="3.6.1-1")),
    pytest.param(8, marks=cites(v4="3.8.1-1", v5="3.8.1-1")),
    pytest.param(10, marks=cites(v4="3.10.1-1", v5="3.10.1-1")),
    pytest.param(14, marks=cites(v4="3.14.1-1", v5="3.14.1-1")),
    pytest.param(15, marks=cites(v5="3.15.1-1")),
    4,
    5,
    7,
    12,
]


@keeps(v4="2.2.2-1,2 4.8.0-1", v5="2.1.3-1 4.13.1-1")
@BOTH
@pytest.mark.parametrize("kind", FLAGS)
async def test_other_flags_than_the_right_ones_are_malformed(world, witness, is_ended, version, kind):
    for flags in range(16):
        if flags == RIGHT.get(kind, 0) or (version == V4 and kind == 15 and not flags):
            continue
        client = await world.client("bad", version=version)
        client.raw(packet(kind << 4 | flags, BODIES[kind](version)))
        await is_ended(client, version, MALFORMED)
    await witness.is_well()


@keeps(v4="2.2.2-2", v5="2.1.3-1")
@BOTH
@pytest.mark.parametrize("first", [*range(0x10), *range(0xF0, 0x100)])
async def test_packet_types_that_do_not_exist_are_malformed(world, is_ended, version, first):
    if version == V5 and first >= 0xF0:
        return
    client = await world.client("bad", version=version)
    client.raw(packet(first))
    await is_ended(client, version, MALFORMED)


@keeps(v4="3.3.1-4", v5="3.3.1-4")
@BOTH
@pytest.mark.parametrize("flags", [0x06, 0x07, 0x0E, 0x0F])
async def test_both_qos_bits_are_malformed(world, witness, is_ended, version, flags):
    client = await world.client("bad", version=version)
    client.raw(publish(version, "witness", flags=flags, packet_id=1))
    await is_ended(client, version, MALFORMED)
    await witness.is_well()


@keeps(v4="2.3.1-1", v5="2.2.1-3")
@BOTH
@pytest.mark.parametrize(
    "make",
    [
        lambda v: publish(v, "t", flags=2, packet_id=0),
        lambda v: publish(v, "t", flags=4, packet_id=0),
        lambda v: publish(v, "t", flags=3, packet_id=0),
        lambda v: subscribe(v, ("t", 0), packet_id=0),
        lambda v: unsubscribe(v, "t", packet_id=0),
        *(lambda v, first=first: packet(first, u16(0)) for first in (0x40, 0x50, 0x62, 0x70)),
    ],
)
async def test_packet_identifier_0_is_a_protocol_error(world, witness, is_ended, version, make):
    client = await world.client("bad", version=version)
    client.raw(make(version))
    await is_ended(client, version, ReasonCode.PROTOCOL_ERROR)
    await witness.is_well()


@keeps(v4="2.3.1-5 4.3.1-1 3.3.1-2", v5="2.2.1-2 4.3.1-1 3.3.1-2")
@BOTH
async def test_qos_0_has_no_identifier_and_no_dup(world, is_ended, version):
    client = await world.client("c", version=version)
    await client.subscribe("t", qos=2)
    client.transport.written.clear()
    client._taken = 0
    client.raw(publish(version, "t", b"\0\1"))
    await world.settle()
    assert bytes(client.transport.written) == publish(version, "t", b"\0\1")
    client.raw(publish(version, "t", flags=8))
    await is_ended(client, version, MALFORMED)


@keeps(v4="2.3.1-6,7 3.8.4-2 3.10.4-4", v5="2.2.1-5,6 3.8.4-2 3.10.4-5")
@BOTH
@pytest.mark.parametrize("n", [1, 255, 256, 65535])
async def test_answers_carry_the_identifier_of_what_they_answer(world, version, n):
    client = await world.client("c", version=version)
    client.raw(
        publish(version, "t", flags=2, packet_id=n)
        + publish(version, "t", flags=4, packet_id=n)
        + packet(0x62, u16(n))
        + subscribe(version, ("t", 0), packet_id=n)
        + unsubscribe(version, "t", packet_id=n)
    )
    got = await client.got()
    assert [type(x) for x in got] == [p.Puback, p.Pubrec, p.Pubcomp, p.Suback, p.Unsuback]
    assert {x.packet_id for x in got} == {n}


@keeps(v5="1.5.5-1")
@pytest.mark.parametrize(
    "body",
    [
        u16(1) + b"\x80\x00" + s("t") + b"\0",
        u16(1) + b"\x03\x0b\x81\x00" + s("t") + b"\0",
        u16(1) + b"\x05\x0b\x80\x80\x80\x80" + s("t") + b"\0",
        u16(1) + b"\x06\x0b\xff\xff\xff\xff\x01" + s("t") + b"\0",
    ],
    ids=["property length", "subscription identifier", "endless", "five bytes"],
)
async def test_a_variable_byte_integer_is_as_short_as_it_can_be(world, is_ended, body):
    client = await world.client("bad", version=V5)
    client.raw(packet(0x82, body))
    await is_ended(client, V5, MALFORMED)


@keeps(v5="1.5.5-1 2.2.2-1")
async def test_what_the_server_sends_is_encoded_in_the_shortest_way(world):
    """No properties are one byte, 0; identifiers and lengths take the bytes that they need."""
    client = await world.client("c", version=V5)
    client.send(p.Subscribe(packet_id=1, subscriptions=(p.Subscription("t"),)))
    await client.got()
    assert bytes(client.transport.written).endswith(b"\x90\x04\0\1\0\0")
    for size in (0, 123, 124, 16379, 16380, 300_000):
        before = len(client.transport.written)
        client.raw(publish(V5, "t", b"z" * size))
        await world.settle()
        sent = bytes(client.transport.written[before:])
        assert sent == b"\x30" + varint(size + 4) + s("t") + b"\0" + b"z" * size


@keeps(v4="4.8.0-1", v5="4.13.1-1")
@BOTH
async def test_a_remaining_length_of_five_bytes_is_malformed(world, is_ended, version):
    client = await world.client("bad", version=version)
    client.raw(b"\x30\xff\xff\xff\xff\x01")
    await is_ended(client, version, MALFORMED)


@BOTH
async def test_a_remaining_length_may_be_longer_than_it_needs(world, version):
    """The rule of the fewest bytes is not for the remaining length of 3.1.1, and 5.0 is read as leniently."""
    client = world.dial()
    client.version = version
    whole = connect(version)
    client.raw(whole[:1] + bytes((whole[1] | 0x80, 0)) + whole[2:])
    [connack] = await client.got()
    assert connack.reason == 0

"""Fixed headers, variable byte integers and packet identifiers (2.1 to 2.3)."""

import pytest

from gossamer.mqtt import ReasonCode
from gossamer.mqtt.codec import packets as p

from .conftest import BOTH, V4, V5, breaking
from .statements import cites, keeps
from .wire import connect, packet, props, publish, s, subscribe, u16, unsubscribe, varint

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


IDENTIFIED = {
    "PUBLISH of QoS 1": lambda v: publish(v, "t", flags=2, packet_id=0),
    "PUBLISH of QoS 2": lambda v: publish(v, "t", flags=4, packet_id=0),
    "PUBLISH with retain": lambda v: publish(v, "t", flags=3, packet_id=0),
    "SUBSCRIBE": lambda v: subscribe(v, ("t", 0), packet_id=0),
    "UNSUBSCRIBE": lambda v: unsubscribe(v, "t", packet_id=0),
    "PUBACK": lambda v: packet(0x40, u16(0)),
    "PUBREC": lambda v: packet(0x50, u16(0)),
    "PUBREL": lambda v: packet(0x62, u16(0)),
    "PUBCOMP": lambda v: packet(0x70, u16(0)),
}
QOS_3 = {
    f"both QoS bits, flags {flags}": lambda v, flags=flags: publish(v, "witness", flags=flags, packet_id=1)
    for flags in (0x06, 0x07, 0x0E, 0x0F)
}
BAD = {
    **{f"{name} with identifier 0": ("2.3.1-1", "2.2.1-3", make, 0x82) for name, make in IDENTIFIED.items()},
    **{name: ("3.3.1-4", "3.3.1-4", make, 0x81) for name, make in QOS_3.items()},
    "a remaining length of five bytes": ("4.8.0-1", "4.13.1-1", lambda v: b"\x30\xff\xff\xff\xff\x01", 0x81),
}
# A variable byte integer is as short as it can be.
LONG = {
    "property length": b"\x80\x00",
    "subscription identifier": b"\x03\x0b\x81\x00",
    "endless identifier": b"\x05\x0b\x80\x80\x80\x80",
    "identifier of five bytes": b"\x06\x0b\xff\xff\xff\xff\x01",
}
BAD_5 = {
    name: ("1.5.5-1", lambda v, head=head: packet(0x82, u16(1) + head + s("t") + b"\0"), 0x81)
    for name, head in LONG.items()
}


@breaking(BAD, BAD_5)
async def test_a_header_that_breaks_a_rule_ends_the_connection(
    world, witness, is_ended, version, make, reason
):
    client = await world.client("bad", version=version)
    client.raw(make(version))
    await is_ended(client, version, reason)
    await witness.is_well()


@keeps(v4="2.3.1-5 4.3.1-1 3.3.1-2", v5="2.2.1-2 4.3.1-1 3.3.1-2")
@BOTH
async def test_qos_0_has_no_identifier_and_no_dup(world, is_ended, version):
    client = await world.subscriber("c", "t", qos=2, version=version)
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


@BOTH
async def test_a_remaining_length_may_be_longer_than_it_needs(world, version):
    """The rule of the fewest bytes is not for the remaining length of 3.1.1, and 5.0 is read as leniently."""
    client = world.dial(version)
    whole = connect(version)
    client.raw(whole[:1] + bytes((whole[1] | 0x80, 0)) + whole[2:])
    [connack] = await client.got()
    assert connack.reason == 0

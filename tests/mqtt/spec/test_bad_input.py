"""Bad input: every packet cut at every byte, too long, damaged, oversized, out of order, doubled.

The connection ends with the reason code that the standard names, and nothing else is touched. Flags, strings,
identifiers and the rules of each packet have tests of their own beside this one.
"""

import asyncio
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gossamer.mqtt import ReasonCode, encode
from gossamer.mqtt.codec import packets as p
from gossamer.mqtt.codec.properties import Properties
from gossamer.mqtt.codec.reasons import CONNACK_REASONS, DISCONNECT_REASONS
from gossamer.supervisor import Crash
from mqtt.harness import World
from mqtt.strategies import packets

from .conftest import BOTH, V4, V5
from .statements import keeps
from .wire import connect, packet, pair, props, publish, s, subscribe, u16, unsubscribe, varint

MALFORMED, VIOLATION = ReasonCode.MALFORMED_PACKET, ReasonCode.PROTOCOL_ERROR

PUBLISH_PROPERTIES = (
    b"\x01\1" + b"\x02\0\0\0\x3c" + b"\x23\0\1" + b"\x08" + s("r") + b"\x09" + s(b"\0") + pair("k", "v")
    + b"\x03" + s("t")
)  # fmt: skip
CONNECT_PROPERTIES = (
    b"\x11\0\0\0\x3c" + b"\x21\0\x0a" + b"\x27\0\1\0\0" + b"\x22\0\5" + b"\x19\1" + b"\x17\1" + pair("k", "v")
)
WILL_PROPERTIES = b"\x18\0\0\0\1" + b"\x01\1" + b"\x02\0\0\0\1" + b"\x03" + s("t") + pair("k", "v")
REASON = props(5, b"\x1f" + s("why") + pair("k", "v"))


class Example(NamedTuple):
    """A packet; the lengths at which its body may end, and what it is then instead of malformed."""

    first: int
    body: bytes
    ends: dict | None = None


def examples(version):
    """Rich packets, each of which is fine."""

    def parts(whole):
        at = 1
        while whole[at] & 0x80:
            at += 1
        return whole[0], whole[at + 1 :]

    first, body = parts(
        connect(
            version,
            flags=0xEE,
            properties=CONNECT_PROPERTIES,
            payload=s("bad") + props(version, WILL_PROPERTIES) + s("w") + s(b"m") + s("ann") + s(b"pw"),
        )
    )
    yield "CONNECT", Example(first, body)
    for qos in (0, 1, 2):
        whole = publish(
            version,
            "t/x",
            b"load",
            flags=qos << 1,
            packet_id=7 if qos else None,
            properties=PUBLISH_PROPERTIES,
        )
        first, body = parts(whole)
        # The payload may end anywhere.
        yield f"PUBLISH {qos}", Example(first, body, {len(body) - n: None for n in range(5)})
    for name, first in (("PUBACK", 0x40), ("PUBREC", 0x50), ("PUBREL", 0x62), ("PUBCOMP", 0x70)):
        if version == V4:
            yield name, Example(first, u16(9), {2: None})
        else:
            yield name, Example(first, u16(9) + b"\0" + REASON, {2: None, 3: None})
    first, body = parts(subscribe(version, ("a/+", 1), ("b", 0), properties=b"\x0b\x05" + pair("k", "v")))
    head = 2 + len(props(version, b"\x0b\x05" + pair("k", "v")))
    yield "SUBSCRIBE", Example(first, body, {head: VIOLATION, head + 6: None})
    first, body = parts(unsubscribe(version, "a/+", "b", properties=pair("k", "v")))
    head = 2 + len(props(version, pair("k", "v")))
    yield "UNSUBSCRIBE", Example(first, body, {head: VIOLATION, head + 5: None})
    yield "PINGREQ", Example(0xC0, b"")
    if version == V4:
        yield "DISCONNECT", Example(0xE0, b"")
    else:
        yield "DISCONNECT", Example(0xE0, b"\x04" + REASON, {0: None, 1: None})


EXAMPLES = [
    pytest.param(version, example, id=f"{name}-{version}")
    for version in (V4, V5)
    for name, example in examples(version)
]
each = pytest.mark.parametrize(("version", "example"), EXAMPLES)


async def fresh(world, version, example):
    """A client in the state in which ``example`` is right."""
    if example.first == 0x10:
        return world.dial(version)
    return await world.client("bad", version=version)


@keeps(v4="4.8.0-1 3.1.4-1", v5="4.13.1-1 3.1.4-1")
@each
async def test_a_packet_cut_at_any_byte_is_malformed(world, witness, is_ended, version, example):
    """Its remaining length says what is left, so that nothing more can be waited for."""
    whole = await fresh(world, version, example)
    whole.raw(packet(example.first, example.body))
    got = await whole.got()
    assert example.first == 0xE0 or not whole.closed, got
    for cut in range(len(example.body)):
        client = await fresh(world, version, example)
        client.raw(packet(example.first, example.body[:cut]))
        reason = (example.ends or {}).get(cut, MALFORMED)
        if example.first == 0x10 and cut < 7:
            # Nobody knows yet in which version to answer.
            assert await client.got() == []
            assert client.closed
        elif reason is None:
            await client.got()
            assert client.closed == (example.first == 0xE0), cut
            client.transport.close()
        else:
            await is_ended(client, version, reason)
    await witness.is_well()


@each
async def test_a_packet_that_has_not_all_come_is_waited_for(world, version, example):
    """Nothing happens, however long it takes, within the keep alive or connect timeout."""
    whole = packet(example.first, example.body)
    for cut in range(1, len(whole)):
        client = await fresh(world, version, example)
        client.raw(whole[:cut])
        assert await client.got() == []
        assert not client.closed
        await client.drop()


@keeps(v4="4.8.0-1", v5="4.13.1-1")
@each
async def test_bytes_behind_the_last_field_are_malformed(world, witness, is_ended, version, example):
    if example.first & 0xF0 == 0x30:
        return
    for more in (b"\0", b"\xff", b"\0\0\0\0"):
        client = await fresh(world, version, example)
        client.raw(packet(example.first, example.body + more))
        await is_ended(client, version, MALFORMED)
    await witness.is_well()


@keeps(v5="3.2.2-15 4.13.1-1")
@each
async def test_a_packet_of_any_kind_that_is_too_large_is_refused_on_its_header(
    make_world, is_ended, version, example
):
    world = await make_world(max_packet_size="2KiB")
    client = await fresh(world, version, example)
    client.raw(bytes((example.first,)) + varint(2046) + example.body[:12])
    await is_ended(client, version, ReasonCode.PACKET_TOO_LARGE)


SERVERS = {
    "CONNACK": lambda v: packet(0x20, b"\0\0" + props(v)),
    "SUBACK": lambda v: packet(0x90, u16(1) + props(v) + b"\0"),
    "UNSUBACK": lambda v: packet(0xB0, u16(1) + (props(v) + b"\0" if v == V5 else b"")),
    "PINGRESP": lambda v: packet(0xD0),
}


@keeps(v4="4.8.0-1", v5="4.13.1-1")
@BOTH
@pytest.mark.parametrize("make", SERVERS.values(), ids=SERVERS)
async def test_what_only_a_server_may_send_is_a_violation(world, witness, is_ended, version, make):
    client = await world.client("bad", version=version)
    client.raw(make(version))
    await is_ended(client, version, VIOLATION)
    await witness.is_well()


@keeps(v5="3.14.2-1")
async def test_the_reason_codes_of_disconnect(world, witness):
    table = {0x00, 0x04, 0x80, 0x81, 0x82, 0x83, 0x87, 0x89, 0x8B, 0x8D, 0x8E, 0x8F, 0x90}
    assert table | set(range(0x93, 0xA3)) == DISCONNECT_REASONS
    for reason in range(256):
        client = await world.client("bad", version=V5)
        client.raw(packet(0xE0, bytes((reason,))))
        got = [x.reason for x in await client.got()]
        assert client.closed
        assert got == ([] if reason in DISCONNECT_REASONS else [MALFORMED])
    await witness.is_well()


PROPERTIES = {
    # Identifier: a right value, and those packets of a client that may have it.
    0x01: (b"\1", "publish will"),
    0x02: (b"\0\0\0\1", "publish will"),
    0x03: (s("x"), "publish will"),
    0x08: (s("x"), "publish will"),
    0x09: (s(b"x"), "publish will"),
    0x0B: (b"\1", "subscribe"),
    0x11: (b"\0\0\0\1", "connect disconnect"),
    0x12: (s("x"), ""),
    0x13: (b"\0\1", ""),
    0x15: (s("x"), "connect"),
    0x16: (s(b"x"), "connect"),
    0x17: (b"\1", "connect"),
    0x18: (b"\0\0\0\1", "will"),
    0x19: (b"\1", "connect"),
    0x1A: (s("x"), ""),
    0x1C: (s("x"), "disconnect"),
    0x1F: (s("x"), "puback disconnect"),
    0x21: (b"\0\1", "connect"),
    0x22: (b"\0\1", "connect"),
    0x23: (b"\0\1", "publish"),
    0x24: (b"\1", ""),
    0x25: (b"\1", ""),
    0x26: (s("k") + s("v"), "publish will subscribe unsubscribe connect disconnect puback"),
    0x27: (b"\0\1\0\0", "connect"),
    0x28: (b"\1", ""),
    0x29: (b"\1", ""),
    0x2A: (b"\1", ""),
}
CARRIERS = {
    "publish": lambda data: publish(5, "t", properties=data),
    "subscribe": lambda data: subscribe(5, ("t", 0), properties=data),
    "unsubscribe": lambda data: unsubscribe(5, "t", properties=data),
    "puback": lambda data: packet(0x40, u16(1) + b"\0" + props(5, data)),
    "disconnect": lambda data: packet(0xE0, b"\0" + props(5, data)),
    "connect": lambda data: connect(5, properties=data),
    "will": lambda data: connect(5, flags=6, payload=s("bad") + props(5, data) + s("w") + s(b"")),
}


@keeps(v5="4.13.1-1")
@pytest.mark.parametrize("carrier", CARRIERS)
async def test_every_property_in_every_packet(world, witness, is_ended, carrier):
    """One that does not belong there is malformed, so is one that is cut or unknown; twice is an error."""
    make = CARRIERS[carrier]
    early = carrier in ("connect", "will")

    async def sent(data):
        client = world.dial() if early else await world.client("bad", version=V5)
        client.version = V5
        if not early:
            client.channel.session.expiry = 60
        client.raw(make(data))
        return client

    for identifier in range(0x80):
        value, homes = PROPERTIES.get(identifier, (b"", ""))
        one = bytes((identifier,)) + value
        if identifier == 0x0B and carrier == "publish":
            # It belongs there, but only the server may send it.
            await is_ended(await sent(one), V5, VIOLATION)
            continue
        if carrier not in homes.split():
            await is_ended(await sent(one), V5, MALFORMED)
            continue
        if identifier not in (0x15, 0x16):
            client = await sent(one)
            await client.got()
            assert client.closed == (carrier == "disconnect")
            client.transport.close()
        for cut in range(1, len(one)):
            await is_ended(await sent(one[:cut]), V5, MALFORMED)
        if identifier != 0x26:
            await is_ended(await sent(one + one), V5, VIOLATION)
    await is_ended(await sent(b"\x80\x01"), V5, MALFORMED)
    await witness.is_well()


@BOTH
async def test_what_is_doubled_is_answered_twice_and_harms_nobody(world, witness, version):
    client = await world.client("c", version=version)
    for make in (subscribe(version, ("t", 0)), unsubscribe(version, "t"), packet(0x62, u16(3)), packet(0xC0)):
        client.raw(make * 3)
        assert len(await client.got()) == 3
    client.raw(packet(0x40, u16(3)) * 3 + packet(0x70, u16(3)) * 3)
    assert await client.got() == []
    assert not client.closed
    await witness.is_well()


@BOTH
async def test_acknowledgements_of_the_wrong_kind_change_nothing(world, version):
    """PUBACK for QoS 2, PUBREC and PUBCOMP for QoS 1: what is in flight stays."""
    client = await world.client("c", version=version, clean_start=False, properties=persistent(version))
    await client.subscribe("t", qos=2)
    for qos in (1, 2):
        world.broker.publish("t", b"%d" % qos, qos=qos)
    one, two = await client.got()
    client.send(p.Puback(two.packet_id), p.Pubcomp(two.packet_id), p.Pubcomp(one.packet_id))
    assert await client.got() == []
    client.send(p.Pubrec(one.packet_id))
    [release] = await client.got()
    assert release == p.Pubrel(one.packet_id, 0x92 if version == V5 else 0)
    await client.drop()
    back = await world.client("c", version=version, clean_start=False, properties=persistent(version))
    assert [x.payload for x in back.early] == [b"1", b"2"]


def persistent(version):
    return Properties(session_expiry=60) if version == V5 else Properties()


# By chance.

quiet = settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
PACKETS = {version: st.lists(packets(version), max_size=5) for version in (V4, V5)}
DAMAGES = st.lists(
    st.tuples(st.integers(0, 400), st.sampled_from(["set", "cut", "insert", "double"]), st.integers(0, 255)),
    min_size=1,
    max_size=3,
)


async def harm(version, stream, damages):
    stream = bytearray(stream)
    for where, what, value in damages:
        at = where % (len(stream) + 1)
        if what == "cut":
            del stream[at : at + 1 + value % 4]
        elif what == "insert":
            stream[at:at] = bytes((value,))
        elif what == "double":
            stream[at:at] = stream[max(0, at - value % 8) : at]
        elif at < len(stream):
            stream[at] = value
    ends = []
    async with World(max_packet_size="4KiB", max_inflight=16) as world:
        witness = await world.subscriber("witness", "witness", qos=1)
        client = world.dial(version)
        world.runtime.join(client.channel.pid).add_done_callback(lambda done: ends.append(done.result()))
        client.raw(bytes(stream))
        await world.settle()
        if client.transport.written == b"\x20\x02\x00\x01":
            # It said a version that nobody speaks, and is told so in the oldest.
            client.version = V4
        got = await client.got()
        assert not any(isinstance(reason, Crash) for reason in ends), ends
        if client.closed and client.version == V5 and got:
            last = got[-1]
            if isinstance(last, p.Disconnect):
                assert last.reason in DISCONNECT_REASONS
                assert last.reason >= 0x80
            elif isinstance(last, p.Connack):
                assert last.reason in CONNACK_REASONS
        world.broker.publish("witness", b"alive", qos=1)
        assert b"alive" in [x.payload for x in await witness.got() if isinstance(x, p.Publish)]


@quiet
@given(
    st.sampled_from([V4, V5]).flatmap(lambda v: st.tuples(st.just(v), PACKETS[v])),
    DAMAGES,
)
def test_a_whole_conversation_damaged_anywhere(case, damages):
    """From CONNECT on: the connection ends in good order at worst, and a witness is served."""
    version, sent = case
    stream = encode(p.Connect(client_id="bad", version=version), version)
    asyncio.run(harm(version, stream + b"".join(encode(x, version) for x in sent), damages))


@quiet
@given(st.binary(max_size=200), st.sampled_from([V4, V5]))
def test_any_bytes_behind_connect(data, version):
    asyncio.run(harm(version, connect(version) + data, ()))


@quiet
@given(st.sampled_from(EXAMPLES), DAMAGES)
def test_a_rich_packet_damaged_anywhere(case, damages):
    version, example = case.values
    stream = b"" if example.first == 0x10 else connect(version)
    asyncio.run(harm(version, stream + packet(example.first, example.body) * 2, damages))

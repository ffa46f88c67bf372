"""Strings (3.1.1: 1.5.3; 5.0: 1.5.4, 1.5.7): what is no UTF-8 ends the connection, all else is left alone."""

import pytest

from gossamer.mqtt import ReasonCode
from gossamer.mqtt.codec import packets as p
from gossamer.mqtt.codec.properties import Properties

from .conftest import V4, V5
from .statements import cites, keeps
from .wire import connect, packet, pair, props, publish, s, subscribe, u16, unsubscribe

BAD = {
    "not UTF-8": b"a\xff",
    "first surrogate": b"\xed\xa0\x80",
    "last surrogate": b"\xed\xbf\xbf",
    "overlong": b"\xc0\xaf",
    "cut off": b"\xe2\x82",
    "beyond Unicode": b"\xf4\x90\x80\x80",
    "null": b"a\0b",
}
WILL = 0x06

# Where a string stands before the client is let in, and behind that.
IN_CONNECT = {
    "client identifier": lambda v, bad: connect(v, client_id=bad),
    "will topic": lambda v, bad: connect(v, flags=WILL, payload=s("x") + props(v) + s(bad) + s(b"")),
    "user name": lambda v, bad: connect(v, flags=0x82, payload=s("x") + s(bad)),
}
IN_CONNECT_5 = {
    "user property, name": lambda v, bad: connect(v, properties=pair(bad, "x")),
    "user property, value": lambda v, bad: connect(v, properties=pair("x", bad)),
    "authentication method": lambda v, bad: connect(v, properties=b"\x15" + s(bad)),
    "will content type": lambda v, bad: connect(
        v, flags=WILL, payload=s("x") + props(v, b"\x03" + s(bad)) + s("t") + s(b"")
    ),
}
BEHIND = {
    "topic name": lambda v, bad: publish(v, bad, flags=2, packet_id=1),
    "topic name, QoS 0": lambda v, bad: publish(v, bad),
    "filter to subscribe": lambda v, bad: subscribe(v, ("fine", 0), (bad, 0)),
    "filter to unsubscribe": lambda v, bad: unsubscribe(v, "fine", bad),
}
BEHIND_5 = {
    "response topic": lambda v, bad: publish(v, "t", properties=b"\x08" + s(bad)),
    "content type": lambda v, bad: publish(v, "t", properties=b"\x03" + s(bad)),
    "property of PUBLISH, name": lambda v, bad: publish(v, "t", properties=pair(bad, "x")),
    "property of PUBLISH, value": lambda v, bad: publish(v, "t", properties=pair("x", bad)),
    "property of SUBSCRIBE": lambda v, bad: subscribe(v, ("t", 0), properties=pair("x", bad)),
    "property of UNSUBSCRIBE": lambda v, bad: unsubscribe(v, "t", properties=pair("x", bad)),
    "reason of PUBACK": lambda v, bad: packet(0x40, u16(1) + b"\0" + props(v, b"\x1f" + s(bad))),
    "reason of DISCONNECT": lambda v, bad: packet(0xE0, b"\0" + props(v, b"\x1f" + s(bad))),
}
IN_STANDARD = {
    "client identifier": cites(v4="3.1.3-4", v5="3.1.3-4"),
    "will topic": cites(v4="3.1.3-10", v5="3.1.3-11"),
    "user name": cites(v4="3.1.3-11", v5="3.1.3-12"),
    "topic name": cites(v4="3.3.2-1 4.7.3-2", v5="3.3.2-1 4.7.3-2"),
    "filter to subscribe": cites(v4="3.8.3-1", v5="3.8.3-1"),
    "filter to unsubscribe": cites(v4="3.10.3-1", v5="3.10.3-1"),
    "response topic": cites(v5="3.3.2-13"),
    "content type": cites(v5="3.3.2-19"),
    "user property, name": cites(v5="1.5.7-1"),
    "user property, value": cites(v5="1.5.7-1"),
}


def cases(*tables):
    return [
        pytest.param(name, make, marks=IN_STANDARD.get(name, ())) for t in tables for name, make in t.items()
    ]


@keeps(v4="1.5.3-1,2 4.8.0-1", v5="1.5.4-1,2 4.13.1-1")
@pytest.mark.parametrize("version", [V4, V5])
@pytest.mark.parametrize(("where", "make"), cases(IN_CONNECT, IN_CONNECT_5, BEHIND, BEHIND_5))
async def test_a_string_that_is_no_utf8_ends_the_connection(world, witness, is_ended, version, where, make):
    if version == V4 and (where in IN_CONNECT_5 or where in BEHIND_5):
        return
    for bad in BAD.values():
        behind = where in BEHIND or where in BEHIND_5
        client = await world.client("bad", version=version) if behind else world.dial()
        client.version = version
        client.raw(make(version, bad))
        await is_ended(client, version, ReasonCode.MALFORMED_PACKET)
    await witness.is_well()


UNUSUAL = ["\ufeff", "\ufeffa", "a\ufeff", "\ufffe", "\uffff", "\x01", "\x7f", "\u200b", "𝄞", "e\u0301", "é"]


@keeps(v4="1.5.3-3 4.7.3-4", v5="1.5.4-3 4.7.3-4")
@pytest.mark.parametrize("version", [V4, V5])
async def test_every_other_character_is_kept_as_it_is(world, version):
    """Non-characters and controls are merely discouraged; nothing is normalised, in names and in matching."""
    client = await world.client("\ufeffid", version=version)
    assert "\ufeffid" in world.broker.sessions
    await client.subscribe(*UNUSUAL)
    for text in UNUSUAL:
        client.raw(publish(version, text))
    assert [x.topic.decode() for x in await client.got()] == UNUSUAL


@keeps(v4="4.7.3-3", v5="4.7.3-3")
@pytest.mark.parametrize("version", [V4, V5])
async def test_the_longest_names_and_filters_are_taken(world, version):
    client = await world.client("c", version=version)
    longest = "é" * 32767 + "x"
    assert len(longest.encode()) == 65535
    await client.subscribe(longest)
    client.raw(publish(version, longest, b"1"))
    [got] = await client.got()
    assert got.topic == longest.encode()


@keeps(v5="3.3.2-4,15,16,20")
async def test_text_in_properties_is_kept_as_it_is(world):
    client = await world.client("c", version=V5)
    await client.subscribe("t")
    sent = Properties(
        payload_format=1,
        content_type="\ufeff𝄞\x01",
        response_topic="r/\ufeff",
        correlation_data=b"\0\xff\xed\xa0\x80",
        user=(("\ufeff", ""), ("", "\uffff")),
    )
    client.send(p.Publish(topic=b"t", payload=b"x", properties=sent))
    [got] = await client.got()
    assert got.properties == sent

"""Strings (3.1.1: 1.5.3; 5.0: 1.5.4, 1.5.7): what is no UTF-8 ends the connection, all else is left alone."""

from gossamer.mqtt import ReasonCode
from gossamer.mqtt.codec import packets as p
from gossamer.mqtt.codec.properties import Properties

from .conftest import BOTH, V5, breaking
from .statements import keeps
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

# Where a string stands: the statements that say so, and the packet.
M = ReasonCode.MALFORMED_PACKET
STRINGS = {
    "client identifier": ("3.1.3-4", "3.1.3-4", lambda v, bad: connect(v, client_id=bad), M),
    "will topic": (
        "3.1.3-10",
        "3.1.3-11",
        lambda v, bad: connect(v, flags=WILL, payload=s("x") + props(v) + s(bad) + s(b"")),
        M,
    ),
    "user name": ("3.1.3-11", "3.1.3-12", lambda v, bad: connect(v, flags=0x82, payload=s("x") + s(bad)), M),
    "topic name": (
        "3.3.2-1 4.7.3-2",
        "3.3.2-1 4.7.3-2",
        lambda v, bad: publish(v, bad, flags=2, packet_id=1),
        M,
    ),
    "topic name, QoS 0": ("", "", lambda v, bad: publish(v, bad), M),
    "filter to subscribe": ("3.8.3-1", "3.8.3-1", lambda v, bad: subscribe(v, ("fine", 0), (bad, 0)), M),
    "filter to unsubscribe": ("3.10.3-1", "3.10.3-1", lambda v, bad: unsubscribe(v, "fine", bad), M),
}
STRINGS_5 = {
    "user property, name": ("1.5.7-1", lambda v, bad: connect(v, properties=pair(bad, "x")), M),
    "user property, value": ("1.5.7-1", lambda v, bad: connect(v, properties=pair("x", bad)), M),
    "authentication method": ("", lambda v, bad: connect(v, properties=b"\x15" + s(bad)), M),
    "will content type": (
        "",
        lambda v, bad: connect(v, flags=WILL, payload=s("x") + props(v, b"\x03" + s(bad)) + s("t") + s(b"")),
        M,
    ),
    "response topic": ("3.3.2-13", lambda v, bad: publish(v, "t", properties=b"\x08" + s(bad)), M),
    "content type": ("3.3.2-19", lambda v, bad: publish(v, "t", properties=b"\x03" + s(bad)), M),
    "property of PUBLISH, name": ("", lambda v, bad: publish(v, "t", properties=pair(bad, "x")), M),
    "property of PUBLISH, value": ("", lambda v, bad: publish(v, "t", properties=pair("x", bad)), M),
    "property of SUBSCRIBE": ("", lambda v, bad: subscribe(v, ("t", 0), properties=pair("x", bad)), M),
    "property of UNSUBSCRIBE": ("", lambda v, bad: unsubscribe(v, "t", properties=pair("x", bad)), M),
    "reason of PUBACK": ("", lambda v, bad: packet(0x40, u16(1) + b"\0" + props(v, b"\x1f" + s(bad))), M),
    "reason of DISCONNECT": ("", lambda v, bad: packet(0xE0, b"\0" + props(v, b"\x1f" + s(bad))), M),
}


@keeps(v4="1.5.3-1,2 4.8.0-1", v5="1.5.4-1,2 4.13.1-1")
@breaking(STRINGS, STRINGS_5)
async def test_a_string_that_is_no_utf8_ends_the_connection(world, witness, is_ended, version, make, reason):
    for bad in BAD.values():
        sent = make(version, bad)
        client = world.dial(version) if sent[0] == 0x10 else await world.client("bad", version=version)
        client.raw(sent)
        await is_ended(client, version, reason)
    await witness.is_well()


UNUSUAL = ["\ufeff", "\ufeffa", "a\ufeff", "\ufffe", "\uffff", "\x01", "\x7f", "\u200b", "𝄞", "e\u0301", "é"]


@keeps(v4="1.5.3-3 4.7.3-4", v5="1.5.4-3 4.7.3-4")
@BOTH
async def test_every_other_character_is_kept_as_it_is(world, version):
    """Non-characters and controls are merely discouraged; nothing is normalised, in names and in matching."""
    client = await world.client("\ufeffid", version=version)
    assert "\ufeffid" in world.broker.sessions
    await client.subscribe(*UNUSUAL)
    for text in UNUSUAL:
        client.raw(publish(version, text))
    assert [x.topic.decode() for x in await client.got()] == UNUSUAL


@keeps(v4="4.7.3-3", v5="4.7.3-3")
@BOTH
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
    client = await world.subscriber("c", "t", version=V5)
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

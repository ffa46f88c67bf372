"""CONNECT and CONNACK (3.1, 3.2): who is let in, in what words, and what is not processed."""

import itertools

import pytest

from gossamer.mqtt import Chain, ReasonCode
from gossamer.mqtt.auth.sources import Verdict
from gossamer.mqtt.codec import packets as p
from gossamer.mqtt.codec.properties import Properties
from gossamer.mqtt.codec.reasons import CONNACK_REASONS
from mqtt.harness import trusting

from .conftest import BOTH, V4, V5
from .statements import cites, keeps
from .wire import connect, packet, pair, props, publish, s, subscribe, u16

MALFORMED = ReasonCode.MALFORMED_PACKET


@keeps(v4="3.1.0-1", v5="3.1.0-1 3.14.0-1 4.13.2-1")
@pytest.mark.parametrize("first", [0xC0, 0x30, 0x82, 0xE0, 0xF0, 0x20, 0xD0, 0x00])
async def test_the_first_packet_is_connect(world, witness, first):
    """Nothing is answered: not even DISCONNECT may come before CONNACK."""
    client = world.dial()
    client.raw(packet(first) + connect(5) + publish(5, "witness"))
    await world.settle()
    assert client.closed
    assert not client.transport.written
    await witness.is_well()


@keeps(v4="3.1.0-2 4.8.0-1", v5="3.1.0-2 3.2.0-2")
@BOTH
async def test_a_second_connect_is_a_violation(world, witness, is_ended, version):
    for again in (connect(version, client_id="c"), connect(version, level=9), connect(version, payload=b"")):
        client = await world.client("c", version=version)
        client.raw(again + publish(version, "witness", b"too late"))
        await is_ended(client, version, ReasonCode.PROTOCOL_ERROR)
    await witness.is_well()


@keeps(v4="3.1.2-1", v5="3.1.2-1 3.2.2-8")
@pytest.mark.parametrize("name", [b"MQTX", b"mqtt", b"MQIsdp", b"", b"MQTTT"])
@BOTH
async def test_another_protocol_name_is_not_served(world, version, name):
    """The answer has the form of 3.1.1: nobody knows what the client speaks."""
    client = world.dial()
    client.raw(connect(version, name=name))
    await world.settle()
    assert bytes(client.transport.written) == b"\x20\x02\x00\x01"
    assert client.closed
    assert not world.broker.sessions


@keeps(v4="3.1.2-2 3.2.2-4,5", v5="3.1.2-2")
@pytest.mark.parametrize("level", [0, 1, 2, 3, 6, 127, 0x84, 0x85, 255])
async def test_another_protocol_level_is_told_so(world, level):
    client = world.dial()
    client.raw(connect(4, level=level))
    await world.settle()
    assert bytes(client.transport.written) == b"\x20\x02\x00\x01"
    assert client.closed


def will(version, *, flags=0x06, topic="w", payload=b"m"):
    return connect(version, flags=flags, payload=s("x") + props(version) + s(topic) + s(payload))


BAD = {
    "reserved flag": ("3.1.2-3", "3.1.2-3", lambda v: connect(v, flags=3)),
    "will flag without a will": ("3.1.2-9", "3.1.2-9", lambda v: connect(v, flags=6)),
    "will flag without a will payload": (
        "3.1.2-9",
        "3.1.2-9",
        lambda v: connect(v, flags=6, payload=s("x") + props(v) + s("w")),
    ),
    "will without its flag": ("3.1.2-11", "", lambda v: will(v, flags=2)),
    "will QoS 1 without the flag": ("3.1.2-13,11", "3.1.2-11", lambda v: connect(v, flags=0x0A)),
    "will QoS 2 without the flag": ("3.1.2-13", "3.1.2-11", lambda v: connect(v, flags=0x12)),
    "will QoS 3": ("3.1.2-14", "3.1.2-12", lambda v: will(v, flags=0x1E)),
    "will retain without the flag": ("3.1.2-15,11", "3.1.2-13", lambda v: connect(v, flags=0x22)),
    "user name without its flag": (
        "3.1.2-18",
        "3.1.2-16",
        lambda v: connect(v, flags=2, payload=s("x") + s("ann")),
    ),
    "user name flag without one": ("3.1.2-19", "3.1.2-17", lambda v: connect(v, flags=0x82)),
    "password without its flag": (
        "3.1.2-20",
        "3.1.2-18",
        lambda v: connect(v, flags=0x82, payload=s("x") + s("ann") + s("secret")),
    ),
    "password flag without one": (
        "3.1.2-21",
        "3.1.2-19",
        lambda v: connect(v, flags=0xC2, payload=s("x") + s("ann")),
    ),
    "no client identifier": ("3.1.3-3", "3.1.3-3", lambda v: connect(v, payload=b"")),
    "user name before the will": (
        "3.1.3-1",
        "3.1.3-1",
        lambda v: connect(v, flags=0x86, payload=s("x") + s("ann") + props(v) + s("w") + s(b"") + b"\0"),
    ),
    "a will topic with a wildcard": ("4.7.1-1", "4.7.0-1", lambda v: will(v, topic="w/#")),
    "an empty will topic": ("4.7.3-1", "4.7.3-1", lambda v: will(v, topic="")),
    "flags of the fixed header": ("2.2.2-1", "2.1.3-1", lambda v: b"\x11" + connect(v)[1:]),
}


@keeps(v4="3.1.4-1 3.2.2-6", v5="3.1.4-1 4.13.1-1 3.2.2-6,7 3.14.0-1")
@BOTH
@pytest.mark.parametrize(
    "make", [pytest.param(make, id=name, marks=cites(v4=a, v5=b)) for name, (a, b, make) in BAD.items()]
)
async def test_a_connect_that_does_not_conform_ends_the_connection(world, witness, version, make):
    """3.1.1: without CONNACK. 5.0: CONNACK with the reason, and no DISCONNECT."""
    client = world.dial(version)
    client.raw(make(version) + publish(version, "witness", b"too late"))
    got = await client.got()
    assert client.closed
    if version == V4:
        assert got == []
    else:
        [connack] = got
        assert (connack.reason, connack.session_present) == (MALFORMED, False)
        assert connack.properties.reason_string
    await witness.is_well()


@keeps(v4="3.1.2-22")
async def test_a_password_without_a_user_name_is_for_5_0_only(world):
    old, new = world.dial(), world.dial()
    old.raw(connect(4, flags=0x42, payload=s("x") + s("secret")))
    assert old.closed
    assert not old.transport.written
    new.version = V5
    new.raw(connect(5, flags=0x42, payload=s("x") + s("secret")))
    [connack] = await new.got()
    assert connack.reason == 0


IDENTIFIERS = ["0", "abcdefghijklmnopqrstuvw", "ABCDEFGHIJKLMNOPQRSTUVW", "XYZxyz0123456789"]


@keeps(v4="3.1.3-1,2,5 3.1.4-4 3.2.0-1", v5="3.1.3-1,2,5 3.1.4-5 3.2.0-1 3.2.2-1")
@BOTH
@pytest.mark.parametrize("client_id", [*IDENTIFIERS, "x" * 60_000, "a b/ä#+"])
async def test_a_valid_connect_gets_connack_first(world, version, client_id):
    client = world.dial(version)
    flags = 0xEE  # user name, password, will of QoS 1 with retain, clean
    payload = s(client_id) + props(version) + s("w") + s(b"m") + s("ann") + s(b"\0\xff")
    client.raw(connect(version, flags=flags, payload=payload) + packet(0xC0))
    assert [type(x) for x in await client.got()] == [p.Connack, p.Pingresp]
    assert client.transport.written[2:4] == b"\0\0"
    assert client_id in world.broker.sessions
    assert client.channel.will == p.Will(topic=b"w", payload=b"m", qos=1, retain=True)


@keeps(v4="3.1.3-6", v5="3.1.3-6,7 3.2.2-16")
@BOTH
async def test_an_empty_identifier_is_replaced_by_a_unique_one(world, version):
    found = set()
    for _ in range(5):
        client = world.dial()
        connack = await client.connect("", version=version)
        assert connack.reason == 0
        [new] = set(world.broker.sessions) - found
        found.add(new)
        assert connack.properties.assigned_client_id == (new if version == V5 else None)
    again = world.dial()
    assert not (await again.connect(found.pop(), version=V5)).properties.assigned_client_id


@keeps(v4="3.1.3-7,8,9 3.2.2-4,5")
async def test_an_empty_identifier_without_clean_session_is_rejected(world):
    client = world.dial()
    client.raw(connect(4, flags=0, client_id=""))
    await world.settle()
    assert bytes(client.transport.written) == b"\x20\x02\x00\x02"
    assert client.closed


class Refusing:
    """Refuses every client with one reason; or ``"identifier"``, the one called bad."""

    def __init__(self, reason):
        self.reason = reason

    def ask(self, login):
        return Verdict(self.reason, "test")


@keeps(v4="3.1.4-5 3.2.2-4,5", v5="3.1.4-2,6 3.1.3-8 3.2.2-6,7,8 4.13.2-1 3.14.0-1")
@BOTH
@pytest.mark.parametrize(
    ("reason", "code"),
    [
        (ReasonCode.BAD_USER_NAME_OR_PASSWORD, 4),
        (ReasonCode.NOT_AUTHORIZED, 5),
        (ReasonCode.CLIENT_IDENTIFIER_NOT_VALID, 2),
        (ReasonCode.SERVER_BUSY, 3),
        (ReasonCode.SERVER_UNAVAILABLE, 3),
        (ReasonCode.BANNED, 5),
    ],
)
async def test_a_refused_connect_and_what_is_behind_it_have_no_effect(make_world, version, reason, code):
    world = await make_world(authenticator=Chain([Refusing(reason)]))
    client = world.dial(version)
    client.raw(
        connect(version, flags=0x06, payload=s("x") + props(version) + s("will") + s(b"m"))
        + publish(version, "t", b"x", flags=1)
        + subscribe(version, ("t", 0))
    )
    [connack] = await client.got()
    assert connack.reason == (reason if version == V5 else code)
    assert not connack.session_present
    assert client.closed
    assert world.broker.sessions == {}
    assert len(world.broker.retained) == 0
    assert world.broker.stats()["messages_received"] == 0
    assert world.broker.access.decisions["connect", "test", "deny"] == 1


@keeps(v4="3.2.2-6", v5="3.2.2-12,13 3.2.2-8")
@pytest.mark.parametrize(
    ("flags", "reason"), [(0x0E, ReasonCode.QOS_NOT_SUPPORTED), (0x26, ReasonCode.RETAIN_NOT_SUPPORTED)]
)
@BOTH
async def test_a_will_that_asks_for_what_is_not_offered_is_refused(capable, version, flags, reason):
    """3.1.1 has no code for that, so it gets none."""
    world = await capable(maximum_qos=0, retain=False)
    client = world.dial(version)
    client.raw(connect(version, flags=flags, payload=s("x") + props(version) + s("w") + s(b"m")))
    got = await client.got()
    assert client.closed
    assert [x.reason for x in got] == ([] if version == V4 else [reason])


@keeps(v4="3.2.2-5", v5="3.2.2-7,8")
@BOTH
async def test_a_node_that_is_being_emptied_names_another(world, version):
    world.broker.admission.references = itertools.cycle(["one:1883", "two:1883"])
    for name in ("one:1883", "two:1883"):
        client = world.dial()
        connack = await client.connect("c", version=version)
        assert connack.reason == (ReasonCode.USE_ANOTHER_SERVER if version == V5 else 3)
        assert connack.properties.server_reference == (name if version == V5 else None)
        assert client.closed


@keeps(v5="3.2.2-8")
def test_the_reason_codes_of_connack():
    assert {
        0x00, 0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8A, 0x8C,
        0x90, 0x95, 0x97, 0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9F,
    } == CONNACK_REASONS  # fmt: skip


CONNECT_PROPERTIES = {
    "receive maximum 0": (b"\x21\0\0", ReasonCode.PROTOCOL_ERROR),
    "maximum packet size 0": (b"\x27\0\0\0\0", ReasonCode.PROTOCOL_ERROR),
    "request problem information 2": (b"\x17\2", ReasonCode.PROTOCOL_ERROR),
    "request response information 2": (b"\x19\2", ReasonCode.PROTOCOL_ERROR),
    "authentication data alone": (b"\x16" + s(b"x"), ReasonCode.PROTOCOL_ERROR),
}


@keeps(v5="3.1.4-1 4.13.1-1 2.2.2-1")
@pytest.mark.parametrize(("properties", "reason"), CONNECT_PROPERTIES.values(), ids=CONNECT_PROPERTIES)
async def test_properties_of_connect_that_are_wrong(world, witness, is_ended, properties, reason):
    client = world.dial(V5)
    client.raw(connect(5, properties=properties))
    await is_ended(client, V5, reason)
    await witness.is_well()


@keeps(v5="2.2.2-1")
async def test_connect_without_a_property_length_is_malformed(world, is_ended):
    client = world.dial(V5)
    client.raw(packet(0x10, s("MQTT") + b"\5\2" + u16(60) + s("x")))
    await is_ended(client, V5, MALFORMED)


@keeps(v5="3.1.2-28")
@pytest.mark.parametrize(("asked", "told"), [(None, None), (0, None), (1, "replies/c/ann")])
async def test_response_information_is_for_who_asks(capable, asked, told):
    world = await capable(response_information="replies/%c/%u", authenticator=trusting())
    client = world.dial()
    connack = await client.connect(
        "c", version=V5, username="ann", properties=Properties(request_response_information=asked)
    )
    assert connack.properties.response_information == told


@keeps(v5="3.2.2-9,10,11,14")
async def test_what_is_not_offered_is_said_and_refused(capable, is_ended):
    world = await capable(
        maximum_qos=1, retain=False, wildcards=False, shared=False, subscription_identifiers=False
    )
    client = world.dial()
    told = (await client.connect("c", version=V5)).properties
    assert (told.maximum_qos, told.retain_available) == (1, 0)
    assert (told.wildcard_available, told.shared_available) == (0, 0)
    assert told.subscription_identifiers_available == 0
    [suback] = await client.subscribe("a", "b/#", "$share/g/a", qos=2)
    assert suback.reasons == (
        1,
        ReasonCode.WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED,
        ReasonCode.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED,
    )
    [suback] = await client.subscribe("a", identifier=1)
    assert suback.reasons == (ReasonCode.SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED,)
    client.publish("a", b"1", qos=1, packet_id=1)
    assert [type(x) for x in await client.got()] == [p.Publish, p.Puback]
    for flags, reason in ((4, ReasonCode.QOS_NOT_SUPPORTED), (1, ReasonCode.RETAIN_NOT_SUPPORTED)):
        other = await world.client("o", version=V5)
        other.raw(publish(5, "a", flags=flags, packet_id=1 if flags == 4 else None))
        await is_ended(other, V5, reason)


@keeps(v4="3.8.3-2", v5="3.2.2-9,10,11")
@BOTH
async def test_a_node_of_qos_0(capable, is_ended, version):
    world = await capable(maximum_qos=0, wildcards=False)
    client = await world.client("c", version=version)
    [suback] = await client.subscribe("a", "+", qos=2)
    assert suback.reasons[0] == 0
    assert suback.reasons[1] >= 0x80
    client.raw(publish(version, "a", b"1") + publish(version, "a", b"2"))
    assert [x.payload for x in await client.got()] == [b"1", b"2"]
    client.raw(publish(version, "a", b"3") + publish(version, "a", b"4", flags=2, packet_id=1))
    await is_ended(client, version, ReasonCode.QOS_NOT_SUPPORTED)


@keeps(v5="3.2.2-19,20 3.1.2-24")
async def test_connack_is_never_larger_than_the_client_takes(make_world):
    world = await make_world(authenticator=Chain([Refusing(ReasonCode.NOT_AUTHORIZED)]))
    sizes = set()
    for limit in range(1, 60):
        client = world.dial(V5)
        client.raw(connect(5, properties=b"\x27" + limit.to_bytes(4, "big")))
        await world.settle()
        size = len(client.transport.written)
        assert size <= limit
        assert client.closed
        sizes.add(size)
    # Nothing, the bare packet, and the one that says why.
    assert len(sizes) == 3


@keeps(v5="3.1.2-24 3.2.0-1")
async def test_a_client_that_takes_no_connack_is_not_let_in(world):
    client = world.dial(V5)
    client.raw(connect(5, properties=b"\x27\0\0\0\x05") + publish(5, "t", b"x", flags=1))
    assert [x.reason for x in await client.got()] == [ReasonCode.PACKET_TOO_LARGE]
    assert client.closed
    assert world.broker.sessions == {}
    assert len(world.broker.retained) == 0


@keeps(v5="3.1.2-29")
async def test_user_properties_of_connect_are_taken(world):
    client = world.dial(V5)
    client.raw(connect(5, properties=pair("a", "1") + pair("a", "1")))
    [connack] = await client.got()
    assert connack.reason == 0

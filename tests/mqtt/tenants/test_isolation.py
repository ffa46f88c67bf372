"""Tenants do not see each other: clients of one are sent what they would be sent without the others."""

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gossamer.mqtt import Chain, ReasonCode, Verdict
from gossamer.mqtt.codec import packets as p
from gossamer.mqtt.codec.properties import Properties
from mqtt.harness import World

TENANTS = ("", "a", "b")
KINDS = ("connect", "subscribe", "publish", "publish", "unsubscribe", "drop", "bye", "later")
CLIENTS = ("c1", "c2", "c3")
TOPICS = ("x", "x/y", "/x", "y", "$own/x", "$own", "$delayed/5/x", "x/" + "l" * 130)
FILTERS = (
    *("#", "+/#", "x/#", "+", "x", "+/y", "$own/#", "$own/x", "$SYS/#", "$share/g/#", "$share/g/x"),
    *("$share/h/+/y", "$exclusive/x", "$share/g/$own/#", "$exclusive/$own/x"),
)


class OfTenants:
    """User names are TENANT/NAME."""

    def ask(self, login):
        if login.username is None:
            return None
        return Verdict(ReasonCode.SUCCESS, "test", login.username, tenant=login.username.partition("/")[0])


def of_tenants():
    return Chain([OfTenants()], allow_anonymous=True)


@st.composite
def steps(draw):
    """What one client does."""
    who = draw(st.sampled_from(CLIENTS))
    kind = draw(st.sampled_from(KINDS))
    match kind:
        case "connect":
            will = None
            if draw(st.booleans()):
                delay = draw(st.sampled_from([None, 3]))
                topic, retain = draw(st.sampled_from(TOPICS[:6])).encode(), draw(st.booleans())
                said = Properties(will_delay=delay)
                will = p.Will(topic=topic, payload=b"will " + who.encode(), retain=retain, properties=said)
            options = {"clean_start": draw(st.booleans()), "will": will}
            options["properties"] = Properties(
                session_expiry=draw(st.sampled_from([None, 100])),
                topic_alias_maximum=draw(st.sampled_from([None, 5])),
            )
            return who, kind, draw(st.sampled_from([p.V4, p.V5])), options
        case "subscribe":
            found = draw(st.lists(st.sampled_from(FILTERS), min_size=1, max_size=3, unique=True))
            return (
                who,
                kind,
                tuple(
                    p.Subscription(one, draw(st.integers(0, 2)), retain_handling=draw(st.integers(0, 2)))
                    for one in found
                ),
            )
        case "unsubscribe":
            return who, kind, draw(st.sampled_from(FILTERS))
        case "publish":
            empty = draw(st.booleans()) and draw(st.booleans())
            return (
                who,
                kind,
                draw(st.sampled_from(TOPICS)),
                draw(st.integers(0, 2)),
                draw(st.booleans()),
                empty,
            )
    return who, kind


class Stage:
    """A broker and the connections of one or more tenants; ``sent`` is what each client got."""

    def __init__(self, world, *, named):
        self.world = world
        self.named = named
        self.clients = {}
        self.sent = {}
        self.number = 0

    async def do(self, tenant, number, who, kind, *rest):
        key = tenant, who
        client = self.clients.get(key)
        if kind == "connect":
            version, options = rest
            client = self.clients[key] = self.world.dial()
            client.version = version
            if version == p.V4:
                options = options | {"properties": Properties()}
                if options["will"] is not None:
                    will = options["will"]
                    options["will"] = p.Will(topic=will.topic, payload=will.payload, retain=will.retain)
            username = f"{tenant}/u" if self.named else "/u"
            client.send(p.Connect(client_id=who, version=version, username=username, **options))
        elif kind == "later":
            pass
        elif client is None or client.closed:
            return
        elif kind == "subscribe":
            client.send(p.Subscribe(packet_id=1, subscriptions=rest[0]))
        elif kind == "unsubscribe":
            client.send(p.Unsubscribe(packet_id=2, filters=(rest[0],)))
        elif kind == "publish":
            topic, qos, retain, empty = rest
            payload = b"" if empty else b"%d" % number
            packet_id = 100 + number if qos else None
            client.publish(topic, payload, qos=qos, retain=retain, packet_id=packet_id)
        elif kind == "drop":
            await client.drop()
        else:
            client.send(p.Disconnect())

    async def collect(self):
        for key, client in self.clients.items():
            for packet in await client.got():
                self.sent.setdefault(key, []).append(packet)
                if isinstance(packet, p.Publish) and packet.qos == 1:
                    client.send(p.Puback(packet.packet_id))


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.sampled_from(TENANTS), steps()), max_size=40))
def test_clients_are_sent_what_they_would_be_sent_if_theirs_were_the_only_tenant(script):
    async def play(tenants, *, named):
        async with World(authenticator=of_tenants()) as world:
            stage = Stage(world, named=named)
            for number, (tenant, step) in enumerate(script):
                if tenant in tenants or step[1] == "later":
                    await stage.do(tenant, number, *step)
                if step[1] == "later":
                    # Time is everybody's.
                    world.later(4)
                await stage.collect()
            return stage.sent

    together = asyncio.run(play(TENANTS, named=True))
    for tenant in TENANTS:
        alone = asyncio.run(play((tenant,), named=False))
        assert {key: sent for key, sent in together.items() if key[0] == tenant} == alone


@pytest.fixture
async def tenants(make_world):
    return await make_world(authenticator=of_tenants())


@pytest.mark.parametrize("version", [p.V4, p.V5])
async def test_one_client_identifier_is_another_client_in_each_tenant(tenants, version):
    first = await tenants.client("c", version=version, username="a/u")
    second = await tenants.client("c", version=version, username="b/u")
    plain = await tenants.client("c", version=version)
    await tenants.settle()
    assert not any(one.closed for one in (first, second, plain))
    await tenants.client("c", version=version, username="a/u")
    await tenants.settle()
    assert (first.closed, second.closed, plain.closed) == (True, False, False)


async def test_an_identifier_that_is_assigned_has_no_tenant(tenants):
    client = await tenants.client("", version=p.V5, username="a/u")
    assert client.connack.properties.assigned_client_id.startswith("gm-")


@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_a_message_has_the_topic_and_response_topic_that_its_publisher_said(tenants, qos):
    for kind in (p.V4, p.V5):
        reader = await tenants.subscriber(f"r{kind}", "#", qos=qos, version=kind, username="a/u")
        writer = await tenants.client(f"w{kind}", version=p.V5, username="a/u")
        said = Properties(response_topic="re/ply")
        writer.publish("t/1", b"1", qos=qos, packet_id=1 if qos else None, properties=said)
        [message] = [one for one in await reader.got() if isinstance(one, p.Publish)]
        assert (message.topic, message.payload) == (b"t/1", b"1")
        assert message.properties.response_topic == ("re/ply" if kind == p.V5 else None)


async def test_topic_aliases_of_a_tenant_are_of_its_topics(tenants):
    reader = await tenants.subscriber("r", "#", username="a/u")
    outside = await tenants.subscriber("r", "#")
    writer = await tenants.client("w", version=p.V5, username="a/u")
    writer.publish("t", b"1", properties=Properties(topic_alias=1))
    writer.publish("", b"2", properties=Properties(topic_alias=1))
    assert [(one.topic, one.payload) for one in await reader.got()] == [(b"t", b"1"), (b"t", b"2")]
    assert await outside.got() == []


@pytest.mark.parametrize("topic", [b"a\0b", b"$\0a/x", b"x$\0a/x"])
@pytest.mark.parametrize("user", [None, "b/u"])
async def test_no_client_can_say_a_name_from_inside(tenants, topic, user):
    reader = await tenants.subscriber("r", "#", "$own/#", username="a/u")
    for packet in (
        p.Publish(topic=topic, payload=b"x"),
        p.Subscribe(packet_id=1, subscriptions=(p.Subscription(topic.decode(), 0),)),
    ):
        client = await tenants.client("w", username=user)
        client.send(packet)
        await tenants.settle()
        assert client.closed
    will = tenants.dial()
    will.send(p.Connect(client_id="x", will=p.Will(topic=topic, payload=b"x"), username=user))
    same = tenants.dial()
    same.send(p.Connect(client_id="a\0r", username=user))
    await tenants.settle()
    assert will.closed
    assert same.closed
    assert not reader.closed
    assert await reader.got() == []


async def test_a_topic_that_only_its_root_makes_too_long_is_refused(tenants):
    client = await tenants.client("w", version=p.V5, username="a/u")
    client.publish("x" * 65_535, qos=1, packet_id=1)
    await tenants.settle()
    assert client.closed


async def test_no_client_of_a_tenant_reaches_queues(tenants):
    client = await tenants.client("w", version=p.V5, username="a/u")
    [suback] = await client.subscribe("$queue/jobs/#", "x", qos=1)
    assert suback.reasons == (ReasonCode.NOT_AUTHORIZED, 1)
    assert "default tenant" in suback.properties.reason_string
    client.publish("$queue/jobs/1", qos=1, packet_id=1)
    [puback] = await client.got()
    assert puback.reason == ReasonCode.NOT_AUTHORIZED


async def test_rules_are_of_all_tenants_or_of_one(make_world, tmp_path):
    rules = "allow all * %t/# tenant:a\ndeny all * +/secret\ndeny all * secret/#\nallow all * #\n"
    (tmp_path / "acl").write_text(rules)
    world = await make_world(auth={"acl_file": tmp_path / "acl"}, authenticator=of_tenants())
    for user, granted in (("a/u", 0), ("b/u", 0x80), (None, 0x80)):
        client = await world.client("c", username=user)
        suback, *_ = await client.subscribe("a/secret", "b/secret", "secret/x")
        assert suback.reasons == (granted, 0x80, 0x80)


async def test_what_is_queued_for_a_session_of_a_tenant_goes_to_another_member_of_its_group(tenants):
    keep = {"version": p.V5, "clean_start": False, "properties": Properties(session_expiry=10)}
    gone = await tenants.subscriber("c1", "$share/g/x", qos=1, username="a/u", **keep)
    await gone.drop()
    writer = await tenants.client("w", username="a/u")
    writer.publish("x", b"1", qos=1, packet_id=1)
    await writer.got()
    stays = await tenants.subscriber("c2", "$share/g/x", qos=1, username="a/u")
    outside = await tenants.subscriber("c2", "$share/g/x", qos=1)
    tenants.later(11)
    [message] = await stays.got()
    assert (message.topic, message.payload) == (b"x", b"1")
    assert await outside.got() == []


@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("version", [p.V4, p.V5])
async def test_a_plain_message_reaches_its_tenant_alone_on_another_node(two, version, qos):
    here, there, forwarder, carry = two
    for world in (here, there):
        world.broker.access._authenticator = of_tenants()
    here.router.add_peer("$\0t/a/#", forwarder)
    mine = [await there.subscriber(f"r{v}", "#", qos=qos, version=v, username="t/u") for v in (p.V4, p.V5)]
    near = await here.subscriber("near", "#", qos=0, username="t/u")
    others = [await there.subscriber("r", "#", username="b/u"), await there.subscriber("r", "#")]
    writer = await here.client("w", version=version, username="t/u")
    for number in range(3):
        writer.publish("a/b", b"%d" % number, qos=qos, packet_id=number + 1 if qos else None)
    await here.settle()
    carry()
    if qos:
        assert [one.packet_id for one in await writer.got()] == [1, 2, 3]
    for reader in (*mine, near):
        assert [(one.topic, one.payload) for one in await reader.got()] == [
            (b"a/b", b"%d" % number) for number in range(3)
        ]
    for reader in others:
        assert await reader.got() == []

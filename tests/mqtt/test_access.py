"""Who may connect, and who may do what."""

import asyncio
import time
from pathlib import Path

import httpx
import jwt
import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from gossamer.config import HttpAuthConfig, JwtConfig, ListenerConfig
from gossamer.errors import UsageError
from gossamer.mqtt import Chain, Login, PasswordFile, ReasonCode, Verdict, drain, set_password
from gossamer.mqtt import packets as p
from gossamer.mqtt.acl import _covers, _meets, parse_acl
from gossamer.mqtt.auth import Certificate
from gossamer.mqtt.callout import HttpCallout
from gossamer.mqtt.limits import Bucket, ListenerLimits, Room
from gossamer.mqtt.passwords import parse_passwords
from gossamer.mqtt.tokens import Tokens
from gossamer.routes import matches

SECRET = "s" * 32


async def ask(source, **login):
    answer = source.ask(Login(**{"client_id": "c"} | login))
    return answer if answer is None or isinstance(answer, Verdict) else await answer


async def connack(client, **options):
    client.version = p.V5
    client.send(p.Connect(version=p.V5, **{"client_id": "c"} | options))
    async with asyncio.timeout(20):
        while not client.transport.written:  # noqa: ASYNC110 - a thread may be at work
            await asyncio.sleep(0.002)
    [answer] = await client.got()
    return answer


# Sources.


async def test_a_password_file_says_yes_no_and_not_mine(tmp_path):
    file = tmp_path / "users"
    assert not set_password(file, "ann", "right")
    assert set_password(file, "ann", "better")
    set_password(file, "bob:with:colons", "b")
    assert file.stat().st_mode & 0o077 == 0
    source = PasswordFile(file)
    assert (await ask(source, username="ann", password=b"better")).reason == ReasonCode.SUCCESS
    wrong = await ask(source, username="ann", password=b"right")
    assert wrong.reason == ReasonCode.BAD_USER_NAME_OR_PASSWORD
    assert (await ask(source, username="bob:with:colons", password=b"b")).username == "bob:with:colons"
    assert await ask(source, username="eve", password=b"x") is None
    assert await ask(source) is None
    set_password(file, "ann", None)
    source.load()
    assert await ask(source, username="ann", password=b"better") is None


def test_a_password_file_names_the_line_it_cannot_read():
    with pytest.raises(UsageError, match=r"users:2: .*gossamer passwd"):
        parse_passwords("# users\nann:plain\n", Path("users"))


def token(**claims):
    return jwt.encode({"sub": "ann", "exp": time.time() + 3600} | claims, SECRET, "HS256").encode()


@pytest.mark.parametrize(
    ("login", "reason"),
    [
        ({"password": token()}, ReasonCode.SUCCESS),
        ({"password": token(), "username": "ann"}, ReasonCode.SUCCESS),
        ({"password": token(), "username": "bob"}, ReasonCode.NOT_AUTHORIZED),
        ({"password": token(exp=time.time() - 60)}, ReasonCode.NOT_AUTHORIZED),
        ({"password": token(sub="")}, ReasonCode.NOT_AUTHORIZED),
        ({"password": jwt.encode({"sub": "ann"}, SECRET, "HS256").encode()}, ReasonCode.NOT_AUTHORIZED),
        ({"password": token()[:-2] + b"xx"}, ReasonCode.NOT_AUTHORIZED),
        (
            {"password": jwt.encode({"sub": "ann", "exp": 2**40}, None, "none").encode()},
            ReasonCode.NOT_AUTHORIZED,
        ),
        ({"password": b"\xff.\xff.\xff"}, ReasonCode.NOT_AUTHORIZED),
        ({"password": b"plain"}, None),
        ({}, None),
    ],
)
async def test_a_token_is_a_password(login, reason):
    answer = await ask(Tokens(JwtConfig(secret=SECRET)), **login)
    assert (answer and answer.reason) == reason
    if reason == ReasonCode.SUCCESS:
        assert answer.username == "ann"
        assert answer.expires_at > time.time()


async def test_a_connection_does_not_outlive_its_token(make_world):
    world = await make_world(anonymous=False, auth={"jwt": {"secret": SECRET}})
    client = world.dial()
    issued = time.time()
    world.clock.wall = lambda: issued
    assert (await connack(client, password=token(exp=issued + 600), username="ann", keep_alive=0)).reason == 0
    world.later(600)
    assert not client.closed
    world.later(10)
    [goodbye] = await client.got()
    assert goodbye.reason == ReasonCode.NOT_AUTHORIZED


def service(answer, asked, **config):
    def handle(request):
        asked.append(request)
        if isinstance(answer, Exception):
            raise answer
        return answer

    clock = [0.0]
    source = HttpCallout(
        HttpAuthConfig(url="http://auth.test/", **config),
        now=lambda: clock[0],
        transport=httpx.MockTransport(handle),
    )
    return source, clock


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (httpx.Response(200, json={"result": "allow", "username": "ANN"}), ReasonCode.SUCCESS),
        (httpx.Response(200, json={"result": "deny"}), ReasonCode.NOT_AUTHORIZED),
        (httpx.Response(200, json={"result": "ignore"}), None),
        (httpx.Response(200, json={"result": "perhaps"}), ReasonCode.SERVER_UNAVAILABLE),
        (httpx.Response(200, json=["allow"]), ReasonCode.SERVER_UNAVAILABLE),
        (httpx.Response(200, text="allow"), ReasonCode.SERVER_UNAVAILABLE),
        (httpx.Response(500), ReasonCode.SERVER_UNAVAILABLE),
        (httpx.ConnectError("refused"), ReasonCode.SERVER_UNAVAILABLE),
    ],
)
async def test_a_service_is_asked_and_its_failures_let_nobody_in(answer, reason):
    source, _ = service(answer, [])
    got = await ask(source, username="ann", password=b"pw", peer="192.0.2.1:1")
    assert (got and got.reason) == reason
    if reason == ReasonCode.SUCCESS:
        assert got.username == "ANN"
    await source.close()


async def test_an_answer_holds_briefly_and_for_the_same_password_only():
    asked = []
    source, clock = service(httpx.Response(200, json={"result": "allow"}), asked, cache="10s")
    for password, at, count in ((b"a", 0, 1), (b"a", 9, 1), (b"b", 9, 2), (b"a", 11, 3)):
        clock[0] = at
        await ask(source, username="ann", password=password)
        assert len(asked) == count
    await source.close()


async def test_questions_are_bounded():
    release = asyncio.Event()

    async def handle(_request):
        await release.wait()
        return httpx.Response(200, json={"result": "allow"})

    source = HttpCallout(
        HttpAuthConfig(url="http://auth.test/", max_concurrent=1),
        now=lambda: 0.0,
        transport=httpx.MockTransport(handle),
    )
    tasks = [asyncio.create_task(ask(source, client_id=f"c{n}")) for n in range(8)]
    await asyncio.sleep(0)
    assert (await ask(source, client_id="late")).reason == ReasonCode.SERVER_BUSY
    release.set()
    assert {verdict.reason for verdict in await asyncio.gather(*tasks)} == {ReasonCode.SUCCESS}
    await source.close()


class Says:
    def __init__(self, answer, *, later=False):
        self.answer = answer
        self.later = later

    def ask(self, login):
        async def wait():
            return self.answer

        return wait() if self.later else self.answer


@pytest.mark.parametrize("later", [False, True])
async def test_the_first_source_that_knows_decides(later):
    yes, no = Verdict(ReasonCode.SUCCESS, "yes"), Verdict(ReasonCode.BANNED, "no")
    for answers, by in (((None, no, yes), "no"), ((yes, no), "yes"), ((None, None), "nobody")):
        chain = Chain([Says(answer, later=later) for answer in answers], allow_anonymous=True)
        answer = chain.authenticate(Login(client_id="c", username="u"))
        verdict = answer if isinstance(answer, Verdict) else await answer
        assert verdict.by == by


def test_a_certificate_and_a_user_name_must_agree():
    source = Certificate()
    assert source.ask(Login(client_id="c")) is None
    assert source.ask(Login(client_id="c", certificate="ann")).username == "ann"
    assert source.ask(Login(client_id="c", certificate="ann", username="bob")).reason


async def test_sources_do_not_open_the_door_to_unknown_names(make_world, tmp_path):
    set_password(tmp_path / "users", "ann", "right")
    world = await make_world(anonymous=True, auth={"password_file": tmp_path / "users"})
    assert (await connack(world.dial())).reason == 0
    answer = await connack(world.dial(), username="eve", password=b"x")
    assert answer.reason == ReasonCode.BAD_USER_NAME_OR_PASSWORD
    assert (await connack(world.dial(), username="ann", password=b"right")).reason == 0
    assert world.broker.access.decisions["connect", "password_file", "allow"] == 1
    assert world.broker.access.decisions["connect", "nobody", "deny"] == 1


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        (ReasonCode.BAD_USER_NAME_OR_PASSWORD, 4),
        (ReasonCode.NOT_AUTHORIZED, 5),
        (ReasonCode.BANNED, 5),
        (ReasonCode.SERVER_UNAVAILABLE, 3),
        (ReasonCode.SERVER_BUSY, 3),
        (ReasonCode.CLIENT_IDENTIFIER_NOT_VALID, 2),
    ],
)
async def test_a_refusal_has_the_code_of_its_version_and_is_counted(make_world, reason, code):
    """The tables of CONNACK: 3.1 of version 3.1.1, 3-1 of version 5."""

    class Refuses:
        def authenticate(self, login):
            return Verdict(reason, "test")

    world = await make_world(authenticator=Refuses())
    assert (await world.dial().connect("c", version=p.V5)).reason == reason
    assert (await world.dial().connect("c")).reason == code
    assert world.broker.access.decisions["connect", "test", "deny"] == 2


async def test_every_decision_is_a_line_and_a_count_and_lines_are_bounded(make_world, tmp_path):
    (tmp_path / "acl").write_text("allow publish * open\nallow subscribe * open\n")
    world = await make_world(auth={"acl_file": tmp_path / "acl", "log_rate": 10})
    with structlog.testing.capture_logs() as lines:
        client = await world.client("c", username="ann")
        await client.subscribe("open")
        await client.subscribe("closed")
        for _ in range(500):
            client.publish("open")
            client.publish("closed")
        await world.settle()
        said = [line for line in lines if line["event"] in ("connect_allowed", "acl_denied")]
        assert said[0] | {"log_level": ""} == {
            "event": "connect_allowed",
            "client_id": "c",
            "username": "ann",
            "peer": "192.0.2.1:5000",
            "by": "nobody",
            "reason": "success",
            "log_level": "",
        }
        assert (said[1]["action"], said[1]["topic"], said[2]["action"]) == ("subscribe", "closed", "publish")
        assert len(said) == 10
        world.later(1)
        client.publish("closed")
        await world.settle()
        [left_out] = [line for line in lines if line["event"] == "decisions_left_out"]
        assert left_out["count"] == 492
    found = {key: count for key, count in world.broker.access.decisions.items() if key[0] != "accept"}
    assert found == {
        ("connect", "nobody", "allow"): 1,
        ("subscribe", "acl", "allow"): 1,
        ("subscribe", "acl", "deny"): 1,
        ("publish", "acl", "allow"): 1,
        ("publish", "acl", "deny"): 501,
        ("log", "rate", "left_out"): 492,
    }


# Access control.

RULES = """
# everybody's own branch
allow all       *            own/%c/#
deny  all       *            home/secret/#
allow all       user:ann     home/#
allow subscribe user:ann     users/%u/+
allow publish   anonymous    in
"""


@pytest.fixture
async def guarded(make_world, tmp_path):
    file = tmp_path / "acl"
    file.write_text(RULES)
    world = await make_world(auth={"acl_file": file})
    world.acl_file = file
    return world


@pytest.mark.parametrize(
    ("topic_filter", "allowed"),
    [
        ("own/c/#", True),
        ("own/c", True),
        ("own/d/#", False),
        ("own/+/x", False),
        ("home/kitchen/+", True),
        ("home/secret/a", False),
        ("home/#", False),  # it meets what is denied
        ("home/+", False),  # home/secret is of home/secret/# too
        ("#", False),
        ("users/ann/+", True),
        ("users/ann/#", False),
        ("$share/g/users/ann/x", True),
        ("$share/g/users/bob/x", False),
        ("in", False),
    ],
)
async def test_subscriptions_are_allowed_whole_or_not_at_all(guarded, topic_filter, allowed):
    for version, refused in ((p.V5, ReasonCode.NOT_AUTHORIZED), (p.V4, 0x80)):
        client = await guarded.client("c", version=version, username="ann")
        [suback, *_] = await client.subscribe(topic_filter)
        assert suback.reasons == (0 if allowed else refused,)


@pytest.mark.parametrize("version", [p.V4, p.V5])
async def test_a_denied_publish_reaches_nobody_and_is_answered(guarded, version):
    """[MQTT-3.3.5-2]"""
    watch = await guarded.client("c", username="ann")
    await watch.subscribe("own/c/#", "home/kitchen")
    client = await guarded.client("d", version=version)
    for topic in ("own/c/x", "home/kitchen"):
        client.publish(topic)
        client.publish(topic, qos=1, packet_id=1)
        client.publish(topic, qos=1, packet_id=2)
        client.publish(topic, qos=2, packet_id=3)
        answers = await client.got()
        code = ReasonCode.NOT_AUTHORIZED if version == p.V5 else 0
        assert [(type(x), x.reason) for x in answers] == [
            (p.Puback, code),
            (p.Puback, code),
            (p.Pubrec, code),
        ]
        if version == p.V4:
            client.send(p.Pubrel(3))
            assert [type(x) for x in await client.got()] == [p.Pubcomp]
    assert await watch.got() == []
    assert guarded.broker.access.decisions["publish", "acl", "deny"] == 8


async def test_allowed_and_denied_publishes_of_one_read_keep_their_order(guarded):
    watch = await guarded.client("c", username="ann")
    await watch.subscribe("own/c/#")
    client = await guarded.client("c2", username="ann")
    own = await guarded.client("own")
    assert own is not client
    stream = [(topic, n) for n, topic in enumerate(["own/c/x", "own/c2/x", "own/c/x", "home/secret/x"] * 3)]
    from gossamer.mqtt import encode

    both = await guarded.client("c", username="ann")
    await both.subscribe("own/c/#")
    both.raw(b"".join(encode(p.Publish(topic=t.encode(), payload=b"%d" % n), 4) for t, n in stream))
    got = [x.payload for x in await both.got() if isinstance(x, p.Publish)]
    assert got == [b"%d" % n for t, n in stream if t == "own/c/x"]


async def test_a_will_that_is_not_allowed_keeps_the_client_out(guarded):
    client = guarded.dial()
    answer = await connack(client, client_id="d", will=p.Will(topic=b"own/c/gone", payload=b""))
    assert answer.reason == ReasonCode.NOT_AUTHORIZED
    assert client.closed


async def test_new_rules_hold_for_those_who_are_there(guarded):
    client = await guarded.client("d", version=p.V5)
    client.publish("in", qos=1, packet_id=1)
    assert (await client.got())[0].reason != ReasonCode.NOT_AUTHORIZED
    guarded.acl_file.write_text(RULES.replace("allow publish   anonymous", "deny publish anonymous"))
    await guarded.runtime.call("mqtt_files", "look")
    client.publish("in", qos=1, packet_id=2)
    assert (await client.got())[0].reason == ReasonCode.NOT_AUTHORIZED
    guarded.acl_file.write_text("allow everything")
    await guarded.runtime.call("mqtt_files", "look")
    client.publish("own/d/x", qos=1, packet_id=3)
    assert (await client.got())[0].reason != ReasonCode.NOT_AUTHORIZED


@pytest.mark.parametrize("client_id", ["+", "#", "c/d", "%u"])
async def test_a_client_cannot_name_itself_into_another_branch(guarded, client_id):
    client = await guarded.client(client_id, version=p.V5)
    [suback, *_] = await client.subscribe("own/#" if client_id == "#" else f"own/{client_id}/#")
    assert suback.reasons == (0 if client_id == "%u" else ReasonCode.NOT_AUTHORIZED,)
    client.publish("own/c/x", qos=1, packet_id=1)
    assert (await client.got())[-1].reason == ReasonCode.NOT_AUTHORIZED


@pytest.mark.parametrize(
    "line", ["allow all *", "permit all * #", "allow read * #", "allow all bob #", "allow all * a#"]
)
def test_a_line_that_is_no_rule_is_named(line):
    with pytest.raises(UsageError, match=r"acl:2: .*expected allow\|deny"):
        parse_acl(f"# rules\n{line}\n", Path("acl"))


LEVELS = st.lists(st.sampled_from(["a", "b", "$s", "+"]), min_size=1, max_size=3)
FILTERS = st.builds(lambda levels, end: [*levels, "#"] if end else levels, LEVELS, st.booleans()) | st.just(
    ["#"]
)
TOPICS = st.lists(st.sampled_from(["a", "b", "$s"]), min_size=1, max_size=4)


@given(FILTERS, FILTERS, TOPICS)
def test_covering_and_meeting_mean_what_matching_says(one, other, topic):
    name = "/".join(topic)
    first, second = matches("/".join(one), name), matches("/".join(other), name)
    if _covers(one, other) and second:
        assert first
    if first and second:
        assert _meets(one, other)


async def test_without_an_acl_nothing_stands_on_the_publish_path(world):
    client = await world.client("c")
    assert client.channel.gate is None
    assert client.channel.cache_get == world.router.cache.get


# Limits, server reference, $SYS.


def test_listeners_share_the_descriptors_of_their_process():
    """And leave some: the node needs them for itself."""
    assert [Room(n).limit for n in (None, 100, 1024, 20_000)] == [None, 50, 512, 19_488]
    room = Room(8)
    one, other = (ListenerLimits(ListenerConfig(), room) for _ in range(2))
    assert [limits.enter(0.0) for limits in (one, other, one, other, one, other)] == [
        *[None] * 4,
        *["descriptors"] * 2,
    ]
    other.leave(admitted=False)
    assert one.enter(0.0) is None
    assert other.enter(0.0) == "descriptors"


def test_a_bucket_lends_no_more_than_a_second():
    bucket = Bucket(10)
    assert [bucket.admit(0.0) for _ in range(11)] == [True] * 10 + [False]
    assert bucket.admit(0.1)
    assert not bucket.admit(0.1)
    assert bucket.take(25, 10.0) == pytest.approx(1.5)


def test_a_listener_counts_out_whom_it_counted_in():
    limits = ListenerLimits(ListenerConfig(max_connections=3, max_pending=2, max_connect_rate=4))
    assert [limits.enter(0.0) for _ in range(3)] == [None, None, "pending"]
    limits.admitted()
    assert [limits.enter(0.0), limits.enter(0.0)] == [None, "connections"]
    limits.leave(admitted=True)
    limits.leave(admitted=False)
    assert [limits.enter(0.0), limits.enter(0.0)] == [None, "pending"]
    limits.leave(admitted=False)
    assert limits.enter(0.0) == "connect_rate"


async def test_who_sends_too_fast_is_read_from_more_slowly(make_world):
    world = await make_world(listener={"max_message_rate": 5})
    client = await world.client("c")
    for _ in range(5):
        client.publish("a")
    assert not client.transport.paused
    client.raw(b"\x30\x04\0\x01ab" * 6)
    assert client.transport.paused
    assert world.broker.stats()["slowed"] == 1
    assert world.broker.stats()["messages_received"] == 11


async def test_a_listener_may_take_smaller_packets_than_the_node(make_world):
    """[MQTT-3.2.2-15]"""
    world = await make_world(listener={"max_packet_size": "2KiB"})
    client = world.dial()
    assert (await client.connect(version=p.V5)).properties.maximum_packet_size == 2048
    client.raw(b"\x30\xfd\x0f")
    client.raw(bytes(10))
    assert not client.closed
    other = await world.client("o", version=p.V5)
    other.raw(b"\x30\x80\x10")
    [goodbye] = await other.got()
    assert goodbye.reason == ReasonCode.PACKET_TOO_LARGE


async def test_a_draining_node_names_another_server(world):
    """[MQTT-4.11.0-1]"""
    new, old = await world.client("new", version=p.V5), await world.client("old")
    done = await world.runtime.run(drain, world.broker, references=["other:1883"], nodes=[])
    assert done.clients == 2
    [goodbye] = await new.got()
    assert (goodbye.reason, goodbye.properties.server_reference) == (0x9C, "other:1883")
    assert old.closed
    assert await old.got() == []
    answer = await connack(world.dial())
    assert (answer.reason, answer.properties.server_reference) == (0x9C, "other:1883")
    world.broker.references = None
    assert (await connack(world.dial())).reason == 0


async def test_sys_topics_are_published_only_to_who_asks(world):
    [pid] = [x for x in world.runtime.processes() if world.runtime.find(x).label == "mqtt_sys"]
    world.runtime.send(pid, "now")
    await world.settle()
    assert world.broker.stats()["messages_sent"] == 0
    client = await world.client("c")
    wide = await world.client("w")
    await wide.subscribe("#")
    await client.subscribe("$SYS/broker/clients/+")
    world.runtime.send(pid, "now")
    got = {x.topic.decode(): x.payload for x in await client.got()}
    assert got == {
        "$SYS/broker/clients/connected": b"2",
        "$SYS/broker/clients/disconnected": b"0",
        "$SYS/broker/clients/total": b"2",
        "$SYS/broker/clients/maximum": b"2",
    }
    assert await wide.got() == []

"""Enhanced authentication (3.15, 4.12): AUTH, methods and their exchanges, and authenticating again."""

import asyncio

import pytest

from gossamer.mqtt import Challenge, Done, ReasonCode, Verdict
from gossamer.mqtt.codec import packets as p
from gossamer.mqtt.codec.errors import MqttProtocolError
from gossamer.mqtt.codec.properties import Properties
from gossamer.mqtt.codec.reasons import AUTH_REASONS

from .conftest import V5
from .dancer import METHOD, Dancer, auth, greet, hello, let_in, scram_world
from .statements import keeps
from .wire import packet, props, publish, s

__all__ = ["scram_world"]


@keeps(v5="4.12.0-2,3,5 3.15.2-1 3.2.0-1")
async def test_the_exchange(world):
    dancer = Dancer("ann", "pencil")
    client, [challenge] = await greet(world, dancer)
    assert (challenge.reason, challenge.properties.authentication_method) == (0x18, METHOD)
    assert world.broker.sessions == {}
    client.send(auth(0x18, dancer.final(challenge.properties.authentication_data)), p.Pingreq())
    connack, pingresp = await client.got()
    assert isinstance(pingresp, p.Pingresp)
    assert (connack.reason, connack.properties.authentication_method) == (0, METHOD)
    dancer.check(connack.properties.authentication_data)
    assert world.broker.sessions["c"].username == "ann"
    assert world.broker.access.decisions["connect", METHOD, "allow"] == 1


@keeps(v5="4.12.0-2")
async def test_a_client_may_begin_with_an_empty_hand(world):
    """The first message is the client's; CONNECT need not bring it."""
    dancer = Dancer("c,d=e", "comma")
    client, [empty] = await greet(world, dancer, data=False)
    assert empty.properties.authentication_data == b""
    client.send(auth(0x18, dancer.first))
    [challenge] = await client.got()
    client.send(auth(0x18, dancer.final(challenge.properties.authentication_data)))
    [connack] = await client.got()
    assert connack.reason == 0


@keeps(v5="3.1.4-2 4.12.0-4 3.1.4-6 4.13.2-1")
@pytest.mark.parametrize(
    ("name", "password", "username"),
    [("ann", "wrong", None), ("nobody", "pencil", None), ("ann", "pencil", "bob"), ("bob", "pencil", None)],
)
async def test_who_does_not_know_the_password_is_refused(world, name, password, username):
    client, connack, _ = await let_in(world, name, password, username=username)
    assert connack.reason == ReasonCode.NOT_AUTHORIZED
    assert connack.properties.authentication_data is None
    assert client.closed
    assert world.broker.sessions == {}
    assert world.broker.access.decisions["connect", METHOD, "deny"] == 1


@keeps(v5="4.12.0-1")
@pytest.mark.parametrize("method", ["SCRAM-SHA-1", "", "x" * 1000])
async def test_a_method_that_is_not_there_is_told_so(world, method):
    client, got = await greet(world, method=method)
    assert [x.reason for x in got] == [ReasonCode.BAD_AUTHENTICATION_METHOD]
    assert client.closed


@keeps(v5="4.12.0-6,7 3.1.4-2")
async def test_without_a_method_there_is_no_auth(world, is_ended):
    client = world.dial(V5)
    connack = await client.connect("c", version=V5, username="ann", password=b"pencil")
    assert connack.reason == ReasonCode.BAD_USER_NAME_OR_PASSWORD
    assert connack.properties.authentication_method is None
    world.broker.access._authenticator._allow = True
    client = await world.client("c", version=V5)
    client.send(auth(0x19))
    await is_ended(client, V5, ReasonCode.PROTOCOL_ERROR)


@keeps(v5="3.1.2-30 4.12.0-3 3.14.0-1")
@pytest.mark.parametrize(
    "sent",
    [
        publish(5, "t", b"x", flags=1),
        packet(0xC0),
        packet(0x82, b"\0\1\0" + s("t") + b"\0"),
        packet(0x10, s("MQTT") + b"\5\2\0\0\0" + s("c")),
        packet(0x10, s("MQTT") + b"\x09\2\0\0\0" + s("c")),
        packet(0xF0),
        packet(0xF0, b"\0" + props(5, b"\x15" + s(METHOD))),
        packet(0xF0, b"\x19" + props(5, b"\x15" + s(METHOD))),
        packet(0xF0, b"\x18" + props(5)),
        packet(0xF0, b"\x18" + props(5, b"\x15" + s("other"))),
        packet(0xF0, b"\x18" + props(5, b"\x16" + s("data"))),
    ],
)
async def test_before_connack_only_the_answer_that_was_asked_for_is_taken(world, sent):
    client, _ = await greet(world)
    client.raw(sent + publish(5, "t", b"late", flags=1))
    assert [(type(x), x.reason) for x in await client.got()] == [(p.Connack, ReasonCode.PROTOCOL_ERROR)]
    assert client.closed
    assert len(world.broker.retained) == 0


@keeps(v5="3.15.1-1 3.15.2-1")
@pytest.mark.parametrize("up", [False, True])
async def test_auth_that_cannot_be_read_is_malformed(world, up):
    for body in (
        b"\x17" + props(5),
        b"\x18\x05",
        b"\x18" + props(5, b"\x15"),
        b"\x18" + props(5, b"\x11\0\0\0\0"),
    ):
        if up:
            client, _, _ = await let_in(world)
        else:
            client, _ = await greet(world)
        client.raw(packet(0xF0, body))
        assert [x.reason for x in await client.got()] == [ReasonCode.MALFORMED_PACKET]


@keeps(v5="3.15.2-1")
def test_the_reason_codes_of_auth():
    assert {0x00, 0x18, 0x19} == AUTH_REASONS


async def test_disconnect_before_connack_ends_it(world):
    client, _ = await greet(world)
    client.send(p.Disconnect())
    assert await client.got() == []
    assert client.closed


async def test_who_never_answers_runs_into_the_connect_timeout(world):
    client, _ = await greet(world)
    world.later(11)
    assert client.closed


# Again.


@keeps(v5="4.12.1-1 4.12.0-5")
async def test_a_client_authenticates_again_while_everything_goes_on(world):
    client, _, dancer = await let_in(world)
    await client.subscribe("t")
    for _ in range(2):
        client.send(auth(0x19, dancer.first))
        client.publish("t", b"meanwhile")
        challenge, message = await client.got()
        assert (challenge.reason, message.payload) == (0x18, b"meanwhile")
        client.send(auth(0x18, dancer.final(challenge.properties.authentication_data)), p.Pingreq())
        done, _ = await client.got()
        assert (done.reason, done.properties.authentication_method) == (0, METHOD)
        dancer.check(done.properties.authentication_data)
    assert world.broker.access.decisions["connect", METHOD, "allow"] == 3


@keeps(v5="4.12.1-2 4.12.1-1")
@pytest.mark.parametrize("dancer", [Dancer("ann", "wrong"), Dancer("bob", "eraser"), Dancer("nobody", "x")])
async def test_whoever_fails_or_is_somebody_else_now_is_ended(world, is_ended, dancer):
    client, _, _ = await let_in(world)
    client.send(auth(0x19, dancer.first))
    [challenge] = await client.got()
    client.send(auth(0x18, dancer.final(challenge.properties.authentication_data)))
    await is_ended(client, V5, ReasonCode.NOT_AUTHORIZED)
    assert "c" in world.broker.sessions


@keeps(v5="4.12.1-1 4.12.0-5 3.15.2-1")
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (auth(0x18, b"x"), None),
        (auth(0x00), None),
        (auth(0x19, b"x", method="other"), None),
        (auth(0x19, b"x", method=None), None),
        (p.Auth(), None),
        (None, auth(0x19, b"x")),
        (None, auth(0x00, b"x")),
        (None, auth(0x18, b"x", method="other")),
    ],
)
async def test_auth_out_of_turn_is_a_protocol_error(world, is_ended, first, second):
    client, _, dancer = await let_in(world)
    client.send(first or auth(0x19, dancer.first))
    if second is not None:
        await client.got()
        client.send(second)
    await is_ended(client, V5, ReasonCode.PROTOCOL_ERROR)


@keeps(v5="3.15.2-2,3 3.1.2-24")
async def test_auth_says_nothing_besides(world):
    _, [challenge] = await greet(world)
    assert challenge.properties == Properties(
        authentication_method=METHOD, authentication_data=challenge.properties.authentication_data
    )


# Other methods.


class Slow:
    """A method of somebody else, that thinks: yes, no, or an error, and until when."""

    name = "slow"

    def __init__(self):
        self.answers = []
        self.asked = []

    def begin(self, login):
        return self

    async def step(self, data):
        self.asked.append(data)
        await asyncio.sleep(0)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def slow(world):
    method = world.broker.access.methods["slow"] = Slow()
    return method


def yes(until=None, data=None):
    return Done(Verdict(ReasonCode.SUCCESS, "slow", "ann", until), data)


@keeps(v5="4.12.0-2,4,5")
async def test_a_method_may_take_its_time(world, slow):
    slow.answers = [Challenge(b"1"), Challenge(b"2"), yes(data=b"3")]
    client = world.dial(V5)
    client.send(hello(Dancer("ann", ""), method="slow"))
    for n in (b"1", b"2"):
        got = await client.got()
        assert [x.properties.authentication_data for x in got] == [n]
        client.send(auth(0x18, n * 2, method="slow"))
    client.send(p.Pingreq())
    connack, pingresp = await client.got()
    assert connack.properties.authentication_data == b"3"
    assert isinstance(pingresp, p.Pingresp)
    assert slow.asked[1:] == [b"11", b"22"]


@keeps(v5="4.12.0-4 4.12.1-2")
@pytest.mark.parametrize("error", [OSError("gone"), MqttProtocolError(ReasonCode.BANNED, "x", "y")])
async def test_a_method_that_fails_lets_nobody_in(world, slow, is_ended, error):
    slow.answers = [error, yes(), error]
    client = world.dial(V5)
    client.send(hello(Dancer("ann", ""), method="slow"))
    await is_ended(client, V5, ReasonCode.UNSPECIFIED_ERROR)
    client, _ = await greet(world, method="slow")
    client.send(auth(0x19, method="slow"))
    await is_ended(client, V5, ReasonCode.UNSPECIFIED_ERROR)


async def test_a_client_that_goes_while_its_method_thinks_leaves_nothing(world, slow):
    slow.answers = [yes()]
    client = world.dial(V5)
    client.send(hello(Dancer("ann", ""), method="slow"))
    await client.drop()
    assert world.broker.sessions == {}


async def test_auth_while_the_one_before_is_looked_at_is_a_protocol_error(world, slow, is_ended):
    slow.answers = [yes(), Challenge(b"x")]
    client, _ = await greet(world, method="slow")
    client.send(auth(0x19, method="slow"), auth(0x18, method="slow"))
    await is_ended(client, V5, ReasonCode.PROTOCOL_ERROR)


async def test_what_holds_until_a_time_may_be_renewed_before(world, slow, is_ended):
    now = world.clock.wall()
    slow.answers = [yes(now + 100), yes(now + 200)]
    client, _ = await greet(world, method="slow", keep_alive=0)
    world.later(90)
    client.send(auth(0x19, method="slow"))
    [done] = await client.got()
    assert done.reason == 0
    world.later(60)
    assert not client.closed
    world.later(60)
    await is_ended(client, V5, ReasonCode.NOT_AUTHORIZED)

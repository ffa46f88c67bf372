"""Who may connect: sources of the answer, and what becomes of it."""

import asyncio
import time

import httpx
import jwt
import pytest
import structlog
from argon2 import PasswordHasher, extract_parameters

from gossamer.config import HttpAuthConfig, JwtConfig
from gossamer.errors import UsageError
from gossamer.mqtt import Chain, Login, PasswordFile, ReasonCode, Verdict, set_password
from gossamer.mqtt.auth.callout import HttpCallout
from gossamer.mqtt.auth.sources import Certificate
from gossamer.mqtt.auth.tokens import Tokens
from mqtt.harness import connack

SECRET = "s" * 32


async def ask(source, **login):
    answer = source.ask(Login(**{"client_id": "c"} | login))
    return answer if answer is None or isinstance(answer, Verdict) else await answer


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


async def test_an_unknown_name_costs_as_much_as_a_known_one(tmp_path, monkeypatch):
    set_password(tmp_path / "users", "ann", "right")
    source, verify, costs = PasswordFile(tmp_path / "users"), PasswordHasher.verify, []

    def counted(self, hashed, password):
        costs.append(extract_parameters(hashed))
        return verify(self, hashed, password)

    monkeypatch.setattr(PasswordHasher, "verify", counted)
    for name in ("ann", "eve"):
        await ask(source, username=name, password=b"wrong")
    assert len(costs) == 2
    assert costs[0] == costs[1]


def test_a_password_file_names_the_line_it_cannot_read(tmp_path):
    file = tmp_path / "users"
    file.write_text("# users\nann:plain\n")
    with pytest.raises(UsageError, match=r"users:2: .*gossamer passwd"):
        PasswordFile(file)


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
        HttpAuthConfig(**{"url": "http://auth.test/"} | config),
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


async def test_an_answer_holds_briefly_and_for_the_same_password_and_address_only():
    asked = []
    source, clock = service(httpx.Response(200, json={"result": "allow"}), asked, cache="10s")
    here, there = "192.0.2.1:7", "192.0.2.9:7"
    for password, peer, at, count in (
        (b"a", here, 0, 1),
        (b"a", "192.0.2.1:8", 9, 1),
        (b"b", here, 9, 2),
        (b"a", there, 9, 3),
        (b"a", here, 11, 4),
    ):
        clock[0] = at
        await ask(source, username="ann", password=password, peer=peer)
        assert len(asked) == count
    await source.close()


@pytest.mark.parametrize("answer", [httpx.Response(500), httpx.ConnectError("refused")])
async def test_a_password_in_the_url_of_a_service_is_in_no_log(answer):
    source, _ = service(answer, [], url="http://user:hunter2@auth.test/ask")
    with structlog.testing.capture_logs() as logs:
        await ask(source)
    assert [line["url"] for line in logs] == ["http://**********@auth.test/ask"]
    assert "hunter2" not in str(logs)
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
    peers = [f"192.0.2.{n % 2}:{n}" for n in range(9)] + ["192.0.2.1:99"]
    tasks = [asyncio.create_task(ask(source, client_id=peer, peer=peer)) for peer in peers]
    # The one of that address that waits longest.
    assert (await tasks[1]).reason == ReasonCode.SERVER_BUSY
    release.set()
    del tasks[1]
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
    assert (await connack(world.dial(), client_id="a", username="ann", password=b"right")).reason == 0
    assert world.broker.access.decisions["connect", "password_file", "allow"] == 1
    assert world.broker.access.decisions["connect", "nobody", "deny"] == 1


@pytest.mark.parametrize("later", [False, True])
async def test_who_is_verified_without_being_named_is_who_it_says(make_world, later):
    source = Says(Verdict(ReasonCode.SUCCESS, "yes"), later=later)
    world = await make_world(authenticator=Chain([source]))
    assert (await connack(world.dial(), username="ann")).reason == 0
    assert world.broker.sessions["c"].username == "ann"


@pytest.mark.parametrize("answer", [{}, {"username": None}, {"username": 7}])
async def test_a_service_that_names_nobody_has_verified_the_login(answer):
    source, _ = service(httpx.Response(200, json={"result": "allow"} | answer), [])
    assert (await ask(source, username="ann", password=b"pw")).username == "ann"
    assert (await ask(source, password=b"pw")).username is None
    await source.close()


async def test_a_name_that_nobody_checks_does_not_come_in(make_world):
    world = await make_world(auth={"log_rate": 10})
    with structlog.testing.capture_logs() as lines:
        assert (await connack(world.dial(), username="ann", password=b"x")).reason == 0
    [line] = [line for line in lines if line["event"] == "connect_allowed"]
    assert (line["by"], line["username"], line["claimed"]) == ("anonymous", None, "ann")
    assert world.broker.sessions["c"].username is None


async def test_every_decision_is_a_line_and_a_count_and_lines_are_bounded(make_world, tmp_path):
    (tmp_path / "acl").write_text("allow publish * open\nallow subscribe * open\n")
    world = await make_world(auth={"acl_file": tmp_path / "acl", "log_rate": 10})
    with structlog.testing.capture_logs() as lines:
        client = await world.subscriber("c", "open", username="ann")
        await client.subscribe("closed")
        for _ in range(500):
            client.publish("open")
            client.publish("closed")
        await world.settle()
        said = [line for line in lines if line["event"] in ("connect_allowed", "acl_denied")]
        assert said[0] | {"log_level": ""} == {
            "event": "connect_allowed",
            "client_id": "c",
            "username": None,
            "claimed": "ann",
            "peer": "192.0.2.1:5000",
            "by": "anonymous",
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
        ("connect", "anonymous", "allow"): 1,
        ("subscribe", "acl", "allow"): 1,
        ("subscribe", "acl", "deny"): 1,
        ("publish", "acl", "allow"): 1,
        ("publish", "acl", "deny"): 501,
        ("log", "rate", "left_out"): 492,
    }

"""A call that is open lasts no longer than its caller may have it."""

import asyncio
import time

import jwt
import pytest

from gossamer.api import Role
from gossamer.api.http import access
from gossamer.mqtt import ReasonCode, Verdict, set_password
from tests.gateway.programs import (
    CODE,
    basic,
    begun,
    consuming,
    message,
    payloads,
    program,
    publish,
    queues_are_there,
    refused,
    running,
)

SECRET = "s" * 32
RULES = "allow subscribe user:ann in/#\nallow subscribe user:bob in/#\nallow all user:ann $queue/jobs/#\n"


@pytest.fixture
def users(tmp_path):
    """Section of ``mqtt`` with two users, and a file of rules for them."""
    file, acl = tmp_path / "users", tmp_path / "acl"
    for name in ("ann", "bob"):
        set_password(file, name, name)
    acl.write_text(RULES)
    return {"auth": {"password_file": str(file), "acl_file": str(acl), "reload_interval": "3600s"}}


async def ends_with(call):
    async with asyncio.timeout(30):
        return await refused(call)


async def read_again(node):
    assert await node.runtime.call("mqtt_files", "look") == []


async def test_new_rules_end_the_calls_that_they_do_not_allow(tmp_path, users):
    async with (
        running(tmp_path, mqtt=users) as node,
        program(node, basic("ann", "ann")) as ann,
        program(node, basic("bob", "bob")) as bob,
    ):
        await queues_are_there(node)
        subscription, job = await begun(ann, "in/#", qos=1), await consuming(ann)
        other = await begun(bob, "in/#")
        (tmp_path / "acl").write_text(RULES.replace("user:ann", "user:nobody"))
        await read_again(node)
        for call in (subscription, job):
            code, text = await ends_with(call)
            assert code is CODE.PERMISSION_DENIED
            assert "access list" in text
        # Recorded as of a client of MQTT.
        assert node.broker.access.decisions["subscribe", "acl", "deny"] == 2
        assert node.broker.router.stats()["subscribers"] == 1
        assert not node.queues.consumers
        # Whom the rules still allow it is not disturbed.
        node.broker.publish("in/x", b"on")
        assert await payloads(other, 1) == [b"on"]


async def test_what_waits_for_a_call_that_is_not_allowed_any_more_is_not_sent(tmp_path, users):
    async with (
        running(tmp_path, mqtt=users) as node,
        program(node, basic("ann", "ann")) as ann,
    ):
        call = await begun(ann, "in/#", qos=1)
        # Nobody reads: more than a connection takes stays at the node.
        for _ in range(64):
            node.broker.publish("in/x", bytes(256 * 1024), qos=1)
        (tmp_path / "acl").write_text("")
        await read_again(node)
        async with asyncio.timeout(30):
            while node.broker.router.stats()["subscribers"]:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        got = 0
        with pytest.raises(Exception, match="access list"):
            while True:
                got += len((await call.read()).messages)
        assert got < 64


@pytest.mark.parametrize("how", ["revoked", "expired"])
async def test_a_call_ends_with_its_token(tmp_path, how):
    async with running(tmp_path, api={"loopback_role": "none"}) as node:
        await queues_are_there(node)
        lifetime = 4.0 if how == "expired" else 60.0
        text, token = node.tokens.create(name="me", role=Role.ADMIN, lifetime=lifetime, by="test")
        async with program(node, f"Bearer {text}") as admin:
            subscription, job = await begun(admin, "in/#"), await consuming(admin)
            if how == "revoked":
                node.tokens.revoke(token.id)
            for call in (subscription, job):
                code, text = await ends_with(call)
                assert code is CODE.UNAUTHENTICATED
                assert ("has expired" if how == "expired" else "unknown or revoked") in text
        assert node.broker.router.stats()["subscribers"] == 0
        assert not node.queues.consumers


async def test_a_call_ends_with_its_json_web_token(tmp_path):
    auth = {"auth": {"jwt": {"secret": SECRET, "algorithms": ["HS256"], "leeway": "0s"}}}
    async with running(tmp_path, mqtt=auth) as node:
        await queues_are_there(node)
        token = jwt.encode({"sub": "ann", "exp": time.time() + 4}, SECRET, "HS256")
        async with program(node, basic("ann", token)) as ann:
            subscription, job = await begun(ann, "in/#"), await consuming(ann)
            for call in (subscription, job):
                code, text = await ends_with(call)
                assert code is CODE.UNAUTHENTICATED
                assert "expired" in text


async def test_a_call_whose_caller_stays_allowed_goes_on(tmp_path, users):
    """Judged twice at least, with a token and as a user, by rules that were read again."""
    async with running(tmp_path, mqtt=users) as node:
        text, _ = node.tokens.create(name="me", role=Role.ADMIN, lifetime=60, by="test")
        async with program(node, basic("ann", "ann")) as ann, program(node, f"Bearer {text}") as admin:
            calls = [await begun(one, "in/#") for one in (ann, admin)]
            (tmp_path / "acl").write_text(RULES + "# longer\n")
            await read_again(node)
            later = node.broker.fanout.now() + 2.5
            seen = asyncio.Event()
            node.broker.wheel.at(later, lambda _now: seen.set())
            await seen.wait()
            await publish(admin, message("in/x"))
            assert [await payloads(call, 1) for call in calls] == [[b"x"]] * 2


async def test_who_tried_too_many_wrong_passwords_has_none_looked_at(tmp_path, users, monkeypatch):
    monkeypatch.setattr(access, "WRONG_TOKENS", 0.01)
    async with (
        running(tmp_path, mqtt=users) as node,
        program(node, basic("ann", "wrong")) as stranger,
        program(node, basic("ann", "ann")) as ann,
    ):
        looked = node.broker.access.decisions
        # Two at once: both are looked at, and both count.
        asked = [refused(publish(stranger, message("in/x"))) for _ in range(2)]
        assert {code for code, _ in await asyncio.gather(*asked)} == {CODE.UNAUTHENTICATED}
        before = looked.copy()
        for one in (stranger, ann):
            code, text = await refused(publish(one, message("in/x")))
            assert (code, text) == (CODE.RESOURCE_EXHAUSTED, "too many wrong credentials; wait")
        assert looked == before


async def test_a_source_that_is_busy_has_found_no_wrong_password(tmp_path, users, monkeypatch):
    monkeypatch.setattr(access, "WRONG_TOKENS", 0.01)
    async with running(tmp_path, mqtt=users) as node, program(node, basic("ann", "ann")) as ann:
        ask = node.broker.access.ask
        busy = Verdict(ReasonCode.SERVER_BUSY, "password_file")
        monkeypatch.setattr(node.broker.access, "ask", lambda _login: busy)
        for _ in range(2):
            code, text = await refused(publish(ann, message("in/x")))
            assert code is CODE.UNAVAILABLE
            assert "try again" in text
        monkeypatch.setattr(node.broker.access, "ask", ask)
        assert (await publish(ann, message("in/x"))).failures[0].error.startswith("the access list")

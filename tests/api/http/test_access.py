"""Tokens, roles and rates: who may ask a node for what."""

import itertools
import re
from types import SimpleNamespace

import pytest
import structlog

from api.fakes import FakeTable
from api.linked import client_of
from gossamer.api import Callers, Role, Tokens, make_app
from gossamer.config import ApiConfig

DAY = 86_400.0


@pytest.fixture
def clock():
    clock = SimpleNamespace(now=1_000_000.0)
    clock.monotonic = clock.wall = lambda: clock.now
    return clock


@pytest.fixture
def tokens(clock):
    counter = itertools.count(1)
    tokens = Tokens(now=clock.wall, random_bytes=lambda size: next(counter).to_bytes(size, "big"))
    tokens.attach(FakeTable())
    return tokens


@pytest.fixture
def connect(view, tokens, clock):
    def connect(address="10.0.0.9", token=None, **config):
        app = make_app(view, config=ApiConfig(**config), tokens=tokens, clock=clock)
        client = client_of(view, address, app=app, name="10.0.0.1")
        client.headers.update({"authorization": f"Bearer {token}"} if token else {})
        return client

    return connect


def make(tokens, role, lifetime=DAY):
    return tokens.create(name=f"ci-{role}", role=role, lifetime=lifetime, by="test")[0]


async def test_this_machine_is_an_administrator_unless_it_is_told_otherwise(connect):
    async with connect("127.0.0.1") as client:
        assert (await client.get("/api/v1/whoami")).json()["role"] == "admin"
    async with connect("::1", loopback_role="none") as client:
        assert (await client.get("/api/v1/nodes")).status_code == 401


async def test_a_token_counts_for_less_than_the_loopback_it_comes_from(connect, tokens):
    async with connect("127.0.0.1", make(tokens, Role.VIEWER)) as client:
        assert (await client.post("/api/v1/cluster/leave")).status_code == 403


async def test_every_route_refuses_whoever_has_less_than_its_role(view, connect, tokens):
    routes = make_app(view, config=ApiConfig()).openapi()["paths"]
    below = {
        "viewer": (401, connect()),
        "operator": (403, connect(token=make(tokens, Role.VIEWER), rate=1000)),
        "admin": (403, connect(token=make(tokens, Role.OPERATOR), rate=1000)),
    }
    asked = 0
    for path, methods in routes.items():
        for method, operation in methods.items():
            for role in (
                role for scheme in operation.get("security", ()) for role in scheme.get("bearer", ())
            ):
                status, client = below[role]
                answer = await client.request(method, re.sub(r"{.*?}", "x", path))
                assert answer.status_code == status, (method, path)
                asked += 1
    assert asked > 50
    assert view.orders == []


async def test_a_token_ends_with_its_time(connect, tokens, clock):
    text = make(tokens, Role.VIEWER)
    async with connect(token=text) as client:
        assert (await client.get("/api/v1/nodes")).status_code == 200
        clock.now += DAY
        answer = await client.get("/api/v1/nodes")
        assert answer.status_code == 401
        assert "expired" in answer.json()["detail"]


@pytest.mark.parametrize("wrong", ["", "x", "gsm_", "gsm_000000000001_" + "A" * 43, "gsm_" + "é" * 60])
async def test_a_wrong_token_lets_nobody_in_not_even_from_this_machine(connect, tokens, wrong):
    make(tokens, Role.ADMIN)
    async with connect("127.0.0.1") as client:
        answer = await client.get("/api/v1/nodes", headers={"authorization": f"Bearer {wrong}".encode()})
        assert answer.status_code == 401


async def test_a_revoked_token_is_dead_and_its_secret_stands_nowhere(connect, tokens):
    async with connect("127.0.0.1") as admin:
        made = (await admin.post("/api/v1/tokens", json={"name": "ci", "role": "operator"})).json()
        assert made["created_by"] == "loopback"
        listed = await admin.get("/api/v1/tokens")
        assert made["token"].rpartition("_")[2] not in listed.text
        assert [row["id"] for row in listed.json()] == [made["id"]]
        async with connect(token=made["token"]) as client:
            assert (await client.get("/api/v1/whoami")).json()["name"] == "ci"
            assert (await admin.delete(f"/api/v1/tokens/{made['id']}")).status_code == 200
            assert (await client.get("/api/v1/whoami")).status_code == 401
        assert (await admin.delete(f"/api/v1/tokens/{made['id']}")).status_code == 400


async def test_a_row_that_cannot_be_read_lets_nobody_in(connect, tokens):
    text = make(tokens, Role.ADMIN)
    for row in tokens._table.values():
        row["role"] = "root"
    async with connect(token=text) as client:
        assert (await client.get("/api/v1/nodes")).status_code == 401


async def test_each_address_has_a_rate(connect, clock):
    async with connect("127.0.0.1", rate=3) as client:
        codes = [(await client.get("/health")).status_code for _ in range(5)]
        assert codes == [200, 200, 200, 429, 429]
        clock.now += 1.0
        assert (await client.get("/health")).status_code == 200


async def test_guessing_tokens_is_slower_than_asking(connect):
    async with connect(token="gsm_000000000001_" + "A" * 43) as client:
        codes = [(await client.get("/api/v1/nodes")).status_code for _ in range(7)]
        assert codes == [401] * 5 + [429] * 2


def test_what_has_happened_counts_beyond_the_rate_and_is_made_up_for(clock, tokens):
    callers = Callers(tokens=tokens, config=ApiConfig(), clock=clock)
    assert not callers.in_debt("wrong", "10.0.0.9", more=5)
    assert not callers.in_debt("wrong", "10.0.0.9")
    assert callers.in_debt("wrong", "10.0.0.9", more=10)
    assert not callers.in_debt("wrong", "10.0.0.8")
    clock.now += 1.9
    assert callers.in_debt("wrong", "10.0.0.9")
    clock.now += 0.2
    assert not callers.in_debt("wrong", "10.0.0.9")


def test_one_network_of_ipv6_is_one_caller(clock, tokens):
    callers = Callers(tokens=tokens, config=ApiConfig(rate=2), clock=clock)
    asked = [callers.too_often("asked", f"2001:db8::{n}") for n in range(3)]
    assert asked == [False, False, True]
    assert not callers.too_often("asked", "2001:db8:0:1::1")


async def test_orders_and_refusals_are_logged_without_secrets(connect, tokens):
    text = make(tokens, Role.OPERATOR)
    with structlog.testing.capture_logs() as logs:
        async with connect(token=text) as client:
            await client.post("/api/v1/cluster/leave")
            await client.get("/api/v1/cluster/keys")
            await client.get("/api/v1/nodes")
    lines = [(line["event"], line["who"], line["path"], line["status"]) for line in logs]
    assert lines == [
        ("api_order", "ci-operator", "/api/v1/cluster/leave", 200),
        ("api_refused", "ci-operator", "/api/v1/cluster/keys", 403),
    ]
    assert text not in str(logs)


async def test_strangers_fill_no_log_and_hide_no_refusal_of_others(connect, tokens):
    text = make(tokens, Role.VIEWER)
    with structlog.testing.capture_logs() as logs:
        async with connect(rate=100_000) as stranger, connect(token=text) as viewer:
            for _ in range(300):
                await stranger.get("/api/v1/nodes")
            await viewer.post("/api/v1/cluster/leave")
    who = [line["who"] for line in logs if line["event"] == "api_refused"]
    assert who == ["nobody"] * 100 + ["ci-viewer"]

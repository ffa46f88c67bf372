"""Tokens, roles and rates: who may ask a node for what."""

import itertools

import httpx
import pytest
import structlog

from api.fakes import FakeTable
from gossamer.api import Role, Tokens, make_app
from gossamer.config import ApiConfig

DAY = 86_400.0


class FakeClock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def monotonic(self) -> float:
        return self.now

    wall = monotonic


@pytest.fixture
def clock():
    return FakeClock()


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
        headers = {"authorization": f"Bearer {token}"} if token else {}
        return httpx.AsyncClient(
            transport=httpx.ASGITransport(app, client=(address, 4)),
            base_url="http://10.0.0.1:8091",
            headers=headers,
        )

    return connect


def make(tokens, role, lifetime=DAY):
    return tokens.create(name=f"ci-{role}", role=role, lifetime=lifetime, by="test")[0]


LOOK = ("GET", "/api/v1/nodes", None)
ORDER = ("POST", "/api/v1/cluster/leave", None)
KEYS = ("GET", "/api/v1/cluster/keys", None)
REMOVE = ("POST", "/api/v1/cluster/force-leave", {"name": "node4@127.0.0.1"})
TRACE = ("GET", "/api/v1/trace?pid=gossip", None)
MAKE = ("POST", "/api/v1/tokens", {"name": "new"})
BACKUP = ("POST", "/api/v1/backup", {})
ALL = (LOOK, ORDER, KEYS, REMOVE, TRACE, MAKE, BACKUP)


@pytest.mark.parametrize(
    ("role", "allowed"),
    [(Role.VIEWER, [LOOK]), (Role.OPERATOR, [LOOK, ORDER]), (Role.ADMIN, list(ALL))],
)
async def test_a_role_may_do_its_own_and_nothing_more(connect, tokens, role, allowed):
    async with connect(token=make(tokens, role)) as client:
        for method, path, body in ALL:
            answer = await client.request(method, path, json=body)
            expected = (200, 201) if (method, path, body) in allowed else (403,)
            assert answer.status_code in expected, (path, answer.text)


async def test_who_brings_no_token_from_elsewhere_gets_probes_only(connect):
    async with connect() as client:
        for path in ("/health", "/ready", "/openapi.json"):
            assert (await client.get(path)).status_code == 200
        for method, path, body in (*ALL, ("GET", "/cluster", None), ("GET", "/metrics", None)):
            answer = await client.request(method, path, json=body)
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
            assert "gossamer tokens create" in answer.json()["detail"]


async def test_this_machine_is_an_administrator_unless_it_is_told_otherwise(connect):
    async with connect("127.0.0.1") as client:
        assert (await client.get("/api/v1/whoami")).json()["role"] == "admin"
    async with connect("::1", loopback_role="none") as client:
        assert (await client.get("/api/v1/nodes")).status_code == 401


async def test_a_token_counts_for_less_than_the_loopback_it_comes_from(connect, tokens):
    async with connect("127.0.0.1", make(tokens, Role.VIEWER)) as client:
        assert (await client.post("/api/v1/cluster/leave")).status_code == 403


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


async def test_a_page_of_another_site_cannot_use_the_loopback(connect, view):
    async with connect("127.0.0.1") as client:
        answer = await client.post("/api/v1/cluster/leave", headers={"origin": "http://evil.example"})
        assert answer.status_code == 403
    assert view.orders == []


@pytest.mark.parametrize(
    "body", [{}, {"name": ""}, {"name": "a\nb"}, {"name": "a", "role": "root"}, {"name": "a", "expires": -1}]
)
async def test_a_wrong_token_order_is_refused(connect, body):
    async with connect("127.0.0.1") as client:
        assert (await client.post("/api/v1/tokens", json=body)).status_code == 422

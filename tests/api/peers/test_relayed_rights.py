"""Rights of callers that another node let in: never more than the node that is asked would give."""

import msgspec
import pytest
import structlog

from api.fakes import FakeTable
from api.linked import NAMES, client_of
from gossamer.api import PeerRequests, Principal, Role, Tokens, make_app
from gossamer.api.peers.requests import Ask, ask_of
from gossamer.config import ApiConfig
from gossamer.distribution.remote.terms import decode_term, encode_term

ADMIN = ("GET", "cluster/keys")
OPERATOR = ("POST", "cluster/leave")
VIEWER = ("GET", "status")


@pytest.fixture
def tokens():
    tokens = Tokens(now=lambda: 1_000.0)
    tokens.attach(FakeTable())
    return tokens


@pytest.fixture
def nodes(cluster, tokens):
    """``nodes(first, second)`` gives the first of nodes with these settings, and the second's requests."""

    def nodes(first, second, second_tokens=tokens):
        views = cluster([])
        asked = PeerRequests(
            lambda: make_app(views[1], config=ApiConfig(**second), tokens=second_tokens),
            views[0].peers[NAMES[1]]._runtime,
        )
        views[0].peers[NAMES[1]] = asked
        return make_app(views[0], config=ApiConfig(**first), tokens=tokens), views[0], asked

    return nodes


async def relayed(app, view, order, *, host="127.0.0.1", token=None):
    """The status of what the second node answers to a caller of the first."""
    method, path = order
    async with client_of(view, host, app=app) as client:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        answer = await client.request(method, f"/api/v1/nodes/{NAMES[1]}/{path}", headers=headers)
    return answer.status_code


@pytest.mark.parametrize(
    ("role", "expected"),
    [("none", [401, 401, 401]), ("viewer", [200, 403, 403]), ("operator", [200, 200, 403])],
)
async def test_loopback_of_one_node_is_no_more_at_another_than_its_own_loopback(nodes, role, expected):
    app, view, _ = nodes({"loopback_role": "admin"}, {"loopback_role": role})
    assert [await relayed(app, view, order) for order in (VIEWER, OPERATOR, ADMIN)] == expected


async def test_a_caller_that_one_node_bounds_gets_no_more_at_a_generous_one(nodes):
    app, view, _ = nodes({"loopback_role": "operator"}, {"loopback_role": "admin"})
    assert [await relayed(app, view, order) for order in (OPERATOR, ADMIN)] == [200, 403]


async def test_strangers_that_one_node_lets_look_are_nobody_at_another(nodes):
    app, view, _ = nodes({"anonymous_role": "viewer"}, {})
    assert await relayed(app, view, VIEWER, host="10.0.0.9") == 401
    app, view, _ = nodes({"anonymous_role": "viewer"}, {"anonymous_role": "viewer"})
    assert await relayed(app, view, VIEWER, host="10.0.0.9") == 200


async def test_a_token_counts_at_every_node_whatever_callers_without_one_may(nodes, tokens):
    text, _ = tokens.create(name="ann", role=Role.ADMIN, lifetime=None, by="test")
    app, view, _ = nodes({}, {"loopback_role": "none"})
    assert await relayed(app, view, ADMIN, token=text) == 200


async def test_a_token_that_was_revoked_or_lowered_where_it_is_used_counts_as_that(nodes, tokens):
    text, token = tokens.create(name="ann", role=Role.ADMIN, lifetime=None, by="test")
    elsewhere = Tokens(now=lambda: 1_000.0)
    elsewhere.attach(FakeTable())
    app, view, _ = nodes({}, {}, elsewhere)
    assert await relayed(app, view, VIEWER, token=text) == 401
    lowered = msgspec.structs.replace(token, role=Role.VIEWER)
    elsewhere._writable().write(token.id, msgspec.to_builtins(lowered))
    assert [await relayed(app, view, order, token=text) for order in (VIEWER, OPERATOR)] == [200, 403]


@pytest.mark.parametrize("name", ["node", "root", "", "ann"])
async def test_whoever_brings_no_token_and_is_no_kind_of_caller_changes_nothing(nodes, name):
    _, _, asked = nodes({}, {})
    statuses = [
        (await asked.answer(Ask(method, f"/api/v1/{path}", b"", name, "admin", ""))).status
        for method, path in (OPERATOR, ADMIN)
    ]
    assert set(statuses) <= {401, 403}


async def test_a_refusal_names_who_asked_through_which_node(nodes):
    _, _, asked = nodes({}, {"loopback_role": "none"})
    with structlog.testing.capture_logs() as logs:
        ask = ask_of(Principal("loopback", Role.ADMIN, "127.0.0.1"), "GET", "/api/v1/status")
        answer = await asked.answer(ask)
    assert b"gives no role to a loopback caller of another node; ask with a token" in answer.body
    assert [(line["event"], line["who"]) for line in logs] == [("api_refused", "loopback")]


@pytest.mark.parametrize("path", [f"nodes/{NAMES[2]}/status", f"nodes/{NAMES[0]}/nodes/{NAMES[2]}/status"])
@pytest.mark.parametrize("first", NAMES[:2])
async def test_no_chain_of_nodes_is_followed(cluster, path, first):
    view = cluster([])[0]
    async with client_of(view) as client:
        answer = await client.get(f"/api/v1/nodes/{first}/{path}")
        assert answer.status_code == 400
        assert "expected one node" in answer.json()["detail"]
        assert (await client.get(f"/api/v1/nodes/{first}/nodes")).status_code == 200


def test_a_request_goes_over_a_link_as_it_is():
    ask = ask_of(Principal("meter", Role.OPERATOR, "10.0.0.9", "ab12"), "PUT", "/api/v1/level", b"{}")
    assert decode_term(encode_term(ask)) == ask

"""Pages of other sites, names that were rebound, paths with tricks, bodies that make no sense."""

import json

import pytest

from api.linked import client_of
from api.served import HOST, served
from gossamer.config import ApiConfig

NODES = "/api/v1/nodes"
LEAVE = "/api/v1/cluster/leave"
JOIN = "/api/v1/cluster/join"
ALL = [("GET", NODES), ("GET", "/health"), ("GET", "/api/v1/live"), ("POST", LEAVE), ("OPTIONS", LEAVE)]

OF_OTHERS = {
    "sec-fetch-site": ["cross-site", "same-site", "Cross-Site", "whatever"],
    "origin": [
        *("http://evil.example", "null", "", "http://127.0.0.1:3000", "http://["),
        "http://127.0.0.1:8091.evil.example",
    ],
    "host": [
        *("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "", "[", "node1", "a@b"),
    ],
}
OWN = {
    "sec-fetch-site": ["same-origin", "none"],
    "origin": ["http://127.0.0.1:8091"],
    "host": ["localhost", "127.0.0.1:8091", "[::1]:8091", "10.0.0.1", "LOCALHOST:1"],
}


@pytest.mark.parametrize("header", OF_OTHERS)
async def test_a_page_of_another_site_or_of_a_name_rebound_here_reads_and_orders_nothing(
    client, view, header
):
    for value in OF_OTHERS[header]:
        for method, path in ALL:
            answer = await client.request(method, path, headers={header: value})
            assert answer.status_code == (421 if header == "host" else 403), (value, method, path)
            assert answer.headers["content-type"] == "application/problem+json"
            assert not any(name.startswith("access-control") for name in answer.headers)
    assert view.orders == []


@pytest.mark.parametrize("header", OWN)
async def test_the_console_and_who_types_an_address_are_served(client, header):
    for value in OWN[header]:
        assert (await client.get(NODES, headers={header: value})).status_code == 200, value


async def test_a_link_opens_the_console_and_nothing_else(client):
    opened = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    assert (await client.get("/", headers=opened)).status_code == 200
    assert (await client.get("/cluster", headers=opened)).status_code == 403
    framed = {**opened, "sec-fetch-dest": "iframe"}
    assert (await client.get("/", headers=framed)).status_code == 403


@pytest.mark.parametrize("header", ["x-forwarded-for", "forwarded", "via", "x-real-ip"])
async def test_what_a_proxy_passes_on_does_not_come_from_this_machine(client, header):
    assert (await client.get(NODES, headers={header: "127.0.0.1"})).status_code == 401
    assert (await client.get("/health", headers={header: "127.0.0.1"})).status_code == 200


async def test_without_configuration_only_this_machine_is_let_in(view):
    assert ApiConfig().host == "127.0.0.1"
    async with client_of(view, "10.0.0.9", name="10.0.0.1") as client:
        assert (await client.get(NODES)).status_code == 401
        assert (await client.post(LEAVE)).status_code == 401
    assert view.orders == []


async def test_a_configured_name_is_served_to_who_may_look_but_not_touch(view):
    named = {"name": "broker.example", "hosts": ("broker.example",), "anonymous_role": "viewer"}
    async with client_of(view, "10.0.0.9", **named) as client:
        assert (await client.get("/cluster")).status_code == 200
        assert (await client.post(LEAVE)).status_code == 403
        refused = await client.get("/api/v1/cluster/keys")
        assert (refused.status_code, view.key_names[0] in refused.text) == (403, False)
    assert view.orders == []


@pytest.mark.parametrize(
    ("status", "targets"),
    [
        (
            400,
            [
                *(b"/console/../api/v1/nodes", b"/console/%2e%2e/api/v1/nodes", b"nodes", b"http:/nodes"),
                *(b"/console/.%2E/%2e./etc/passwd", b"/console/%252e%252e/app.js", b"/console/..\\..\\etc"),
                *(b"/console/app.js%00.html", b"/api/v1/nodes%00", b"ftp://127.0.0.1/health"),
                b"/api/v1/nodes/node2@127.0.0.1/%2e%2e/whoami",
            ],
        ),
        (
            404,
            [
                *(b"//etc/passwd", b"/console/%2fetc%2fpasswd", b"/console/built-from/x"),
                *(b"/api/v1//nodes", b"/API/v1/nodes"),
            ],
        ),
        # A whole address counts for more than the Host header.
        (
            200,
            [b"http://127.0.0.1/health", b"http://localhost:1/api/v1/nodes?limit=1", b"HTTP://127.0.0.1"],
        ),
        (421, [b"http://evil.example/health", b"http://user@evil.example/health"]),
    ],
)
async def test_a_path_is_read_in_one_way(status, targets):
    async with served() as node:
        for target in targets:
            caller = await node.connect()
            caller.send(b"GET %b HTTP/1.1\r\nConnection: close\r\n%b\r\n" % (target, HOST))
            told, headers = await caller.status()
            assert told == status, target
            assert (headers["content-type"] == "application/problem+json") == (status != 200)


BODIES = (
    *(b"", b"{", b"[" * 60_000, b'{"endpoints":' * 4_000, b"\xff\xfe", b"null", b"1", b'"x"'),
    b'{"endpoints": ["10.0.0.1:1"], "endpoints": 1}',
    b'{"endpoints": [' + b"9" * 60_000 + b"]}",
    *(b'{"endpoints": [1e999]}', b'{"endpoints": [NaN]}', b'{"endpoints": null}'),
)


async def test_what_is_no_order_orders_nothing(client, view):
    for body in BODIES:
        answer = await client.post(JOIN, content=body, headers={"content-type": "application/json"})
        assert answer.status_code in (400, 422), body[:40]
        assert answer.headers["content-type"] == "application/problem+json"
    assert view.orders == []


async def test_a_form_is_no_order(client, view):
    """What a page may send anywhere without asking first."""
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        body = json.dumps({"endpoints": ["10.0.0.1:1"]})
        assert (await client.post(JOIN, content=body, headers={"content-type": kind})).status_code == 422
    assert view.orders == []


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "drill/faults", {"faults": [{"peer": "*"}] * 1001}),
        ("POST", "publish", {"topic": "a", "payload": "x" * 50_000}),
        ("GET", "trace?pid=" + "x" * 999, None),
        ("GET", "drills/" + "x" * 101, None),
    ],
)
async def test_what_is_too_long_is_refused(client, method, path, body):
    assert (await client.request(method, f"/api/v1/{path}", json=body)).status_code == 422


async def test_every_route_refuses_fields_that_nobody_knows(client):
    document = (await client.get("/openapi.json")).json()
    shapes = [
        operation["requestBody"]["content"]["application/json"]["schema"]
        for methods in document["paths"].values()
        for operation in methods.values()
        if "requestBody" in operation
    ]
    # The settings of a queue are those of the configuration, which refuses them itself (scenario queues).
    bodies = [shape["$ref"].rpartition("/")[2] for shape in shapes if "$ref" in shape]
    assert len(shapes) == len(bodies) + 1
    schemas = document["components"]["schemas"]
    assert len(bodies) > 12
    assert [name for name in bodies if schemas[name]["additionalProperties"] is not False] == []

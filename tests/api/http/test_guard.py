"""Pages of other sites, names that were rebound, paths with tricks, bodies that make no sense."""

import json

import httpx
import pytest

from api.served import served
from gossamer.api import make_app
from gossamer.config import ApiConfig

NODES = "/api/v1/nodes"
LEAVE = "/api/v1/cluster/leave"


class TestOtherSites:
    @pytest.mark.parametrize("site", ["cross-site", "same-site", "Cross-Site", "whatever"])
    @pytest.mark.parametrize(("method", "path"), [("GET", NODES), ("GET", "/api/v1/live"), ("POST", LEAVE)])
    async def test_a_page_of_another_site_reads_nothing_and_orders_nothing(
        self, client, view, site, method, path
    ):
        answer = await client.request(method, path, headers={"sec-fetch-site": site})
        assert answer.status_code == 403
        assert answer.headers["content-type"] == "application/problem+json"
        assert view.orders == []

    @pytest.mark.parametrize("site", ["same-origin", "none"])
    async def test_the_console_and_who_types_an_address_are_served(self, client, site):
        assert (await client.get(NODES, headers={"sec-fetch-site": site})).status_code == 200

    async def test_a_link_opens_the_console_and_nothing_else(self, client):
        opened = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
        assert (await client.get("/", headers=opened)).status_code == 200
        assert (await client.get("/cluster", headers=opened)).status_code == 403
        framed = {**opened, "sec-fetch-dest": "iframe"}
        assert (await client.get("/", headers=framed)).status_code == 403

    @pytest.mark.parametrize(
        "origin",
        [
            "http://evil.example",
            "null",
            "",
            "http://127.0.0.1:3000",
            "http://127.0.0.1:8091.evil.example",
            "http://[",
        ],
    )
    @pytest.mark.parametrize(("method", "path"), [("GET", NODES), ("POST", LEAVE), ("OPTIONS", LEAVE)])
    async def test_the_origin_is_the_host_or_refused(self, client, view, origin, method, path):
        answer = await client.request(method, path, headers={"origin": origin})
        assert answer.status_code == 403
        assert not any(name.startswith("access-control") for name in answer.headers)
        assert view.orders == []

    @pytest.mark.parametrize(
        "host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "", "[", "node1", "a@b"]
    )
    @pytest.mark.parametrize(("method", "path"), [("GET", NODES), ("GET", "/health"), ("POST", LEAVE)])
    async def test_a_name_that_was_rebound_here_is_not_this_node(self, client, view, host, method, path):
        answer = await client.request(method, path, headers={"host": host})
        assert answer.status_code == 421
        assert view.orders == []

    @pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8091", "[::1]:8091", "10.0.0.1", "LOCALHOST:1"])
    async def test_addresses_and_localhost_are(self, client, host):
        assert (await client.get(NODES, headers={"host": host})).status_code == 200

    @pytest.mark.parametrize("header", ["x-forwarded-for", "forwarded", "via", "x-real-ip"])
    async def test_what_a_proxy_passes_on_does_not_come_from_this_machine(self, client, header):
        assert (await client.get(NODES, headers={header: "127.0.0.1"})).status_code == 401
        assert (await client.get("/health", headers={header: "127.0.0.1"})).status_code == 200

    async def test_without_configuration_only_this_machine_is_let_in(self, view):
        assert ApiConfig().host == "127.0.0.1"
        transport = httpx.ASGITransport(make_app(view), client=("10.0.0.9", 4))
        async with httpx.AsyncClient(transport=transport, base_url="http://10.0.0.1:8091") as client:
            assert (await client.get(NODES)).status_code == 401
            assert (await client.post(LEAVE)).status_code == 401
        assert view.orders == []


class TestPaths:
    @pytest.mark.parametrize(
        "target",
        [
            b"/console/../api/v1/nodes",
            b"/console/%2e%2e/api/v1/nodes",
            b"/console/.%2E/%2e./etc/passwd",
            b"/console/%252e%252e/app.js",
            b"/console/..\\..\\etc",
            b"/console/app.js%00.html",
            b"/api/v1/nodes%00",
            b"/api/v1/nodes/node2@127.0.0.1/%2e%2e/whoami",
            b"nodes",
            b"http:/nodes",
            b"ftp://127.0.0.1/health",
        ],
    )
    async def test_no_path_is_read_in_two_ways(self, target):
        async with served() as node:
            status, problem = await node.ask(b"GET %b HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" % target)
            assert status == 400
            assert problem["detail"].startswith("path: got")

    @pytest.mark.parametrize(
        "target",
        [
            b"//etc/passwd",
            b"/console/%2fetc%2fpasswd",
            b"/console/built-from/x",
            b"/api/v1//nodes",
            b"/API/v1/nodes",
        ],
    )
    async def test_what_is_not_there_is_not_found(self, target):
        async with served() as node:
            assert (await node.ask(b"GET %b HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" % target))[0] == 404

    @pytest.mark.parametrize(
        ("target", "status"),
        [
            (b"http://127.0.0.1/health", 200),
            (b"http://localhost:1/api/v1/nodes?limit=1", 200),
            (b"HTTP://127.0.0.1", 200),
            (b"http://evil.example/health", 421),
            (b"http://user@evil.example/health", 421),
        ],
    )
    async def test_a_whole_address_counts_for_more_than_the_host_header(self, target, status):
        async with served() as node:
            caller = await node.connect()
            caller.send(b"GET %b HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n" % target)
            assert (await caller.status())[0] == status

    async def test_a_name_with_a_step_in_it_is_still_a_name(self, client, view):
        answer = await client.delete("/api/v1/clients/a%2F..%2Fb")
        assert answer.status_code in (200, 404)
        assert "a/../b" in answer.text


class TestBodies:
    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"{",
            b"[" * 60_000,
            b'{"endpoints":' * 4_000,
            b"\xff\xfe",
            b'{"endpoints": ["10.0.0.1:1"], "endpoints": 1}',
            b'{"endpoints": [' + b"9" * 60_000 + b"]}",
            b'{"endpoints": [1e999]}',
            b'{"endpoints": [NaN]}',
            b'{"endpoints": null}',
            b"null",
            b"1",
            b'"x"',
        ],
    )
    async def test_what_is_no_order_orders_nothing(self, client, view, body):
        answer = await client.post(
            "/api/v1/cluster/join", content=body, headers={"content-type": "application/json"}
        )
        assert answer.status_code in (400, 422)
        assert answer.headers["content-type"] == "application/problem+json"
        assert view.orders == []

    async def test_a_field_that_nobody_knows_is_refused(self, client, view):
        body = {"endpoints": ["10.0.0.1:1"], "force": True}
        answer = await client.post("/api/v1/cluster/join", json=body)
        assert answer.status_code == 422
        assert "a field that this node does not know" in answer.json()["detail"]
        assert view.orders == []

    async def test_every_route_refuses_fields_that_nobody_knows(self, client):
        document = (await client.get("/openapi.json")).json()
        bodies = [
            operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
            for methods in document["paths"].values()
            for operation in methods.values()
            if "requestBody" in operation
        ]
        schemas = document["components"]["schemas"]
        assert len(bodies) > 12
        assert [name for name in bodies if schemas[name]["additionalProperties"] is not False] == []

    @pytest.mark.parametrize(
        ("order", "bodies"),
        [
            ("POST cluster/join", [{"endpoints": "10.0.0.1:1"}, {"endpoints": [1]}]),
            ("POST cluster/force-leave", [{"name": 4}]),
            ("POST publish", [{"topic": ["a"]}, {"topic": "a", "qos": "1"}, {"topic": "a", "retain": "yes"}]),
            ("POST routes/verify", [{"repair": 1}]),
            ("POST audit", [{"enable": "yes"}, {"enable": 1}, {"sample": "0.5"}, {"sample": True}]),
            ("POST audit", [{"keep_size": "5"}, {"buffer": 5000.5}]),
            ("PUT log-level", [{"level": 10}]),
        ],
    )
    async def test_a_value_of_another_type_is_refused_and_not_read_as_one(self, client, view, order, bodies):
        method, path = order.split()
        for body in bodies:
            answer = await client.request(method, f"/api/v1/{path}", json=body)
            assert (answer.status_code, answer.json()["status"]) == (422, 422), body
        assert view.orders == []

    async def test_a_form_is_no_order(self, client, view):
        """What a page may send anywhere without asking first."""
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
            answer = await client.post(
                "/api/v1/cluster/join",
                content=json.dumps({"endpoints": ["10.0.0.1:1"]}),
                headers={"content-type": kind},
            )
            assert answer.status_code == 422
        assert view.orders == []

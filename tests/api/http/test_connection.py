"""What callers draw out, overfill or break: each has an end, and others are served meanwhile."""

import asyncio
import socket
import struct

import pytest

from api.served import HOST, served
from gossamer.api import server
from gossamer.api.http import connection

GET = b"GET /api/v1/nodes HTTP/1.1\r\n" + HOST
JOIN = b"POST /api/v1/cluster/join HTTP/1.1\r\nContent-Type: application/json\r\n" + HOST


@pytest.fixture
def short(monkeypatch):
    """Patience of a moment, so that a test need not wait."""
    monkeypatch.setattr(connection, "READ_WAIT", 0.3)
    monkeypatch.setattr(connection, "LINGER", 0.3)
    monkeypatch.setattr(connection, "_WAITS", {"head": 0.3, "body": 0.3})


async def test_a_head_that_drips_is_cut_however_alive_it_looks(short):
    async with served() as node:
        slow = await node.connect()
        slow.send(b"GET / HTTP/1.1\r\n")

        async def drip():
            while True:
                slow.send(b"X-A: b\r\n")
                await asyncio.sleep(0.02)

        dripping = asyncio.ensure_future(drip())
        status, problem = await slow.answer()
        assert (status, problem["title"]) == (408, "Request Timeout")
        assert "the head of the request" in problem["detail"]
        dripping.cancel()
        await slow.end()
        assert node.limits.refused["slow_head"] == 1
        assert (await node.get("/api/v1/nodes"))[0] == 200


async def test_who_says_nothing_is_closed_without_a_word(short):
    async with served() as node:
        silent = await node.connect()
        await silent.end()
        await node.until(lambda: node.limits.connections == 0)


async def test_a_body_that_drips_is_cut_and_orders_nothing(short):
    async with served() as node:
        slow = await node.connect()
        slow.send(JOIN + b'Content-Length: 40\r\n\r\n{"endpoints"')
        status, problem = await slow.answer()
        assert (status, node.limits.refused["slow_body"]) == (408, 1)
        assert "the body of the request" in problem["detail"]
        await slow.end()
        assert (node.view.orders, node.limits.requests) == ([], 0)


async def test_bodies_that_drip_take_no_places_of_requests():
    async with served() as node:
        slow = [await node.connect() for _ in range(140)]
        for caller in slow:
            caller.send(JOIN + b"Content-Length: 40\r\n\r\n{")
        assert (await node.get("/api/v1/nodes"))[0] == 200
        assert node.limits.requests == 0
        for caller in slow:
            caller.close()


@pytest.mark.parametrize(
    ("request_", "role"), [(JOIN, "none"), (JOIN, "admin"), (b"GET /health HTTP/1.1\r\n" + HOST, "admin")]
)
async def test_bodies_that_never_end_keep_no_probe_and_no_caller_out(request_, role):
    async with served(loopback_role=role, connections=32) as node:
        crowd = [await node.connect() for _ in range(300)]
        for caller in crowd:
            caller.send(request_ + b"Content-Length: 40\r\n\r\n{")
        await node.until(lambda: node.limits.refused["crowded_out"] >= 268)
        for _ in range(40):
            assert (await node.get("/health"))[0] == 200
        assert (await node.get("/api/v1/nodes"))[0] == (401 if role == "none" else 200)
        assert node.limits.connections <= 32


async def test_bodies_of_strangers_make_room_before_those_of_callers_with_a_role():
    async with served(connections=16) as node:
        known = await node.connect()
        known.send(JOIN + b"Content-Length: 40\r\n\r\n{")
        await node.until(lambda: node.limits.connections == 1)
        crowd = [await node.connect() for _ in range(60)]
        for caller in crowd:
            # A proxy says that it passes this on, so that it does not count as this machine's.
            caller.send(JOIN + b"Via: 1.1 x\r\nContent-Length: 40\r\n\r\n{")
        await node.until(lambda: node.limits.refused["crowded_out"] >= 45)
        known.send(b'"endpoints": ["10.0.0.2:7946"]       }')
        assert (await known.answer())[0] != 503


@pytest.mark.parametrize(
    ("head", "status", "config"),
    [
        (GET, 401, {"loopback_role": "none"}),
        (JOIN + b"Content-Length: 0\r\n", 403, {"loopback_role": "viewer"}),
        (GET + b"Authorization: Bearer x\r\n", 401, {}),
    ],
)
async def test_who_is_refused_keeps_no_connection(head, status, config):
    async with served(**config) as node:
        caller = await node.connect()
        caller.send(head + b"\r\n")
        found, headers = await caller.status()
        assert (found, headers["connection"]) == (status, "close")
        await caller.end()


async def test_an_idle_connection_is_closed_after_its_time(monkeypatch):
    monkeypatch.setattr(server, "IDLE_WAIT", 0.3)
    async with served() as node:
        caller = await node.connect()
        for _ in range(2):
            caller.send(GET + b"\r\n")
            assert (await caller.answer())[0] == 200
        await caller.end()


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (GET + b"X-Long: " + b"x" * 300_000, 431),
        (GET + b"a: b\r\n" * 200 + b"\r\n", 431),
        (b"GET /" + b"x" * 300_000, 431),
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (GET + b"Host: evil.example\r\n\r\n", 400),
        (GET + b"Bad Header: x\r\n\r\n", 400),
        (b"GET /\x00 HTTP/1.1\r\n" + HOST + b"\r\n", 400),
        (JOIN + b"Content-Length: -1\r\n\r\n", 400),
        (JOIN + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400),
        (JOIN + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 400),
        (JOIN + b"Transfer-Encoding: gzip\r\n\r\n", 501),
        (JOIN + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (JOIN + b"Content-Length: 99999999999\r\nExpect: 100-continue\r\n\r\n", 413),
        (b"GET /api/v1/nodes HTTP/1.0\r\n\r\n", 421),
    ],
)
async def test_what_is_no_request_is_a_problem_and_the_end_of_the_connection(request_, status):
    async with served() as node:
        caller = await node.connect()
        caller.send(request_)
        assert (await caller.answer())[0] == status
        await caller.end()
        assert node.view.orders == []
        assert (await node.get("/api/v1/nodes"))[0] == 200


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_huge_body_is_cut_at_the_limit_while_it_comes(chunked):
    async with served() as node:
        caller = await node.connect()
        caller.send(
            JOIN + (b"Transfer-Encoding: chunked\r\n" if chunked else b"Content-Length: 1000000000\r\n")
        )
        caller.send(b"\r\n")
        piece = b"x" * 8192

        async def pour():
            while True:
                caller.send(b"2000\r\n" + piece + b"\r\n" if chunked else piece)
                await asyncio.sleep(0)

        pouring = asyncio.ensure_future(pour())
        # Although it never ends, the answer comes, and is not lost to a reset.
        status, problem = await caller.answer()
        assert status == 413
        assert "at most 65536 bytes" in problem["detail"]
        pouring.cancel()
        await caller.end()
        assert node.view.orders == []
        await node.until(lambda: node.limits.connections == 0)


async def test_a_body_behind_a_refusal_is_not_read_without_end():
    async with served(loopback_role="none") as node:
        caller = await node.connect()
        caller.send(JOIN + b"Transfer-Encoding: chunked\r\n\r\n")
        assert (await caller.answer())[0] == 401
        for _ in range(64):
            caller.send(b"2000\r\n" + b"x" * 8192 + b"\r\n")
        await caller.end()


async def test_headers_sent_ahead_are_counted_too():
    async with served() as node:
        caller = await node.connect()
        caller.send(GET + b"\r\n" + GET + b"a: b\r\n" * 200 + b"\r\n")
        assert (await caller.answer())[0] == 200
        await caller.end()


async def test_requests_sent_ahead_are_answered_in_order():
    async with served() as node:
        caller = await node.connect()
        caller.send(
            b"".join(b"GET /api/v1/%b HTTP/1.1\r\n%b\r\n" % (n, HOST) for n in (b"nodes", b"nowhere"))
        )
        assert [(await caller.answer())[0] for _ in range(2)] == [200, 404]
        caller.close()


async def test_a_crowd_that_asks_nothing_makes_room():
    async with served(connections=16) as node:
        crowd = [await node.connect() for _ in range(300)]
        for number, caller in enumerate(crowd):
            if number % 2:
                caller.send(b"GET / HTTP/1.1\r\n")
        await node.until(lambda: node.limits.refused["crowded_out"] >= 284)
        assert node.limits.connections <= 16
        for path in ("/health", "/ready", "/metrics", "/api/v1/nodes"):
            caller = await node.connect()
            caller.send(b"GET %b HTTP/1.1\r\n%b\r\n" % (path.encode(), HOST))
            assert (await caller.status())[0] == 200
            caller.close()
        for caller in crowd:
            caller.close()
        await node.until(lambda: node.limits.connections == 0)


async def test_where_all_have_a_request_under_way_the_next_is_told_to_come_back():
    async with served(connections=16, streams=16) as node:
        busy = [await node.connect() for _ in range(16)]
        for caller in busy:
            caller.send(b"GET /api/v1/live HTTP/1.1\r\n" + HOST + b"\r\n")
            assert (await caller.status())[0] == 200
        assert (await node.get("/health"))[0] == 200
        caller = await node.connect()
        caller.send(GET + b"\r\n")
        status, headers = await caller.status()
        assert (status, headers["retry-after"], headers["connection"]) == (503, "2", "close")
        await caller.end()
        busy[0].close()
        await node.until(lambda: node.limits.connections == 15)
        assert (await node.get("/health"))[0] == 200
        for one in busy:
            one.close()


async def test_a_reader_who_takes_nothing_is_cut_and_little_is_kept_for_him(short):
    async with served() as node:
        node.view.filters = [f"{number:06}/" + "x" * 200 for number in range(30_000)]
        # By hand, since asyncio reads ahead.
        with socket.create_connection(("127.0.0.1", node.port)) as lazy:
            lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            lazy.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            for _ in range(8):
                lazy.sendall(b"GET /api/v1/topics?limit=10000 HTTP/1.1\r\n" + HOST + b"\r\n")
            await node.until(lambda: node.limits.connections == 1)
            await node.until(lambda: node.limits.connections == 0)
        assert node.limits.refused["slow_reader"] == 1
        await node.until(lambda: node.limits.requests == 0)
        assert (await node.get("/api/v1/nodes"))[0] == 200

"""The pulse of the cluster as server-sent events."""

import asyncio
import json
from collections import Counter

import httpx

from api.fakes import FakeTable, FakeView
from api.linked import NAMES
from api.reader import Reader
from api.served import HOST, served
from gossamer.api import Role, Tokens, make_app
from gossamer.api.http import limits
from gossamer.clock import SystemClock
from gossamer.config import ApiConfig


class StoppedClock:
    """However long the readers take, they come at once."""

    def monotonic(self) -> float:
        return 1.0

    wall = monotonic


async def test_the_stream_shows_all_nodes_and_names_the_silent(cluster):
    view = cluster([], silent={NAMES[2]})[0]
    reader = Reader(make_app(view), "/api/v1/live")
    first = await reader.event()
    assert [node["node"] for node in first["nodes"]] == NAMES[:2]
    assert list(first["missing"]) == [NAMES[2]]
    assert first["asked"] == NAMES[0]
    await reader.close()


async def test_many_readers_cost_one_question(cluster):
    view = cluster([])[0]
    asked = []
    ask_peer = view.ask_peer

    async def counting(node, ask, timeout):
        asked.append(node)
        return await ask_peer(node, ask, timeout)

    view.ask_peer = counting
    app = make_app(view, clock=StoppedClock())
    readers = [Reader(app, "/api/v1/live") for _ in range(20)]
    events = [await reader.event() for reader in readers]
    assert len({json.dumps(event) for event in events}) == 1
    assert sorted(asked) == NAMES[1:]
    for reader in readers:
        await reader.close()


async def test_readers_beyond_the_limit_are_told_to_come_back_and_places_are_given_back():
    app = make_app(FakeView(), config=ApiConfig(streams=2))
    readers = [Reader(app, "/api/v1/live") for _ in range(2)]
    for reader in readers:
        assert await reader.status == 200
    refused = Reader(app, "/api/v1/live")
    assert await refused.status == 503
    assert b"api.streams" in await refused.chunks.get()
    await readers[0].close()
    again = Reader(app, "/api/v1/live")
    assert await again.status == 200
    for reader in (readers[1], again, refused):
        await reader.close()


async def test_a_stream_ends_with_the_token_of_its_reader():
    tokens = Tokens(now=SystemClock().wall)
    tokens.attach(FakeTable())
    app = make_app(FakeView(), tokens=tokens)
    made = [tokens.create(name=name, role=Role.VIEWER, lifetime=60, by="test") for name in ("one", "other")]
    headers = [[(b"authorization", b"Bearer " + text.encode())] for text, _ in made]
    reader, other = (Reader(app, "/api/v1/live", headers=header) for header in headers)
    for one in (reader, other):
        await one.event()
    tokens.revoke(made[0][1].id)
    async with asyncio.timeout(20):
        await reader.task
        while await reader.chunks.get():
            pass
    await other.event()
    await other.event()
    await other.close()
    assert not app.state.limits.streams


async def test_one_caller_takes_no_more_than_a_share_and_others_have_theirs():
    tokens = Tokens(now=SystemClock().wall)
    tokens.attach(FakeTable())
    text = tokens.create(name="board", role=Role.VIEWER, lifetime=60, by="test")[0]
    app = make_app(FakeView(), config=ApiConfig(streams=5, streams_each=2), tokens=tokens)
    readers = [Reader(app, "/api/v1/live") for _ in range(2)]
    for reader in readers:
        assert await reader.status == 200
    refused = Reader(app, "/api/v1/clients", b"format=ndjson")
    assert await refused.status == 429
    problem = json.loads(await refused.chunks.get())
    assert "loopback has 2 streams open, as many as api.streams_each allows" in problem["detail"]
    other = Reader(app, "/api/v1/live", headers=[(b"authorization", b"Bearer " + text.encode())])
    assert await other.status == 200
    for reader in (*readers, refused, other):
        await reader.close()
    assert not app.state.limits.streams


async def test_streams_take_no_places_of_requests_and_probes_need_none(monkeypatch):
    monkeypatch.setattr(limits, "REQUESTS", 1)
    view = FakeView()
    going_on = asyncio.Event()

    async def digests():
        await going_on.wait()
        return []

    view.digests = digests
    app = make_app(view, config=ApiConfig(rate=1000))
    reader = Reader(app, "/api/v1/live")
    assert await reader.status == 200
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        slow = Reader(app, "/api/v1/tables/digests")
        while not app.state.limits.requests:  # noqa: ASYNC110
            await asyncio.sleep(0)
        refused = await client.get("/api/v1/nodes")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "2")
        for path in ("/health", "/ready", "/metrics"):
            assert (await client.get(path)).status_code == 200
        going_on.set()
        assert await slow.status == 200
        assert (await client.get("/api/v1/nodes")).status_code == 200
        await slow.close()
    await reader.close()
    assert app.state.limits.requests == 0


async def test_a_thousand_readers_do_not_keep_others_from_asking():
    counts = Counter()
    async with served(streams=4) as node:
        # In waves, since one process has only so many sockets.
        for _ in range(50):
            wave = [await node.connect() for _ in range(20)]
            for caller in wave:
                caller.send(b"GET /api/v1/live HTTP/1.1\r\n" + HOST + b"\r\n")
                status, _ = await caller.status()
                counts[status] += 1
                if status != 200:
                    caller.close()
        assert counts == {200: 4, 503: 996}
        assert (await node.get("/api/v1/nodes"))[0] == 200

"""Lists of all nodes, in pages or as one stream: in order, whole or honestly not, in bounded memory."""

import asyncio
import json
from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.fakes import FakeView
from api.linked import NAMES, client_of, pages
from api.reader import Reader
from gossamer.api import More, PeerAnswer, make_app
from gossamer.api.peers.paging import cursor_of
from gossamer.api.peers.requests import PIECES

MANY = [(f"c{number:05}", number % 3) for number in range(3000)]


async def streamed(view, path="/api/v1/clients", **params):
    async with client_of(view) as client:
        answer = await client.get(path, params={"format": "ndjson", **params})
    *rows, last = map(json.loads, answer.text.removesuffix("\n").split("\n"))
    return rows, last["missing"]


@given(
    clients=st.lists(
        st.tuples(st.text(st.characters(codec="utf-8"), max_size=3), st.integers(0, 2)),
        max_size=30,
        unique=True,
    ),
    limit=st.integers(1, 12),
)
# Each example has a cluster of its own; what runs its requests may be shared.
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_pages_and_a_stream_are_the_sorted_whole(cluster, clients, limit):
    view = cluster(clients)[0]
    whole = sorted((name, NAMES[at]) for name, at in clients)
    async with client_of(view) as client:
        paged, _, _ = await pages(client, "/api/v1/clients", limit=limit)
    rows, missing = await streamed(view)
    assert [(row["client"], row["node"]) for row in paged] == whole
    assert [(row["client"], row["node"]) for row in rows] == whole
    assert missing == {}


async def test_many_pieces_of_every_node_are_merged_in_order(cluster):
    views = cluster(MANY)
    for at, view in enumerate(views):
        rows, missing = await streamed(view)
        assert [row["client"] for row in rows] == [name for name, _ in MANY]
        assert missing == {}
        alone, _ = await streamed(view, scope="node")
        assert {row["node"] for row in alone} == {NAMES[at]}
        elsewhere, _ = await streamed(view, node=NAMES[at - 1])
        assert {row["node"] for row in elsewhere} == {NAMES[at - 1]}


async def test_a_stream_begins_after_a_cursor_and_refuses_what_is_none(cluster):
    view = cluster(MANY)[0]
    rows, _ = await streamed(view, after=cursor_of(("c02990", NAMES[2], "")))
    assert [row["client"] for row in rows] == [f"c{number:05}" for number in range(2991, 3000)]
    async with client_of(view) as client:
        refused = await client.get("/api/v1/clients", params={"format": "ndjson", "after": "x"})
    assert refused.status_code == 422


@pytest.mark.parametrize("when", ["first", "later"])
async def test_a_node_that_falls_silent_leaves_what_it_said_and_is_named(cluster, when):
    view = cluster(MANY)[0]
    whole, answers = view.ask_peer, 0

    async def failing(node, ask, timeout):
        nonlocal answers
        if node == NAMES[1] and isinstance(ask, More if when == "later" else object):
            return await FakeView.ask_peer(FakeView(), node, ask, timeout)
        return await whole(node, ask, timeout)

    view.ask_peer = failing
    rows, missing = await streamed(view)
    assert list(missing) == [NAMES[1]]
    assert "no answer within 2.0 s" in missing[NAMES[1]]
    there = {row["node"] for row in rows}
    assert there == ({NAMES[0], NAMES[2]} if when == "first" else set(NAMES))
    assert sum(row["node"] != NAMES[1] for row in rows) == 2000
    assert [row["client"] for row in rows] == sorted(row["client"] for row in rows)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b'{"client":"a","node":"n"}\n', "broke off"),
        (b'{"client":"a","nod', "broke off"),
        (b'{"client":7,"node":"n"}\n', "makes no sense"),
        (b"Traceback\n", "makes no sense"),
    ],
)
async def test_an_answer_that_breaks_off_or_makes_no_sense_is_named(cluster, said, why):
    view = cluster(MANY[:30])[0]
    whole = view.ask_peer

    async def failing(node, ask, timeout):
        if node == NAMES[2]:
            return PeerAnswer(200, "application/x-ndjson", said)
        return await whole(node, ask, timeout)

    view.ask_peer = failing
    rows, missing = await streamed(view)
    assert why in missing[NAMES[2]]
    assert sum(row["node"] != "n" for row in rows) == 20


async def test_a_reader_who_stops_reading_stops_the_nodes_and_who_goes_ends_them(cluster):
    # Each piece has 250 rows: far more than may wait.
    views = cluster([(f"c{number:06}", number % 2) for number in range(40_000)])
    made = []

    def made_of(show):
        made.append(show)
        return show()

    for view in views:
        clients = view.clients

        def counted(wanted, order, clients=clients):
            return [(key, partial(made_of, show)) for key, show in clients(wanted, order)]

        view.clients = counted
    slow = Reader(make_app(views[0]), "/api/v1/clients", b"format=ndjson", patient=False)
    assert await slow.status == 200
    relays = [relay for relay in views[0].peers.values() if relay._running]
    waiting = -1
    while waiting != len(made):
        waiting = len(made)
        await asyncio.sleep(0.3)
    assert waiting <= 3 * (PIECES + 8) * 250
    await slow.close()
    async with asyncio.timeout(20):
        while any(relay._running for relay in relays):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_rows_that_vanish_between_pages_do_not_make_others_be_skipped(client, view):
    view.filters = [f"t/{number}" for number in range(25)]
    first = (await client.get("/api/v1/routes", params={"limit": 4})).json()
    view.filters.remove("t/24")
    rest, _, _ = await pages(client, "/api/v1/routes", limit=4, after=first["next"])
    seen = [(row["filter"], row["node"]) for row in [*first["items"], *rest]]
    assert len(seen) == len(set(seen)) == 48


async def test_a_reader_who_goes_away_ends_the_trace_on_the_other_node(cluster):
    views = cluster([])
    views[1].hangs = True
    reader = Reader(make_app(views[0]), f"/api/v1/nodes/{NAMES[1]}/trace", b"pid=gossip&seconds=3600")
    assert await reader.status == 200
    assert b"tracing" in await reader.chunks.get()
    await reader.close()
    async with asyncio.timeout(20):
        await views[1].trace_over.wait()


@pytest.mark.parametrize(
    ("method", "path", "longest"),
    [("GET", "nodes", 2.0), ("POST", "publish", 20.0), ("POST", "routes/verify", 130.0)],
)
async def test_an_order_to_another_node_has_the_time_that_it_takes(cluster, method, path, longest):
    view = cluster([])[0]
    waited = []
    ask_peer = view.ask_peer

    async def noted(node, ask, timeout):
        waited.append(timeout)
        return await ask_peer(node, ask, timeout)

    view.ask_peer = noted
    async with client_of(view) as client:
        await client.request(method, f"/api/v1/nodes/{NAMES[1]}/{path}", json={"topic": "a"})
    assert waited == [longest]

"""Lists of all nodes, asked of one: merged, in pages or streamed, whole or honestly not."""

import asyncio
import json
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.linked import NAMES, client_of, pages
from api.reader import Reader
from gossamer.api import make_app

CLIENTS = [(f"c{number:03}", number % 3) for number in range(50)]


async def test_a_silent_node_leaves_a_list_that_says_so(cluster):
    async with client_of(cluster(CLIENTS, silent={NAMES[2]})[0]) as client:
        rows, missing, _ = await pages(client, "/api/v1/clients", limit=10)
        streamed = (await client.get("/api/v1/clients", params={"format": "ndjson"})).text.split("\n")[:-1]
    assert [row["client"] for row in rows] == [name for name, at in CLIENTS if at != 2]
    assert "no answer within 2.0 s" in missing[NAMES[2]]
    assert json.loads(streamed[-1])["missing"] == missing


async def test_rows_that_vanish_between_pages_do_not_make_others_be_skipped(client, view):
    view.filters = [f"t/{number}" for number in range(25)]
    first = (await client.get("/api/v1/routes", params={"limit": 4})).json()
    view.filters.remove("t/24")
    rest, _, _ = await pages(client, "/api/v1/routes", limit=4, after=first["next"])
    seen = [(row["filter"], row["node"]) for row in [*first["items"], *rest]]
    assert len(seen) == len(set(seen)) == 48


async def test_a_node_that_is_down_is_not_asked(cluster):
    view = cluster(CLIENTS)[0]
    view.known[1] = view.known[1].model_copy(update={"status": "offline"})
    async with client_of(view) as client:
        _, missing, _ = await pages(client, "/api/v1/clients")
    assert missing == {NAMES[1]: "it is offline"}


async def test_one_node_can_be_named(cluster):
    async with client_of(cluster(CLIENTS)[0]) as client:
        rows, _, _ = await pages(client, "/api/v1/clients", node=NAMES[2])
        assert {row["node"] for row in rows} == {NAMES[2]}
        rows, missing, _ = await pages(client, "/api/v1/clients", node="who@nowhere")
        assert (rows, missing) == ([], {"who@nowhere": "no node of this cluster has this name"})


async def test_filters_reach_the_other_nodes(cluster):
    async with client_of(cluster(CLIENTS)[0]) as client:
        rows, _, _ = await pages(client, "/api/v1/clients", client="c001")
        assert [(row["client"], row["node"]) for row in rows] == [("c001", NAMES[1])]
        assert (await pages(client, "/api/v1/clients", connected=False))[0] == []
        rows, _, _ = await pages(client, "/api/v1/subscriptions", filter="b")
        assert [row["node"] for row in rows] == NAMES


class TestElsewhere:
    async def test_any_route_of_any_node_is_asked_through_any_other(self, cluster):
        views = cluster(CLIENTS)
        async with client_of(views[0]) as client:
            for name in NAMES:
                answer = await client.get(f"/api/v1/nodes/{name}/whoami")
                assert answer.json() == {"name": "loopback", "role": "admin", "node": name}
            assert (await client.post(f"/api/v1/nodes/{NAMES[2]}/cluster/leave")).status_code == 200
            body = {"endpoints": ["10.0.0.2:7946"]}
            assert (await client.post(f"/api/v1/nodes/{NAMES[1]}/cluster/join", json=body)).status_code == 200
        assert views[2].orders == [("leave", None)]
        assert [order for order, _ in views[1].orders] == ["join"]
        assert views[0].orders == []

    async def test_who_asks_has_no_more_rights_there(self, cluster):
        views = cluster(CLIENTS)
        async with client_of(views[0], loopback_role="viewer") as client:
            assert (await client.get(f"/api/v1/nodes/{NAMES[1]}/nodes")).status_code == 200
            assert (await client.get(f"/api/v1/nodes/{NAMES[1]}/cluster/keys")).status_code == 403
            assert (await client.post(f"/api/v1/nodes/{NAMES[1]}/cluster/leave")).status_code == 403
        assert views[1].orders == []

    async def test_a_silent_node_is_named(self, cluster):
        async with client_of(cluster(CLIENTS, silent={NAMES[1]})[0]) as client:
            answer = await client.get(f"/api/v1/nodes/{NAMES[1]}/status")
        assert answer.status_code == 503
        assert NAMES[1] in answer.json()["detail"]

    async def test_a_trace_of_another_node_is_passed_on_piece_by_piece(self, cluster):
        views = cluster(CLIENTS)
        async with client_of(views[0]) as client:
            answer = await client.get(f"/api/v1/nodes/{NAMES[1]}/trace", params={"pid": "gossip"})
        assert answer.headers["content-type"].startswith("application/x-ndjson")
        lines = [json.loads(line)["event"] for line in answer.text.split("\n") if line]
        assert lines == ["tracing", "call", "end"]
        assert views[1].traces_over == 1

    async def test_a_reader_who_goes_away_ends_the_trace_on_the_other_node(self, cluster):
        views = cluster(CLIENTS)
        views[1].hangs = True
        reader = Reader(make_app(views[0]), f"/api/v1/nodes/{NAMES[1]}/trace", b"pid=gossip&seconds=3600")
        assert await reader.status == 200
        assert b"tracing" in await reader.chunks.get()
        await reader.close()
        async with asyncio.timeout(20):
            await views[1].trace_over.wait()

    @pytest.mark.parametrize("client", ["a?b", "50%25", "a/b?c=d", "käse#1"])
    async def test_a_client_of_any_name_is_found_on_another_node(self, cluster, client):
        views = cluster(CLIENTS)
        async with client_of(views[0]) as asker:
            await asker.delete(f"/api/v1/nodes/{NAMES[1]}/clients/{quote(client, safe='')}")
        assert views[1].orders == [("kick", client)]

    async def test_problems_come_back_as_they_are(self, cluster):
        async with client_of(cluster(CLIENTS)[0]) as client:
            assert (await client.get(f"/api/v1/nodes/{NAMES[1]}/nonsense")).status_code == 404
            answer = await client.get(f"/api/v1/nodes/{NAMES[1]}/clients", params={"limit": 0})
            assert answer.status_code == 422

    @pytest.mark.parametrize("path", ["../../health", "%2e%2e/whoami", "nodes/node1@127.0.0.1/whoami"])
    async def test_tricks_with_paths_reach_nothing_else(self, cluster, path):
        async with client_of(cluster(CLIENTS)[0]) as client:
            answer = await client.get(f"/api/v1/nodes/{NAMES[1]}/{path}")
        assert answer.status_code in (200, 400, 404)
        assert "Traceback" not in answer.text


@given(
    clients=st.lists(
        st.tuples(st.text(st.characters(codec="utf-8"), max_size=3), st.integers(0, 2)),
        max_size=30,
        unique=True,
    ),
    limit=st.integers(1, 12),
)
# Each example has a cluster of its own; what runs its requests may be shared.
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_merged_pages_are_the_sorted_whole(cluster, clients, limit):
    async with client_of(cluster(clients)[0]) as client:
        rows, _, _ = await pages(client, "/api/v1/clients", limit=limit)
    assert [(row["client"], row["node"]) for row in rows] == sorted((name, NAMES[at]) for name, at in clients)


async def test_alarms_and_quarantine_are_of_all_nodes_and_of_one_through_its_path(cluster):
    views = cluster([])
    for view in views:
        view.healing.name = view.name
    async with client_of(views[0]) as client:
        for path, number in (("/alarms", 2), ("/autoheal/quarantine", 1)):
            rows, missing, _ = await pages(client, f"/api/v1{path}", limit=2)
            assert sorted(row["node"] for row in rows) == sorted(NAMES * number), path
            assert missing == {}
            own = (await client.get(f"/api/v1/nodes/{NAMES[1]}{path}")).json()["items"]
            assert {row["node"] for row in own} == {NAMES[1]}


async def test_a_silent_node_is_missing_among_the_alarms(cluster):
    async with client_of(cluster([], silent={NAMES[2]})[0]) as client:
        _, missing, _ = await pages(client, "/api/v1/alarms")
    assert list(missing) == [NAMES[2]]


async def test_a_row_is_replayed_at_the_node_that_keeps_it(cluster):
    views = cluster([])
    views[2].healing.row = views[2].healing.row.model_copy(update={"id": "ba9876543210"})
    async with client_of(views[0]) as client:
        answer = await client.post("/api/v1/autoheal/quarantine/ba9876543210/replay")
        assert (answer.status_code, answer.json()["node"]) == (200, NAMES[2])
        assert (await client.post("/api/v1/autoheal/quarantine/ffffffffffff/replay")).status_code == 400
    assert [view.healing.replayed for view in views] == [[], [], ["ba9876543210"]]


@pytest.mark.parametrize(
    ("method", "path", "longest"),
    [("GET", "nodes", 2.0), ("POST", "publish", 20.0), ("POST", "routes/verify", 130.0)],
)
async def test_an_order_to_another_node_has_the_time_that_it_takes(cluster, method, path, longest):
    view = cluster(CLIENTS)[0]
    waited = []
    ask_peer = view.ask_peer

    async def noted(node, ask, timeout):
        waited.append(timeout)
        return await ask_peer(node, ask, timeout)

    view.ask_peer = noted
    async with client_of(view) as client:
        await client.request(method, f"/api/v1/nodes/{NAMES[1]}/{path}", json={"topic": "a"})
    assert waited == [longest]

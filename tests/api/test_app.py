"""The API over a node that is faked."""

import json

import httpx
import pytest

from gossamer.api import make_app
from gossamer.config import ApiConfig


async def test_cluster_answers_exactly_as_promised(client):
    answer = (await client.get("/cluster")).json()
    assert answer == {
        "env": "Test",
        "nodes": [
            {"id": "id1", "address": "127.0.0.1", "port": 7946, "pid": 1001},
            {"id": "id2", "address": "127.0.0.1", "port": 7947, "pid": 1002},
            {"id": "id3", "address": "127.0.0.1", "port": 7948, "pid": 1003},
        ],
        "local": "id1",
    }


async def test_ready_says_what_is_missing(client, view):
    assert (await client.get("/ready")).status_code == 200
    view.ready = False
    answer = await client.get("/ready")
    assert answer.status_code == 503
    assert answer.json()["waiting"] == ["table routes"]
    assert (await client.get("/health")).status_code == 200


async def test_metrics_are_prometheus_text(client):
    text = (await client.get("/metrics")).text
    assert 'gossamer_messages_forwarded_total{peer="node2"} 5.0' in text
    assert "# TYPE gossamer_connections gauge" in text
    assert "process_resident_memory_bytes" in text


@pytest.mark.parametrize("path", ["status", "members", "nodes", "tables", "tables/digests", "processes"])
async def test_reads_answer(client, path):
    answer = await client.get(f"/api/v1/{path}")
    assert answer.status_code == 200
    assert answer.json()


async def test_pages_hold_every_item_once(client, view):
    view.filters = [f"t/{number}" for number in range(25)]
    seen, after = [], None
    while True:
        params = {"limit": 4, **({"after": after} if after else {})}
        page = (await client.get("/api/v1/routes", params=params)).json()
        seen += [(row["filter"], row["node"]) for row in page["items"]]
        # Rows that vanish between pages do not make others be skipped.
        view.filters = [name for name in view.filters if name != "t/24"] if seen else view.filters
        after = page["next"]
        if after is None:
            break
    assert len(seen) == len(set(seen)) == 48


async def test_filters_narrow_a_list(client):
    assert len((await client.get("/api/v1/routes", params={"filter": "b"})).json()["items"]) == 2
    assert len((await client.get("/api/v1/routes", params={"node": "node2@127.0.0.1"})).json()["items"]) == 3
    rows = (await client.get("/api/v1/clients", params={"connected": "false"})).json()["items"]
    assert [row["client"] for row in rows] == ["board"]
    rows = (await client.get("/api/v1/subscriptions", params={"filter": "a/+"})).json()["items"]
    assert [row["filter"] for row in rows] == ["a/+"]


@pytest.mark.parametrize("after", ["x", "!!", "e30=", "WzFd"])
async def test_a_cursor_of_somebody_else_is_the_callers_mistake(client, after):
    answer = await client.get("/api/v1/topics", params={"after": after})
    assert answer.status_code == 422
    assert "expected the value of next" in answer.json()["detail"]


async def test_match_tells_where_a_topic_goes(client):
    answer = (await client.get("/api/v1/topics/match", params={"topic": "a/b"})).json()
    assert answer["nodes"] == ["node2@127.0.0.1"]
    refused = await client.get("/api/v1/topics/match", params={"topic": "a/+"})
    assert refused.status_code == 422
    assert refused.headers["content-type"] == "application/problem+json"


async def test_orders_reach_the_node(client, view):
    answer = await client.post("/api/v1/cluster/join", json={"endpoints": ["10.0.0.2:7946"]})
    assert answer.status_code == 200
    assert answer.json()["done"] == "node1@127.0.0.1 joined"
    await client.post("/api/v1/cluster/drain")
    await client.post("/api/v1/cluster/leave")
    await client.post("/api/v1/cluster/force-leave", json={"name": "node4@127.0.0.1"})
    assert view.orders == [
        ("join", (("10.0.0.2", 7946),)),
        ("drain", None),
        ("leave", None),
        ("force_leave", "node4@127.0.0.1"),
    ]


@pytest.mark.parametrize(("path", "name"), [("c1", "c1"), ("a%2Fb%20%C3%A9", "a/b é"), ("a/b", "a/b")])
async def test_a_client_is_kicked_whatever_its_name(client, view, path, name):
    answer = await client.delete(f"/api/v1/clients/{path}")
    assert (answer.status_code, answer.json()["done"]) == (200, f"{name} kicked")
    assert view.orders == [("kick", name)]


async def test_who_is_not_there_cannot_be_kicked(client):
    answer = await client.delete("/api/v1/clients/nobody")
    assert answer.status_code == 404
    assert "expected one of gossamer clients" in answer.json()["detail"]


async def test_errors_of_the_tree_become_problems(client):
    answer = await client.post("/api/v1/cluster/join", json={"endpoints": ["127.0.0.1:1"]})
    assert (answer.status_code, answer.json()["title"]) == (503, "Service Unavailable")
    assert "nobody answers" in answer.json()["detail"]
    answer = await client.post("/api/v1/cluster/force-leave", json={"name": "who"})
    assert answer.status_code == 400


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"endpoints": []}, 422),
        ({"endpoints": ["nowhere"]}, 422),
        ({"endpoints": "10.0.0.1:1"}, 422),
        ({"endpoints": ["10.0.0.1:1"], "force": True}, 422),
        (["x"], 422),
    ],
)
async def test_a_wrong_order_is_refused(client, view, body, status):
    answer = await client.post("/api/v1/cluster/join", json=body)
    assert answer.status_code == status
    assert answer.json()["status"] == status
    assert view.orders == []


@pytest.mark.parametrize("limit", ["0", "-1", "10001", "many"])
async def test_a_wrong_limit_is_refused(client, limit):
    assert (await client.get("/api/v1/clients", params={"limit": limit})).status_code == 422


async def test_unknown_paths_are_problems(client):
    answer = await client.get("/api/v1/../../etc/passwd")
    assert (answer.status_code, answer.json()["status"]) == (404, 404)
    assert (await client.delete("/cluster")).status_code == 405


async def test_openapi_describes_it(client):
    document = (await client.get("/openapi.json")).json()
    assert {"/cluster", "/ready", "/api/v1/nodes", "/api/v1/cluster/join"} <= set(document["paths"])


class TestGuard:
    async def test_the_bound_name_is_served(self, view):
        named = ApiConfig(hosts=("broker.example",), anonymous_role="viewer")
        transport = httpx.ASGITransport(make_app(view, config=named))
        async with httpx.AsyncClient(transport=transport, base_url="http://broker.example:8091") as client:
            assert (await client.get("/cluster")).status_code == 200

    async def test_a_page_of_the_node_itself_is_served(self, client):
        answer = await client.get("/cluster", headers={"origin": "http://127.0.0.1:8091"})
        assert answer.status_code == 200

    async def test_another_machine_may_look_but_not_touch_where_that_is_allowed(self, view):
        app = make_app(view, config=ApiConfig(anonymous_role="viewer"))
        transport = httpx.ASGITransport(app, client=("10.0.0.9", 4))
        async with httpx.AsyncClient(transport=transport, base_url="http://10.0.0.1:8091") as client:
            assert (await client.get("/cluster")).status_code == 200
            assert (await client.post("/api/v1/cluster/leave")).status_code == 403
            for path in (
                "/api/v1/cluster/keys",
                "/api/v1/cluster/keys/",
                "/api/v1/cluster/%6beys",
                "/api/v1/trace?pid=gossip",
            ):
                answer = await client.get(path)
                assert answer.status_code == (404 if path.endswith("/") else 403)
                assert view.key_names[0] not in answer.text
        assert view.orders == []


async def test_processes_can_be_asked_below_one(client):
    assert (await client.get("/api/v1/processes", params={"root": "<n.1>", "fold": 3})).status_code == 200
    refused = await client.get("/api/v1/processes", params={"root": "nobody"})
    assert refused.status_code == 400
    assert "no process nobody" in refused.json()["detail"]


async def test_a_trace_streams_one_event_a_line(client, view):
    answer = await client.get("/api/v1/trace", params={"pid": "gossip"})
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    first, idle, *rest = answer.text.split("\n")
    assert json.loads(first) == {
        "at": 1.0,
        "event": "tracing",
        "way": "",
        "peer": "<n.3>",
        "text": "GossipServer",
    }
    assert idle == ""
    assert [json.loads(line)["event"] for line in rest[:-1]] == ["call", "end"]
    assert view.traces_over == 1


async def test_a_trace_of_nobody_is_a_problem_and_no_stream(client):
    answer = await client.get("/api/v1/trace", params={"pid": "nobody"})
    assert answer.status_code == 400
    assert "gossamer ps" in answer.json()["detail"]


@pytest.mark.parametrize("wrong", [{"seconds": 0}, {"limit": 0}, {"seconds": 1e9}, {"pid": "x" * 999}])
async def test_a_trace_without_bounds_is_refused(client, wrong):
    assert (await client.get("/api/v1/trace", params={"pid": "gossip", **wrong})).status_code == 422

"""Drills over HTTP: ordered, watched, read, stopped; what makes no sense starts nothing."""

import json

import httpx
import pytest

from api.fakes import FakeView
from api.linked import NAMES
from gossamer.api import Principal, Role, make_app
from gossamer.errors import UnavailableError

DRILLS = "/api/v1/drills"


@pytest.fixture
def view(tmp_path):
    return FakeView(directory=tmp_path)


def client_of(view, role=Role.ADMIN, **headers):
    app = make_app(view)

    async def let_in(scope, receive, send):
        scope["gossamer.principal"] = Principal(name="somebody", role=role)
        await app(scope, receive, send)

    transport = httpx.ASGITransport(let_in, client=("127.0.0.1", 4))
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8091", headers=headers)


@pytest.fixture
async def client(view):
    async with client_of(view) as client:
        yield client


def put(directory, **files):
    for name, value in files.items():
        file = directory / name.replace("_", ".")
        file.write_text(value if isinstance(value, str) else json.dumps(value))


RESULT = {
    "words": "All promises were kept.",
    "happened": "Nodes 1, 2 and nodes 3 were cut off.",
    "verdicts": [{"promise": "No client is dropped", "kept": True, "expected": "0", "got": "0 of 27"}],
    "figures": [["Messages sent", "2,555", ""]],
    "of a later version": 1,
}


async def test_what_can_be_ordered_is_listed_with_its_parameters(client):
    told = (await client.get(DRILLS)).json()
    kinds = {kind["kind"]: kind for kind in told["kinds"]}
    assert [one["name"] for one in kinds["slow"]["parameters"]] == ["split", "delay", "jitter", "loss"]
    assert kinds["rolling"]["parameters"] == []
    assert {one["name"] for one in told["common"]} >= {"nodes", "seconds", "load"}
    assert (told["items"], told["running"]) == ([], "")


async def test_a_drill_is_started_on_its_own_and_tells_how_far_it_is(client, view):
    answer = await client.post(DRILLS, json={"kind": "partition", "nodes": 5, "seconds": 8, "autoheal": 3})
    started = answer.json()
    assert (answer.status_code, started["state"], started["by"]) == (201, "running", "somebody")
    (arguments, directory, _) = view.programs.told[0]
    assert arguments == ["-m", "gossamer.drill", str(directory)]
    plan = json.loads((directory / "plan.json").read_text())
    assert (plan["shape"], len(plan["nodes"]), plan["seconds"]) == ("3/2", 5, 8)
    assert plan["settings"] == {"GOSSAMER_CLUSTER__AUTOHEAL": "3s"}
    put(directory, progress_json={"step": "split", "at": 4.5, "sent": 7, "unknown": 1})
    told = (await client.get(f"{DRILLS}/{started['id']}")).json()
    assert (told["progress"]["step"], told["progress"]["sent"], told["report"]) == ("split", 7, False)
    assert (await client.get(DRILLS)).json()["running"] == started["id"]


async def test_what_came_of_it_is_told_and_its_page_can_do_nothing(client, view):
    id = (await client.post(DRILLS, json={"kind": "kill"})).json()["id"]  # noqa: A001
    assert (await client.get(f"{DRILLS}/{id}/report")).status_code == 404
    put(view.drills.directory(id), result_json=RESULT, report_html="<script>steal()</script>")
    view.programs.end(("exit_status", 8))
    told = (await client.get(f"{DRILLS}/{id}")).json()
    assert (told["state"], told["words"]) == ("broken", "All promises were kept.")
    assert told["verdicts"][0]["kept"] is True
    page = await client.get(f"{DRILLS}/{id}/report")
    assert page.headers["content-type"].startswith("text/html")
    assert page.headers["content-security-policy"].startswith("sandbox; default-src 'none'")
    assert page.headers["x-content-type-options"] == "nosniff"


async def test_one_runs_at_a_time(client, view):
    first = (await client.post(DRILLS, json={"kind": "pause"})).json()["id"]
    refused = await client.post(DRILLS, json={"kind": "pause"})
    assert refused.status_code == 409
    assert first in refused.json()["detail"]
    view.programs.end("normal")
    assert (await client.post(DRILLS, json={"kind": "pause"})).status_code == 201


async def test_a_drill_is_stopped_and_then_forgotten(client, view):
    id = (await client.post(DRILLS, json={"kind": "pause"})).json()["id"]  # noqa: A001
    assert (await client.delete(f"{DRILLS}/{id}")).json()["state"] == "stopped"
    assert (await client.get(f"{DRILLS}/{id}")).json()["state"] == "stopped"
    # Whoever meant to stop it, and was late, does not remove it.
    assert (await client.delete(f"{DRILLS}/{id}", params={"running": True})).json()["state"] == "stopped"
    assert view.drills.directory(id).exists()
    assert (await client.delete(f"{DRILLS}/{id}")).status_code == 200
    assert (await client.get(f"{DRILLS}/{id}")).status_code == 404
    assert not view.drills.directory(id).exists()


async def test_why_one_failed_is_its_last_words(client, view):
    id = (await client.post(DRILLS, json={"kind": "pause"})).json()["id"]  # noqa: A001
    put(view.drills.directory(id), err="warning\nerror: node3 ended at start\n  (nothing)\n")
    view.programs.end(("exit_status", 6))
    told = (await client.get(f"{DRILLS}/{id}")).json()
    assert (told["state"], told["says"]) == ("failed", "node3 ended at start\n  (nothing)")


async def test_a_restarted_node_knows_its_runs_and_that_one_was_interrupted(client, view, tmp_path):
    first = (await client.post(DRILLS, json={"kind": "pause"})).json()["id"]
    async with client_of(FakeView(directory=tmp_path)) as later:
        told = (await later.get(DRILLS)).json()
        assert (told["running"], told["items"][0]["id"]) == ("", first)
        assert told["items"][0]["state"] == "interrupted"
        assert (await later.post(DRILLS, json={"kind": "pause"})).status_code == 201


async def test_only_some_are_kept_and_what_others_put_there_is_not_removed(client, view, tmp_path):
    other = tmp_path / "drills" / "from-my-laptop"
    other.mkdir(parents=True)
    put(other, report_html="<p>mine</p>")
    for _ in range(5):
        await client.post(DRILLS, json={"kind": "pause"})
        view.programs.end("normal")
    items = (await client.get(DRILLS)).json()["items"]
    assert sorted(item["state"] for item in items) == ["elsewhere", "kept", "kept", "kept"]
    assert (await client.get(f"{DRILLS}/from-my-laptop/report")).text == "<p>mine</p>"


@pytest.mark.parametrize(
    ("order", "status", "says"),
    [
        ({}, 422, "kind"),
        ({"kind": "earthquake"}, 422, "kind"),
        ({"kind": "partition", "nodes": 3, "split": "3/3"}, 422, "3 together"),
        ({"kind": "partition", "split": "../../etc"}, 422, "split"),
        ({"kind": "kill", "node": 4}, 422, "from 1 to 3"),
        ({"kind": "kill", "split": "2/1"}, 422, "takes node"),
        ({"kind": "rolling", "jump": 5}, 422, "no such key"),
        ({"kind": "kill", "nodes": 10}, 422, "nodes"),
        ({"kind": "kill", "nodes": "3"}, 422, "nodes"),
        ({"kind": "kill", "seconds": 601}, 422, "seconds"),
        ({"kind": "kill", "load": 1e9}, 422, "load"),
        ({"kind": "kill", "--keep": True}, 422, "keep"),
        ({"kind": "kill", "settings": {"GOSSAMER_NODE__DATA_DIR": "/"}}, 422, "settings"),
    ],
)
async def test_an_order_that_makes_no_sense_starts_nothing(client, view, order, status, says):
    answer = await client.post(DRILLS, json=order)
    assert answer.status_code == status
    assert says in answer.json()["detail"]
    assert view.programs.told == []


@pytest.mark.parametrize("id", ["..", "%2e%2e", "..%2f..%2fetc", ".hidden", "a/../b", "x" * 101, "a%00b"])
async def test_an_id_leads_nowhere_else(client, id):  # noqa: A002
    for path in (f"{DRILLS}/{id}", f"{DRILLS}/{id}/report", f"/api/v1/audit/reports/{id}/report"):
        assert (await client.get(path)).status_code in (400, 404, 405, 422), path
    assert (await client.delete(f"{DRILLS}/{id}")).status_code in (400, 404, 405, 422)


async def test_who_may_only_look_starts_and_stops_nothing(view):
    async with client_of(view, Role.VIEWER) as client:
        assert (await client.get(DRILLS)).status_code == 200
        assert (await client.post(DRILLS, json={"kind": "kill"})).status_code == 403
        assert (await client.delete(f"{DRILLS}/x")).status_code == 403
    async with client_of(view, origin="http://evil.example") as client:
        assert (await client.post(DRILLS, json={"kind": "kill"})).status_code == 403
    assert view.programs.told == []


async def test_a_node_without_a_disc_says_so(view):
    async with client_of(FakeView()) as client:
        answer = await client.post(DRILLS, json={"kind": "kill"})
        assert (answer.status_code, "node.data_dir" in answer.json()["detail"]) == (503, True)
        assert (await client.get(DRILLS)).json()["items"] == []


async def test_what_cannot_be_started_leaves_nothing(client, view, tmp_path):
    async def fail(*_):
        raise UnavailableError("no more processes")

    view.programs.start = fail
    assert (await client.post(DRILLS, json={"kind": "kill"})).status_code == 503
    assert list((tmp_path / "drills").iterdir()) == []
    assert (await client.get(DRILLS)).json()["running"] == ""


async def test_a_link_opens_one_page_of_any_node_without_a_token_for_a_while(cluster, tmp_path):
    views = cluster([])
    other = FakeView(directory=tmp_path)
    views[1].drills = other.drills
    folder = tmp_path / "drills" / "mine"
    folder.mkdir(parents=True)
    put(folder, report_html="<p>mine</p>")
    app = make_app(views[0])
    inside = httpx.ASGITransport(app, client=("127.0.0.1", 4))
    outside = httpx.ASGITransport(app, client=("203.0.113.9", 4))
    async with (
        httpx.AsyncClient(transport=inside, base_url="http://127.0.0.1:8091") as mine,
        httpx.AsyncClient(transport=outside, base_url="http://127.0.0.1:8091") as others,
    ):
        order = {"kind": "drills", "id": "mine", "node": NAMES[1]}
        assert (await others.get("/api/v1/report-link", params=order)).status_code == 401
        url = (await mine.get("/api/v1/report-link", params=order)).json()["url"]
        page = await others.get(url)
        assert (page.status_code, page.text) == (200, "<p>mine</p>")
        assert page.headers["content-security-policy"].startswith("sandbox;")
        assert (await others.get("/console/report/guessed")).status_code == 404
        wrong = {**order, "id": "../../etc"}
        assert (await mine.get("/api/v1/report-link", params=wrong)).status_code == 422
        # Headers do not travel between nodes; what is passed on is as harmless.
        passed = await mine.get(f"/api/v1/nodes/{NAMES[1]}/drills/mine/report")
        assert passed.headers["content-security-policy"].startswith("sandbox;")

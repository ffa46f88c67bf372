"""Drills and audits over HTTP, as far as ``scenarios/runs.txt`` does not say it."""

import json
from itertools import pairwise
from typing import get_args

import pytest

from api.fakes import FakeView
from api.linked import NAMES, client_of
from gossamer.api import make_app, spark_lacks
from gossamer.api.resources.audits import Job, Promise
from gossamer.errors import UnavailableError
from gossamer.spark.jobs import JOBS, PROMISES

DRILLS, AUDITS = "/api/v1/drills", "/api/v1/audit/runs"


@pytest.fixture
def view(tmp_path):
    return FakeView(directory=tmp_path)


def test_jobs_and_promises_are_those_there_are():
    assert set(get_args(Job)) == {*JOBS, "report"}
    assert get_args(Promise) == PROMISES


async def test_a_drill_is_planned_as_it_is_ordered(client, view):
    order = {"kind": "partition", "nodes": 5, "seconds": 8, "autoheal": 3}
    made = (await client.post(DRILLS, json=order)).json()
    plan = json.loads((view.drills.directory(made["id"]) / "plan.json").read_text())
    assert (plan["shape"], len(plan["nodes"]), plan["seconds"]) == ("3/2", 5, 8)
    assert plan["settings"] == {"GOSSAMER_CLUSTER__AUTOHEAL": "3s"}


async def test_an_audit_runs_over_what_this_node_recorded_within_bounds(client, view):
    order = {"job": "report", "from": "6h", "to": "2026-01-31T07:00", "fail_on": ["lost", "late"]}
    assert (await client.post(AUDITS, json=order)).status_code == 201
    (arguments, directory, _) = view.programs.told[0]
    told = dict(pairwise(arguments[4:]))
    assert arguments[:4] == ["-m", "gossamer.spark", "run", "report"]
    assert (told["--dir"], told["--out"]) == ("/data/audit", str(directory))
    assert (told["--from"], told["--to"], told["--fail-on"]) == ("6h", "2026-01-31T07:00", "lost,late")
    assert told["--memory"] == "1g"
    assert told["--master"].startswith("local[")


async def test_what_is_missing_is_said_before_anything_starts(client, view):
    view.audits.lacks = lambda: UnavailableError("audit jobs need Java 17 or newer; install it")
    assert "install it" in (await client.get("/api/v1/audit/reports")).json()["lacks"]
    answer = await client.post(AUDITS, json={"job": "report"})
    assert (answer.status_code, "install it" in answer.json()["detail"]) == (503, True)
    assert view.programs.told == []


def test_a_machine_without_duckdb_and_java_is_found_out(monkeypatch, tmp_path):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    assert spark_lacks() is None
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "duckdb" else name)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "Java 17" in str(spark_lacks())
    (tmp_path / "java").touch(mode=0o755)
    assert spark_lacks() is None
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "PATH[audit]" in str(spark_lacks())


async def test_a_restarted_node_knows_its_runs_and_that_one_was_interrupted(client, view, tmp_path):
    first = (await client.post(DRILLS, json={"kind": "pause"})).json()["id"]
    async with client_of(FakeView(directory=tmp_path)) as later:
        told = (await later.get(DRILLS)).json()
        assert (told["running"], told["items"][0]["id"]) == ("", first)
        assert told["items"][0]["state"] == "interrupted"
        assert (await later.post(DRILLS, json={"kind": "pause"})).status_code == 201


async def test_what_cannot_be_started_leaves_nothing(client, view, tmp_path):
    async def fail(*_):
        raise UnavailableError("no more processes")

    view.programs.start = fail
    assert (await client.post(DRILLS, json={"kind": "kill"})).status_code == 503
    assert list((tmp_path / "drills").iterdir()) == []
    assert (await client.get(DRILLS)).json()["running"] == ""


async def test_a_link_opens_one_page_of_any_node_without_a_token_for_a_while(cluster, tmp_path):
    views = cluster([])
    views[1].drills = FakeView(directory=tmp_path).drills
    folder = tmp_path / "drills" / "mine"
    folder.mkdir(parents=True)
    (folder / "report.html").write_text("<p>mine</p>")
    app = make_app(views[0])
    async with client_of(views[0], app=app) as mine, client_of(views[0], "203.0.113.9", app=app) as others:
        order = {"kind": "drills", "id": "mine", "node": NAMES[1]}
        url = (await mine.get("/api/v1/report-link", params=order)).json()["url"]
        page = await others.get(url)
        assert (page.status_code, page.text) == (200, "<p>mine</p>")
        assert page.headers["content-security-policy"].startswith("sandbox;")
        assert (await others.get("/console/report/guessed")).status_code == 404
        # Headers do not travel between nodes; what is passed on is as harmless.
        passed = await mine.get(f"/api/v1/nodes/{NAMES[1]}/drills/mine/report")
        assert passed.headers["content-security-policy"].startswith("sandbox;")

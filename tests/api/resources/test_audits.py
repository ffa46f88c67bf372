"""Audits over HTTP: ordered, watched, read; of this node, of a stream, or made elsewhere."""

import json
from itertools import pairwise
from typing import get_args

import pytest

from api.fakes import FakeView
from gossamer.api import spark_lacks
from gossamer.api.resources.audits import Job, Promise
from gossamer.errors import UnavailableError
from gossamer.spark.jobs import JOBS, PROMISES

RUNS, REPORTS = "/api/v1/audit/runs", "/api/v1/audit/reports"
FOUND = {
    "from": "2026-01-31T07:00:00+00:00",
    "to": "2026-01-31T08:00:00+00:00",
    "share": 0.5,
    "files": 12,
    "nodes": ["node1@127.0.0.1"],
    "holes": [{"node": "node2@127.0.0.1"}],
    "problems": [],
    "jobs": {"completeness": {"numbers": {"owed": 10, "lost": 1}, "says": ["1 was lost."]}},
}


@pytest.fixture
def view(tmp_path):
    return FakeView(directory=tmp_path)


def test_jobs_and_promises_are_those_there_are():
    assert set(get_args(Job)) == {*JOBS, "report"}
    assert get_args(Promise) == PROMISES


async def test_a_job_runs_over_what_this_node_recorded_within_bounds(client, view):
    order = {"job": "report", "from": "6h", "to": "2026-01-31T07:00", "fail_on": ["lost", "late"]}
    answer = await client.post(RUNS, json=order)
    assert (answer.status_code, answer.json()["state"], answer.json()["order"]) == (201, "running", order)
    (arguments, directory, _) = view.programs.told[0]
    told = dict(pairwise(arguments[4:]))
    assert arguments[:4] == ["-m", "gossamer.spark", "run", "report"]
    assert (told["--dir"], told["--out"]) == ("/data/audit", str(directory))
    assert (told["--from"], told["--to"], told["--fail-on"]) == ("6h", "2026-01-31T07:00", "lost,late")
    assert told["--memory"] == "1g"
    assert told["--master"].startswith("local[")


async def test_how_far_it_is_and_what_it_found_are_told(client, view):
    id = (await client.post(RUNS, json={})).json()["id"]  # noqa: A001
    directory = view.audits.directory(id)
    (directory / "err").write_text("recording: started\nrecording: done in 2.5 s\ncompleteness: started\n")
    steps = (await client.get(f"{REPORTS}/{id}")).json()["steps"]
    assert steps == [{"job": "recording", "seconds": 2.5}, {"job": "completeness", "seconds": None}]
    (directory / "out").write_text(json.dumps({**FOUND, "broken": {"lost": 1}}))
    (directory / "report.html").write_text("<p>1 was lost</p>")
    view.programs.end(("exit_status", 8))
    told = (await client.get(f"{REPORTS}/{id}")).json()
    assert (told["state"], told["broken"], told["holes"], told["share"]) == ("broken", {"lost": 1}, 1, 0.5)
    assert told["jobs"]["completeness"]["numbers"] == {"owed": 10, "lost": 1}
    page = await client.get(f"{REPORTS}/{id}/report")
    assert page.headers["content-security-policy"].startswith("sandbox;")
    assert (await client.get(REPORTS)).json()["items"][0]["id"] == id


async def test_reports_made_elsewhere_and_streams_are_listed(client, tmp_path):
    nightly, stream = tmp_path / "audits" / "nightly", tmp_path / "audits" / "stream"
    for folder in (nightly / "completeness", nightly / "latency", stream / "batches", tmp_path / "audits/x"):
        folder.mkdir(parents=True)
    (nightly / "completeness" / "summary.json").write_text(json.dumps(FOUND))
    latency = {**FOUND, "jobs": {"latency": {"numbers": {"p99": 0.5}, "says": []}}}
    (nightly / "latency" / "summary.json").write_text(json.dumps(latency))
    for number, lost in ((9, 1), (10, 2)):
        batch = {"from": f"0{number - 8}", "to": f"0{number - 7}", "numbers": {"lost": lost}, "holes": []}
        (stream / "batches" / f"{number}.json").write_text(json.dumps(batch))
    items = {item["id"]: item for item in (await client.get(REPORTS)).json()["items"]}
    assert set(items) == {"nightly", "stream"}
    assert {item["state"] for item in items.values()} == {"elsewhere"}
    assert set(items["nightly"]["jobs"]) == {"completeness", "latency"}
    assert items["stream"]["jobs"]["stream"]["numbers"] == {"lost": 3}
    assert (items["stream"]["from"], items["stream"]["to"]) == ("01", "03")


@pytest.mark.parametrize("content", ["", "[]", "{", '{"jobs": 7}', '{"jobs": {"a": {"numbers": "x"}}}'])
async def test_files_that_make_no_sense_are_no_findings(client, tmp_path, content):
    folder = tmp_path / "audits" / "odd"
    folder.mkdir(parents=True)
    (folder / "report.html").write_text("")
    (folder / "out").write_text(content)
    assert (await client.get(f"{REPORTS}/odd")).json()["jobs"] == {}


async def test_what_is_missing_is_said_before_anything_starts(client, view):
    view.audits.lacks = lambda: UnavailableError("audit jobs need Java 17 or newer; install it")
    assert "install it" in (await client.get(REPORTS)).json()["lacks"]
    answer = await client.post(RUNS, json={"job": "report"})
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


@pytest.mark.parametrize(
    ("order", "status", "says"),
    [
        ({"job": "everything"}, 422, "job"),
        ({"fail_on": ["sadness"]}, 422, "fail_on"),
        ({"from": "soon"}, 422, "from"),
        ({"from": "--conf=x"}, 422, "from"),
        ({"from": "2026-02-30T07:00"}, 422, "exists"),
        ({"from": "2026-01-31T07:00", "to": "2026-01-31T07:00Z"}, 422, "after"),
        ({"dir": "/etc"}, 422, "dir"),
    ],
)
async def test_an_order_that_makes_no_sense_starts_nothing(client, view, order, status, says):
    answer = await client.post(RUNS, json=order)
    assert answer.status_code == status
    assert says in answer.json()["detail"]
    assert view.programs.told == []

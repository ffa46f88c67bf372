"""Runs at a node, of ``gossamer drill`` and ``audit``: started, followed, stopped; their reports."""

import json
import threading

import pytest

from gossamer.api.resources.audits import Job
from gossamer.cli.commands import audit, runs

RESULT = {
    "words": "One promise was broken.",
    "happened": "Nodes 1, 2 and nodes 3 were cut off.",
    "verdicts": [{"promise": "No client is dropped", "kept": False, "expected": "0", "got": "3 of 27"}],
    "figures": [["Messages sent", "2,555", ""]],
}
MARK = {"at": 4.5, "node": "node2@h", "kind": "declared down", "peer": "node1@h", "detail": "refused"}


class Node:
    """The served node, which has somewhere to run things."""

    def __init__(self, served):
        self.served, self.view = served, served.view

    def put(self, kind, run_id, **files):
        """What a program writes where it runs."""
        directory = getattr(self.view, kind).directory(run_id)
        for name, value in files.items():
            (directory / name.replace("_", ".")).write_text(
                value if isinstance(value, str) else json.dumps(value)
            )

    def end(self, reason):
        """Its program ends."""
        over = threading.Event()
        self.served.loop.call_soon_threadsafe(lambda: (self.view.programs.end(reason), over.set()))
        assert over.wait(10)


@pytest.fixture
def runs_directory(tmp_path):
    return tmp_path


@pytest.fixture
def node(served, monkeypatch):
    monkeypatch.setattr(runs, "PERIOD", 0.0)
    return Node(served)


@pytest.fixture
def ask(run, served, node):
    def ask(*words):
        return run(*words, "--api", served.url)

    return ask


def started(ask, *words):
    outcome = ask(*words, "--json")
    assert outcome.code == 0, outcome.err
    return outcome.json


def test_a_drill_is_ordered_with_what_was_given_and_listed(ask):
    assert "none yet" in ask("drill", "list").err
    found = started(ask, "drill", "start", "partition", "--split", "2/1", "--for", "8s", "--load", "50")
    assert found["state"] == "running"
    order = found["order"]
    assert (order["kind"], order["split"], order["seconds"], order["load"]) == ("partition", "2/1", 8, 50)
    assert order["on"] == "own-cluster"
    listed = ask("drill", "list").out
    assert found["id"] in listed
    assert "partition 2/1" in listed
    assert ask("drill", "list", "--json").json["items"][0]["id"] == found["id"]


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["partition", "--for", "soon"], 2, "got 'soon', expected a duration"),
        (["no-such"], 2, "kind"),
        (["kill", "--here"], 2, "this-cluster"),
    ],
)
def test_an_order_that_makes_no_sense_starts_nothing(ask, words, code, says):
    refused = ask("drill", "start", *words)
    assert (refused.code, refused.out) == (code, "")
    assert says in refused.err
    assert ask("drill", "list", "--json").json["items"] == []


def test_a_drill_is_followed_to_its_end_and_a_broken_promise_has_its_code(ask, node, monkeypatch):
    run_id = started(ask, "drill", "start", "kill")["id"]
    node.put("drills", run_id, progress_json={"step": "split", "at": 4.5, "marks": [MARK]})
    rounds = []

    def sleep(_):
        rounds.append(1)
        if len(rounds) == 2:
            node.put("drills", run_id, result_json=RESULT, report_html="<html>page</html>")
            node.end(("exit_status", 8))

    monkeypatch.setattr(runs.time, "sleep", sleep)
    followed = ask("drill", "follow", run_id)
    assert followed.code == 8
    lines = followed.out.splitlines()
    assert lines[0] == "--- split"
    # Two looks, and it is told once.
    assert [line for line in lines if "declared down" in line] == [
        "4.50 s  node2@h  declared down  node1@h  refused"
    ]
    assert "One promise was broken." in followed.out
    assert "BROKEN" in ask("drill", "show", run_id).out
    assert ask("drill", "follow", run_id, "--json").json["state"] == "broken"


def test_a_page_is_saved_where_it_is_wanted(ask, node, tmp_path):
    run_id = started(ask, "drill", "start", "kill")["id"]
    assert ask("drill", "report", run_id, tmp_path / "x.html").code == 5
    node.put("drills", run_id, result_json=RESULT, report_html="<html>page</html>")
    node.end(("exit_status", 0))
    saved = ask("drill", "report", run_id, tmp_path / "x.html")
    assert saved.out.strip() == str(tmp_path / "x.html")
    assert (tmp_path / "x.html").read_text() == "<html>page</html>"
    refused = ask("drill", "report", run_id, tmp_path / "none" / "x.html")
    assert refused.code == 5
    assert "name another file" in refused.err


def test_a_run_that_failed_is_not_taken_for_one_that_kept_its_promises(ask, node):
    run_id = started(ask, "drill", "start", "pause")["id"]
    node.put("drills", run_id, err="error: node3 ended at start\n")
    node.end(("exit_status", 6))
    followed = ask("drill", "follow", run_id)
    assert followed.code == 6
    assert f"error: {run_id} failed: " in followed.err
    assert "node3 ended at start" in followed.err
    told = ask("drill", "follow", run_id, "--json")
    assert told.code == 6
    assert "node3 ended at start" in json.loads(told.err)["error"]
    assert (told.json["state"], told.out.count("\n")) == ("failed", 1)


def test_a_drill_is_stopped_and_then_forgotten(ask):
    run_id = started(ask, "drill", "start", "pause")["id"]
    assert ask("drill", "stop", run_id).out.strip() == f"{run_id}: stopped"
    assert ask("drill", "stop", run_id).code == 0
    gone = ask("drill", "show", run_id)
    assert gone.code == 5
    assert run_id in gone.err


def test_an_audit_is_ordered_and_shown(ask):
    found = started(ask, "audit", "start", "completeness", "--from", "6h", "--fail-on", "lost")
    assert found["order"] == {"job": "completeness", "from": "6h", "fail_on": ["lost"]}
    assert "completeness" in ask("audit", "list").out
    assert "running" in ask("audit", "show", found["id"]).out
    assert ask("audit", "stop", found["id"]).code == 0
    assert ask("audit", "start", "no-such-job").code == 2


def test_jobs_that_are_offered_are_those_there_are():
    assert set(audit.JOBS) == set(Job.__args__)

"""What ``gossamer autoheal`` and ``gossamer alarms`` print, and how they end."""

import pytest

from gossamer.cli import ExitCode


@pytest.fixture
def ask(run, served):
    return lambda *arguments: run(*arguments, "--api", served.url)


def test_status(ask):
    lines = ask("autoheal", "status").out.splitlines()
    told = {line.split("  ")[0]: line for line in lines}
    assert "15s" in told["autoheal"]
    assert "5m" in told["autoclean"]
    assert "node2@127.0.0.1" in told["partitions"]
    assert ask("autoheal", "status", "--json").json["leader"] == "node1@127.0.0.1"


def test_set_changes_what_is_named(ask, served):
    assert ask("autoheal", "set", "--autoheal", "30s").code == 0
    assert served.view.healing.settings == {"autoheal": 30.0, "autoclean": 300.0}
    assert ask("autoheal", "set", "--autoclean", "off").code == 0
    assert served.view.healing.settings == {"autoheal": 30.0, "autoclean": None}


def test_set_without_anything_or_with_nonsense_says_so(ask):
    assert "nothing to set" in ask("autoheal", "set").err
    refused = ask("autoheal", "set", "--autoheal", "soon")
    assert refused.code == ExitCode.USAGE
    assert "15s" in refused.err


def test_history(ask):
    assert "40.0s" in ask("autoheal", "history").out
    assert ask("autoheal", "history", "--json").json["items"][0]["plan"] == "p1"


def test_plan(ask, served):
    assert "no plan in hand" in ask("autoheal", "plan").err
    assert "nothing to heal" in ask("autoheal", "plan", "--dry-run").err
    served.view.healing.split = True
    lines = ask("autoheal", "plan", "--dry-run").out.splitlines()
    assert "survives" in lines[1]
    assert "restarts its tables" in lines[2]


def test_the_quarantine_is_listed_once_and_replayed(ask, served):
    listed = ask("autoheal", "quarantine")
    assert listed.out.count("0123456789ab") == 1
    assert ask("autoheal", "quarantine", "replay", "0123456789ab").code == 0
    assert served.view.healing.replayed == ["0123456789ab"]
    unknown = ask("autoheal", "quarantine", "replay", "ffffffffffff")
    assert "expected the id of a row that is listed" in unknown.err
    assert unknown.code != 0


def test_alarms(ask):
    outcome = ask("alarms")
    assert "partition" in outcome.out
    assert "active" in outcome.out
    items = ask("alarms", "--json").json["items"]
    assert [item["name"] for item in items if not item["active"]] == ["healed"]

"""What each noun shows, and what its verbs do."""

import json

from gossamer.api.model.node import ClientInfo
from gossamer.cli import ExitCode
from gossamer.cli.commands.events import news
from gossamer.errors import UsageError


def test_a_noun_alone_lists(ask):
    assert ask("routes", "list").out == ask("routes").out != ""
    assert ask("topics", "list", "a/b").out == ask("topics", "a/b").out == ask("topics", "match", "a/b").out


def test_sessions_are_listed_shown_and_ended(ask, whole):
    row = ClientInfo(client="meter", connected=False, node=whole.view.name, session_expiry=3600.0, queued=7)
    whole.view.sessions.append(row)
    lines = [line.split() for line in ask("sessions", "--node", whole.view.name).out.splitlines()]
    assert lines[0][:5] == ["CLIENT", "NODE", "STATE", "USER", "EXPIRY"]
    assert ["meter", whole.view.name, "away", "1h", "0", "0", "7", "0"] in lines
    shown = ask("sessions", "show", "meter")
    assert shown.code == 0
    assert "inflight, queued, dropped  0, 7, 0" in shown.out
    found = ask("sessions", "show", "sensor-1", "--json").json
    assert [item["client"] for item in found["subscriptions"]] == ["sensor-1"] * 9
    assert ask("sessions", "end", "meter").out == "meter kicked\n"
    assert whole.view.orders == [("kick", "meter")]


def test_a_client_that_nobody_knows_is_refused_with_names_like_it(ask, whole):
    for words in (("clients", "show", "sensor1"), ("sessions", "show", "Sensor-2")):
        outcome = ask(*words)
        assert outcome.code == ExitCode.REFUSED
        assert "did you mean sensor-1" in outcome.err


def test_members_come_with_who_sees_them_how(ask, whole):
    outcome = ask("cluster", "members")
    assert outcome.code == 0
    assert "all 2: online, link up" in outcome.out
    assert "node1@127.0.0.1: suspect, link up" in outcome.out
    items = ask("cluster", "members", "--json").json["items"]
    assert items[2]["seen_by"]["node2@127.0.0.1"] == {"status": "suspect", "link": "up"}


def test_a_table_is_held_against_itself_on_all_nodes(ask, whole):
    shown = ask("tables", "show", "routes")
    assert [line.split()[:2] for line in shown.out.splitlines()] == [
        ["OWNER", "SAME"],
        ["node1@127.0.0.1", "yes"],
    ]
    assert "3 rows" not in shown.out
    wrong = ask("tables", "show", "route")
    assert wrong.code == ExitCode.REFUSED
    assert "did you mean routes" in wrong.err


def test_events_of_all_nodes_are_one_list(ask, whole):
    outcome = ask("events", "--json")
    assert {item["node"] for item in outcome.json["items"]} == {f"node{n}@127.0.0.1" for n in (1, 2, 3)}
    assert ask("events", "--kind", "healed").err == "nothing happened lately\n"
    (line,) = ask("events", "--node", "node2@127.0.0.1", "--peer", "node2@127.0.0.1").out.splitlines()[1:]
    assert line.split()[2:] == ["node2@127.0.0.1", "down", "node2@127.0.0.1"]
    assert ask("events", "--follow", "--watch").code == ExitCode.USAGE


def test_followed_events_are_told_once_and_a_new_life_from_its_begin():
    def rows(life, *serials):
        return [{"node": "a", "serial": serial, "at": 10.0 * life + serial} for serial in serials]

    seen = set()
    assert [row["serial"] for row in news(rows(1, 1, 2), seen)] == [1, 2]
    assert [row["serial"] for row in news(rows(1, 1, 2, 3), seen)] == [3]
    assert news(rows(1, 3), seen) == []
    assert [row["serial"] for row in news(rows(2, 1), seen)] == [1]


def test_the_log_level_of_one_node_or_all_is_set(ask, whole):
    assert {row["level"] for row in ask("log-level", "--json").json["items"]} == {"info"}
    assert [row["node"] for row in ask("log-level", "set", "debug", "--json").json["items"]] == [
        whole.view.name
    ]
    assert whole.view.level == "debug"
    assert len(ask("log-level", "set", "warning", "--all", "--json").json["items"]) == 3
    loud = ask("log-level", "set", "loud")
    assert loud.code == ExitCode.USAGE
    assert "expected one of debug, info" in loud.err


def test_the_configuration_of_a_running_node_is_shown_and_read_again(ask, run, whole):
    assert ask("config", "show", "--running", "--changed").out == "node:\n  cookie: '**********'\n"
    found = ask("config", "show", "--node", "node2@127.0.0.1", "--json").json
    assert found == {"node": {"name": "node2@127.0.0.1"}}
    assert ask("config", "show", "node.yaml", "--running").code == ExitCode.USAGE
    assert "/etc/gossamer/acl" in ask("config", "reload").out
    assert whole.view.orders == [("reload", None)]
    assert len(ask("config", "reload", "--all", "--json").json["items"]) == 3


def test_a_file_that_was_refused_is_said_and_ends_the_command_with_a_code(ask, whole):
    async def refuse():
        raise UsageError("refused: /etc/acl:3: cannot read 'allow'")

    whole.view.reload = refuse
    refused = ask("config", "reload")
    assert (refused.code, refused.out) == (ExitCode.REFUSED, "")
    assert f"{whole.view.name}: refused: /etc/acl:3" in refused.err
    everywhere = ask("config", "reload", "--all", "--json")
    assert everywhere.code == ExitCode.REFUSED
    items = {row["node"]: row for row in everywhere.json["items"]}
    assert len(items) == 3
    assert "cannot read" in items.pop(whole.view.name)["refused"]
    assert all(row["files"] for row in items.values())


def test_a_running_node_is_backed_up(ask, whole):
    made = ask("backup")
    assert (made.code, made.out) == (0, "/data/backups/a.db\n")
    assert made.err == f"5.0 KiB of {whole.view.name} in 0.2 s\n"
    there = ask("backup", "--to", "/mnt/b.db", "--json").json
    assert there == {"node": whole.view.name, "path": "/mnt/b.db", "bytes": 5120, "seconds": 0.25}
    assert ask("backup", "--node", "node2@127.0.0.1", "--json").json["node"] == "node2@127.0.0.1"
    assert whole.view.orders == [("backup", None), ("backup", "/mnt/b.db")]

    async def refuse(path):
        raise UsageError("node1 keeps nothing on disc; start it with node.data_dir set")

    whole.view.backup = refuse
    refused = ask("backup")
    assert refused.code == ExitCode.REFUSED
    assert "node.data_dir" in refused.err


def test_alarms_are_raised_and_cleared(ask, whole):
    assert ask("alarms", "raise", "backup.late", "no backup since Monday").code == 0
    assert "no backup since Monday" in ask("alarms").out
    assert json.loads(ask("alarms", "clear", "backup.late", "--json").out)["active"] is False
    assert ask("alarms", "raise", "partition").code == ExitCode.REFUSED


def test_an_alarm_that_nobody_raised_cannot_be_cleared(ask, whole):
    assert ask("alarms", "raise", "backup.late", "no backup").code == 0
    typo = ask("alarms", "clear", "backup.lat")
    assert typo.code == ExitCode.REFUSED
    assert "got 'backup.lat', expected one that was raised here: backup.late" in typo.err
    assert "backup.lat " not in ask("alarms").out
    assert ask("alarms", "clear", "backup.late").code == 0
    assert ask("alarms", "clear", "backup.late").code == 0


def test_live_is_one_sample_of_all_nodes(ask, whole):
    assert ask("live").out.count("running") == 3
    assert len(ask("live", "--json").json["nodes"]) == 3


def test_silent_nodes_are_named_and_end_with_a_code(ask):
    for words in (("events",), ("alarms",), ("log-level",), ("cluster", "members"), ("sessions",), ("live",)):
        outcome = ask(*words, "--json")
        assert outcome.code == ExitCode.UNAVAILABLE, words
        assert set(outcome.json["missing"]) == {"node2@127.0.0.1", "node3@127.0.0.1"}

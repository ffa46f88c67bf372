"""What each command prints and how it ends."""

import io
import json
import socket

import pytest
from api.fakes import member

from gossamer import __version__
from gossamer.api.model.cluster import HintInfo
from gossamer.cli import ExitCode
from gossamer.cli.commands import bundle
from gossamer.config import Endpoint
from gossamer.routes import kernel_name


def test_version(run):
    outcome = run("--version")
    assert outcome.code == 0
    assert outcome.out.startswith(f"gossamer {__version__} ")
    told = {line.split()[0]: line.split()[1:] for line in outcome.out.splitlines()}
    assert {"python", "platform", "kernel", "uvloop", "grpcio", "pyroaring", "sqlite"} <= set(told)
    assert all(told.values())
    assert told["kernel"][0] == kernel_name()


def test_version_says_what_is_not_installed(run, monkeypatch):
    monkeypatch.setattr(bundle, "_PACKAGES", ("no-such-package",))
    assert "  no-such-package not installed\n" in run("--version").out


def test_no_arguments_shows_help(run):
    outcome = run()
    assert outcome.code == ExitCode.USAGE
    assert "cluster" in outcome.out + outcome.err


@pytest.mark.parametrize("arguments", [["nodez"], ["up", "--nodes", "0"], ["up", "--nodes", "many"]])
def test_a_wrong_command_line_is_code_2(run, arguments):
    assert run(*arguments).code == ExitCode.USAGE


SAID = [
    # What is typed, how it ends, what is printed and what is said of it (blank: nothing is printed).
    ("clients kik c1", 2, "", "kick"),
    ("nodes", 0, "node1@127.0.0.1 online self", ""),
    ("nodes show node2@127.0.0.1", 0, "node2@127.0.0.1 is running in cluster Test", ""),
    ("nodes show node2@127.0.0.1", 0, "received, sent, dropped 10, 20, 0", ""),
    ("topics a/b", 0, "a/+", ""),
    ("topics a/#", 2, "", "topic name 'a/#': expected no wildcard (+ or #)"),
    ("tables", 0, "routes set ram_copies owned yes 3", ""),
    ("tables --node nod2@127.0.0.1", 5, "", "did you mean node2@127.0.0.1"),
    ("clients --node who", 5, "", "who"),
    ("ps <n.1>", 0, "node Supervisor", ""),
    ("ps 77", 5, "", "no process 77 on node1@127.0.0.1"),
    ("trace nobody", 5, "", "gossamer ps"),
    ("cluster status", 0, "node1@127.0.0.1 is running in cluster Test, up 62s, 1 connections", ""),
    ("cluster status", 0, "node3@127.0.0.1", ""),
    ("cluster join 127.0.0.1:1", 6, "", "error: nobody answers at 127.0.0.1:1; start a seed or name another"),
    ("cluster force-leave who --json", 5, "", '{"error": "unknown member who'),
    ("clients kick nobody", 5, "", "client: got 'nobody', expected one of board"),
    ("autoheal status", 0, "autoheal 15s", ""),
    ("autoheal status", 0, "autoclean 5m", ""),
    ("autoheal status", 0, "node2@127.0.0.1", ""),
    ("autoheal set", 2, "", "nothing to set"),
    ("autoheal set --autoheal soon", 2, "", "15s"),
    ("autoheal history", 0, "40.0s", ""),
    ("autoheal plan", 0, "", "no plan in hand"),
    ("autoheal quarantine replay ffffffffffff", 5, "", "expected the id of a row that is listed"),
    ("alarms", 0, "partition active", ""),
    ("routes verify --node node1@127.0.0.1", 0, "node1@127.0.0.1 7 2 0 all right", ""),
    ("routes verify --node nobody", 5, "", "nobody"),
    ("publish a/# hi", 2, "", "topic name 'a/#': expected no wildcard (+ or #)"),
    ("retained", 0, "TOPIC a/1 b", ""),
    ("retained b", 0, "TOPIC b", ""),
    ("tokens create x --role wrong", 2, "", "--role: got 'wrong', expected one of viewer, operator, admin"),
    ("tokens revoke zz!", 2, "", "ID: got 'zz!', expected an id as the list shows it: 12 digits"),
    ("alarms clear Typo!", 2, "", "NAME: got 'Typo!', expected a name in lower case, such as"),
    ("log-level set loud", 2, "", "LEVEL: got 'loud', expected one of debug, info"),
    ("cluster join bad", 2, "", "ENDPOINT: got 'bad', expected a gossip endpoint such as"),
    ("config show x.yaml --running", 2, "", "got a file and a running node, expected one"),
]


def words_of(text):
    return " ".join(text.replace("│", " ").split())


@pytest.mark.parametrize(("line", "code", "printed", "said"), SAID)
def test_what_is_printed_and_how_it_ends(ask, whole, line, code, printed, said):
    outcome = ask(*line.split())
    assert outcome.code == code, outcome.err
    assert printed in words_of(outcome.out)
    assert printed or outcome.out == ""
    assert said in words_of(outcome.err)
    for leak in ("String should", "Input should", "path.", "body.", "query."):
        assert leak not in outcome.err


DONE = [
    # What is typed, what is printed, and what the node was ordered.
    ("clients kick a/b", "a/b kicked", ("kick", "a/b")),
    ("cluster join 10.0.0.2:7946", "node1@127.0.0.1 joined", ("join", (Endpoint("10.0.0.2", 7946),))),
    ("cluster leave", "node1@127.0.0.1 left", ("leave", None)),
    ("cluster force-leave node4@127.0.0.1", "", ("force_leave", "node4@127.0.0.1")),
    ("publish a/b hi --qos 1 --retain", "to 3 subscribers", ("publish", ("a/b", b"hi", 1, True))),
    ("retained remove a/1", "", ("publish", ("a/1", b"", 1, True))),
    ("routes verify", "all right", ("verify_routes", True)),
    ("routes verify --check", "all right", ("verify_routes", False)),
]


@pytest.mark.parametrize(("line", "printed", "order"), DONE)
def test_what_the_node_is_ordered(ask, served, line, printed, order):
    served.view.known[1:] = [] if line.startswith("routes") else served.view.known[1:]
    outcome = ask(*line.split())
    assert outcome.code == 0, outcome.err
    assert printed in words_of(outcome.out + outcome.err)
    assert served.view.orders == [order]


def test_standard_input_may_hold_any_bytes(ask, served, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\x00\xff")))
    assert ask("publish", "a", "-", "--json").json["safe"] is True
    assert served.view.orders == [("publish", ("a", b"\x00\xff", 0, False))]


def test_healing_is_set_and_planned(ask, served):
    healing = served.view.healing
    assert ask("autoheal", "set", "--autoheal", "30s").code == 0
    assert healing.settings == {"autoheal": 30.0, "autoclean": 300.0}
    assert ask("autoheal", "set", "--autoclean", "off").code == 0
    assert healing.settings == {"autoheal": 30.0, "autoclean": None}
    assert "nothing to heal" in ask("autoheal", "plan", "--dry-run").err
    healing.split = True
    lines = ask("autoheal", "plan", "--dry-run").out.splitlines()
    assert "survives" in lines[1]
    assert "restarts its tables" in lines[2]
    assert ask("autoheal", "quarantine").out.count("0123456789ab") == 1
    assert ask("autoheal", "quarantine", "replay", "0123456789ab").code == 0
    assert healing.replayed == ["0123456789ab"]


def test_routes_that_are_wrong_are_named_and_repaired_unless_only_checked(ask, served):
    served.view.known[1:] = []
    served.view.routes_wrong = True
    outcome = ask("routes", "verify")
    assert outcome.code == 0
    assert "unheard=2, stale_cache=1" in outcome.out
    assert "3 differences, repaired" in outcome.err
    checked = ask("routes", "verify", "--check", "--json")
    assert checked.code == ExitCode.UNAVAILABLE
    assert checked.json["items"][0]["differences"] == {"unheard": 2, "stale_cache": 1}


def test_a_node_that_is_down_is_named_by_verification(ask, served):
    served.view.known[1:] = [served.view.known[1].model_copy(update={"status": "offline"})]
    outcome = ask("routes", "verify")
    assert outcome.code == ExitCode.UNAVAILABLE
    assert "incomplete: node2@127.0.0.1 did not answer: it is offline" in outcome.err
    assert "node1@127.0.0.1" in outcome.out


def test_an_empty_list_says_so_and_prints_nothing(ask, served):
    served.view.filters = []
    outcome = ask("topics")
    assert (outcome.code, outcome.out) == (0, "")
    assert "nobody subscribes" in outcome.err


def test_routes(ask):
    lines = [line.split() for line in ask("routes").out.splitlines()]
    assert lines[:2] == [["FILTER", "NODE"], ["a/+", "node1@127.0.0.1"]]
    assert len(lines) == 7
    only = ask("routes", "--filter", "b", "--to", "node2@127.0.0.1", "--json").json
    assert only == {"items": [{"filter": "b", "node": "node2@127.0.0.1"}]}
    assert len(ask("routes", "--limit", "2", "--json").json["items"]) == 2


def test_long_lists_are_fetched_page_by_page(ask, served):
    served.view.filters = [f"t/{number}" for number in range(6000)]
    assert len(ask("topics", "--json").json["items"]) == 6000


def test_what_every_node_keeps_names_who_did_not_answer(ask, served):
    """Nodes 2 and 3 give no answer, node 4 has left."""
    outcome = ask("clients", "--json")
    assert outcome.code == ExitCode.UNAVAILABLE
    assert {row["node"] for row in outcome.json["items"]} == {"node1@127.0.0.1"}
    assert set(outcome.json["missing"]) == {"node2@127.0.0.1", "node3@127.0.0.1"}
    people = ask("subscriptions")
    assert people.code == ExitCode.UNAVAILABLE
    assert "node2@127.0.0.1 did not answer" in people.err


def test_any_node_is_asked_through_the_one_at_hand(ask, served):
    served.answers("node2@127.0.0.1").sessions[1:] = []
    for name, clients in (("node1@127.0.0.1", ["board", "sensor-1"]), ("node2@127.0.0.1", ["sensor-1"])):
        outcome = ask("clients", "--node", name, "--json")
        assert [row["client"] for row in outcome.json["items"]] == clients
        assert {row["node"] for row in outcome.json["items"]} == {name}
        assert (outcome.code, outcome.json["missing"]) == (0, {})
    silent = ask("clients", "--node", "node3@127.0.0.1", "--json")
    assert (silent.code, silent.out) == (ExitCode.UNAVAILABLE, "")
    assert "node3@127.0.0.1 did not answer" in silent.err


def test_ps_draws_the_tree_with_restart_counts(ask):
    lines = ask("ps").out.splitlines()
    assert lines[0] == "node1@127.0.0.1: 982 processes, 573.6 KiB"
    assert lines[1].split() == ["PID", "STATE", "MAILBOX", "REDUCTIONS", "RESTARTS", "MEMORY", "PROCESS"]
    assert lines[2].split() == ["1", "waiting", "0", "0", "0", "0", "B", "node", "Supervisor"]
    assert lines[3].split() == ["3", "waiting", "0", "0", "2", "0", "B", "├──", "gossip", "GossipServer"]
    assert lines[4].split() == ["0", "0", "0", "573.6", "KiB", "├──", "…", "979", "more", "mqtt_channel"]
    assert lines[5].split() == ["5", "0", "2", "0", "B", "└──", "…", "1", "more", "pool"]
    starts = ("PROCESS", "node Supervisor", "├──", "├──", "└──")
    assert len({line.index(start) for line, start in zip(lines[1:], starts, strict=True)}) == 1
    assert ask("ps", "--json").json["items"][0]["children"][0]["restarts"] == 2


def test_trace_prints_what_happens_until_the_end(ask):
    lines = ask("trace", "gossip").out.splitlines()
    assert [line.split()[1:] for line in lines] == [
        ["tracing", "<n.3>", "GossipServer"],
        ["->", "call", "<n.4>", r"'\x1b[31m'"],
        ["end", "shutdown"],
    ]


def test_trace_prints_json_lines(ask):
    lines = [json.loads(line) for line in ask("trace", "gossip", "--json").out.splitlines()]
    assert [line["event"] for line in lines] == ["tracing", "call", "end"]
    assert lines[1]["way"] == "out"


def test_a_process_is_asked_of_the_node_that_its_pid_names(ask, served):
    # Here: the node itself says that there is no such process.
    assert "no process node1@127.0.0.1.3 on" in ask("trace", "node1@127.0.0.1.3").err
    served.answers("node2@127.0.0.1")
    assert "no process <node2@127.0.0.1.3> on node2" in ask("trace", "<node2@127.0.0.1.3>").err
    assert ask("trace", "gossip", "--node", "node2@127.0.0.1").code == 0
    assert ask("trace", "<node3@127.0.0.1.3>").code == ExitCode.UNAVAILABLE
    unknown = ask("trace", "<node9@127.0.0.1.3>")
    assert unknown.code == ExitCode.REFUSED
    assert "expected one of node1@127.0.0.1" in unknown.err


def test_no_node_says_what_to_do(run):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    outcome = run("nodes", "--api", f"http://127.0.0.1:{port}")
    assert outcome.code == ExitCode.UNREACHABLE
    assert "nothing listens there" in outcome.err
    assert "gossamer up" in outcome.err


def test_something_else_that_answers_is_not_taken_for_a_node(run, tmp_path):
    import http.server
    import threading

    class Other(http.server.SimpleHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<html>")

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Other) as server:
        thread = threading.Thread(target=server.handle_request, daemon=True)
        thread.start()
        outcome = run("nodes", "--api", f"http://127.0.0.1:{server.server_port}")
        thread.join(5)
    assert outcome.code == ExitCode.UNREACHABLE
    assert "expected JSON of a gossamer node" in outcome.err


def test_control_characters_of_a_client_do_not_reach_the_terminal(ask, served):
    served.view.filters = ["a\x1b[31m", "[red]b[/red]"]
    out = ask("topics").out
    assert "\x1b" not in out
    assert "[red]b[/red]" in out


class TestConfig:
    def test_a_right_file_is_ok(self, run, tmp_path):
        file = tmp_path / "node.yaml"
        file.write_text("cluster: {autoheal: on}\n")
        assert run("config", "check", file).out == f"{file}: ok\n"
        assert run("config", "check", "-c", file, "--json").json["ok"] is True

    def test_every_mistake_is_listed(self, run, tmp_path):
        file = tmp_path / "node.yaml"
        file.write_text("clustr: {}\napi: {port: x}\n")
        outcome = run("config", "check", file)
        assert outcome.code == ExitCode.CONFIG
        assert "2 problems" in outcome.err
        found = run("config", "check", file, "--json")
        assert found.code == ExitCode.CONFIG
        assert {row["key"] for row in found.json["problems"]} == {"clustr", "api.port"}

    def test_every_file_that_is_named_is_read(self, run, tmp_path):
        (tmp_path / "acl").write_text("allow everything\n")
        (tmp_path / "words").write_text("no certificate\n")
        file = tmp_path / "node.yaml"
        file.write_text(f"""
            mqtt:
              auth:
                password_file: {tmp_path}/nope
                scram_file: {tmp_path}
                acl_file: {tmp_path}/acl
                jwt: {{algorithms: [RS256], public_key_file: {tmp_path}/words}}
              server:
                listeners:
                - type: tls
                  tls:
                    cert_file: {tmp_path}/words
                    key_file: {tmp_path}/nope
                    ca_file: {tmp_path}/nope
                    verify: require
                    hosts: {{a: {{cert_file: {tmp_path}/words, key_file: {tmp_path}/nope}}}}
                - {{type: tls, port: 8884, tls: {{cert_file: {tmp_path}/words, key_file: {tmp_path}/words}}}}
            cluster:
              discovery:
                strategy: etcd
                etcd: {{tls: {{ca: {tmp_path}/nope, cert: {tmp_path}/words, key: {tmp_path}/words}}}}
            """)
        outcome = run("config", "check", file, "--json")
        assert outcome.code == ExitCode.CONFIG
        found = {row["key"]: row["got"] for row in outcome.json["problems"]}
        listener = "mqtt.server.listeners[0].tls"
        missing = "cluster.discovery.etcd.tls.ca", "mqtt.auth.password_file", f"{listener}.ca_file"
        for key in (*missing, f"{listener}.key_file", f"{listener}.hosts.a.key_file"):
            assert found.pop(key) == f"{tmp_path}/nope: No such file or directory"
        assert "Is a directory" in found.pop("mqtt.auth.scram_file")
        assert "acl:1: cannot read" in found.pop("mqtt.auth.acl_file")
        assert set(found) == {"mqtt.auth.jwt.public_key_file", "mqtt.server.listeners[1].tls"}
        assert run("config", "check", file, "--no-files").code == 0

    def test_the_environment_is_checked_too(self, run, monkeypatch):
        monkeypatch.setenv("GOSSAMER_CLUSTER__AUTOHEEL", "on")
        outcome = run("config", "check")
        assert outcome.code == ExitCode.CONFIG
        assert "GOSSAMER_CLUSTER__AUTOHEEL" in outcome.err

    def test_schema_is_json(self, run):
        assert run("config", "schema").json["properties"]["cluster"]

    def test_show_hides_secrets(self, run, monkeypatch):
        monkeypatch.setenv("GOSSAMER_NODE__COOKIE", "hunter2")
        outcome = run("config", "show", "--changed")
        assert "hunter2" not in outcome.out
        assert "cookie: '**********'" in outcome.out

    def test_start_with_a_wrong_file_is_code_3(self, run, tmp_path):
        file = tmp_path / "node.yaml"
        file.write_text("mqtt: {serve: {}}\n")
        outcome = run("start", "-c", file)
        assert outcome.code == ExitCode.CONFIG
        assert "'server', perhaps" in outcome.err


def test_status_tells_of_network_faults_in_words(ask, served):
    hint = HintInfo(kind="udp-blocked", at=1.0, text="UDP is blocked on the way", evidence={"member": "n2"})
    served.view.hints = (hint,)
    assert "udp-blocked  UDP is blocked on the way" in ask("cluster", "status").out
    assert ask("cluster", "status", "--json").json["hints"][0]["evidence"] == {"member": "n2"}


def test_keys_are_listed_installed_used_and_removed(ask, served, tmp_path):
    secret = "a" * 32
    (tmp_path / "key").write_text(secret + "\n")
    assert "0a0a0a0a" in ask("cluster", "keys", "list").out
    outcome = ask("cluster", "keys", "install", str(tmp_path / "key"))
    assert "0b0b0b0b" in outcome.out
    assert secret not in outcome.out + outcome.err
    assert ask("cluster", "keys", "use", "0b0b0b0b", "--json").json["keys"] == ["0a0a0a0a", "0b0b0b0b"]
    assert ask("cluster", "keys", "remove", "0c0c0c0c").code != 0
    assert served.view.orders[0] == ("keys install", secret)
    assert ask("cluster", "keys", "install", str(tmp_path / "none")).code != 0


def test_a_key_is_used_here_while_a_node_of_another_machine_is_away(ask, served):
    away = member(2, "offline")
    served.view.known = [member(1), away.model_copy(update={"address": "10.0.0.2"})]
    outcome = ask("cluster", "keys", "use", "0a0a0a0a", "--all")
    assert outcome.code == ExitCode.UNAVAILABLE
    assert outcome.out.split()[-2:] == ["node1@127.0.0.1", "0a0a0a0a"]
    assert "not on node2@127.0.0.1: it is on another machine; run the command there" in outcome.err
    assert "did not answer" not in outcome.err
    assert served.view.orders == [("keys use", "0a0a0a0a")]


def test_a_step_goes_on_where_the_node_at_hand_has_taken_it(ask, served):
    port = int(served.url.rpartition(":")[2])
    served.view.known = [member(1), member(2, api_port=port)]
    outcome = ask("cluster", "keys", "remove", "0c0c0c0c", "--all")
    assert outcome.code == ExitCode.UNAVAILABLE
    assert outcome.err.count(": keys remove: not installed") == 2
    assert served.view.orders == [("keys remove", "0c0c0c0c")] * 2


def test_no_key_is_used_while_a_node_of_this_machine_is_away(ask, served):
    served.view.known = [member(1), member(2, "offline")]
    outcome = ask("cluster", "keys", "use", "0a0a0a0a", "--all")
    assert outcome.code == ExitCode.UNAVAILABLE
    assert "node2@127.0.0.1 does not say which keys it has (it is offline)" in outcome.err
    assert served.view.orders == []

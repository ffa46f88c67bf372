"""What commands print and how they end, as far as ``scenarios`` do not say it."""

import io
import json
import socket

from api.fakes import member

from gossamer import __version__
from gossamer.cli import ExitCode
from gossamer.cli.commands import bundle
from gossamer.cli.commands.events import news
from gossamer.errors import UsageError
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


def test_standard_input_may_hold_any_bytes(ask, served, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\x00\xff")))
    assert ask("publish", "a", "-", "--json").json["safe"] is True
    assert served.view.orders == [("publish", ("a", b"\x00\xff", 0, False))]


def test_long_lists_are_fetched_page_by_page(ask, served):
    served.view.filters = [f"t/{number}" for number in range(6000)]
    assert len(ask("topics", "--json").json["items"]) == 6000


def test_the_tree_of_ps_stands_in_one_column(ask):
    lines = ask("ps").out.splitlines()[1:]
    starts = ("PROCESS", "node Supervisor", "├──", "├──", "└──")
    assert len({line.index(start) for line, start in zip(lines, starts, strict=True)}) == 1


def test_trace_prints_json_lines(ask):
    lines = [json.loads(line) for line in ask("trace", "gossip", "--json").out.splitlines()]
    assert [line["event"] for line in lines] == ["tracing", "call", "end"]
    assert lines[1]["way"] == "out"


def test_no_node_says_what_to_do(run):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    outcome = run("nodes", "--api", f"http://127.0.0.1:{port}")
    assert outcome.code == ExitCode.UNREACHABLE
    assert "nothing listens there" in outcome.err
    assert "gossamer up" in outcome.err


def test_control_characters_of_a_client_do_not_reach_the_terminal(ask, served):
    served.view.filters = ["a\x1b[31m", "[red]b[/red]"]
    out = ask("topics").out
    assert "\x1b" not in out
    assert "[red]b[/red]" in out


def test_followed_events_are_told_once_and_a_new_life_from_its_begin():
    def rows(life, *serials):
        return [{"node": "a", "serial": serial, "at": 10.0 * life + serial} for serial in serials]

    seen = set()
    assert [row["serial"] for row in news(rows(1, 1, 2), seen)] == [1, 2]
    assert [row["serial"] for row in news(rows(1, 1, 2, 3), seen)] == [3]
    assert news(rows(1, 3), seen) == []
    assert [row["serial"] for row in news(rows(2, 1), seen)] == [1]


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

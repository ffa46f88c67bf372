"""What commands print and how they end, as far as ``scenarios`` do not say it."""

import io
import json

from gossamer import __version__
from gossamer.api import Role
from gossamer.cli import ExitCode
from gossamer.cli.commands import access, bundle, runs
from gossamer.cli.commands.events import news
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


def test_the_tree_of_ps_stands_in_one_column(ask):
    lines = ask("ps").out.splitlines()[1:]
    starts = ("PROCESS", "node Supervisor", "├──", "├──", "└──")
    assert len({line.index(start) for line, start in zip(lines, starts, strict=True)}) == 1


def test_trace_prints_json_lines(ask):
    lines = [json.loads(line) for line in ask("trace", "gossip", "--json").out.splitlines()]
    assert [line["event"] for line in lines] == ["tracing", "call", "end"]
    assert lines[1]["way"] == "out"


def test_followed_events_are_told_once_and_a_new_life_from_its_begin():
    def rows(life, *serials):
        return [{"node": "a", "serial": serial, "at": 10.0 * life + serial} for serial in serials]

    seen = set()
    assert [row["serial"] for row in news(rows(1, 1, 2), seen)] == [1, 2]
    assert [row["serial"] for row in news(rows(1, 1, 2, 3), seen)] == [3]
    assert news(rows(1, 3), seen) == []
    assert [row["serial"] for row in news(rows(2, 1), seen)] == [1]


class TestConfig:
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


def test_roles_are_those_of_the_api():
    assert tuple(Role) == access.ROLES


def test_a_drill_is_followed_to_its_end_and_a_broken_promise_has_its_code(ask, served, monkeypatch):
    run_id = ask("drill", "start", "kill", "--json").json["id"]
    directory = served.view.drills.directory(run_id)
    mark = {"at": 4.5, "node": "node2@h", "kind": "declared down", "peer": "node1@h", "detail": "refused"}
    (directory / "progress.json").write_text(json.dumps({"step": "split", "at": 4.5, "marks": [mark]}))
    looks = []

    def sleep(_):
        looks.append(1)
        if len(looks) == 2:
            verdict = {"promise": "No client is dropped", "kept": False, "expected": "0", "got": "3 of 27"}
            result = {"words": "One promise was broken.", "verdicts": [verdict]}
            (directory / "result.json").write_text(json.dumps(result))
            served.end(("exit_status", 8))

    monkeypatch.setattr(runs.time, "sleep", sleep)
    followed = ask("drill", "follow", run_id)
    assert followed.code == 8
    lines = followed.out.splitlines()
    assert lines[0] == "--- split"
    # Two looks, and it is told once.
    told = [line for line in lines if "declared down" in line]
    assert told == ["4.50 s  node2@h  declared down  node1@h  refused"]
    assert "One promise was broken." in followed.out
    assert "BROKEN" in ask("drill", "show", run_id).out
    assert ask("drill", "follow", run_id, "--json").json["state"] == "broken"

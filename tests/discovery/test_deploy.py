"""The examples of docs/deploy: pages have their files, files are right, commands are there."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import typer
from api.fakes import FakeView

from discovery.deployments import (
    DEPLOY,
    PAGES,
    ROOT,
    compose,
    documents,
    environment,
)
from gossamer.api import make_app
from gossamer.cli import app
from gossamer.config import Config, config_from, load_config
from gossamer.config.discovery import STRATEGIES, etcd_name

# The chart has tests of its own, and is too long for a page.
FILES = sorted(path for path in DEPLOY.rglob("*") if path.is_file() and DEPLOY / "helm" not in path.parents)
COMPOSED = sorted(path.parent.name for path in DEPLOY.glob("compose/*/compose.yaml"))
INCLUDED = re.compile(r"^\[`(deploy/[^`]+)`\]\(\.\./\.\./([^)]+)\):\n\n```\w+\n(.*?)^```$", re.M | re.S)
PORTS = {"mqtt": 1883, "api": 8091, "gossip": 7946, "gossip-tcp": 7946, "distribution": 4370}
EVERYWHERE = ("", "0.0.0.0")


def paths_of_the_api() -> set[str]:
    """What the API answers to."""
    return {getattr(route, "path", "") for route in make_app(FakeView()).routes} | set(
        make_app(FakeView()).openapi()["paths"]
    )


# -- pages


def test_every_strategy_has_its_page_with_an_example() -> None:
    index = (PAGES / "README.md").read_text()
    for strategy in STRATEGIES:
        page = (PAGES / f"{strategy}.md").read_text()
        assert f"({strategy}.md)" in index
        assert f"strategy: {strategy}" in page
        assert INCLUDED.search(page)


def test_pages_show_the_files_as_they_are_and_leave_none_out() -> None:
    shown = set()
    for page in PAGES.glob("*.md"):
        found = INCLUDED.findall(page.read_text())
        assert len(found) == page.read_text().count("](../../deploy/"), page
        for name, target, text in found:
            assert name == target
            assert (ROOT / name).read_text() == text, f"{page.name} shows another {name}"
            shown.add(ROOT / name)
    # Nobody reads the dashboard as text.
    helpers = {DEPLOY / "Dockerfile.dockerignore", DEPLOY / "monitoring" / "grafana.json"}
    assert shown == set(FILES) - helpers


def commands() -> list[str]:
    found = []
    for path in [*PAGES.glob("*.md"), *FILES]:
        for line in path.read_text().splitlines():
            found += re.findall(r"^\$ (.*)", line) + re.findall(r"`(gossamer [^`]+)`", line)
            found += re.findall(r"^\s*# (gossamer .*|kubectl .*|docker .*)", line)
    return found


def gossamer_commands() -> list[list[str]]:
    found = []
    for line in commands():
        words = shlex.split(line)
        if words[0] == "etcdctl":
            continue
        found += [words[at + 1 :] for at, word in enumerate(words) if Path(word).name == "gossamer"][-1:]
    started = DEPLOY / "systemd" / "gossamer.service"
    words = re.search(r"^ExecStart=(.*)", started.read_text(), re.M)
    assert words
    return [command for command in [*found, words[1].split()[1:]] if command]


@pytest.mark.parametrize("words", gossamer_commands(), ids=" ".join)
def test_every_command_of_a_page_is_there_with_its_options(words: list[str]) -> None:
    command: Any = typer.main.get_command(app)
    below = command.whole()
    while words and words[0] in below:
        command, words = below[words[0]], words[1:]
        below = getattr(command, "commands", {})
    assert not getattr(command, "commands", None), f"no command {words}"
    known = {option for each in command.params for option in (*each.opts, *each.secondary_opts)}
    assert [word for word in words if word.startswith("-") and word not in known] == []


def test_files_that_commands_name_are_there() -> None:
    names = [name for line in commands() for name in re.findall(r"deploy/[\w./-]+", line)]
    assert len(names) > 15
    assert [name for name in names if not (ROOT / name).exists()] == []


# -- configurations


@pytest.mark.parametrize(
    "path", [p for p in FILES if p.suffix == ".yaml"], ids=lambda p: str(p.relative_to(DEPLOY))
)
def test_every_yaml_can_be_read(path: Path) -> None:
    assert documents(path)


def loaded(path: Path, environ: dict[str, str] | None = None) -> Config:
    return load_config(path, environ=environ)


@pytest.mark.parametrize("name", COMPOSED)
def test_what_compose_mounts_is_a_configuration_of_that_strategy(name: str) -> None:
    tree = compose(name)
    names, data = set(), set()
    for key, service in tree["services"].items():
        mounts = dict(volume.split(":")[:2] for volume in service["volumes"])
        assert mounts["./node.yaml"] == "/etc/gossamer/node.yaml"
        node = loaded(DEPLOY / "compose" / name / "node.yaml", environment(service))
        assert node.cluster.discovery.strategy == name
        # Seen from the other containers: nothing but the API, which is asked from inside, is on loopback.
        assert (node.cluster.host, node.distribution.host) == ("", "")
        assert (node.api.host, node.api.port) == ("127.0.0.1", 8091)
        assert [(one.host, one.port) for one in node.mqtt.server.listeners] == [("", 1883)]
        assert all(
            str(port).startswith("127.0.0.1:") and str(port).endswith(":1883") for port in service["ports"]
        )
        assert node.node.cookie or len(tree["services"]) == 1
        names.add(service.get("hostname", f"{key} is named by Docker"))
        data.add(
            mounts.get("/var/lib/gossamer") or next((m for m in mounts if m in tree.get("volumes", {})), key)
        )
        build = service["build"]
        assert (DEPLOY / "compose" / name / build["context"]).resolve() == ROOT
        assert (ROOT / build["dockerfile"]).is_file()
    assert len(names) == len(data) == len(tree["services"])
    assert set(tree.get("volumes", {})) <= data


def test_seeds_and_members_of_compose_are_its_services() -> None:
    services = compose("static")["services"]
    seeds = loaded(DEPLOY / "compose/static/node.yaml").cluster.seed_endpoints
    assert {seed.host for seed in seeds} == set(services) == {s["hostname"] for s in services.values()}
    assert {seed.port for seed in seeds} == {7946}
    dns: Any = loaded(DEPLOY / "compose/dns/node.yaml").cluster.discovery
    assert {dns.dns.name} == set(compose("dns")["services"])
    for service in compose("etcd")["services"].values():
        node = loaded(DEPLOY / "compose/etcd/node.yaml", environment(service))
        etcd: Any = node.cluster.discovery
        peers = dict(pair.split("=", 1) for pair in etcd.etcd.initial_cluster.split(","))
        assert etcd_name(node.node.name, etcd.etcd.initial_cluster) == service["hostname"]
        assert peers[service["hostname"]] == f"http://{service['hostname']}:{etcd.etcd.bind_addr.port}"


def test_an_etcd_that_runs_already_is_a_configuration_too() -> None:
    path = DEPLOY / "compose/etcd/external.yaml"
    (name,) = re.findall(r"GOSSAMER_\w+", path.read_text())
    etcd: Any = loaded(path, {name: "secret"}).cluster.discovery
    assert etcd.etcd.tls.on
    assert etcd.etcd.password.get_secret_value() == "secret"


# -- the image


def test_the_image_runs_a_node_as_a_user_of_its_own() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    assert re.findall(r"^FROM \S+(.*)", text, re.M) == [" AS build", ""]
    assert len(re.findall(r"^FROM python:3\.11", text, re.M)) == 2
    assert re.search(r"^USER 10001$", text, re.M)
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().split()
    for name in (name[1:] for name in ignored if name.startswith("!")):
        assert (ROOT / name).exists(), name
    for name in re.findall(r"COPY (?:--chmod=\S+ )?(deploy/\S+)", text):
        assert f"!{name}" in ignored
    extras = re.search(r"pins.py ([\w ]+) >running.txt", text)
    assert extras
    assert set(extras[1].split()) == {"dns", "etcd", "k8s"}
    # Nothing comes from an index but with a hash.
    assert all(
        "--require-hashes" in line or "--no-index" in line
        for line in re.findall(r"pip (?:install|wheel) .*", text)
    )
    exposed = re.search(r"^EXPOSE (.*)", text, re.M)
    assert exposed
    assert {int(port.partition("/")[0]) for port in exposed[1].split()} == set(PORTS.values())
    assert "/ready" in paths_of_the_api()
    # What is installed is the wheel that was built, not the sources.
    assert re.search(r"pip wheel .*--wheel-dir /wheels \.", text)
    assert not re.search(r"pip install [^\n]*(-e|\.$)", text, re.M)


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1)])
def test_the_health_check_asks_whether_the_node_is_ready_and_no_proxy(status: int, code: int) -> None:
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", "")
    found = re.search(r"^HEALTHCHECK .*?CMD (\[.*\])$", text, re.M)
    assert found
    asked = []

    class Probed(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Probed) as server:
        Thread(target=server.handle_request).start()
        python, *rest = json.loads(found[1])
        rest = [word.replace("8091", str(server.server_port)) for word in rest]
        nowhere = {"http_proxy": "http://127.0.0.1:9", "PATH": "/usr/bin"}
        assert python == "python"
        assert (
            subprocess.run([sys.executable, *rest], env=nowhere, check=False, timeout=60).returncode == code
        )
    assert asked == ["/ready"]


def test_the_entry_point_names_the_node_after_its_container(tmp_path: Path) -> None:
    fake = tmp_path / "gossamer"
    fake.write_text('#!/bin/sh\necho "$GOSSAMER_NODE__NAME $*"\n')
    fake.chmod(0o755)
    script = DEPLOY / "entrypoint.sh"
    (tmp_path / "hostname").write_text("#!/bin/sh\necho 3f2a9c0d1e4b\n")
    (tmp_path / "hostname").chmod(0o755)

    def run(**environ: str) -> str:
        environ["PATH"] = f"{tmp_path}:/usr/bin:/bin"
        done = subprocess.run(
            [script, "start", "-c", "x"], env=environ, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    assert run() == "gossamer@3f2a9c0d1e4b start -c x"
    assert run(GOSSAMER_NODE__NAME="node1@node1") == "node1@node1 start -c x"
    config_from({"node": {"name": run().split()[0]}})


# -- systemd


@pytest.mark.parametrize("name", ["static", "manual"])
def test_what_the_unit_starts_is_a_configuration_of_that_strategy(name: str) -> None:
    config = loaded(DEPLOY / "systemd" / f"{name}.yaml")
    assert config.cluster.discovery.strategy == name
    unit = (DEPLOY / "systemd" / "gossamer.service").read_text()
    state = re.search(r"^StateDirectory=(.*)", unit, re.M)
    assert state
    assert str(config.node.data_dir) == f"/var/lib/{state[1]}"
    host = config.node.name.partition("@")[2]
    assert {config.cluster.host, config.distribution.host, config.mqtt.server.listeners[0].host} == {host}


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
def test_the_unit_gives_up_what_a_node_does_not_need() -> None:
    # 0 is nothing at all, 10 everything; the network and files of its own it needs.
    unit = DEPLOY / "systemd" / "gossamer.service"
    command = ["systemd-analyze", "security", "--offline=yes", "--threshold=20", "--no-pager", unit]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout.splitlines()[-1]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
def test_systemd_has_nothing_to_say_about_the_unit(tmp_path: Path) -> None:
    text = (DEPLOY / "systemd" / "gossamer.service").read_text()
    program = Path(sys.executable).with_name("gossamer")
    unit = tmp_path / "gossamer.service"
    unit.write_text(text.replace("/opt/gossamer/bin/gossamer", str(program)))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", unit],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")

"""The parts of ``gossamer up`` that need no node: plan, ports, directory, readiness."""

import itertools
import json
import socket

import pytest
import yaml

from gossamer.config import config_from, load_config
from gossamer.distribution import LinkCertificates
from gossamer.errors import UnavailableError, UsageError
from gossamer.launch import (
    WEBSOCKET,
    PortSpec,
    Workspace,
    check_ports,
    chooser,
    make_plan,
    node_environment,
    plan_with_websockets,
)
from gossamer.launch.child import describe_end, missing_of
from gossamer.launch.plan import BadPortsError, node_tree
from gossamer.launch.workspace import cluster_facts
from gossamer.node.configured_files import file_problems

OPTIONS = {
    "mqtt": "--mqtt-port",
    "api": "--api-port",
    "gossip": "--gossip-port",
    "distribution": "--d-port",
    "mqtt_tls": "--tls-port",
}
DEFAULTS = {"mqtt": "1883", "api": "8091", "gossip": "7946", "distribution": "4370"}


def plan(directory, *, nodes=3, shared_port=None, choose=None, **texts):
    specs = {service: PortSpec(OPTIONS[service], text) for service, text in {**DEFAULTS, **texts}.items()}
    counter = itertools.count(20_000)
    return make_plan(
        nodes=nodes,
        directory=directory,
        env="Test",
        specs=specs,
        shared_port=shared_port,
        choose=choose or (lambda: next(counter)),
    )


def test_ports_count_up_from_those_of_node_1(tmp_path):
    nodes = plan(tmp_path).nodes
    assert nodes[0].ports == {"mqtt": 1883, "api": 8091, "gossip": 7946, "distribution": 4370}
    assert nodes[2].ports == {"mqtt": 1885, "api": 8093, "gossip": 7948, "distribution": 4372}
    assert [node.name for node in nodes] == ["node1@127.0.0.1", "node2@127.0.0.1", "node3@127.0.0.1"]


def test_ports_can_be_listed_and_chosen(tmp_path):
    nodes = plan(tmp_path, mqtt="1883, 2883,0", api="0").nodes
    assert [node.ports["mqtt"] for node in nodes] == [1883, 2883, 20_000]
    assert [node.ports["api"] for node in nodes] == [20_001, 20_002, 20_003]


@pytest.mark.parametrize("text", ["x", "", "-1", "1,2", "65535", "1883,1883,1884", "70000"])
def test_ports_that_do_not_fit_name_the_option(tmp_path, text):
    with pytest.raises(BadPortsError, match="--mqtt-port: got"):
        plan(tmp_path, mqtt=text)


def test_one_port_for_two_things_is_refused(tmp_path):
    with pytest.raises(BadPortsError, match="it is mqtt of node2 already"):
        plan(tmp_path, api="1884")
    with pytest.raises(BadPortsError, match="--shared-port already"):
        plan(tmp_path, shared_port=1884)


def test_the_written_file_is_a_configuration(tmp_path):
    cluster = plan(tmp_path, shared_port=1000)
    config = config_from(node_tree(cluster, cluster.nodes[1]))
    assert config.node.name == "node2@127.0.0.1"
    assert [seed.port for seed in config.cluster.seed_endpoints] == [7946, 7947, 7948]
    assert [(row.port, row.reuse_port) for row in config.mqtt.server.listeners] == [
        (1884, False),
        (1000, True),
    ]
    assert config.mqtt.auth.allow_anonymous


def test_taken_ports_are_all_named(tmp_path):
    choose = chooser()
    cluster = plan(tmp_path, mqtt="0", api="0", gossip="0", distribution="0", choose=choose)
    check_ports(cluster, OPTIONS)
    mqtt, gossip = cluster.nodes[0].ports["mqtt"], cluster.nodes[2].ports["gossip"]
    with (
        socket.create_server(("127.0.0.1", mqtt)),
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams,
    ):
        datagrams.bind(("127.0.0.1", gossip))
        with pytest.raises(UnavailableError) as taken:
            check_ports(cluster, OPTIONS)
    assert str(taken.value).splitlines()[1:] == [
        f"  port {mqtt} (mqtt of node1@127.0.0.1): set --mqtt-port to another",
        f"  port {gossip} (gossip of node3@127.0.0.1): set --gossip-port to another",
    ]


def test_chosen_ports_are_free_and_never_the_same():
    choose = chooser()
    ports = [choose() for _ in range(20)]
    assert len(set(ports)) == 20


class TestWebSockets:
    @pytest.fixture(autouse=True)
    def in_use(self, monkeypatch):
        """Ports that other programs have."""
        taken = set()
        monkeypatch.setattr("gossamer.launch.plan._is_free", lambda port, **_: port not in taken)
        return taken

    @staticmethod
    def ports_of(tmp_path, *, nodes=3, others_chosen=False, **texts):
        choose = itertools.count(20_000)

        def make(websockets):
            return make_plan(
                nodes=nodes,
                directory=tmp_path,
                env="Test",
                specs={
                    **{name: PortSpec(OPTIONS[name], text) for name, text in (DEFAULTS | texts).items()},
                    "mqtt_ws": websockets,
                },
                shared_port=None,
                choose=lambda: next(choose),
            )

        made = plan_with_websockets(make, WEBSOCKET, option="--ws-port", others_chosen=others_chosen)
        return [node.ports["mqtt_ws"] for node in made.nodes]

    def test_they_count_up_and_64_nodes_do_not_meet_other_ports(self, tmp_path):
        assert self.ports_of(tmp_path) == [9001, 9002, 9003]
        assert self.ports_of(tmp_path, nodes=64)[-1] == 9064

    def test_they_give_way_to_other_programs_and_to_what_was_asked_for(self, tmp_path, in_use):
        assert self.ports_of(tmp_path, api="9000") == [20_000, 20_001, 20_002]
        in_use.add(9003)
        assert self.ports_of(tmp_path) == [20_000, 20_001, 20_002]
        assert self.ports_of(tmp_path, mqtt="20000") == [20_003, 20_004, 20_005]

    def test_they_are_chosen_where_the_others_are(self, tmp_path):
        assert self.ports_of(tmp_path, others_chosen=True) == [20_000, 20_001, 20_002]

    def test_what_does_not_fit_of_the_others_is_said(self, tmp_path):
        with pytest.raises(BadPortsError, match="--api-port"):
            self.ports_of(tmp_path, api="1884")


class TestWorkspace:
    def test_one_launcher_a_directory(self, tmp_path):
        with Workspace(tmp_path), pytest.raises(UnavailableError, match="another --data-dir"):
            Workspace(tmp_path)
        with Workspace(tmp_path):
            pass

    def test_nodes_share_a_cookie_in_files_of_their_own(self, tmp_path):
        cluster = plan(tmp_path, nodes=2)
        with Workspace(tmp_path) as workspace:
            workspace.prepare(cluster)
            cookies = {(node.directory / ".cookie").read_text() for node in cluster.nodes}
            assert len(cookies) == 1
            for node in cluster.nodes:
                assert (node.directory / ".cookie").stat().st_mode & 0o077 == 0
                assert load_config(node.config_file).node.name == node.name
                assert cookies.isdisjoint(node.config_file.read_text().split())
            # Again, as a second start does, keeps the cookie.
            workspace.prepare(cluster)
            assert {(node.directory / ".cookie").read_text() for node in cluster.nodes} == cookies

    def test_facts_are_there_while_ready(self, tmp_path):
        cluster = plan(tmp_path, nodes=1, shared_port=999)
        (tmp_path / "cluster.json").write_text("stale")
        with Workspace(tmp_path) as workspace:
            assert not workspace.facts_file.exists()
            workspace.write_facts(cluster_facts(cluster, {"node1@127.0.0.1": 42}))
            assert json.loads(workspace.facts_file.read_text()) == {
                "nodes": [
                    {
                        "name": "node1@127.0.0.1",
                        "pid": 42,
                        "ports": {"mqtt": 1883, "api": 8091, "gossip": 7946, "distribution": 4370},
                    }
                ],
                "shared_port": 999,
            }
        assert not workspace.facts_file.exists()

    def test_a_directory_that_cannot_be_made_is_named(self, tmp_path):
        (tmp_path / "file").touch()
        with pytest.raises(UsageError, match="--data-dir"):
            Workspace(tmp_path / "file" / "data")

    def test_the_written_file_says_who_wrote_it(self, tmp_path):
        cluster = plan(tmp_path, nodes=1)
        with Workspace(tmp_path) as workspace:
            workspace.prepare(cluster)
        text = cluster.nodes[0].config_file.read_text()
        assert text.startswith("# Written by gossamer up")
        assert yaml.safe_load(text)["cluster"]["env"] == "Test"


@pytest.mark.parametrize(
    ("answer", "lack"),
    [
        (None, "does not answer yet"),
        ({"ready": False, "waiting": ["table routes"]}, "table routes"),
        ({"ready": False}, "not ready"),
        ({"ready": True, "members": ["a"]}, "does not see b"),
        ({"ready": True, "members": ["a", "b", "c"]}, ""),
    ],
)
def test_a_node_is_ready_when_it_says_so_and_sees_all(answer, lack):
    assert missing_of(answer, {"a", "b"}) == lack


def test_an_end_is_told_in_words():
    assert describe_end(("signal", "SIGKILL")) == "killed by SIGKILL"
    assert describe_end(("exit_status", 3)) == "exit code 3"
    assert describe_end("normal") == "exit code 0"


def test_with_tls_every_node_gets_a_certificate_of_its_own_from_an_authority_that_stays(tmp_path):
    cluster = plan(tmp_path, nodes=2, mqtt_tls="8883")
    with Workspace(tmp_path) as workspace:
        workspace.prepare(cluster)
        ca = (tmp_path / "tls" / "ca.pem").read_bytes()
        workspace.prepare(cluster)
    assert (tmp_path / "tls" / "ca.pem").read_bytes() == ca
    for node in cluster.nodes:
        config = load_config(node.config_file, environ={})
        assert file_problems(config) == []
        assert node.api.startswith("https://")
        assert LinkCertificates(config.distribution.tls, node.name).identity.names.nodes == (node.name,)
        for key in (tmp_path / "tls").glob("*.key"):
            assert key.stat().st_mode & 0o077 == 0
    assert cluster_facts(cluster, {node.name: 1 for node in cluster.nodes})["ca_file"].endswith("tls/ca.pem")


def test_an_authority_that_cannot_be_used_says_what_to_do(tmp_path):
    cluster = plan(tmp_path, nodes=1, mqtt_tls="8883")
    with Workspace(tmp_path) as workspace:
        workspace.prepare(cluster)
        (tmp_path / "tls" / "ca.key").write_text("half a key")
        with pytest.raises(UsageError, match=r"--tls: got .*remove both"):
            workspace.prepare(cluster)


def test_applications_of_the_environment_run_on_every_node_and_what_a_file_says_does_not(monkeypatch):
    monkeypatch.setenv("GOSSAMER_NODE__APPLICATIONS", '["bank:application"]')
    monkeypatch.setenv("GOSSAMER_NODE__NAME", "node7@127.0.0.1")
    found = node_environment()
    assert found["GOSSAMER_NODE__APPLICATIONS"] == '["bank:application"]'
    assert "GOSSAMER_NODE__NAME" not in found

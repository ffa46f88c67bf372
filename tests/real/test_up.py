"""``gossamer up`` with real processes: what it promises to scripts and people."""

import json
import os
import signal
import socket

import psutil
import pytest

from gossamer.cli import ExitCode
from real.harness import FREE_PORTS, Cluster, Node, alive, eventually, node_file, run


def is_free(port, kind=socket.SOCK_STREAM):
    with socket.socket(socket.AF_INET, kind) as probe:
        if kind == socket.SOCK_STREAM:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


class TestReady:
    def test_the_ready_line_and_cluster_json_say_the_same(self, cluster):
        assert cluster.facts_file() == {"nodes": cluster.nodes}
        assert [node["name"] for node in cluster.nodes] == [f"node{n}@127.0.0.1" for n in (1, 2, 3)]
        for node in cluster.nodes:
            assert set(node["ports"]) == {"mqtt", "api", "gossip", "distribution", "mqtt_ws"}
            assert psutil.pid_exists(node["pid"])

    def test_every_node_answers_with_the_whole_cluster(self, cluster):
        pids = {node["pid"] for node in cluster.nodes}
        ports = {node["ports"]["gossip"] for node in cluster.nodes}
        locals_ = set()
        for number in (1, 2, 3):
            answer = cluster.get(number, "/cluster")
            assert set(answer) == {"env", "nodes", "local"}
            assert answer["env"] == "gossamer"
            assert {node["pid"] for node in answer["nodes"]} == pids
            assert {node["port"] for node in answer["nodes"]} == ports
            assert all(set(node) == {"id", "address", "port", "pid"} for node in answer["nodes"])
            locals_.add(answer["local"])
        assert len(locals_) == 3

    @pytest.mark.parametrize(
        "command",
        [
            ["cluster", "status"],
            ["nodes"],
            ["routes"],
            ["topics"],
            ["subscriptions"],
            ["clients"],
            ["tables"],
            ["ps"],
        ],
    )
    def test_every_look_works_on_the_real_thing(self, cluster, command):
        outcome = run(*command, "--json", "--api", cluster.api(2))
        assert (outcome.returncode, outcome.stderr) == (0, "")
        assert json.loads(outcome.stdout)
        assert run(*command, "--api", cluster.api(2)).returncode == 0

    def test_metrics_are_served(self, cluster):
        import httpx

        text = httpx.get(cluster.api(1) + "/metrics", trust_env=False).text
        assert "gossamer_" in text

    def test_the_directory_is_held(self, cluster):
        outcome = run("up", "--nodes", "1", "--data-dir", cluster.data_dir, *FREE_PORTS)
        assert outcome.returncode == ExitCode.UNAVAILABLE
        assert "give another --data-dir" in outcome.stderr
        # The one that was refused left what the other one wrote.
        assert cluster.facts_file() is not None

    def test_a_taken_port_is_named_with_the_option_to_change(self, cluster, tmp_path):
        ports = [*FREE_PORTS[2:], "--mqtt-port", cluster.port(2)]
        outcome = run("up", "--nodes", "1", "--data-dir", tmp_path, *ports)
        assert outcome.returncode == ExitCode.UNAVAILABLE
        assert (
            f"port {cluster.port(2)} (mqtt of node1@127.0.0.1): set --mqtt-port to another" in outcome.stderr
        )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_no_process_and_no_port(tmp_path, number):
    with Cluster(tmp_path, "--shared-port", "19883", nodes=2) as cluster:
        family = cluster.family()
        assert len(family) >= 3
        assert cluster.facts["shared_port"] == 19883
        with socket.create_connection(("127.0.0.1", 19883)):
            pass
        assert cluster.end(number) == ExitCode.DONE
        assert [process for process in family if process.is_running()] == []
        for node in cluster.nodes:
            assert all(is_free(port) for port in node["ports"].values())
            assert is_free(node["ports"]["gossip"], socket.SOCK_DGRAM)
        assert is_free(19883)
        assert cluster.facts_file() is None


def test_a_killed_node_is_restarted_and_rejoins(tmp_path):
    with Cluster(tmp_path, nodes=3) as cluster:
        before = cluster.nodes[1]["pid"]
        os.kill(before, signal.SIGKILL)
        eventually(lambda: "ready again" in cluster.err, says="ready again")
        assert "node2@127.0.0.1 ended (killed by SIGKILL); restarting it" in cluster.err
        facts = cluster.facts_file()
        assert facts["nodes"][1]["pid"] != before
        assert psutil.pid_exists(facts["nodes"][1]["pid"])
        assert [facts["nodes"][n] for n in (0, 2)] == [cluster.nodes[n] for n in (0, 2)]

        def seen():
            nodes = cluster.get(1, "/cluster")["nodes"]
            return {node["pid"] for node in nodes} == {node["pid"] for node in facts["nodes"]}

        eventually(seen, says="node 1 sees the new life of node 2")


def test_a_killed_launcher_takes_its_nodes_along(tmp_path):
    with Cluster(tmp_path, nodes=2) as cluster:
        family = cluster.family()
        cluster.end(signal.SIGKILL)
        eventually(lambda: not alive(family), seconds=20, says="all nodes are gone")


class TestStart:
    """One node by itself."""

    def test_it_runs_until_told_to_stop(self, tmp_path):
        node = Node(tmp_path)
        try:
            assert node.wait_for_ready()["name"] == "solo@127.0.0.1"
            assert set(node.ports) >= {"mqtt", "api", "gossip", "distribution"}
        finally:
            code = node.end()
        assert code == ExitCode.DONE
        # Clients without credentials are refused unless somebody says otherwise, which is worth a remark.
        assert "allow_anonymous" in node.err

    @pytest.mark.parametrize(
        ("section", "key"),
        [
            ({"mqtt": {"server": {"listeners": [{"port": 0}]}}}, "mqtt.server.listeners[0].port"),
            ({"api": {"port": 0}}, "api.port"),
            ({"distribution": {"port": 0}}, "distribution.port"),
            ({"cluster": {"port": 0}}, "cluster.port"),
        ],
    )
    def test_a_taken_port_names_the_key(self, tmp_path, section, key):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            text = json.dumps(section).replace('"port": 0', f'"port": {port}')
            outcome = run("start", "-c", node_file(tmp_path, **json.loads(text)))
        assert outcome.returncode == ExitCode.UNAVAILABLE
        error = outcome.stderr.splitlines()[-1]
        assert key in error
        assert f":{port}" in error
        assert outcome.stderr.count(str(port)) == 1, outcome.stderr

    def test_a_second_node_with_the_same_name_ends_and_says_why(self, tmp_path):
        first = Node(tmp_path / "1")
        try:
            seeds = [f"127.0.0.1:{first.ports['gossip']}"]
            cookie = (tmp_path / "1" / "data" / ".cookie").read_text()
            second = Node(tmp_path / "2", node={"cookie": cookie}, cluster={"seed_endpoints": seeds})
            try:
                eventually(lambda: second.process.poll() is not None, seconds=40, says="it has ended")
                assert "solo@127.0.0.1" in second.err.splitlines()[-1]
                assert "node.name" in second.err.splitlines()[-1]
                assert second.process.returncode in {ExitCode.UNAVAILABLE, ExitCode.NODE_ENDED}
            finally:
                second.end()
            # The first one is not affected.
            assert run("nodes", "--api", first.api).returncode == 0
        finally:
            first.end()

    def test_a_second_node_on_the_same_directory_is_refused(self, tmp_path):
        first = Node(tmp_path)
        try:
            first.wait_for_ready()
            outcome = run("start", "-c", tmp_path / "node.yaml")
        finally:
            first.end()
        assert outcome.returncode == ExitCode.UNAVAILABLE
        assert "node.data_dir" in outcome.stderr


def test_a_cluster_that_takes_too_long_says_who_lacks_what_and_leaves_nothing(tmp_path):
    outcome = run("up", "--nodes", "2", "--timeout", "1", "--data-dir", tmp_path, *FREE_PORTS)
    assert outcome.returncode == ExitCode.UNAVAILABLE
    assert "the cluster is not ready after 1 s; see node.log of each node:" in outcome.stderr
    assert "node1@127.0.0.1: " in outcome.stderr
    assert "Traceback" not in outcome.stderr
    assert not (tmp_path / "cluster.json").exists()

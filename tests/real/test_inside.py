"""Looking inside a running cluster: ``gossamer ps`` and ``gossamer trace``."""

import json
import signal
import subprocess
from contextlib import contextmanager

import httpx
import pytest

from gossamer.cli import ExitCode
from real.harness import Cluster, Program, eventually, run


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("cluster"), nodes=2) as cluster:
        yield cluster


def walk(items):
    for item in items:
        yield item
        yield from walk(item["children"])


def process(cluster, number, name):
    """The process registered under ``name`` on node ``number``."""
    return next(item for item in walk(cluster.get(number, "/api/v1/processes")) if item["name"] == name)


@contextmanager
def traced(cluster, directory, pid, *options, ask=1):
    """``gossamer trace`` running against node ``ask``, once it has said that it traces."""
    program = Program(directory, "trace", pid, "--api", cluster.api(ask), *options)
    try:
        eventually(lambda: program.out or program.process.poll() is not None, says="the first line")
        yield program
    finally:
        program.end(signal.SIGKILL)


def test_ps_shows_the_whole_tree_in_line(cluster):
    outcome = run("ps", "--api", cluster.api(2))
    title, head, *lines = outcome.stdout.splitlines()
    assert title.startswith("node2@127.0.0.1: ")
    names = {item["name"] for item in walk(cluster.get(2, "/api/v1/processes"))}
    assert {"node", "gossip", "api", "routes", "autoheal"} <= names
    at = head.index("PROCESS")
    assert [line[at:].split()[0] for line in lines[:1]] == ["node"]
    assert all(line[at] in "├│└ " for line in lines[1:])
    assert all(line.split()[0].isdecimal() for line in lines)
    gossip = process(cluster, 2, "gossip")
    assert gossip["reductions"] > 0
    assert gossip["memory"] > 1000


def test_ps_names_the_client_of_a_connection(cluster):
    command = ["mosquitto_sub", "-p", cluster.port(1), "-i", "sensor-7", "-t", "a/b"]
    with subprocess.Popen(command) as subscriber:
        try:

            def channel():
                rows = walk(cluster.get(1, "/api/v1/processes"))
                return next((row for row in rows if row["note"].startswith("sensor-7 from 127.0.0.1:")), None)

            row = eventually(channel, says="the connection in the tree")
            assert row["label"] == "mqtt_channel"
            assert "sensor-7 from 127.0.0.1:" in run("ps", "--api", cluster.api(1)).stdout
        finally:
            subscriber.terminate()


def test_a_process_of_another_node_is_traced_as_it_works(cluster, tmp_path):
    pid = process(cluster, 2, "gossip")["pid"]
    with traced(cluster, tmp_path, pid, "--json", ask=1) as trace:
        # A call that somebody makes meanwhile is seen coming in and going out.
        assert run("cluster", "keys", "list", "--api", cluster.api(2)).returncode == 0
        eventually(lambda: "reply" in trace.out, says="the answer")
        lines = [json.loads(line) for line in trace.out.splitlines()]
        assert lines[0]["event"] == "tracing"
        assert lines[0]["peer"] == pid
        asked = next(line for line in lines if line["event"] == "call" and "Keys" in line["text"])
        assert (asked["way"], asked["text"]) == ("in", "Keys(action='list', key=***)")
        assert trace.end(signal.SIGINT) == ExitCode.DONE
    assert "the process lives on" in trace.err
    assert "Traceback" not in trace.err
    assert process(cluster, 2, "gossip")["pid"] == pid


def test_a_trace_is_over_after_its_lines(cluster):
    outcome = run("trace", "loop_watch", "--limit", "2", "--api", cluster.api(2))
    assert outcome.returncode == 0
    lines = [line.split() for line in outcome.stdout.splitlines()]
    assert [line[1] for line in lines if line[1] in ("tracing", "over")] == ["tracing", "over"]
    assert len(lines) == 4


def test_the_end_of_the_process_ends_the_trace(cluster, tmp_path):
    channel = ["mosquitto_sub", "-p", cluster.port(1), "-i", "ends", "-t", "a"]
    with subprocess.Popen(channel) as subscriber:

        def row():
            rows = walk(cluster.get(1, "/api/v1/processes"))
            return next((row for row in rows if row["note"].startswith("ends from")), None)

        pid = eventually(row, says="the connection in the tree")["pid"]
        with traced(cluster, tmp_path, pid) as trace:
            publish = ["mosquitto_pub", "-p", cluster.port(2), "-t", "a", "-m", "not for all eyes"]
            subprocess.run(publish, check=True, timeout=30)
            eventually(lambda: "PUBLISH a qos=0" in trace.out, says="the message in the trace")
            assert "eyes" not in trace.out
            subscriber.terminate()
            eventually(lambda: trace.process.poll() is not None, says="the trace is over")
            assert trace.process.returncode == 0
            assert "connection closed" in trace.out.splitlines()[-1]


def test_who_is_not_there_or_not_in_the_cluster_is_told(cluster):
    nobody = run("trace", "no_such_name", "--api", cluster.api(1))
    assert (nobody.returncode, nobody.stdout) == (ExitCode.REFUSED, "")
    assert "no process no_such_name on node1@127.0.0.1" in nobody.stderr
    elsewhere = httpx.get(
        cluster.api(1) + "/api/v1/trace", params={"pid": "<node2@127.0.0.1.3>"}, trust_env=False
    )
    assert elsewhere.status_code == 400
    assert "--node node2@127.0.0.1" in elsewhere.json()["detail"]

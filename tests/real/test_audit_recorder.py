"""The recorder of a running node, as operators meet it: its commands, and a writer that stands still."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from gossamer.mqtt import encode
from gossamer.mqtt.codec import packets as p
from real.clients import Mqtt
from real.harness import Cluster, eventually, run

pq = pytest.importorskip("pyarrow.parquet")

TOPICS = 500
BUFFER = 1000


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("solo"), nodes=1) as cluster:
        yield cluster


def audit(cluster: Cluster, *arguments: str) -> dict[str, Any]:
    """What ``gossamer audit … --json`` says of the node."""
    done = run("audit", *arguments, "--api", cluster.api(1), "--json")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["items"]
    return dict(row)


def change(cluster: Cluster, **settings: Any) -> dict[str, Any]:
    answer = httpx.post(cluster.api(1) + "/api/v1/audit", json=settings, trust_env=False, timeout=60)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def status(cluster: Cluster) -> dict[str, Any]:
    """The same over HTTP, which is quicker."""
    return dict(cluster.get(1, "/api/v1/audit"))


class Speaker:
    """Sends as fast as a socket takes it, each message of a turn to a topic of its own; hears of the end."""

    def __init__(self, cluster: Cluster) -> None:
        self.socket = socket.create_connection(("127.0.0.1", int(cluster.port(1))), timeout=120)
        self.socket.sendall(encode(p.Connect(client_id="speaker"), p.V4))
        assert self.socket.recv(4)[0] == 0x20
        self.listener = Mqtt(cluster.port(1), "listener", "over", qos=0)

    def say(self, turns: int) -> None:
        """So many messages to every topic, until the node has taken all of them."""
        turn = b"".join(encode(p.Publish(topic=f"t/{n}".encode(), payload=b"x"), p.V4) for n in range(TOPICS))
        for _ in range(turns):
            self.socket.sendall(turn)
        end = str(len(self.listener.got))
        self.socket.sendall(encode(p.Publish(topic=b"over", payload=end.encode()), p.V4))
        eventually(lambda: end in self.listener.payloads, seconds=120, says="the node serves")

    def leave(self) -> None:
        self.socket.close()
        self.listener.end()


def test_recording_is_switched_set_and_shown_while_the_node_runs(node: Cluster) -> None:
    assert status(node)["recording"] is False
    told = audit(node, "set", "--on", "--sample", "0.5", "--rotate-after", "2s", "--buffer", "5000")
    assert (told["recording"], told["sample"], told["buffer"]) == (True, 0.5, 5000)
    shown = run("audit", "status", "--api", node.api(1)).stdout.splitlines()
    assert shown[0].split()[:3] == ["NODE", "RECORDING", "SAMPLE"]
    assert shown[1].split()[1:3] == ["yes", "50%"]
    nothing = run("audit", "set", "--api", node.api(1))
    assert nothing.returncode == 2
    assert "nothing to set: give --on, --off, --sample" in nothing.stderr
    too_much = run("audit", "set", "--sample", "1.5", "--api", node.api(1))
    assert too_much.returncode != 0
    assert "Traceback" not in too_much.stderr
    assert status(node)["sample"] == 0.5
    assert audit(node, "set", "--off")["recording"] is False
    eventually(lambda: status(node)["files"], says="what was recorded is in a file")


def test_a_writer_that_stands_still_costs_bounded_memory_and_what_is_dropped_is_a_gap(node: Cluster) -> None:
    before = change(node, enable=True, sample=1.0, rotate_after="1h", buffer=BUFFER)
    process = psutil.Process(int(node.get(1, "/api/v1/members")[0]["pid"]))
    (writer,) = (one for one in process.children(recursive=True) if "gossamer.audit.writer" in one.cmdline())
    speaker = Speaker(node)
    speaker.say(2)
    writer.send_signal(signal.SIGSTOP)
    try:
        for _ in range(200):
            speaker.say(10)
            if status(node)["dropped"] > before["dropped"]:
                break
        held = process.memory_info().rss
        speaker.say(300)
        stalled = status(node)
        # Without a bound, what these were told of would be a hundred megabytes.
        assert process.memory_info().rss - held < 40 * 2**20
        assert stalled["buffered"] <= BUFFER
        assert stalled["dropped"] - before["dropped"] > 100 * TOPICS
        assert stalled["recording"]
    finally:
        writer.send_signal(signal.SIGCONT)
    eventually(lambda: status(node)["buffered"] < 10, says="the writer has caught up")
    speaker.say(1)
    speaker.leave()
    end = change(node, enable=False)
    assert end["gaps"] > before["gaps"]

    directory = Path(end["dir"])
    eventually(lambda: not list(directory.glob(".journals/*/*.journal")), says="finished files")
    files = sorted(directory.glob("day=*/hour=*/node=*/*.parquet"))
    rows = [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
    rows.sort(key=lambda row: row["seq"])
    gaps = [row for row in rows if row["event"] == "gap"]
    assert {row["reason"] for row in gaps} == {"overflow"}
    assert sum(row["count"] for row in gaps) == end["dropped"]
    # Each gap takes as many numbers as it lost and its own, so that nothing else is missing.
    seen = 0
    for row in rows:
        seen += 1 + (row["count"] if row["event"] == "gap" else 0)
        assert row["seq"] == seen, row
    assert seen == end["recorded"] + end["dropped"]

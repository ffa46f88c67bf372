"""From end to end: a cut that really loses messages, and an audit that finds what the clients counted."""

import json
import os
import time
from collections import Counter
from pathlib import Path

import httpx
import paho.mqtt.client as paho
import pytest

from real.harness import Cluster, eventually, run

pytest.importorskip("pyarrow")

TOPIC = "truth/of/all"


class Counting:
    """A client that counts what it gets, by payload."""

    def __init__(self, cluster: Cluster, number: int, name: str, qos: int | None = None) -> None:
        self.got: Counter[str] = Counter()
        self.client = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id=name)
        ready: list[object] = []
        self.client.on_message = lambda _client, _data, message: self.got.update([message.payload.decode()])
        self.client.on_connect = lambda *_: ready.append(True)
        self.client.on_subscribe = lambda *_: ready.append(True)
        self.client.connect("127.0.0.1", int(cluster.port(number)))
        self.client.loop_start()
        eventually(lambda: ready, says="CONNACK")
        if qos is not None:
            ready.clear()
            self.client.subscribe("truth/#", qos=qos)
            eventually(lambda: ready, says="SUBACK")

    def end(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


def gate(cluster: Cluster, number: int, *peers: int) -> None:
    """Cut node ``number`` off from ``peers``, and from nobody else."""
    faults = [{"peer": cluster.nodes[peer - 1]["name"], "cut": True} for peer in peers]
    answer = httpx.put(
        cluster.api(number) + "/api/v1/drill/faults", json={"faults": faults}, trust_env=False, timeout=30
    )
    assert answer.status_code == 200, answer.text


def status_of(cluster: Cluster, number: int, other: int) -> str:
    name = cluster.nodes[other - 1]["name"]
    members = cluster.get(number, "/api/v1/members")
    return next(str(m["status"]) for m in members if m["name"] == name)


class Story:
    """What was published, and what the clients got of it."""

    def __init__(self) -> None:
        self.published = 0
        self.received = 0
        self.lost = 0
        self.doubled = 0


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> tuple[Story, Path]:
    directory = tmp_path_factory.mktemp("audited")
    recording = directory / "recording"
    told = Story()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GOSSAMER_DRILL__FAULTS", "true")
        patch.setenv("GOSSAMER_AUDIT__ENABLE", "true")
        patch.setenv("GOSSAMER_AUDIT__DIR", str(recording))
        patch.setenv("GOSSAMER_AUDIT__ROTATE_AFTER", "5s")
        with Cluster(directory) as cluster:
            subscribers = [
                Counting(cluster, 1, "s1", qos=1),
                Counting(cluster, 2, "s2", qos=0),
                Counting(cluster, 3, "s3", qos=0),
                Counting(cluster, 3, "s3again", qos=1),
            ]
            speakers = [Counting(cluster, 1, "p1"), Counting(cluster, 2, "p2")]
            sent: list[str] = []

            def speak(count: int, qos: int) -> None:
                for _ in range(count):
                    speaker = speakers[len(sent) % 2].client
                    sent.append(str(len(sent)))
                    done = speaker.publish(TOPIC, sent[-1], qos=qos)
                    if qos:
                        done.wait_for_publish(30)
                    time.sleep(0.005)

            def everywhere() -> bool:
                return all(subscriber.got[sent[-1]] for subscriber in subscribers)

            # Around a change nothing is owed; what is published now is.
            time.sleep(1.5)
            speak(60, 0)
            speak(40, 1)
            eventually(everywhere, says="before the cut everybody gets everything")
            for number, peers in ((1, (3,)), (2, (3,)), (3, (1, 2))):
                gate(cluster, number, *peers)
            while any(status_of(cluster, *pair) != "offline" for pair in ((1, 3), (2, 3), (3, 1), (3, 2))):
                speak(20, 0)
            speak(20, 0)
            for number in (1, 2, 3):
                gate(cluster, number)
            for number in (1, 2, 3):
                eventually(
                    lambda n=number: len(cluster.get(n, "/ready").get("members", ())) == 3, says="whole again"
                )
            eventually(lambda: speak(1, 0) or everywhere(), says="messages cross again")
            eventually(lambda: cluster.get(1, "/api/v1/autoheal/history"), says="the split is healed")
            speak(50, 1)
            eventually(everywhere, says="after the cut everybody gets everything")
            time.sleep(1.5)
            for client in (*subscribers, *speakers):
                client.end()
    # The writers outlive their nodes, to finish what they were given.
    eventually(lambda: not list(recording.glob(".journals/*/*.journal")), says="finished files")
    for subscriber in subscribers:
        told.received += sum(1 for payload in sent if subscriber.got[payload])
        told.lost += sum(1 for payload in sent if not subscriber.got[payload])
        told.doubled += sum(1 for payload in sent if subscriber.got[payload] > 1)
    told.published = len(sent)
    return told, recording


def rows_of(recording: Path) -> list[dict[str, object]]:
    import pyarrow.parquet as pq

    files = sorted(recording.glob("day=*/hour=*/node=*/*.parquet"))
    return [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]


@pytest.mark.real
def test_the_record_of_three_nodes_says_what_their_clients_counted(story: tuple[Story, Path]) -> None:
    told, recording = story
    assert told.lost > 0, "the cut lost nothing, so there is nothing to find"
    rows = rows_of(recording)
    counts: Counter[str] = Counter()
    for row in rows:
        counts[str(row["event"])] += int(str(row["count"]))
    assert counts["published"] == told.published
    assert counts["delivered"] == told.received + told.doubled
    assert counts["gap"] == 0
    assert counts["partition"] >= 1
    assert counts["healed"] >= 1
    assert {str(row["reason"]) for row in rows if row["event"] == "node_down"} >= {"down"}
    by_node: dict[object, list[int]] = {}
    for row in rows:
        by_node.setdefault(row["recorder"], []).append(int(str(row["seq"])))
    assert len(by_node) == 3
    for numbers in by_node.values():
        assert sorted(numbers) == list(range(1, len(numbers) + 1)), "an event is missing or there twice"


@pytest.mark.real
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_the_audit_finds_the_number_that_was_lost(story: tuple[Story, Path], tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    told, recording = story
    done = run(
        *("audit", "run", "completeness", "--dir", recording, "--out", tmp_path / "out", "--memory", "1g"),
        timeout=300,
        env={**os.environ},
    )
    assert done.returncode == 0, done.stderr + done.stdout
    found = json.loads((tmp_path / "out" / "completeness" / "summary.json").read_text())
    numbers = found["jobs"]["completeness"]["numbers"]
    assert numbers["lost"] == told.lost
    assert numbers["delivered"] + numbers["late"] == told.received - told.doubled
    assert numbers["doubled"] == told.doubled
    assert numbers["misrouted"] == numbers["undecidable"] == 0

"""From end to end: a cut that loses messages, a node that is killed with all its processes, and an audit that
finds what the clients counted.

One cluster and one run of Spark for both: what happened until the kill is judged by itself first.
"""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import paho.mqtt.client as paho
import psutil
import pytest

from real.harness import Cluster, eventually

pytest.importorskip("pyarrow")

TOPIC = "truth/of/all"


class Counting:
    """A client that counts what it gets, by payload."""

    def __init__(
        self, cluster: Cluster, number: int, name: str, qos: int | None = None, port: str = ""
    ) -> None:
        self.name = name
        self.got: Counter[str] = Counter()
        self.client = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id=name)
        ready: list[object] = []
        self.client.on_message = lambda _client, _data, message: self.got.update([message.payload.decode()])
        self.client.on_connect = lambda *_: ready.append(True)
        self.client.on_subscribe = lambda *_: ready.append(True)
        # Who loses its connection stays away: nodes come back on their ports.
        self.client.reconnect_delay_set(3600, 3600)
        self.client.connect("127.0.0.1", int(port or cluster.port(number)))
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


@dataclass
class Story:
    """What was published, and what the clients got of it."""

    recording: Path
    cut: datetime | None = None
    """Before it there was a split that lost messages, after it a node was killed."""
    published: list[list[str]] = field(default_factory=lambda: [[], []])
    """Payloads by node, in their order."""
    before: int = 0
    """How many of them were published by then."""
    got: dict[str, Counter[str]] = field(default_factory=dict)
    killed: str = ""


def kill(cluster: Cluster, number: int) -> int:
    """``kill -9`` of a node and of all its processes, the one that writes the recording among them."""
    name = cluster.nodes[number - 1]["name"]
    process = next(int(m["pid"]) for m in cluster.get(1, "/api/v1/members") if m["name"] == name)
    family = [psutil.Process(process), *psutil.Process(process).children(recursive=True)]
    assert any("gossamer.audit.writer" in one.cmdline() for one in family[1:]), "no writer"
    for one in family:
        one.kill()
    return process


def port_of_next_life(cluster: Cluster, number: int, killed: int) -> str:
    name = cluster.nodes[number - 1]["name"]
    (found,) = (m for m in cluster.get(1, "/api/v1/members") if m["name"] == name)
    back = found["status"] == "online" and found["pid"] != killed and "mqtt" in found["services"]
    return str(found["ports"]["mqtt"]) if back else ""


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    directory = tmp_path_factory.mktemp("audited")
    recording = directory / "recording"
    told = Story(recording)
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
                    number = len(sent) % 2
                    sent.append(str(len(sent)))
                    told.published[number].append(sent[-1])
                    done = speakers[number].client.publish(TOPIC, sent[-1], qos=qos)
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
            told.cut, told.before = datetime.now(tz=UTC), len(sent)
            time.sleep(1.5)

            speak(60, 0)
            told.killed = cluster.nodes[2]["name"]
            killed = kill(cluster, 3)
            eventually(
                lambda: speak(4, 0) or port_of_next_life(cluster, 3, killed), says="it is back, under load"
            )
            # One of its clients is back, the other one stays away.
            again = Counting(cluster, 3, "s3", qos=0, port=port_of_next_life(cluster, 3, killed))
            time.sleep(1.5)
            speak(40, 1)
            eventually(lambda: again.got[sent[-1]] and subscribers[0].got[sent[-1]], says="the rest comes")
            time.sleep(1.5)
            for client in (*subscribers, again, *speakers):
                client.end()
    # The writers outlive their nodes, to finish what they were given.
    eventually(lambda: not list(recording.glob(".journals/*/*.journal")), says="finished files")
    told.got = {client.name: client.got for client in subscribers}
    told.got["s3"] = subscribers[2].got + again.got
    return told


def rows_of(recording: Path) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    files = sorted(recording.glob("day=*/hour=*/node=*/*.parquet"))
    return [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]


def counted(told: Story, before: int) -> Counter[str]:
    """What the clients say of the first ``before`` messages."""
    numbers: Counter[str] = Counter()
    for got in told.got.values():
        for payload in map(str, range(before)):
            numbers["received"] += bool(got[payload])
            numbers["lost"] += not got[payload]
            numbers["doubled"] += got[payload] > 1
    return numbers


def test_the_record_of_three_nodes_says_what_their_clients_counted(story: Story) -> None:
    clients = counted(story, story.before)
    assert clients["lost"] > 0, "the cut lost nothing, so there is nothing to find"
    rows = rows_of(story.recording)
    assert story.cut is not None
    until = [row for row in rows if row["at"] < story.cut]
    counts: Counter[str] = Counter()
    for row in until:
        counts[row["event"]] += row["count"]
    assert counts["published"] == story.before
    assert counts["delivered"] == clients["received"] + clients["doubled"]
    assert counts["gap"] == 0
    assert counts["partition"] >= 1
    assert counts["healed"] >= 1
    assert {row["reason"] for row in until if row["event"] == "node_down"} >= {"down"}


def test_what_a_killed_node_had_noted_is_readable_and_only_its_last_moment_is_missing(story: Story) -> None:
    lives: dict[tuple[str, int], list[int]] = {}
    for row in rows_of(story.recording):
        lives.setdefault((row["recorder"], row["creation"]), []).append(row["seq"])
    assert Counter(node for node, _ in lives)[story.killed] == 2
    assert len(lives) == 4
    for numbers in lives.values():
        assert sorted(numbers) == list(range(1, len(numbers) + 1)), "an event is missing or there twice"


SCRIPT = """
import sys
from gossamer.spark.__main__ import app
for arguments in " ".join(sys.argv[1:]).split(" -- "):
    app(arguments.split(), standalone_mode=False)
"""


@pytest.fixture(scope="module")
def audits(story: Story, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Where the verdicts are: until the cut, and over all. One start of Spark for the two."""
    pytest.importorskip("pyspark")
    assert story.cut is not None
    out = tmp_path_factory.mktemp("verdicts")
    audit = ("run", "completeness", "--dir", str(story.recording), "--memory", "1g", "--out")
    done = subprocess.run(
        [
            *(sys.executable, "-c", SCRIPT, *audit, str(out / "before")),
            *(f"--to={story.cut:%Y-%m-%dT%H:%M:%S.%f}", "--", *audit, str(out / "all")),
        ],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
        env={**os.environ},
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return out / "before", out / "all"


def summary_of(out: Path) -> dict[str, Any]:
    return json.loads((out / "completeness" / "summary.json").read_text())


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_the_audit_finds_the_number_that_was_lost(story: Story, audits: tuple[Path, Path]) -> None:
    numbers = summary_of(audits[0])["jobs"]["completeness"]["numbers"]
    clients = counted(story, story.before)
    assert numbers["lost"] == clients["lost"]
    assert numbers["delivered"] + numbers["late"] == clients["received"] - clients["doubled"]
    assert numbers["doubled"] == clients["doubled"]
    assert numbers["misrouted"] == numbers["undecidable"] == 0


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_of_a_killed_node_the_audit_says_what_its_clients_say_or_that_it_cannot(
    story: Story, audits: tuple[Path, Path]
) -> None:
    import pyarrow.parquet as pq

    summary = summary_of(audits[1])
    assert {hole["node"] for hole in summary["holes"]} == {story.killed}
    assert any("did not close" in hole["why"] for hole in summary["holes"])
    rows = pq.read_table(audits[1] / "completeness" / "verdicts").to_pylist()
    numbers = summary["jobs"]["completeness"]["numbers"]
    verdicts = Counter(row["verdict"] for row in rows)
    assert {name: numbers[name] for name in verdicts} == verdicts
    owed = sum(verdicts[name] for name in ("delivered", "late", "doubled", "lost", "queued"))
    assert owed == numbers["owed"]
    assert verdicts["undecidable"] > 0
    assert len({(row["origin"], row["message"], row["receiver"]) for row in rows}) == len(rows)

    # Messages are numbered at their node as its publisher sent them.
    names: dict[str, set[int]] = {}
    for row in rows:
        names.setdefault(row["origin"], set()).add(row["message"])
    payload = {
        (node, number): story.published[place][index]
        for place, (node, known) in enumerate(sorted(names.items()))
        for index, number in enumerate(sorted(known))
    }
    judged: dict[str, Counter[str]] = {name: Counter() for name in story.got}
    for row in rows:
        copies = story.got[row["receiver"]][payload[row["origin"], row["message"]]]
        said = row["verdict"]
        judged[row["receiver"]][said] += 1
        if said == "undecidable":
            assert row["receiver"].startswith("s3"), row
        else:
            assert min(copies, 2) == {"lost": 0, "doubled": 2}.get(said, 1), (row, copies)
    # Whoever is at a node that lived is judged to the last message.
    total = sum(map(len, story.published))
    for name in ("s1", "s2"):
        assert judged[name].total() == total
        assert judged[name]["undecidable"] == 0
    assert judged["s3"]["undecidable"] > 0

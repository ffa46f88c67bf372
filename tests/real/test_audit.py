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

import psutil
import pytest

from real.clients import Mqtt
from real.harness import Cluster, eventually

pytest.importorskip("pyarrow")

TOPIC = "truth/of/all"


class Counting(Mqtt):
    """A client that counts what it gets, by payload; it stays away once its connection is lost."""

    def __init__(self, port: str, name: str, *filters: str, qos: int = 1) -> None:
        self.counts: Counter[str] = Counter()
        # Nodes come back on their ports.
        super().__init__(
            port,
            name,
            *filters,
            qos=qos,
            come_back=3600,
            take=lambda m: self.counts.update([m.payload.decode()]),
        )


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
    process = int(cluster.member(number)["pid"])
    family = [psutil.Process(process), *psutil.Process(process).children(recursive=True)]
    assert any("gossamer.audit.writer" in one.cmdline() for one in family[1:]), "no writer"
    for one in family:
        one.kill()
    return process


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
                Counting(cluster.port(1), "s1", "truth/#", qos=1),
                Counting(cluster.port(2), "s2", "truth/#", qos=0),
                Counting(cluster.port(3), "s3", "truth/#", qos=0),
                Counting(cluster.port(3), "s3again", "truth/#", qos=1),
            ]
            speakers = [Counting(cluster.port(1), "p1"), Counting(cluster.port(2), "p2")]
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
                return all(subscriber.counts[sent[-1]] for subscriber in subscribers)

            # Around a change nothing is owed; what is published now is.
            time.sleep(1.5)
            speak(60, 0)
            speak(40, 1)
            eventually(everywhere, says="before the cut everybody gets everything")
            cluster.cut((1, 2), (3,))
            while [cluster.online(number) for number in (1, 2, 3)] != [{1, 2}, {1, 2}, {3}]:
                speak(20, 0)
            speak(20, 0)
            cluster.cut()
            cluster.wait_until_whole()
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
                lambda: speak(4, 0) or cluster.port_of_next_life(3, killed), says="it is back, under load"
            )
            # One of its clients is back, the other one stays away.
            again = Counting(cluster.port_of_next_life(3, killed), "s3", "truth/#", qos=0)
            time.sleep(1.5)
            speak(40, 1)
            eventually(
                lambda: again.counts[sent[-1]] and subscribers[0].counts[sent[-1]], says="the rest comes"
            )
            time.sleep(1.5)
            for client in (*subscribers, again, *speakers):
                client.end()
    # The writers outlive their nodes, to finish what they were given.
    eventually(lambda: not list(recording.glob(".journals/*/*.journal")), says="finished files")
    told.got = {client.name: client.counts for client in subscribers}
    told.got["s3"] = subscribers[2].counts + again.counts
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

"""A stream of files is judged as one run over all of them would, once, whatever is killed in between."""

import json
import os
import shutil
import signal
import threading
from collections import Counter
from contextlib import contextmanager
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import msgspec
import pytest
from real.harness import Program, eventually

from gossamer.spark.analyses import Terms
from gossamer.spark.analyses.completeness import verdicts
from gossamer.spark.engine.session import JAVA_OPTIONS
from gossamer.spark.source.files import Footer, micros_of
from gossamer.spark.source.source import load
from gossamer.spark.stream import Auditor, start
from gossamer.spark.watch import Known
from tests.spark.world import SECOND, World

PATIENCE = 300
"""Seconds for a JVM and a batch, on a machine that others use too."""
MINUTE = 60 * SECOND


def footer(node, first, last, begin, end, *, closed=False):
    return Footer(f"{node}-{first}", node, 1, first, last, begin, end, 0, closed)


def test_the_slowest_node_decides_how_far_is_judged():
    known = Known((footer("a", 1, 9, 0, 90 * SECOND), footer("b", 1, 9, 0, 40 * SECOND)))
    assert known.watermark(patience=10 * MINUTE) == (40 * SECOND, [])


def test_a_node_that_closed_or_was_never_heard_of_holds_nothing_up_for_ever():
    files = (
        footer("a", 1, 9, 0, 20 * MINUTE),
        footer("b", 1, 9, 0, MINUTE, closed=True),
        footer("c", 1, 9, 0, 2 * MINUTE),
    )
    until, (hole, other) = Known(files, named=("d",)).watermark(patience=10 * MINUTE)
    assert until == 20 * MINUTE
    assert (hole.node, hole.begin, hole.end) == ("c", 2 * MINUTE, 20 * MINUTE)
    assert (other.node, other.begin) == ("d", 0)
    # Not yet out of patience with it, everybody waits.
    assert Known(files, named=("d",)).watermark(patience=30 * MINUTE) == (0, [])


def test_old_files_are_folded_to_one_entry_and_what_is_missing_stays_visible():
    files = [footer("a", 1 + 10 * k, 10 + 10 * k, k * MINUTE, (k + 1) * MINUTE) for k in range(6) if k != 3]
    folded = Known(tuple(files)).folded(6 * MINUTE)
    assert [(f.path, f.first, f.last) for f in folded.footers] == [
        ("", 1, 30),
        ("", 41, 50),
        ("a-51", 51, 60),
    ]
    assert msgspec.json.decode(msgspec.json.encode(folded), type=Known) == folded


class KilledError(Exception):
    """Somebody pulled the plug."""


@pytest.fixture
def cluster():
    """A node's API that notes the alarms it is told of."""
    told = []

    class Api(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            told.append((self.path, body["name"], body["active"]))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Api)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", told
    server.shutdown()
    server.server_close()
    thread.join()


@contextmanager
def streaming(tmp_path, name, *more):
    """The command as a process of its own; what is left of it is killed, its JVM too."""
    program = Program(
        tmp_path / name,
        *("audit", "stream", "--dir", str(tmp_path / "seen"), "--out", str(tmp_path / "out")),
        *("--master", "local[2]", "--memory", "1g", *more),
    )
    try:
        yield program
    finally:
        if program.process.poll() is None:
            os.killpg(program.process.pid, signal.SIGKILL)
            program.process.wait(60)


class Dies(Auditor):
    """After all was written, before Spark knows that it was."""

    def _keep(self, *parts):
        super()._keep(*parts)
        raise KilledError


@pytest.mark.spark
def test_a_stream_that_is_killed_and_goes_on_judges_everything_once(spark, tmp_path, cluster):
    """With SIGKILL between two batches, and at the worst moment of one; the same as one run over all."""
    api, told = cluster
    whole, seen, out = (tmp_path / name for name in ("whole", "seen", "out"))
    world = World(8).play(100)
    world.write(whole, files=3)
    parts = parts_of(whole)
    key = ("origin", "message", "receiver")

    def come(number):
        for path in parts[number]:
            target = seen / path.relative_to(whole)
            target.parent.mkdir(parents=True, exist_ok=True)
            # As a recorder does: it is there at once, or not.
            path.rename(target)

    def go_on(auditor):
        start(spark.session, str(seen), auditor, every=None).awaitTermination()

    def batches():
        found = [json.loads(path.read_text()) for path in (out / "batches").glob("*.json")]
        return sorted(found, key=lambda batch: batch["batch"])

    come(0)
    brief = f"spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC {JAVA_OPTIONS}"
    committed = out / "checkpoint/spark/commits/0"
    with streaming(tmp_path, "first", "--every", "1", "--conf", brief) as first:
        eventually(
            lambda: first.process.poll() is not None or ("batch 0:" in first.out and committed.exists()),
            seconds=PATIENCE,
            says="the first batch is done",
        )
        assert first.process.poll() is None, first.err
    assert first.process.returncode == -signal.SIGKILL
    come(1)
    with pytest.raises(Exception, match="KilledError"):
        go_on(Dies(str(out), str(out / "checkpoint")))
    assert (out / "verdicts/batch=1").exists()
    (seen / "stray.parquet").write_bytes(b"PAR1")
    come(2)
    with streaming(tmp_path, "second", "--once", "--api", api) as second:
        assert second.process.wait(PATIENCE) == 0, second.err
    assert "Traceback" not in first.err + second.err
    assert [line.partition(":")[0] for line in second.out.splitlines()] == ["batch 1", "batch 2"]
    assert "truncated: " in second.err
    made = batches()
    assert [batch["batch"] for batch in made] == [0, 1, 2]
    assert [problem["kind"] for batch in made for problem in batch["problems"]] == ["truncated"]

    table = spark.session.read.parquet(str(out / "verdicts"))
    names = [*key, "verdict", "hop", "batch"]
    found = [tuple(row) for row in table.select(*names).collect()]
    names = [*key, "verdict", "hop", "delivered_at"]
    judged = spark.session.sql(verdicts(load(spark, str(seen)), Terms()))
    wanted = [tuple(row) for row in judged.select(*names).collect()]
    # Nothing twice and nothing lost: message by message, receiver by receiver.
    assert Counter(row[:3] for row in found) == Counter(row[:3] for row in wanted)
    assert Counter(row[3] for row in wanted) == world.found
    ends = {batch["batch"]: micros_of(datetime.fromisoformat(batch["to"])) for batch in made}
    right = {row[:3]: row[3:] for row in wanted}
    differ = [row for row in found if row[3:5] != right[row[:3]][:2]]
    for row in differ:
        verdict, _, delivered_at = right[row[:3]]
        # A delivery after its time was judged is known to the run over all, and not to the stream.
        assert (row[3], verdict) in {(w, n) for w in ("queued", "lost") for n in ("delivered", "late")}
        assert delivered_at >= ends[row[5]]
    assert len(differ) < len(found) / 20
    counted = Counter()
    for batch in made:
        counted.update(batch["numbers"])
    assert +counted == Counter(row[3] for row in found)
    assert counted["lost"]
    assert ("/api/v1/alarms", "audit_lost", True) in told

    # What comes of a time that was judged is counted, and judges nothing anew.
    World(8, faults=0).play(20).write(tmp_path / "late", files=1)
    (path,) = (tmp_path / "late").rglob("node=n1*/*.parquet")
    shutil.copy(path, seen / "1-0000000000099999.parquet")
    go_on(Auditor(str(out), str(out / "checkpoint"), api=api))
    *_, last = batches()
    assert last["batch"] == 3
    assert last["late_events"] > 0 or last["problems"]
    after = spark.session.read.parquet(str(out / "verdicts")).count()
    assert after == len(found) + sum(last["numbers"].values())


def parts_of(root):
    """Files by their number at their node."""
    nodes = {}
    for path in root.rglob("*.parquet"):
        nodes.setdefault(path.parent.name, []).append(path)
    return list(zip(*(sorted(paths, key=lambda path: path.name) for paths in nodes.values()), strict=True))

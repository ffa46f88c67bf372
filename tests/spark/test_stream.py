"""A stream of files is judged as one run over all of them would, once, whatever is killed in between."""

import json
import shutil
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from gossamer.spark.completeness import Terms, verdicts
from gossamer.spark.files import Footer
from gossamer.spark.source import load
from gossamer.spark.stream import Auditor, start
from gossamer.spark.watch import Known, dump, parse
from tests.spark.world import SECOND, World

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
    assert parse(dump(folded)) == folded


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


@pytest.mark.spark
def test_a_stream_that_is_killed_and_goes_on_judges_everything_once(spark, tmp_path, cluster):
    api, told = cluster
    whole, seen = tmp_path / "whole", tmp_path / "seen"
    World(8).play(100).write(whole, files=3)
    files = sorted(whole.rglob("*.parquet"), key=lambda path: (path.stat().st_mtime_ns, str(path)))
    by_part = {path: part for paths in by_node(files).values() for part, path in enumerate(paths)}
    made = []

    def auditor(**more):
        options = {"out": str(tmp_path / "out"), "checkpoint": str(tmp_path / "checkpoint"), **more}
        return Auditor(api=api, on_batch=made.append, **options)

    def run(auditor):
        query = start(spark, str(seen), auditor, every=None)
        query.awaitTermination()

    def come(part):
        for path, number in by_part.items():
            if number == part:
                target = seen / path.relative_to(whole)
                target.parent.mkdir(parents=True, exist_ok=True)
                # As a recorder does: it is there at once, or not.
                shutil.copy(path, target.with_name(f".{target.name}"))
                target.with_name(f".{target.name}").rename(target)

    come(0)
    run(auditor())
    come(1)

    class Dies(Auditor):
        """After all was written, before Spark knows that it was."""

        def _keep(self, *parts):
            super()._keep(*parts)
            raise KilledError

    with pytest.raises(Exception, match="KilledError"):
        run(Dies(str(tmp_path / "out"), str(tmp_path / "checkpoint")))
    assert (tmp_path / "out/verdicts/batch=1").exists()
    (seen / "stray.parquet").write_bytes(b"PAR1")
    for part in (2,):
        come(part)
    run(auditor())
    assert [batch.number for batch in made] == [0, 1, 2]
    assert [problem.kind for batch in made for problem in batch.problems] == ["truncated"]

    found = spark.read.parquet(str(tmp_path / "out/verdicts"))
    key = ["origin", "message", "receiver"]
    assert found.count() == found.select(*key).distinct().count()
    # The same as one run over all, but for what the stream has not come to yet.
    until = made[-1].end
    expected = verdicts(load(spark, str(whole)), Terms()).where(f"published_at < {until}")
    names = [*key, "verdict", "hop"]
    got, wanted = (
        {tuple(row[: len(key)]): row[len(key) :] for row in rows(table, names)} for table in (found, expected)
    )
    assert got.keys() == wanted.keys()
    differ = {row for row in got if got[row] != wanted[row]}
    # A delivery after its time was judged is known to the run over all, and not to the stream.
    changes = {(got[row][0], wanted[row][0]) for row in differ}
    assert changes <= {(was, now) for was in ("queued", "lost") for now in ("delivered", "late")}
    assert len(differ) < len(got) / 20
    counted = Counter()
    for batch in made:
        counted.update(batch.numbers)
    assert counted["lost"]
    assert sum(counted.values()) == found.count()
    assert ("/api/v1/alarms", "audit_lost", True) in told

    # What comes of a time that was judged is counted, and judges nothing anew.
    late = World(8, faults=0).play(20)
    late.write(tmp_path / "late", files=1)
    (path,) = (tmp_path / "late").rglob("node=n1*/*.parquet")
    shutil.copy(path, seen / "1-0000000000099999.parquet")
    run(auditor())
    assert made[-1].late > 0 or made[-1].problems
    assert spark.read.parquet(str(tmp_path / "out/verdicts")).count() == found.count() + sum(
        made[-1].numbers.values()
    )


def by_node(files):
    nodes = {}
    for path in files:
        nodes.setdefault(path.parent.name, []).append(path)
    return {node: sorted(paths, key=lambda path: path.name) for node, paths in nodes.items()}


def rows(frame, names):
    return sorted(tuple(str(value) for value in row) for row in frame.select(*names).collect())

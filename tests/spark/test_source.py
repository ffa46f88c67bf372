"""Whatever lies in a recorder's directory, a job runs on what is good and names what is not."""

import shutil
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gossamer.audit.schema as schema
from gossamer.spark.errors import NoDataError
from gossamer.spark.source.files import FileProblem, Footer
from gossamer.spark.source.holes import holes_between
from gossamer.spark.source.source import load
from tests.spark.world import SECOND, START, World


def count(recording, where="true"):
    return recording.engine.rows(f"SELECT count(*) AS n FROM {recording.events} WHERE {where}")[0]["n"]


@pytest.fixture
def recorded(tmp_path):
    world = World(2, faults=0).play(60)
    world.write(tmp_path, files=2)
    return tmp_path, world


def test_broken_foreign_doubled_and_newer_files_are_named_and_cost_only_themselves(engine, recorded):
    root, world = recorded
    files = sorted(root.rglob("*.parquet"))
    whole = sum(len(rows) for rows in world.rows.values())
    assert count(load(engine, str(root))) == whole

    shutil.copy(files[0], files[0].with_name("copy.parquet"))
    (root / "stray.parquet").write_bytes(files[1].read_bytes()[:300])
    pq.write_table(pa.table({"a": [1]}), root / "theirs.parquet")
    newer = pq.read_table(files[2]).replace_schema_metadata({schema.METADATA_KEY: b"2.0"})
    pq.write_table(newer, root / "newer.parquet")
    (root / "junk.parquet").write_bytes(b"date;value\n" * 9)
    (root / "nothing.parquet").touch()
    (root / "garbled.parquet").write_bytes(b"PAR1" + b"?" * 50 + b"PAR1")
    (root / ".under-way.parquet.part").write_bytes(b"PAR1")
    (root / "_SUCCESS").write_bytes(b"")

    recording = load(engine, str(root))
    assert count(recording) == whole
    kinds = {problem.path.rsplit("/", 1)[-1]: problem.kind for problem in recording.problems}
    assert kinds == {
        "copy.parquet": "duplicate",
        "stray.parquet": "truncated",
        "theirs.parquet": "foreign",
        "newer.parquet": "version",
        "junk.parquet": "junk",
        "nothing.parquet": "empty",
        "garbled.parquet": "unreadable",
    }
    (junk,) = (problem.message for problem in recording.problems if problem.kind == "junk")
    assert junk == "not a Parquet file: it begins with b'date', expected b'PAR1'; its events are missing"
    assert all(len(str(problem.message)) < 300 for problem in recording.problems)


def test_a_file_of_an_older_minor_version_lacks_columns_and_is_read(engine, tmp_path, recorded):
    root, world = recorded
    file = sorted(root.rglob("*.parquet"))[0]
    whole = pq.ParquetFile(file)
    older = whole.read().drop_columns(["payload_hash", "share"])
    pq.write_table(older.replace_schema_metadata(whole.metadata.metadata), file)
    recording = load(engine, str(root))
    assert not recording.problems
    assert count(recording, "share IS NULL") == sum(map(len, world.rows.values()))


def test_a_clock_that_is_off_by_a_day_is_reported_and_its_events_stand_where_they_belong(engine, tmp_path):
    world = World(4, faults=0)
    world.skew["n1@host"] = 86_400 * SECOND
    world.play(40).write(tmp_path)
    recording = load(
        engine,
        str(tmp_path),
        begin=datetime(2026, 1, 1, tzinfo=UTC),
        end=datetime(2026, 1, 1, 12, tzinfo=UTC),
    )
    assert {problem.kind for problem in recording.problems} == {"clock"}
    assert all("n1@host" in problem.message for problem in recording.problems)
    # The first event was written before the clock was set.
    assert count(recording, f"t BETWEEN {recording.begin} AND {recording.end}") == count(recording)


def test_nothing_in_the_span_says_what_there_is(engine, recorded):
    root, _ = recorded
    with pytest.raises(NoDataError, match="files with events from 2026-01-01"):
        load(engine, str(root), begin=datetime(2027, 1, 1, tzinfo=UTC))
    with pytest.raises(NoDataError, match=r"found \d+ files, the first of 2026-01-01 00:00 UTC"):
        load(engine, str(root), end=datetime(2025, 1, 1, tzinfo=UTC))
    with pytest.raises(NoDataError, match="found no files"):
        load(engine, str(root / "nowhere"))


def footer(first, last, *, creation=1, closed=False):
    return Footer("f", "n1", creation, first, last, START + first, START + last, 0, closed)


def test_missing_numbers_and_ends_without_a_close_are_holes():
    whole = [footer(1, 9), footer(10, 20, closed=True)]
    assert holes_between(whole, START, START + 100) == []
    (hole,) = holes_between([footer(1, 9), footer(15, 20, closed=True)], START, START + 100)
    assert (hole.begin, hole.end) == (START + 9, START + 15)
    assert "10 to 14" in hole.why
    (tail,) = holes_between([footer(1, 9)], START, START + 100)
    assert tail.begin == START + 9
    assert tail.end > START + 9
    # The next life begins at 1 again, and the time between the two is nobody's loss.
    again = [footer(1, 9, closed=True), footer(1, 5, creation=2, closed=True)]
    assert holes_between(again, START, START + 100) == []


def test_a_problem_knows_whether_events_are_missing_for_it():
    assert FileProblem("p", "truncated", "").is_loss
    assert not FileProblem("p", "duplicate", "").is_loss

"""``gossamer audit`` as people run it: what is wrong is said in a sentence that tells what to do."""

import json
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest

from gossamer.audit import schema
from gossamer.errors import UnavailableError, WrongValueError
from gossamer.spark.__main__ import moment_of, span_of
from gossamer.spark.engine import engine_for
from gossamer.spark.engine.on_duckdb import DuckEngine
from gossamer.spark.engine.session import JAVA_OPTIONS, check_files, check_memory, fit, is_little
from gossamer.spark.errors import NoDataError
from tests.spark.world import SECOND, World

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)


def audit(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "gossamer.cli", "audit", *arguments],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={**os.environ, **environment},
    )


def refused(done, code, *words):
    text = done.stdout + done.stderr
    assert done.returncode == code, text
    assert "Traceback" not in text
    for word in words:
        assert word in text, text
    return True


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    return str(World(2, clients=4).play(60).write(tmp_path_factory.mktemp("recorded")))


def test_no_such_job_promise_time_or_setting():
    assert refused(audit("run", "completness"), 2, "no job 'completness'", "expected report or any of")
    assert refused(audit("run", "report", "--fail-on", "lots"), 2, "--fail-on: got 'lots'", "lost, doubled")
    assert refused(audit("run", "report", "--from", "teatime"), 2, "--from: got 'teatime'", "6h")
    assert refused(audit("run", "report", "--settle", "5x"), 2, "--settle", "got '5x'", "such as 500ms")


def test_what_is_late_is_said_as_any_other_duration(tmp_path, recorded):
    def numbers(late_after):
        done = audit("run", "completeness", *where, "--late-after", late_after)
        return json.loads(done.stdout)["jobs"]["completeness"]["numbers"]

    where = ("--dir", recorded, "--out", str(tmp_path), "--json")
    at_once, patient = numbers("0ms"), numbers("1h")
    assert at_once["late"] > 0 == patient["late"]


def test_a_span_a_memory_and_an_engine_that_are_none(recorded):
    done = audit("run", "report", "--from", "now", "--to", "1h ago")
    assert refused(done, 2, "is not before --to", "turn them round")
    for engine in ("duckdb", "spark"):
        done = audit("run", "report", "--dir", recorded, "--engine", engine, "--memory", "lots")
        assert refused(done, 2, "--memory: got 'lots'", "such as 2g")
    assert refused(audit("run", "report", "--dir", recorded, "--engine", "x"), 2, "auto, duckdb, spark")


def on_spark(recorded, *arguments, **environment):
    return audit("run", "report", "--engine", "spark", "--dir", recorded, *arguments, **environment)


def test_java_missing(recorded):
    done = on_spark(recorded, JAVA_HOME="/nowhere")
    assert refused(done, 6, "Spark needs Java 17 or newer", "none at JAVA_HOME=/nowhere", "apt install")


def test_java_too_old(tmp_path, recorded):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    java.chmod(0o755)
    assert refused(on_spark(recorded, JAVA_HOME=str(tmp_path)), 6, "found Java 11", "apt install")


def test_more_memory_than_there_is(recorded):
    done = on_spark(recorded, "--memory", "9000g")
    assert refused(done, 6, "--memory 9000g needs", "give a smaller --memory")


def test_the_extra_is_not_installed(tmp_path, recorded, monkeypatch):
    (tmp_path / "pyspark").mkdir()
    missing = "raise ModuleNotFoundError('No module named pyspark', name='pyspark')"
    (tmp_path / "pyspark" / "__init__.py").write_text(missing)
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    assert refused(on_spark(recorded, PYTHONPATH=path), 6, "pip install 'PATH[spark]'")
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(UnavailableError, match=r"pip install 'PATH\[audit\]'"):
        DuckEngine()


def test_a_directory_that_is_not_there_or_empty_is_refused_before_spark_is_started(tmp_path):
    """Without Java too, since it is not looked for: what was expected is said, and it ends with 2."""
    nowhere = on_spark(str(tmp_path / "nowhere"), JAVA_HOME="/nowhere")
    assert refused(
        nowhere, 2, "found no such directory", "Expected what recorders write: day=", "Check --dir"
    )
    assert not nowhere.stdout
    assert nowhere.stderr.startswith("error: "), "nothing was started"
    streamed = audit("stream", "--dir", str(tmp_path / "nowhere"), JAVA_HOME="/nowhere")
    assert refused(streamed, 2, "found no such directory")
    check_files(str(tmp_path), yet=True)
    (tmp_path / "notes").touch()
    with pytest.raises(NoDataError, match="a file that is not Parquet"):
        check_files(str(tmp_path / "notes"))
    with pytest.raises(NoDataError, match="found no Parquet files"):
        check_files(tmp_path.as_uri())
    (tmp_path / "theirs.parquet").touch()
    check_files(str(tmp_path))
    check_files("hdfs://somewhere/else")


def test_who_is_asked_is_decided_by_what_there_is(recorded, monkeypatch):
    assert engine_for("auto", recorded) == "duckdb"
    assert engine_for("auto", recorded, settings={"a": "b"}) == "spark"
    assert engine_for("auto", recorded, master="local[2]") == "duckdb"
    assert engine_for("auto", recorded, master="spark://host:7077") == "spark"
    assert engine_for("auto", "s3a://bucket/audit") == "spark"
    assert engine_for("auto", recorded, writes="s3a://bucket/report") == "spark"
    assert engine_for("duckdb", recorded) == "duckdb"
    monkeypatch.setattr("gossamer.spark.engine._FOR_DUCKDB", 10)
    assert engine_for("auto", recorded) == "spark"
    monkeypatch.setitem(sys.modules, "pyspark", None)
    assert engine_for("auto", recorded) == "duckdb"


def test_moments_are_read_as_people_write_them():
    def read(text):
        return moment_of(text, option="--from", now=NOW).isoformat()

    assert read("2026-01-31T07:00") == "2026-01-31T07:00:00+00:00"
    assert read("2026-01-31") == "2026-01-31T00:00:00+00:00"
    assert read("2026-01-31T07:00+02:00") == "2026-01-31T07:00:00+02:00"
    assert read("90m") == read("90m ago") == "2026-03-04T03:36:07+00:00"
    assert read("2d") == "2026-03-02T05:06:07+00:00"
    assert read("now") == NOW.isoformat()
    assert read("yesterday") == "2026-03-03T00:00:00+00:00"
    with pytest.raises(WrongValueError, match="--to: got '6 fortnights'"):
        span_of(None, "6 fortnights", now=NOW)


def test_memory_follows_the_machine(tmp_path):
    info = tmp_path / "meminfo"

    def free(gigabytes):
        info.write_text(f"MemAvailable:    {gigabytes * 2**20} kB\n")
        return check_memory(None, meminfo=info)

    assert free(6) == "3072m"
    assert free(64) == "8192m"
    assert free(2) == "1024m"


def test_little_is_what_a_short_look_at_a_directory_of_this_machine_says(tmp_path, monkeypatch):
    (tmp_path / "a b.parquet").write_bytes(b"x" * 1000)
    assert is_little(str(tmp_path))
    assert is_little(tmp_path.as_uri())
    assert not is_little("s3a://bucket/audit")
    monkeypatch.setattr("gossamer.spark.engine.session._LITTLE", 999)
    assert not is_little(str(tmp_path))


def test_a_stream_is_fitted_to_each_of_its_batches():
    """One that is small after a large one costs what a small one does, and the other way round."""
    conf = {}
    asked = {"spark.sql.adaptive.enabled": "true"}
    context = SimpleNamespace(
        master="local[2]", defaultParallelism=2, getConf=lambda: SimpleNamespace(get=asked.get)
    )
    session = SimpleNamespace(sparkContext=context, conf=SimpleNamespace(set=conf.__setitem__))
    for events, adaptive, parts in ((1000, "false", "2"), (10_000_000, "true", "40"), (5, "false", "2")):
        fit(session, events)
        assert conf["spark.sql.adaptive.enabled"] == conf["spark.sql.codegen.wholeStage"] == adaptive
        assert conf["spark.sql.shuffle.partitions"] == parts
    context.master = "spark://host:7077"
    conf.clear()
    fit(session, 5)
    assert not conf


@pytest.mark.spark
def test_spark_submit_takes_the_same_program_and_the_same_arguments(tmp_path):
    """Lost messages end it with the code that says so; what was asked for is there."""
    World(2, clients=4).play(60).write(tmp_path / "in")
    program = Path(sys.modules["gossamer.spark.__main__"].__file__)
    submit = shutil.which("spark-submit", path=str(Path(sys.executable).parent))
    done = subprocess.run(
        [
            *(submit, "--master", "local[2]", "--driver-memory", "1g"),
            *("--driver-java-options", f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC {JAVA_OPTIONS}"),
            *("--conf", "spark.ui.enabled=false", str(program), "run", "completeness"),
            *("--dir", (tmp_path / "in").as_uri(), "--out", (tmp_path / "out").as_uri()),
            *("--fail-on", "lost,doubled"),
        ],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
    )
    assert done.returncode == 8, done.stdout + done.stderr
    assert "Promises were broken" in done.stdout
    # Below spark-submit the two streams of a program are one.
    assert "completeness: done in" in done.stdout + done.stderr
    assert (tmp_path / "out/completeness/summary.json").exists()


SCRIPT = """
import sys
from gossamer.spark.__main__ import app
from gossamer.errors import GossamerError
for arguments in " ".join(sys.argv[1:]).split(" -- "):
    try:
        app(arguments.split(), standalone_mode=False)
    except GossamerError as error:
        print(error)
    print("--")
"""


def spoil(root, spare):
    """A node without files, one with half a file, one with a wrong clock: files by what is wrong with them.

    The other bad things that may lie in a directory are those of test_source.
    """
    second, third, fourth = (sorted(root.rglob(f"node=n{n}%40host/*.parquet")) for n in (2, 3, 4))
    for path in fourth:
        path.unlink()
    second[1].write_bytes(second[1].read_bytes()[:400])
    shutil.copy(spare, root / "newer.parquet")
    # A day off, without knowing.
    off = {path.name for path in third}
    return {"truncated": {second[1].name}, "version": {"newer.parquet"}, "clock": off}


@pytest.mark.parametrize("engine", ["duckdb", pytest.param("spark", marks=pytest.mark.spark)])
def test_what_is_wrong_with_a_directory_is_told_file_by_file_and_the_rest_is_judged(tmp_path, engine):
    """One start for three: a range without data, newer schemas alone, and everything bad at once."""
    world = World(14, nodes=4, clients=9)
    world.skew["n3@host"] = 86_400 * SECOND
    world.unaware.add("n3@host")
    world.play(120).write(tmp_path / "in", files=3)
    (tmp_path / "new").mkdir()
    for number, path in enumerate(sorted((tmp_path / "in").rglob("node=n1*/*.parquet"))):
        newer = pq.read_table(path).replace_schema_metadata({schema.METADATA_KEY: b"7.0"})
        pq.write_table(newer, tmp_path / "new" / f"{number}.parquet")
    wrong = spoil(tmp_path / "in", tmp_path / "new/0.parquet")
    run = ("run completeness --memory 1g --engine", engine, "--out", str(tmp_path / "out"), "--dir")
    done = subprocess.run(
        [
            *(sys.executable, "-c", SCRIPT),
            *(*run, str(tmp_path / "in"), "--from=2027-01-01", "--"),
            *(*run, str(tmp_path / "new"), "--"),
            *(*run, str(tmp_path / "in")),
        ],
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    # What every JVM says at its start is for nobody.
    told = [line.partition(":")[0] for line in done.stderr.splitlines()]
    assert set(told) == {engine, "recording", "completeness", *wrong, "not judged"}, done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    none, newer, judged = (text.strip() for text in done.stdout.split("--\n")[:3])
    assert "files with events from 2026-01-01" in none
    assert "--from and --to" in none
    assert "none of them usable" in newer
    assert "schema version 7.0, these jobs read 1.x; use the gossamer that wrote it" in newer

    named = {kind: set() for kind in wrong}
    for line in done.stderr.splitlines():
        kind, _, rest = line.partition(": ")
        if kind in named:
            named[kind].add(rest.partition(": ")[0].rpartition("/")[2])
    assert named == wrong, done.stderr
    unjudged = [line for line in done.stderr.splitlines() if line.startswith("not judged")]
    assert any("n2@host" in line and "are missing" in line for line in unjudged)
    assert any("n4@host" in line and "no file of this node is here" in line for line in unjudged)
    first = judged.splitlines()[0]
    assert first.startswith("Missing: no recording of n4@host is here, though n1@host and n2@host")
    assert "could not be judged" in judged.splitlines()[1]
    numbers = json.loads((tmp_path / "out/completeness/summary.json").read_text())["jobs"]["completeness"][
        "numbers"
    ]
    assert numbers["undecidable"] > 0
    assert numbers["delivered"] > 0
    # What is called wrong is wrong, whatever cannot be seen.
    for verdict in ("lost", "doubled", "late", "misrouted"):
        assert numbers[verdict] <= world.truth[verdict], verdict

"""``gossamer audit`` as people run it: what is wrong is said in a sentence that tells what to do."""

import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from gossamer.audit import schema
from gossamer.spark.moments import BadMomentError, moment_of, span_of
from gossamer.spark.session import JAVA_OPTIONS, check_memory, fit, is_little
from tests.spark.world import World

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


def test_no_such_job_promise_time_or_setting():
    assert refused(audit("run", "completness"), 5, "no job 'completness'", "expected report or any of")
    assert refused(audit("run", "report", "--fail-on", "lots"), 5, "--fail-on: got 'lots'", "lost, doubled")
    assert refused(audit("run", "report", "--from", "teatime"), 5, "--from: got 'teatime'", "6h")


def test_a_span_that_is_none_and_a_memory_that_is_no_size():
    done = audit("run", "report", "--from", "now", "--to", "1h ago")
    assert refused(done, 5, "is not before --to", "turn them round")
    assert refused(audit("run", "report", "--memory", "lots"), 5, "--memory: got 'lots'", "such as 2g")


def test_java_missing():
    done = audit("run", "report", JAVA_HOME="/nowhere")
    assert refused(done, 6, "Spark needs Java 17 or newer", "none at JAVA_HOME=/nowhere", "apt install")


def test_java_too_old(tmp_path):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    java.chmod(0o755)
    assert refused(audit("run", "report", JAVA_HOME=str(tmp_path)), 6, "found Java 11", "apt install")


def test_more_memory_than_there_is():
    done = audit("run", "report", "--memory", "9000g")
    assert refused(done, 6, "--memory 9000g needs", "give a smaller --memory")


def test_the_extra_is_not_installed(tmp_path):
    (tmp_path / "pyspark").mkdir()
    missing = "raise ModuleNotFoundError('No module named pyspark', name='pyspark')"
    (tmp_path / "pyspark" / "__init__.py").write_text(missing)
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    assert refused(audit("run", "report", PYTHONPATH=path), 6, "pip install 'gossamer[spark]'")


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
    with pytest.raises(BadMomentError, match="--to: got '6 fortnights'"):
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
    monkeypatch.setattr("gossamer.spark.session._LITTLE", 999)
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
    program = Path(sys.modules["gossamer.spark.moments"].__file__).with_name("__main__.py")
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


@pytest.mark.spark
def test_no_data_in_the_range_and_newer_schemas_only(tmp_path):
    """Both are known when Spark runs: one start of it for the two."""
    World(1, faults=0).play(10).write(tmp_path / "in")
    script = """
import sys
from gossamer.spark.__main__ import app
from gossamer.errors import GossamerError
for arguments in (sys.argv[1:6], sys.argv[6:]):
    try:
        app(arguments, standalone_mode=False)
    except GossamerError as error:
        print(error)
"""
    import pyarrow.parquet as pq

    (tmp_path / "new").mkdir()
    for number, path in enumerate((tmp_path / "in").rglob("*.parquet")):
        newer = pq.read_table(path).replace_schema_metadata({schema.METADATA_KEY: b"7.0"})
        pq.write_table(newer, tmp_path / "new" / f"{number}.parquet")
    done = subprocess.run(
        [
            *(sys.executable, "-c", script),
            *("run", "completeness", "--dir", str(tmp_path / "in"), "--from=2027-01-01"),
            *("run", "completeness", "--dir", str(tmp_path / "new")),
        ],
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    # What every JVM says at its start is for nobody.
    told = [line.partition(":")[0] for line in done.stderr.splitlines()]
    assert set(told) == {"spark", "recording"}, done.stderr
    none, newer = done.stdout.splitlines()
    assert "files with events from 2026-01-01" in none
    assert "--from and --to" in none
    assert "none of them usable" in newer
    assert "schema version 7.0, these jobs read 1.x; use the gossamer that wrote it" in newer

"""What is shown while a job runs."""

import re

from gossamer.spark.engine.session import means_nothing
from gossamer.spark.errors import SparkFailedError
from gossamer.spark.run import step


def test_a_job_is_two_lines(capsys):
    with step("latency", quiet=False):
        pass
    with step("routes", quiet=True):
        pass
    told = capsys.readouterr().err.splitlines()
    assert told[0] == "latency: started"
    assert re.fullmatch(r"latency: done in \d+\.\d s", told[1])
    assert len(told) == 2


def test_only_what_every_start_of_java_says_means_nothing():
    assert means_nothing("WARNING: Using incubator modules: jdk.incubator.vector\n")
    assert means_nothing('Setting default log level to "WARN".\n')
    assert not means_nothing("Error: Could not reserve enough space for object heap\n")
    assert not means_nothing("spark ERROR Executor: Exception in task 0.0\n")


def test_a_file_system_without_a_driver_is_told_how_to_get_one():
    why = "java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found"
    assert "spark.jars.packages" in str(SparkFailedError(why=why))
    assert "--master" in str(SparkFailedError(why="All masters are unresponsive"))


def test_a_master_that_does_not_answer_is_named_and_not_the_context_that_stopped():
    told = str(SparkFailedError(why="Cannot call methods on a stopped SparkContext"))
    assert "no master answers at --master" in told
    assert "SparkContext" not in told

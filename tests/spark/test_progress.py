"""What is shown while a job runs: never done before it is, and never in the way of what is said."""

import io
import re
import sys
import threading
from types import SimpleNamespace

import pytest

from gossamer.spark import progress as shown
from gossamer.spark.engine.chatter import means_nothing
from gossamer.spark.errors import SparkFailedError
from gossamer.spark.progress import Progress


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


class Tracker:
    """Spark's, with stages that a test says; ``asked`` is set when it has been looked at."""

    def __init__(self):
        self.stages = {}
        self.looks = 0
        self.asked = threading.Condition()

    def getActiveStageIds(self):
        with self.asked:
            self.looks += 1
            self.asked.notify_all()
        return list(self.stages)

    def getStageInfo(self, number):
        return self.stages.get(number)

    def look(self, **stages):
        """Be looked at with these, twice: what was seen the first time is on the screen then."""
        self.stages = {
            int(k[1:]): SimpleNamespace(numCompletedTasks=d, numTasks=n) for k, (d, n) in stages.items()
        }
        with self.asked:
            wanted = self.looks + 3
            assert self.asked.wait_for(lambda: self.looks >= wanted, timeout=60)


def terminal(monkeypatch):
    """Where bars are drawn, from within a test: pytest has its own standard error until one begins."""
    monkeypatch.setattr(shown, "_EVERY", 0.01)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    return screen


def lines(screen):
    """Everything that was drawn, without colours and movements."""
    return [re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", line) for line in re.split(r"[\r\n]+", screen.getvalue())]


def test_a_bar_tells_of_the_step_that_runs_and_is_done_when_its_job_is(monkeypatch):
    screen = terminal(monkeypatch)
    tracker = Tracker()
    progress = Progress()
    with progress.of("spark"):
        pass
    progress.session = SimpleNamespace(sparkContext=SimpleNamespace(statusTracker=lambda: tracker))
    with progress.of("completeness"):
        tracker.look()
        tracker.look(s1=(0, 4))
        tracker.look(s2=(4, 4))
        tracker.look(s3=(1, 8), s4=(2, 2))
        # Drawn a few times a second by its own thread, so the last word is asked of the end.
        assert not any("✓ completeness" in line for line in lines(screen))
    drawn = [line for line in lines(screen) if "completeness" in line]
    assert drawn[-1].startswith("✓ completeness")
    assert "tasks" not in drawn[-1]
    assert "planning" not in drawn[-1]


def test_what_goes_wrong_leaves_no_bar_behind(monkeypatch):
    screen = terminal(monkeypatch)
    with pytest.raises(ValueError, match="wrong"), Progress().of("recording"):
        raise ValueError("wrong")
    assert "✓ recording" not in screen.getvalue()


def test_without_a_terminal_a_job_is_two_lines(capsys):
    with Progress().of("latency"):
        pass
    with Progress(quiet=True).of("routes"):
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

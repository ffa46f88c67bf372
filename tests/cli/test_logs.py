"""The log as people read it on a terminal, and as programs read it."""

import json

import pytest
import structlog

from gossamer.cli.logs import Unfailing, set_up_logging
from gossamer.config import LogConfig


@pytest.fixture
def logged(capsys):
    """``logged(format)`` gives what one crash report looks like."""

    def logged(style):
        set_up_logging(LogConfig(format=style))
        structlog.get_logger().error(
            "crash", pid="<n.3>", name=None, handling="", traceback="Traceback:\n  line 1\nKeyError: 'x'\n"
        )
        return capsys.readouterr().err

    yield logged
    structlog.reset_defaults()


def test_people_get_tracebacks_as_lines_and_no_empty_fields(logged):
    lines = logged("console").splitlines()
    assert "pid=<n.3>" in lines[0]
    assert "name" not in lines[0]
    assert "handling" not in lines[0]
    assert lines[1:] == ["Traceback:", "  line 1", "KeyError: 'x'"]


def test_programs_get_one_line_with_all_fields(logged):
    entry = json.loads(logged("json"))
    assert entry["traceback"].startswith("Traceback:\n")
    assert entry["name"] is None


class Disc:
    """A file on a disc that may be full."""

    def __init__(self):
        self.full = False
        self.text = ""

    def write(self, text):
        if self.full:
            raise OSError(28, "No space left on device")
        self.text += text
        return len(text)

    def flush(self):
        if self.full:
            raise OSError(28, "No space left on device")


def test_a_log_that_cannot_be_written_costs_its_lines_and_nothing_else():
    disc = Disc()
    log = structlog.PrintLogger(Unfailing(disc))
    log.error("before")
    disc.full = True
    for _ in range(3):
        log.error("meanwhile")
    disc.full = False
    log.error("after")
    lines = disc.text.splitlines()
    assert (lines[0], lines[-1]) == ("before", "after")
    assert "pieces of the log were lost" in lines[1]
    assert len(lines) == 3

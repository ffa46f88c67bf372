"""The log as people read it on a terminal, and as programs read it."""

import asyncio
import json
import logging

import pytest
import structlog
from pydantic import SecretStr

from gossamer.cli.local.logs import Unfailing, secrets_in, set_up_logging
from gossamer.config import LogConfig, NodeConfig, config_from
from gossamer.node.views.inside import log_level
from gossamer.supervisor import Runtime


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


@pytest.fixture
def lines(capsys):
    """``lines(**options)`` sets logging up; ``lines.read()`` gives the entries since then."""

    def begin(**options):
        set_up_logging(LogConfig(format="json"), node="n1@h", **options)

    begin.read = lambda: [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    yield begin
    structlog.reset_defaults()


async def test_every_line_says_which_node_and_which_process(lines):
    lines()
    runtime = Runtime(node="n1@h")
    log = structlog.get_logger()

    async def body():
        log.info("inside")
        # What it starts beside itself is its work too.
        await asyncio.create_task(beside())

    async def beside():
        log.info("beside")

    pid = runtime.spawn(body, name="worker")
    await runtime.join(pid)
    unnamed = runtime.spawn(beside, label="helper")
    await runtime.join(unnamed)
    log.info("outside")
    await runtime.stop()
    inside, task, helper, outside = lines.read()
    assert inside["node"] == outside["node"] == "n1@h"
    assert (inside["process"], inside["process_name"]) == (str(pid), "worker")
    assert (task["process"], task["process_name"]) == (str(pid), "worker")
    assert (helper["process"], helper["process_name"]) == (str(unnamed), "helper")
    assert "process" not in outside


def test_a_line_has_its_trace_where_one_is_known(lines):
    trace = pytest.importorskip("opentelemetry.trace")
    lines()
    log = structlog.get_logger()
    context = trace.SpanContext(0xABC, 0xDEF, is_remote=False)
    with trace.use_span(trace.NonRecordingSpan(context)):
        log.info("in a span of the application")
    with structlog.contextvars.bound_contextvars(trace_id="said"):
        log.info("in a trace that somebody named")
    log.info("in none")
    spanned, named, none = lines.read()
    assert (spanned["trace_id"], spanned["span_id"]) == (f"{0xABC:032x}", f"{0xDEF:016x}")
    assert named["trace_id"] == "said"
    assert "trace_id" not in none


JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbm4ifQ.dGhlIHNpZ25hdHVyZQ"


def test_no_secret_is_in_a_line(lines):
    lines(secrets=["the cookie of this cluster"])
    log = structlog.get_logger()
    log.info(
        "all of them",
        password="pw-1",
        api_token=SecretStr("pw-2"),
        headers={"Authorization": "Bearer pw-3", "accept": "all"},
        nested=[{"cookie": "pw-4"}, ("pw", b"pw-5")],
        error=f"refused {JWT} of Bearer pw-6-and-more",
        url="http://ann:pw-7@127.0.0.1:8091/x?token=pw-8&y=1",
        line="auth failed: the cookie of this cluster",
        hash="$argon2id$v=19$m=8,t=1,p=1$pw-9",
        config=NodeConfig(cookie=SecretStr("pw-10")),
    )
    try:
        raise ValueError(f"cannot read {JWT}")
    except ValueError:
        log.exception("broke")
    logging.getLogger("uvicorn.error").error("of a library: %s", JWT)
    first, broke, foreign = lines.read()
    text = json.dumps([first, broke, foreign])
    assert "pw-" not in text
    assert "eyJ" not in text
    assert "the cookie" not in text
    assert first["headers"] == {"Authorization": "***", "accept": "all"}
    assert first["url"] == "http://***@127.0.0.1:8091/x?token=***&y=1"
    assert foreign["node"] == "n1@h"
    assert "ValueError: cannot read ***" in broke["exception"]


def test_what_is_no_secret_stays_as_it_is(lines):
    lines(secrets=["short"])
    structlog.get_logger().info("kept", keys=3, token=None, key=True, rows=[1, 2.5, None], peer="short:1")
    (line,) = lines.read()
    assert (line["keys"], line["token"], line["key"]) == (3, None, True)
    assert (line["rows"], line["peer"]) == ([1, 2.5, None], "short:1")


def test_every_secret_of_a_configuration_is_found():
    config = config_from(
        {
            "node": {"cookie": "one-of-them"},
            "audit": {"key": "another-one-of-them"},
            "tracing": {"headers": {"authorization": "a-third"}},
            "mqtt": {"auth": {"jwt": {"secret": "x" * 32}}},
        }
    )
    assert set(secrets_in(config)) == {"one-of-them", "another-one-of-them", "a-third", "x" * 32}


def test_the_level_changes_while_a_node_runs(lines):
    lines()
    log = structlog.get_logger()
    log.debug("not yet")
    assert log_level("debug") == "debug"
    log.debug("now")
    log_level("warning")
    log.info("no more")
    log_level("info")
    assert [line["event"] for line in lines.read()] == ["now"]


def test_a_value_moves_no_terminal_and_forges_no_line(capsys):
    set_up_logging(LogConfig(format="console"))
    hostile = "\x1b]0;owned\x07\x9b2J\r\n2026-01-01 [info] forged"
    structlog.get_logger().info("refused", client_id=hostile, seen=[hostile], inner={"topic": hostile})
    logging.getLogger("gossamer.x").warning("from %s", hostile)
    structlog.get_logger().error("crash", traceback=f"Traceback:\n  {hostile}\n")
    err = capsys.readouterr().err
    structlog.reset_defaults()
    assert not any(control in err for control in ("\x1b", "\x07", "\x9b", "\r"))
    assert err.count("forged") == 5
    # The lines of a traceback are its own.
    assert [line for line in err.splitlines() if line.startswith("2026-01-01 [info]")] == [
        "2026-01-01 [info] forged"
    ]

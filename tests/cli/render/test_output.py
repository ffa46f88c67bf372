"""What is printed where: colours, widths, pipes that close, and lists that are very long."""

import json
import os
import re
import signal
import subprocess
import sys

import pytest

from cli.servers import say, serving
from cli.terminal import Terminal

GOSSAMER = (sys.executable, "-m", "gossamer.cli")
ESCAPE = "\x1b["


def environment(**more):
    kept = {
        name: what for name, what in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")
    }
    return {**kept, "TERM": "xterm-256color", **more}


def on_terminal(served, *words, size=(24, 100), **more):
    argv = [*GOSSAMER, *words, "--api", served.url]
    with Terminal(argv, environment=environment(**more), size=size, raw=True) as at:
        at.ended()
        return at.text


def test_a_terminal_has_colours_unless_somebody_wants_none(served):
    assert "\x1b[1m" in on_terminal(served, "nodes")
    assert ESCAPE not in on_terminal(served, "nodes", TERM="dumb")
    # Bold is no colour, which is what NO_COLOR is about.
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", on_terminal(served, "nodes", NO_COLOR="1"))


@pytest.mark.parametrize("width", [20, 40, 60])
def test_a_narrow_terminal_folds_and_cuts_nothing(served, width):
    shown = re.sub(r"\x1b\[[0-9;]*m", "", on_terminal(served, "nodes", size=(40, width)))
    lines = [line.rstrip("\r") for line in shown.splitlines()]
    assert all(len(line) <= width for line in lines)
    assert "…" not in shown


def test_a_pipe_has_no_colours_and_whole_names_however_narrow_it_says_it_is(served):
    done = subprocess.run(
        [*GOSSAMER, "nodes", "--api", served.url],
        capture_output=True,
        text=True,
        env=environment(COLUMNS="20"),
    )
    assert ESCAPE not in done.stdout
    assert all(name in done.stdout for name in ("node1@127.0.0.1", "node2@127.0.0.1", "node3@127.0.0.1"))
    assert len(done.stdout.splitlines()) == 1 + len(served.view.known)


# -- long lists


def endless(rows):
    """A node with so many clients."""
    row = {"client": "sensor-{:06}", "node": "n1", "connected": True, "address": "10.0.0.1:1"}
    counts = {"version": "5.0", "keepalive": 60, "subscriptions": 1, "inflight": 0, "queued": 0}
    line = json.dumps(row | counts) + "\n"

    def answer(handler):
        say(handler, 200, content_type="application/x-ndjson")
        for first in range(0, rows, 1000):
            some = range(first, min(rows, first + 1000))
            handler.wfile.write("".join(line.replace("{:06}", f"{at:06}") for at in some).encode())
        handler.wfile.write(b'{"missing": {}}\n')

    return serving(answer)


def listing(url, *options, **how):
    """The command as it lists the clients of the node at ``url``."""
    argv = [*GOSSAMER, "clients", "--api", url, *options]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, env=environment(), **how)


def memory_of(rows, *options):
    """KiB that the command had at most, listing so many clients; it must list them all."""
    with endless(rows) as url:
        child = listing(url, *options)
        found = sum(piece.count(b"sensor-") for piece in child.stdout)
        child.stdout.close()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    assert (child.returncode, found) == (0, rows)
    return usage.ru_maxrss


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_hundred_thousand_rows_need_no_more_memory_than_a_thousand(options):
    assert memory_of(100_000, *options) < memory_of(1_000, *options) + 8 * 1024


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_reader_who_has_enough_ends_it_without_a_word(options):
    with endless(100_000) as url:
        child = listing(url, *options, stderr=subprocess.PIPE)
        child.stdout.readline()
        child.stdout.close()
        said = child.stderr.read()
        child.stderr.close()
        assert (child.wait(60), said) == (0, b"")


def test_ctrl_c_has_a_code_of_its_own_and_no_traceback():
    with endless(50_000_000) as url:
        child = listing(url, stderr=subprocess.PIPE)
        child.stdout.readline()
        child.send_signal(signal.SIGINT)
        _, said = child.communicate(timeout=60)
        assert (child.returncode, said) == (130, b"")


@pytest.mark.parametrize(
    "typed", ["config check", "top --samples 1", "top --samples 1 --json", "top", "--help"]
)
def test_a_reader_who_has_enough_ends_a_command_with_0(typed, served):
    """``gossamer top | head``: also what rich has drawn."""
    read, write = os.pipe()
    os.close(read)
    try:
        command = [*GOSSAMER, *typed.split(), *(["--api", served.url] if "top" in typed else [])]
        found = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, check=False, timeout=60)
    finally:
        os.close(write)
    assert (found.returncode, found.stderr) == (0, b"")

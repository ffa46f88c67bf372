"""Children that are processes of the operating system; these tests start real ones."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import psutil
import pytest
from structlog.testing import capture_logs

from gossamer.supervisor import (
    ChildSpec,
    Down,
    OsProcess,
    Runtime,
    StartFailed,
    Supervisor,
    exit,  # noqa: A004
    get_state,
    monitor,
    receive,
    whereis,
)

pytestmark = pytest.mark.real


def real(test):
    """Run a test as a process of a runtime on a real loop."""

    def run():
        async def main():
            runtime = Runtime("test@host")
            async with asyncio.timeout(20):
                await runtime.run(test)
                await runtime.stop()
                # What was killed is reaped a little later; a loop that ends before leaves its transport open.
                await until(lambda: not psutil.Process().children())

        asyncio.run(main())

    run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, test.__module__
    return run


def gone(pid):
    """True when the system knows no such process, or it only waits to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


async def until(condition):
    while not condition():  # noqa: ASYNC110 - the kernel sends no event
        await asyncio.sleep(0.01)


async def ended(pid):
    ref = monitor(pid)
    return (await receive(match=lambda m: isinstance(m, Down) and m.ref == ref)).reason


def shell(script, **options):
    return partial(OsProcess.start_link, ["sh", "-c", script], label="child", **options)


@real
async def test_output_goes_to_the_log_and_the_status_is_the_reason():
    with capture_logs() as logs:
        pid = await OsProcess.start(["sh", "-c", "echo hello; echo oops >&2; exit 3"], label="child")
        assert await ended(pid) == ("exit_status", 3)
    lines = [entry["line"] for entry in logs if entry["event"] == "output"]
    assert lines == ["hello", "oops"]


@real
async def test_a_program_that_ends_well_ends_normally():
    assert await ended(await OsProcess.start(["true"])) == "normal"


@real
async def test_a_program_that_is_killed_is_restarted():
    await Supervisor.start_link([ChildSpec("child", shell("exec sleep 100", name="child"), shutdown=10.0)])
    first = whereis("child")
    os_pid = (await get_state("child"))["pid"]
    os.kill(os_pid, 9)
    assert await ended(first) == ("signal", "SIGKILL")
    await until(lambda: whereis("child") is not None)
    await until(lambda: gone(os_pid))


@real
async def test_stopping_ends_the_whole_group():
    """A program that ignores SIGTERM, and its own children, are killed after the grace time."""
    script = "trap '' TERM; sleep 100 & echo pid=$!; wait; sleep 100"
    with capture_logs() as logs:
        sup = await Supervisor.start(
            [ChildSpec("child", shell(script, grace=0.2, ready="pid=", name="child"))]
        )
        os_pid = (await get_state("child"))["pid"]
        await Supervisor.terminate_child(sup, "child")
    (line,) = [entry["line"] for entry in logs if entry["event"] == "output"]
    assert [entry["event"] for entry in logs].count("os_process_killed") == 1
    assert gone(os_pid)
    await until(lambda: gone(int(line.removeprefix("pid="))))


@real
async def test_a_killed_server_leaves_nothing_behind():
    pid = await OsProcess.start(["sh", "-c", "sleep 100 & sleep 100"])
    os_pid = (await get_state(pid))["pid"]
    exit(pid, "kill")
    assert await ended(pid) == "killed"
    await until(lambda: gone(os_pid))


@real
async def test_starting_waits_for_the_ready_line():
    with pytest.raises(StartFailed, match="enoent"):
        await OsProcess.start(["no-such-program-anywhere"])
    with pytest.raises(StartFailed) as caught:
        await OsProcess.start(["sh", "-c", "exit 4"], ready="never")
    assert caught.value.reason == ("exit_status", 4)
    with pytest.raises(StartFailed, match="no line with 'never'"):
        await OsProcess.start(["sleep", "100"], ready="never", ready_timeout=0.1)


@real
async def test_endless_lines_are_cut():
    script = "import sys; sys.stdout.write('x' * 300000)"
    with capture_logs() as logs:
        pid = await OsProcess.start([sys.executable, "-c", script])
        assert await ended(pid) == "normal"
    lines = [entry["line"] for entry in logs if entry["event"] == "output"]
    assert lines
    assert max(map(len, lines)) == 4096


def test_the_program_dies_with_a_node_that_is_killed():
    node = """
import asyncio
from gossamer.supervisor import *
async def main():
    runtime = Runtime()
    pid = await runtime.start(OsProcess, ["sleep", "100"])
    async def show():
        print((await get_state(pid))["pid"], flush=True)
    await runtime.run(show)
    await asyncio.sleep(100)
asyncio.run(main())
"""
    with subprocess.Popen([sys.executable, "-c", node], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        for line in parent.stdout:
            if line.strip().isdigit():
                break
        os_pid = int(line)
        assert not gone(os_pid)
        parent.kill()
    asyncio.run(asyncio.wait_for(until(lambda: gone(os_pid)), 10))

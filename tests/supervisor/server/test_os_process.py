"""Children that are processes of the operating system; these tests start real ones."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from functools import partial

import pytest
from structlog.testing import capture_logs

import gossamer.supervisor as otp
from tests.supervisor.harness import ended, is_alive, until

pytestmark = pytest.mark.real


def shell(script, **options):
    return partial(otp.OsProcess.start_link, ["sh", "-c", script], label="child", **options)


async def test_output_goes_to_the_log_and_the_status_is_the_reason(real_rt):
    with capture_logs() as logs:
        pid = await otp.OsProcess.start(["sh", "-c", "echo hello; echo oops >&2; exit 3"], label="child")
        assert await ended(pid) == ("exit_status", 3)
    lines = [entry["line"] for entry in logs if entry["event"] == "output"]
    assert lines == ["hello", "oops"]


async def test_a_program_that_ends_well_ends_normally(real_rt):
    assert await ended(await otp.OsProcess.start(["true"])) == "normal"


async def test_a_program_that_is_killed_is_restarted(real_rt):
    await otp.Supervisor.start_link(
        [otp.ChildSpec("child", shell("exec sleep 100", name="child"), shutdown=10.0)]
    )
    first = otp.whereis("child")
    os_pid = (await otp.get_state("child"))["pid"]
    os.kill(os_pid, 9)
    assert await ended(first) == ("signal", "SIGKILL")
    await until(lambda: otp.whereis("child") is not None)
    await until(lambda: not is_alive(os_pid))


async def test_stopping_ends_the_whole_group(real_rt):
    """A program that ignores SIGTERM, and its own children, are killed after the grace time."""
    script = "trap '' TERM; sleep 100 & echo pid=$!; wait; sleep 100"
    with capture_logs() as logs:
        sup = await otp.Supervisor.start(
            [otp.ChildSpec("child", shell(script, grace=0.2, ready="pid=", name="child"))]
        )
        os_pid = (await otp.get_state("child"))["pid"]
        await otp.Supervisor.terminate_child(sup, "child")
    (line,) = [entry["line"] for entry in logs if entry["event"] == "output"]
    assert [entry["event"] for entry in logs].count("os_process_killed") == 1
    assert not is_alive(os_pid)
    await until(lambda: not is_alive(int(line.removeprefix("pid="))))


async def test_a_killed_server_leaves_nothing_behind(real_rt):
    pid = await otp.OsProcess.start(["sh", "-c", "sleep 100 & sleep 100"])
    os_pid = (await otp.get_state(pid))["pid"]
    otp.exit(pid, "kill")
    assert await ended(pid) == "killed"
    await until(lambda: not is_alive(os_pid))


async def test_starting_waits_for_the_ready_line(real_rt):
    with pytest.raises(otp.StartFailed, match="enoent"):
        await otp.OsProcess.start(["no-such-program-anywhere"])
    with pytest.raises(otp.StartFailed) as caught:
        await otp.OsProcess.start(["sh", "-c", "exit 4"], ready="never")
    assert caught.value.reason == ("exit_status", 4)
    with pytest.raises(otp.StartFailed, match="no line with 'never'"):
        await otp.OsProcess.start(["sleep", "100"], ready="never", ready_timeout=0.1)


async def test_endless_lines_are_cut(real_rt):
    script = "import sys; sys.stdout.write('x' * 300000)"
    with capture_logs() as logs:
        pid = await otp.OsProcess.start([sys.executable, "-c", script])
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
        assert is_alive(os_pid)
        parent.kill()
    asyncio.run(until(lambda: not is_alive(os_pid), 10))

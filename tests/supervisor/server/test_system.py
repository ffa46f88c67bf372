"""System messages: looking into a server, changing it, holding it, tracing it."""

from __future__ import annotations

import asyncio

import pytest

import gossamer.supervisor as otp
from tests.supervisor.harness import Worker, settle


async def test_state_can_be_read_and_replaced(rt):
    pid = await Worker.start(1, name="worker")
    assert (await otp.get_state("worker"))["args"] == (1,)
    assert (await otp.replace_state(pid, lambda state: state | {"args": (2,)}))["args"] == (2,)
    assert await otp.call(pid, "args") == (2,)


@pytest.mark.parametrize(
    ("change", "error"),
    [(lambda state: state["nothing"], KeyError), (lambda state: state.update(args=(2,)), TypeError)],
)
async def test_a_failing_change_leaves_the_state(rt, change, error):
    pid = await Worker.start(1)
    with pytest.raises(error):
        await otp.replace_state(pid, change)
    assert await otp.call(pid, "args") == (1,)


async def test_a_suspended_server_takes_system_requests_only(rt):
    pid = await Worker.start()
    await otp.suspend(pid)
    assert otp.statistics(pid).status == "suspended"
    otp.cast(pid, 1)
    with pytest.raises(otp.CallTimeout):
        await otp.call(pid, "got", timeout=1)
    assert (await otp.get_state(pid))["got"] == []
    otp.send(pid, 2)
    await otp.suspend(pid)
    await otp.resume(pid)
    await otp.resume(pid)
    assert await otp.call(pid, "got") == [("cast", 1), 2]


async def test_a_suspended_server_can_be_killed(rt):
    otp.trap_exit(True)
    pid = await Worker.start_link()
    await otp.suspend(pid)
    otp.exit(pid, "shutdown")
    assert await otp.receive() == otp.Exit(pid, "shutdown")


async def test_statistics_count(rt):
    pid = await Worker.start()
    for number in range(5):
        otp.cast(pid, number)
    await settle()
    counts = otp.statistics(pid)
    assert (counts.reductions, counts.mailbox, counts.dropped, counts.status) == (5, 0, 0, "waiting")


async def test_nobody_there_and_nobody_listening(rt):
    with pytest.raises(otp.CallFailed, match="noproc"):
        await otp.get_state("nobody")

    async def deaf():
        await asyncio.sleep(100)

    with pytest.raises(otp.CallFailed, match="timeout"):
        await otp.get_state(otp.spawn(deaf), timeout=1)

    async def brief():
        await asyncio.sleep(1)

    with pytest.raises(otp.CallFailed, match="normal"):
        await otp.get_state(otp.spawn(brief))

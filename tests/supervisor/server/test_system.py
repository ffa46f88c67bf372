"""System messages: looking into a server, changing it, holding it, tracing it."""

from __future__ import annotations

import asyncio

import pytest

from gossamer.supervisor import (
    CallFailed,
    CallTimeout,
    Cast,
    Exit,
    call,
    cast,
    exit,  # noqa: A004
    get_state,
    receive,
    replace_state,
    resume,
    send,
    spawn,
    statistics,
    suspend,
    trace,
    trap_exit,
)
from tests.supervisor.harness import Worker, settle, virtual


@virtual
async def test_state_can_be_read_and_replaced(rt):
    pid = await Worker.start(1, name="worker")
    assert (await get_state("worker"))["args"] == (1,)
    assert (await replace_state(pid, lambda state: state | {"args": (2,)}))["args"] == (2,)
    assert await call(pid, "args") == (2,)


@virtual
@pytest.mark.parametrize(
    ("change", "error"),
    [(lambda state: state["nothing"], KeyError), (lambda state: state.update(args=(2,)), TypeError)],
)
async def test_a_failing_change_leaves_the_state(rt, change, error):
    pid = await Worker.start(1)
    with pytest.raises(error):
        await replace_state(pid, change)
    assert await call(pid, "args") == (1,)


@virtual
async def test_a_suspended_server_takes_system_requests_only(rt):
    pid = await Worker.start()
    await suspend(pid)
    assert statistics(pid).status == "suspended"
    cast(pid, 1)
    with pytest.raises(CallTimeout):
        await call(pid, "got", timeout=1)
    assert (await get_state(pid))["got"] == []
    send(pid, 2)
    await suspend(pid)
    await resume(pid)
    await resume(pid)
    assert await call(pid, "got") == [("cast", 1), 2]


@virtual
async def test_a_suspended_server_can_be_killed(rt):
    trap_exit(True)
    pid = await Worker.start_link()
    await suspend(pid)
    exit(pid, "shutdown")
    assert await receive() == Exit(pid, "shutdown")


@virtual
async def test_tracing_shows_what_arrives(rt):
    seen = []
    pid = await Worker.start()
    trace(pid, lambda event, message: seen.append((event, message)))
    cast(pid, 1)
    assert await call(pid, ("echo", 2)) == 2
    trace(pid, None)
    cast(pid, 3)
    await settle()
    assert seen[0] == ("receive", Cast(1))
    assert seen[1][1].request == ("echo", 2)
    assert [event for event, _ in seen] == ["receive", "receive", "reply"]


@virtual
async def test_statistics_count(rt):
    pid = await Worker.start()
    for number in range(5):
        cast(pid, number)
    await settle()
    counts = statistics(pid)
    assert (counts.reductions, counts.mailbox, counts.dropped, counts.status) == (5, 0, 0, "waiting")


@virtual
async def test_nobody_there_and_nobody_listening(rt):
    with pytest.raises(CallFailed, match="noproc"):
        await get_state("nobody")

    async def deaf():
        await asyncio.sleep(100)

    with pytest.raises(CallFailed, match="timeout"):
        await get_state(spawn(deaf), timeout=1)

    async def brief():
        await asyncio.sleep(1)

    with pytest.raises(CallFailed, match="normal"):
        await get_state(spawn(brief))

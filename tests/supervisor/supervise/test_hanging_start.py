"""A child that hangs in its start does not keep the tree from stopping."""

from __future__ import annotations

import asyncio
import gc

import pytest

from gossamer.supervisor import (
    ChildSpec,
    DynamicSupervisor,
    Exit,
    GenServer,
    Supervisor,
    call,
    exit,  # noqa: A004
    receive,
    self_pid,
    spawn,
    spawn_link,
    trap_exit,
    whereis,
)
from tests.supervisor.harness import Worker, settle, virtual


class Hanging(GenServer):
    async def init(self):
        trap_exit(True)
        await asyncio.get_running_loop().create_future()


def hanging():
    return Hanging.start_link(name="hanging")


@virtual
async def test_a_supervisor_that_starts_obeys_its_parent(rt):
    trap_exit(True)
    here = self_pid()

    async def parent():
        trap_exit(True)
        children = [ChildSpec("ready", Worker.start_link), ChildSpec("hangs", hanging)]
        await Supervisor.start_link(children, name="sup")

    above = spawn_link(parent)
    await settle()
    assert whereis("hanging") is not None
    rt.table[whereis("sup")].exit_signal(above, "shutdown")
    assert (await receive(timeout=60)).source == above
    assert rt.loop.time() < 1
    assert not [pid for pid in rt.processes() if pid != here]


@virtual
async def test_a_supervisor_that_restarts_a_child_obeys_too(rt):
    trap_exit(True)
    hang = False

    async def start():
        return await (hanging() if hang else Worker.start_link(name="child"))

    for kind in (Supervisor, DynamicSupervisor):
        hang = False
        if kind is Supervisor:
            sup = await Supervisor.start_link([ChildSpec("child", start)])
        else:
            sup = await DynamicSupervisor.start_link()
            await DynamicSupervisor.start_child(sup, ChildSpec("child", start))
        hang = True
        exit(whereis("child"), "kill")
        await settle()
        assert whereis("hanging") is not None
        exit(sup, "shutdown")
        assert await receive(timeout=60) == Exit(sup, "shutdown")
        await settle()
        assert whereis("hanging") is None


@virtual
async def test_a_start_that_is_given_up_leaves_no_process(rt):
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await hanging()
    await settle()
    assert whereis("hanging") is None


@virtual
async def test_no_process_is_collected_alive(rt):
    """The loop holds tasks weakly; the table must not."""

    async def waits():
        await receive()

    workers = [await Worker.start() for _ in range(50)]
    idle = [spawn(waits) for _ in range(50)]
    for _ in range(3):
        gc.collect()
        await settle(2)
    assert all(rt.alive(pid) for pid in workers + idle)
    assert [await call(pid, ("echo", n)) for n, pid in enumerate(workers)] == list(range(50))

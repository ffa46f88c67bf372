"""A child that hangs in its start does not keep the tree from stopping."""

from __future__ import annotations

import asyncio

import pytest

import gossamer.supervisor as otp
from tests.supervisor.harness import Worker, settle


class Hanging(otp.GenServer):
    async def init(self):
        otp.trap_exit(True)
        await asyncio.get_running_loop().create_future()


def hanging():
    return Hanging.start_link(name="hanging")


async def test_a_supervisor_that_starts_obeys_its_parent(rt):
    otp.trap_exit(True)
    here = otp.self_pid()

    async def parent():
        otp.trap_exit(True)
        children = [otp.ChildSpec("ready", Worker.start_link), otp.ChildSpec("hangs", hanging)]
        await otp.Supervisor.start_link(children, name="sup")

    above = otp.spawn_link(parent)
    await settle()
    assert otp.whereis("hanging") is not None
    rt.table[otp.whereis("sup")].exit_signal(above, "shutdown")
    assert (await otp.receive(timeout=60)).source == above
    assert rt.loop.time() < 1
    assert not [pid for pid in rt.processes() if pid != here]


async def test_a_supervisor_that_restarts_a_child_obeys_too(rt):
    otp.trap_exit(True)
    hang = False

    async def start():
        return await (hanging() if hang else Worker.start_link(name="child"))

    for kind in (otp.Supervisor, otp.DynamicSupervisor):
        hang = False
        if kind is otp.Supervisor:
            sup = await otp.Supervisor.start_link([otp.ChildSpec("child", start)])
        else:
            sup = await otp.DynamicSupervisor.start_link()
            await otp.DynamicSupervisor.start_child(sup, otp.ChildSpec("child", start))
        hang = True
        otp.exit(otp.whereis("child"), "kill")
        await settle()
        assert otp.whereis("hanging") is not None
        otp.exit(sup, "shutdown")
        assert await otp.receive(timeout=60) == otp.Exit(sup, "shutdown")
        await settle()
        assert otp.whereis("hanging") is None


async def test_a_start_that_is_given_up_leaves_no_process(rt):
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await hanging()
    await settle()
    assert otp.whereis("hanging") is None

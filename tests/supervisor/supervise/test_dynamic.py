"""DynamicSupervisor: children without ids, parallel stop."""

from __future__ import annotations

import asyncio
import sys

import pytest

import gossamer.supervisor as otp
from tests.supervisor.harness import settle
from tests.supervisor.supervise.children import probe


async def pids(sup):
    return [info.pid for info in await otp.DynamicSupervisor.which_children(sup)]


async def test_the_pid_of_before_a_restart_is_nobodys(rt):
    sup = await otp.DynamicSupervisor.start_link()
    a = await otp.DynamicSupervisor.start_child(sup, probe("a", []))
    otp.exit(a, "kill")
    await settle()
    with pytest.raises(otp.ChildNotFound):
        await otp.DynamicSupervisor.terminate_child(sup, a)


async def test_bad_requests_do_not_hurt_it(rt):
    sup = await otp.DynamicSupervisor.start_link()
    keep = await otp.DynamicSupervisor.start_child(sup, probe("a", []))
    with pytest.raises(otp.StartFailed, match="no luck"):
        await otp.DynamicSupervisor.start_child(sup, probe("b", [], fails=["no luck"]))
    assert await otp.DynamicSupervisor.start_child(sup, probe("b", [], fails=["ignore"])) is None
    for wrong in ("spec", otp.ChildSpec("c", settle, restart="transient", significant=True)):
        with pytest.raises(otp.BadChildSpec):
            await otp.DynamicSupervisor.start_child(sup, wrong)
    assert await pids(sup) == [keep]
    full = await otp.DynamicSupervisor.start_link(max_children=0)
    with pytest.raises(otp.MaxChildren, match="holds 0 children"):
        await otp.DynamicSupervisor.start_child(full, probe("b", []))
    with pytest.raises(otp.StartFailed, match="strategy"):
        await otp.DynamicSupervisor.start(strategy="one_for_all")
    with pytest.raises(otp.StartFailed, match="max_children"):
        await otp.DynamicSupervisor.start(max_children=-1)


def test_start_and_stop_grow_linearly():
    """Ten times the children take at most eleven times the steps; counted, not timed."""

    def measure(number):
        steps = 0

        def count(frame, event, argument):
            nonlocal steps
            steps += event in ("call", "c_call")

        async def main():
            rt = otp.Runtime()
            sup = await rt.start(otp.DynamicSupervisor)

            async def start():
                for _ in range(number):
                    await otp.DynamicSupervisor.start_child(sup, spec)

            await rt.run(start)
            await rt.stop()
            assert not rt.table

        spec = otp.ChildSpec("child", otp.GenServer.start_link, restart="temporary")
        sys.setprofile(count)
        try:
            asyncio.run(main())
        finally:
            sys.setprofile(None)
        return steps

    few, many = measure(100), measure(1000)
    assert few < many < 11 * few

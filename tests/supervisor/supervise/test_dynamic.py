"""DynamicSupervisor: children without ids, parallel stop."""

from __future__ import annotations

import asyncio
import sys

import pytest
from structlog.testing import capture_logs

import gossamer.supervisor as otp
from tests.supervisor.harness import settle
from tests.supervisor.supervise.test_supervisor import probe


async def pids(sup):
    return [info.pid for info in await otp.DynamicSupervisor.which_children(sup)]


async def test_children_come_and_go(rt):
    sup = await otp.DynamicSupervisor.start_link()
    a = await otp.DynamicSupervisor.start_child(sup, probe("a", [], restart="temporary"))
    b = await otp.DynamicSupervisor.start_child(sup, probe("b", [], restart="transient"))
    assert await pids(sup) == [a, b]
    assert await otp.DynamicSupervisor.count_children(sup) == otp.ChildCounts(2, 2, 0, 2)
    await otp.call(a, ("stop", "bad"))
    await otp.call(b, ("stop", "normal"))
    await settle()
    assert await pids(sup) == []


async def test_there_is_a_bound(rt):
    sup = await otp.DynamicSupervisor.start_link(max_children=1)
    await otp.DynamicSupervisor.start_child(sup, probe("a", []))
    with pytest.raises(otp.MaxChildren, match="holds 1 children"):
        await otp.DynamicSupervisor.start_child(sup, probe("b", []))


async def test_a_restarted_child_has_a_new_pid(rt):
    sup = await otp.DynamicSupervisor.start_link()
    a = await otp.DynamicSupervisor.start_child(sup, probe("a", []))
    b = await otp.DynamicSupervisor.start_child(sup, probe("b", []))
    otp.exit(a, "kill")
    await settle()
    assert await pids(sup) == [b, otp.whereis("a")]
    with pytest.raises(otp.ChildNotFound):
        await otp.DynamicSupervisor.terminate_child(sup, a)
    await otp.DynamicSupervisor.terminate_child(sup, otp.whereis("a"))
    assert await pids(sup) == [b]


async def test_too_many_restarts_end_it_with_all_children(rt):
    otp.trap_exit(True)
    sup = await otp.DynamicSupervisor.start_link(intensity=2, period=10)
    events = []
    for name in "abc":
        await otp.DynamicSupervisor.start_child(sup, probe(name, events))
    for _ in range(3):
        otp.exit(otp.whereis("b"), "kill")
        await settle(50)
    assert await otp.receive() == otp.Exit(sup, "shutdown")
    assert sorted(events[-2:]) == ["-a", "-c"]


async def test_restarts_that_fail_are_tried_again_between_requests(rt):
    fails = []
    sup = await otp.DynamicSupervisor.start_link(intensity=1000)
    pid = await otp.DynamicSupervisor.start_child(sup, probe("a", [], fails=fails))
    fails.extend(["no"] * 100)
    otp.exit(pid, "kill")
    await settle(5)
    assert await pids(sup) == ["restarting"]
    assert (await otp.DynamicSupervisor.count_children(sup)).active == 0
    fails.clear()
    await settle(20)
    assert await pids(sup) == [otp.whereis("a")]
    fails.append("ignore")
    otp.exit(otp.whereis("a"), "kill")
    await settle(20)
    assert await pids(sup) == []


async def test_children_stop_in_parallel_on_one_timer(rt):
    otp.trap_exit(True)
    sup = await otp.DynamicSupervisor.start_link()
    events = []
    for name, seconds in (("a", 3), ("b", 2), ("c", 1), ("never", 1e6)):
        await otp.DynamicSupervisor.start_child(sup, probe(name, events, stop_after=seconds, shutdown=4.0))
    del events[:]
    with capture_logs() as logs:
        otp.exit(sup, "shutdown")
        assert await otp.receive() == otp.Exit(sup, "shutdown")
    assert rt.loop.time() == 4
    assert events == ["-c", "-b", "-a"]
    reports = [(e["reason"], e["children"]) for e in logs if e["event"] == "shutdown_error"]
    assert reports == [("killed", 1)]


async def test_brutal_children_do_not_wait(rt):
    otp.trap_exit(True)
    sup = await otp.DynamicSupervisor.start_link()
    await otp.DynamicSupervisor.start_child(sup, probe("a", [], stop_after=100, shutdown="brutal_kill"))
    otp.exit(sup, "shutdown")
    await otp.receive()
    assert rt.loop.time() == 0


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

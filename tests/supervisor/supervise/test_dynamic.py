"""DynamicSupervisor: children without ids, parallel stop."""

from __future__ import annotations

import asyncio
import sys

import pytest
from structlog.testing import capture_logs

from gossamer.supervisor import (
    BadChildSpec,
    ChildCounts,
    ChildNotFound,
    ChildSpec,
    DynamicSupervisor,
    Exit,
    GenServer,
    MaxChildren,
    Runtime,
    StartFailed,
    call,
    exit,  # noqa: A004
    receive,
    trap_exit,
    whereis,
)
from tests.supervisor.harness import settle, virtual
from tests.supervisor.supervise.test_supervisor import probe


async def pids(sup):
    return [info.pid for info in await DynamicSupervisor.which_children(sup)]


@virtual
async def test_children_come_and_go(rt):
    sup = await DynamicSupervisor.start_link()
    a = await DynamicSupervisor.start_child(sup, probe("a", [], restart="temporary"))
    b = await DynamicSupervisor.start_child(sup, probe("b", [], restart="transient"))
    assert await pids(sup) == [a, b]
    assert await DynamicSupervisor.count_children(sup) == ChildCounts(2, 2, 0, 2)
    await call(a, ("stop", "bad"))
    await call(b, ("stop", "normal"))
    await settle()
    assert await pids(sup) == []


@virtual
async def test_there_is_a_bound(rt):
    sup = await DynamicSupervisor.start_link(max_children=1)
    await DynamicSupervisor.start_child(sup, probe("a", []))
    with pytest.raises(MaxChildren, match="holds 1 children"):
        await DynamicSupervisor.start_child(sup, probe("b", []))


@virtual
async def test_a_restarted_child_has_a_new_pid(rt):
    sup = await DynamicSupervisor.start_link()
    a = await DynamicSupervisor.start_child(sup, probe("a", []))
    b = await DynamicSupervisor.start_child(sup, probe("b", []))
    exit(a, "kill")
    await settle()
    assert await pids(sup) == [b, whereis("a")]
    with pytest.raises(ChildNotFound):
        await DynamicSupervisor.terminate_child(sup, a)
    await DynamicSupervisor.terminate_child(sup, whereis("a"))
    assert await pids(sup) == [b]


@virtual
async def test_too_many_restarts_end_it_with_all_children(rt):
    trap_exit(True)
    sup = await DynamicSupervisor.start_link(intensity=2, period=10)
    events = []
    for name in "abc":
        await DynamicSupervisor.start_child(sup, probe(name, events))
    for _ in range(3):
        exit(whereis("b"), "kill")
        await settle(50)
    assert await receive() == Exit(sup, "shutdown")
    assert sorted(events[-2:]) == ["-a", "-c"]


@virtual
async def test_restarts_that_fail_are_tried_again_between_requests(rt):
    fails = []
    sup = await DynamicSupervisor.start_link(intensity=1000)
    pid = await DynamicSupervisor.start_child(sup, probe("a", [], fails=fails))
    fails.extend(["no"] * 100)
    exit(pid, "kill")
    await settle(5)
    assert await pids(sup) == ["restarting"]
    assert (await DynamicSupervisor.count_children(sup)).active == 0
    fails.clear()
    await settle(20)
    assert await pids(sup) == [whereis("a")]
    fails.append("ignore")
    exit(whereis("a"), "kill")
    await settle(20)
    assert await pids(sup) == []


@virtual
async def test_children_stop_in_parallel_on_one_timer(rt):
    trap_exit(True)
    sup = await DynamicSupervisor.start_link()
    events = []
    for name, seconds in (("a", 3), ("b", 2), ("c", 1), ("never", 1e6)):
        await DynamicSupervisor.start_child(sup, probe(name, events, stop_after=seconds, shutdown=4.0))
    del events[:]
    with capture_logs() as logs:
        exit(sup, "shutdown")
        assert await receive() == Exit(sup, "shutdown")
    assert rt.loop.time() == 4
    assert events == ["-c", "-b", "-a"]
    reports = [(e["reason"], e["children"]) for e in logs if e["event"] == "shutdown_error"]
    assert reports == [("killed", 1)]


@virtual
async def test_brutal_children_do_not_wait(rt):
    trap_exit(True)
    sup = await DynamicSupervisor.start_link()
    await DynamicSupervisor.start_child(sup, probe("a", [], stop_after=100, shutdown="brutal_kill"))
    exit(sup, "shutdown")
    await receive()
    assert rt.loop.time() == 0


@virtual
async def test_bad_requests_do_not_hurt_it(rt):
    sup = await DynamicSupervisor.start_link()
    keep = await DynamicSupervisor.start_child(sup, probe("a", []))
    with pytest.raises(StartFailed, match="no luck"):
        await DynamicSupervisor.start_child(sup, probe("b", [], fails=["no luck"]))
    assert await DynamicSupervisor.start_child(sup, probe("b", [], fails=["ignore"])) is None
    for wrong in ("spec", ChildSpec("c", settle, restart="transient", significant=True)):
        with pytest.raises(BadChildSpec):
            await DynamicSupervisor.start_child(sup, wrong)
    assert await pids(sup) == [keep]
    with pytest.raises(StartFailed, match="strategy"):
        await DynamicSupervisor.start(strategy="one_for_all")
    with pytest.raises(StartFailed, match="max_children"):
        await DynamicSupervisor.start(max_children=-1)


def test_start_and_stop_grow_linearly():
    """Ten times the children take at most eleven times the steps; counted, not timed."""

    def measure(number):
        steps = 0

        def count(frame, event, argument):
            nonlocal steps
            steps += event in ("call", "c_call")

        async def main():
            rt = Runtime()
            sup = await rt.start(DynamicSupervisor)

            async def start():
                for _ in range(number):
                    await DynamicSupervisor.start_child(sup, spec)

            await rt.run(start)
            await rt.stop()
            assert not rt.table

        spec = ChildSpec("child", GenServer.start_link, restart="temporary")
        sys.setprofile(count)
        try:
            asyncio.run(main())
        finally:
            sys.setprofile(None)
        return steps

    few, many = measure(100), measure(1000)
    assert few < many < 11 * few

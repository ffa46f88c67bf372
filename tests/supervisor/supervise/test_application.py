"""Applications: order, types, and what their end means for the node."""

from __future__ import annotations

from functools import partial

import pytest

import gossamer.supervisor as otp
from gossamer.supervisor.supervise.application import start_order
from tests.supervisor.harness import settle
from tests.supervisor.supervise.children import Probe


def application(name, events=None, *, fails=False, **options):
    async def start():
        if fails:
            raise OSError("no disc")
        return await Probe.start_link(name, [] if events is None else events, name=name)

    return otp.Application(name, start, **options)


def names(order):
    return [a.name for a in order]


def test_dependencies_come_first_and_else_the_given_order_holds():
    order = start_order(
        [
            application("c", depends=("a", "b")),
            application("b"),
            application("a", depends=("b",)),
            application("d"),
        ]
    )
    assert names(order) == ["b", "a", "c", "d"]


def test_impossible_dependencies_are_named():
    with pytest.raises(otp.BadChildSpec, match="no circle"):
        start_order([application("a", depends=("b",)), application("b", depends=("a",))])
    with pytest.raises(otp.BadChildSpec, match="depends is 'x'"):
        start_order([application("a", depends=("x",))])
    with pytest.raises(otp.BadChildSpec, match="no other has"):
        start_order([application("a"), application("a")])
    with pytest.raises(otp.BadChildSpec, match="type is 'forever'"):
        application("a", type="forever")


async def test_applications_start_in_order_and_stop_in_reverse(rt):
    events = []
    apps = [application("b", events, depends=("a",)), application("a", events), application("c", events)]
    pid = await otp.Applications.start(apps)
    assert [name for name, _ in await otp.Applications.which_applications(pid)] == ["a", "b", "c"]
    otp.exit(pid, "kill")
    await settle()
    del events[:]
    pid = await rt.start(otp.Applications, apps, name="applications")
    ref = otp.monitor(pid)
    await call_stop(rt, pid)
    assert (await otp.receive()).ref == ref
    assert events == ["+a", "+b", "+c", "-c", "-b", "-a"]


async def call_stop(rt, pid):
    rt.table[pid].exit_signal(pid, "shutdown")
    await settle(50)


async def test_one_that_fails_takes_back_those_before_it(rt):
    events = []
    with pytest.raises(otp.StartFailed) as caught:
        await otp.Applications.start([application("a", events), application("b", fails=True, depends=("a",))])
    assert caught.value.reason[1][:2] == ("failed_to_start_child", "b")
    assert events == ["+a", "-a"]


@pytest.mark.parametrize(
    ("kind", "reason", "node_stops"),
    [
        ("permanent", "normal", True),
        ("permanent", "bad", True),
        ("transient", "normal", False),
        ("transient", ("shutdown", 1), False),
        ("transient", "bad", True),
        ("temporary", "bad", False),
    ],
)
async def test_types(rt, kind, reason, node_stops):
    events = []
    pid = await otp.Applications.start([application("a", events), application("b", events, type=kind)])
    ref = otp.monitor(pid)
    await otp.call("b", ("stop", reason))
    await settle(50)
    if node_stops:
        down = await otp.receive()
        assert down == otp.Down(ref, pid, ("shutdown", ("application_terminated", "b", reason)))
        assert events[-1] == "-a"
    else:
        assert [name for name, _ in await otp.Applications.which_applications(pid)] == ["a"]


async def test_more_can_be_started_and_stopped(rt):
    pid = await otp.Applications.start([application("a")])
    await otp.Applications.start_application(pid, application("b", depends=("a",)))
    with pytest.raises(otp.AlreadyStarted):
        await otp.Applications.start_application(pid, application("b"))
    with pytest.raises(otp.BadChildSpec):
        await otp.Applications.start_application(pid, application("c", depends=("x",)))
    with pytest.raises(otp.StartFailed, match="no disc"):
        await otp.Applications.start_application(pid, application("c", fails=True))
    await otp.Applications.stop_application(pid, "b")
    assert otp.whereis("b") is None
    with pytest.raises(otp.ChildNotFound):
        await otp.Applications.stop_application(pid, "b")


async def test_a_supervision_tree_is_an_application(rt):
    tree = otp.Application("tree", partial(otp.Supervisor.start_link, [], name="top"), type="permanent")
    pid = await otp.Applications.start([tree])
    ref = otp.monitor(pid)
    otp.exit(otp.whereis("top"), "kill")
    assert await otp.receive() == otp.Down(
        ref, pid, ("shutdown", ("application_terminated", "tree", "killed"))
    )

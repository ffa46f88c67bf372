"""Applications: order, types, and what their end means for the node."""

from __future__ import annotations

from functools import partial

import pytest

from gossamer.supervisor import (
    AlreadyStarted,
    Application,
    Applications,
    BadChildSpec,
    ChildNotFound,
    Down,
    StartFailed,
    Supervisor,
    call,
    exit,  # noqa: A004
    monitor,
    receive,
    whereis,
)
from gossamer.supervisor.supervise.application import start_order
from tests.supervisor.harness import settle, virtual
from tests.supervisor.supervise.test_supervisor import Probe


def application(name, events=None, *, fails=False, **options):
    async def start():
        if fails:
            raise OSError("no disc")
        return await Probe.start_link(name, [] if events is None else events, name=name)

    return Application(name, start, **options)


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
    with pytest.raises(BadChildSpec, match="no circle"):
        start_order([application("a", depends=("b",)), application("b", depends=("a",))])
    with pytest.raises(BadChildSpec, match="depends is 'x'"):
        start_order([application("a", depends=("x",))])
    with pytest.raises(BadChildSpec, match="no other has"):
        start_order([application("a"), application("a")])
    with pytest.raises(BadChildSpec, match="type is 'forever'"):
        application("a", type="forever")


@virtual
async def test_applications_start_in_order_and_stop_in_reverse(rt):
    events = []
    apps = [application("b", events, depends=("a",)), application("a", events), application("c", events)]
    pid = await Applications.start(apps)
    assert [name for name, _ in await Applications.which_applications(pid)] == ["a", "b", "c"]
    exit(pid, "kill")
    await settle()
    del events[:]
    pid = await rt.start(Applications, apps, name="applications")
    ref = monitor(pid)
    await call_stop(rt, pid)
    assert (await receive()).ref == ref
    assert events == ["+a", "+b", "+c", "-c", "-b", "-a"]


async def call_stop(rt, pid):
    rt.table[pid].exit_signal(pid, "shutdown")
    await settle(50)


@virtual
async def test_one_that_fails_takes_back_those_before_it(rt):
    events = []
    with pytest.raises(StartFailed) as caught:
        await Applications.start([application("a", events), application("b", fails=True, depends=("a",))])
    assert caught.value.reason[1][:2] == ("application_start_failure", "b")
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
@virtual
async def test_types(rt, kind, reason, node_stops):
    events = []
    pid = await Applications.start([application("a", events), application("b", events, type=kind)])
    ref = monitor(pid)
    await call("b", ("stop", reason))
    await settle(50)
    if node_stops:
        down = await receive()
        assert down == Down(ref, pid, ("shutdown", ("application_terminated", "b", reason)))
        assert events[-1] == "-a"
    else:
        assert [name for name, _ in await Applications.which_applications(pid)] == ["a"]


@virtual
async def test_more_can_be_started_and_stopped(rt):
    pid = await Applications.start([application("a")])
    await Applications.start_application(pid, application("b", depends=("a",)))
    with pytest.raises(AlreadyStarted):
        await Applications.start_application(pid, application("b"))
    with pytest.raises(BadChildSpec):
        await Applications.start_application(pid, application("c", depends=("x",)))
    with pytest.raises(StartFailed, match="no disc"):
        await Applications.start_application(pid, application("c", fails=True))
    await Applications.stop_application(pid, "b")
    assert whereis("b") is None
    with pytest.raises(ChildNotFound):
        await Applications.stop_application(pid, "b")


@virtual
async def test_a_supervision_tree_is_an_application(rt):
    tree = Application("tree", partial(Supervisor.start_link, [], name="top"), type="permanent")
    pid = await Applications.start([tree])
    ref = monitor(pid)
    exit(whereis("top"), "kill")
    assert await receive() == Down(ref, pid, ("shutdown", ("application_terminated", "tree", "killed")))

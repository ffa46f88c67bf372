"""Supervisor, by the themes of OTP's supervisor_SUITE: what the scenarios cannot say."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest
from structlog.testing import capture_logs

import gossamer.supervisor as otp
from tests.supervisor.harness import Worker, settle
from tests.supervisor.supervise.children import children, crash, probe

# Start.


@pytest.mark.parametrize("wrong", ["raise", "return"])
async def test_a_start_function_that_misbehaves_is_the_childs_failure(rt, wrong):
    async def start():
        if wrong == "raise":
            raise OSError("port taken")
        return "a pid"

    with pytest.raises(otp.StartFailed, match=r"port taken|expected a Pid or None"):
        await otp.Supervisor.start_link([otp.ChildSpec("a", start)])


async def test_a_supervisor_that_dies_while_starting_leaves_nothing(rt):
    events = []

    async def slow():
        await asyncio.sleep(100)

    async def starter():
        await otp.Supervisor.start_link([probe("a", events), otp.ChildSpec("b", slow)])

    pid = otp.spawn(starter)
    await settle()
    assert events == ["+a"]
    otp.exit(pid, "kill")
    await asyncio.sleep(200)
    assert rt.processes() == [otp.self_pid()]


# Stop.


async def test_a_supervisor_ends_with_its_parents_reason_and_stops_its_children(rt):
    events = []

    async def parent():
        await otp.Supervisor.start_link([probe("a", events)], name="sup")
        await otp.receive()

    pid = otp.spawn(parent)
    await settle()
    sup = otp.whereis("sup")
    end = rt.join(sup)
    otp.exit(pid, "disaster")
    assert await end == "disaster"
    assert events == ["+a", "-a"]


@pytest.mark.parametrize("restart", ["permanent", "transient", "temporary"])
@pytest.mark.parametrize("reason", ["normal", "shutdown", ("shutdown", "x"), "bad"])
async def test_a_child_that_ends_by_itself_during_the_stop(rt, restart, reason):
    """Quiet: shutdown always, normal and (shutdown, _) unless permanent; the rest is reported."""

    async def body():
        otp.trap_exit(True)
        await otp.receive()
        from gossamer.supervisor import ExitProcess

        raise ExitProcess(reason)

    async def start():
        return otp.spawn_link(body)

    sup = await otp.Supervisor.start_link([otp.ChildSpec("a", start, restart=restart)])
    with capture_logs() as logs:
        await otp.Supervisor.terminate_child(sup, "a")
    quiet = reason == "shutdown" or (reason != "bad" and restart != "permanent")
    assert [e["event"] for e in logs] == ([] if quiet else ["shutdown_error"])


async def test_a_child_that_died_before_the_stop_began(rt):
    events = []
    otp.trap_exit(True)
    sup = await otp.Supervisor.start_link([probe("a", events), probe("b", events)])
    otp.exit(otp.whereis("a"), "kill")
    otp.exit(sup, "shutdown")
    await settle(100)
    assert not rt.alive(sup)
    assert rt.processes() == [otp.self_pid()]


async def test_a_child_that_unlinked_cannot_hang_its_supervisor(rt):
    async def body(sup):
        otp.unlink(sup)
        otp.trap_exit(True)
        while True:
            await otp.receive()

    async def start():
        return otp.spawn_link(body, otp.self_pid())

    sup = await otp.Supervisor.start_link([otp.ChildSpec("a", start, shutdown=2.0)])
    await settle()
    ((_, pid),) = await children(sup)
    await otp.Supervisor.terminate_child(sup, "a")
    assert rt.loop.time() == 2
    assert not rt.alive(pid)


# Administration.


async def test_errors_of_administration_name_the_child_and_who_is_there(rt):
    sup = await otp.Supervisor.start_link([], name="sup")
    spec = probe("a", [])
    pid = await otp.Supervisor.start_child("sup", spec)
    with pytest.raises(otp.AlreadyStarted) as caught:
        await otp.Supervisor.start_child(sup, spec)
    assert caught.value.pid == pid
    assert await otp.Supervisor.get_childspec(sup, "a") is spec
    await otp.Supervisor.terminate_child(sup, "a")
    await otp.Supervisor.delete_child(sup, "a")
    with pytest.raises(otp.ChildNotFound, match="no child 'a'; this supervisor has none"):
        await otp.Supervisor.get_childspec(sup, "a")


async def test_count_children(rt):
    events = []
    specs = [
        probe("a", events),
        probe("b", events, restart="transient"),
        otp.ChildSpec("c", otp.Supervisor.start_link, type="supervisor"),
    ]
    sup = await otp.Supervisor.start_link(specs, intensity=1)
    assert await otp.Supervisor.count_children(sup) == otp.ChildCounts(3, 3, 1, 2)
    await crash("b", "normal")
    assert await otp.Supervisor.count_children(sup) == otp.ChildCounts(3, 2, 1, 2)


# Restart types.


@pytest.mark.parametrize("kind", [otp.Supervisor, otp.DynamicSupervisor])
@pytest.mark.parametrize(
    ("restart", "reason", "again", "reported"),
    [
        ("permanent", "normal", True, True),
        ("permanent", "shutdown", True, True),
        ("permanent", "bad", True, True),
        ("transient", "normal", False, False),
        ("transient", ("shutdown", 1), False, False),
        ("transient", "bad", True, True),
        ("temporary", "normal", False, False),
        ("temporary", "shutdown", False, False),
        ("temporary", "bad", False, True),
    ],
)
async def test_restart_types(rt, kind, restart, reason, again, reported):
    sup = await kind.start(intensity=5)
    await kind.start_child(sup, probe("a", [], restart=restart))
    with capture_logs() as logs:
        before = await crash("a", reason)
    assert [e["event"] for e in logs if e["event"] == "child_terminated"] == ["child_terminated"] * reported
    after = otp.whereis("a")
    assert (after is not None and after != before) == again
    kept = again or (kind is otp.Supervisor and restart != "temporary")
    assert [info.pid for info in await kind.which_children(sup)] == ([after] if kept else [])
    assert rt.alive(sup)


# Intensity.


async def test_giving_up_escalates_to_the_supervisor_above(rt):
    events = []
    inner = otp.ChildSpec(
        "inner",
        partial(otp.Supervisor.start_link, [probe("a", events)], intensity=0, name="inner"),
        type="supervisor",
    )
    top = await otp.Supervisor.start_link([inner, probe("b", events)], strategy="one_for_all", intensity=1)
    first = otp.whereis("inner")
    del events[:]
    await crash("a", "kill")
    assert rt.alive(top)
    assert otp.whereis("inner") not in (None, first)
    assert events == ["-b", "+a", "+b"]


# Significant children.


def significant(name, restart="transient"):
    return probe(name, [], restart=restart, significant=True)


async def test_automatic_shutdown_escalates_by_the_restart_type_above(rt):
    inner = otp.ChildSpec(
        "inner",
        partial(otp.Supervisor.start_link, [significant("a")], auto_shutdown="any_significant", name="inner"),
        type="supervisor",
        restart="transient",
    )
    top = await otp.Supervisor.start_link([inner])
    await crash("a", "normal")
    assert rt.alive(top)
    assert await children(top) == [("inner", None)]


# Robustness.


async def test_strangers_and_messages_that_are_not_for_it_do_not_hurt_a_supervisor(rt):
    async def stranger():
        otp.link(sup)

    sup = await otp.Supervisor.start_link([probe("a", [])])
    pid = otp.whereis("a")
    other = otp.spawn(stranger)
    for message in ("what?", otp.Exit(other, "forged"), otp.Down(rt.new_ref(), other, "stale")):
        otp.send(sup, message)
    await settle()
    assert await children(sup) == [("a", pid)]


async def test_unknown_requests_end_it_like_any_server(rt):
    sup = await otp.Supervisor.start([probe("a", [])])
    with pytest.raises(otp.CallFailed, match="handle_call"):
        await otp.call(sup, "what")
    await settle()
    assert rt.processes() == [otp.self_pid()]


async def test_a_tree_falls_and_rises_in_order(rt):
    """Dynamic children do not come back with their restarted supervisor."""
    events = []

    def subtree(name):
        return otp.ChildSpec(
            name,
            partial(
                otp.Supervisor.start_link, [probe(f"{name}1", events), probe(f"{name}2", events)], name=name
            ),
            type="supervisor",
        )

    pool = otp.ChildSpec("pool", partial(otp.DynamicSupervisor.start_link, name="pool"), type="supervisor")
    top = await otp.Supervisor.start_link([subtree("x"), pool, subtree("y")], strategy="rest_for_one")
    await otp.DynamicSupervisor.start_child("pool", probe("d", events))
    del events[:]
    otp.exit(otp.whereis("pool"), "kill")
    await settle(200)
    assert sorted(events[:-2]) == sorted(["-d", "-y2", "-y1"])
    assert events[-2:] == ["+y1", "+y2"]
    assert (await otp.DynamicSupervisor.count_children("pool")).specs == 0
    assert rt.alive(top)


async def test_restart_counts_show_in_the_tree(rt):
    sup = await otp.Supervisor.start_link([probe("a", [])], intensity=5)
    await crash("a", "kill")
    await crash("a", "kill")
    (me,) = [node for node in await rt.tree() if node.pid == otp.self_pid()]
    (node,) = me.children
    assert (node.pid, node.type) == (sup, "supervisor")
    assert [(child.name, child.restarts) for child in node.children] == [("a", 2)]


# A child that hangs in its start does not keep the tree from stopping.


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


# Back-off.


async def test_a_childs_own_back_off_goes_before_that_of_its_supervisor(rt):
    slow = otp.Backoff(initial=5.0, jitter=0.0)
    await otp.Supervisor.start_link(
        [probe("a", []), probe("b", [], backoff=slow)],
        intensity=9,
        backoff=otp.Backoff(initial=1.0, jitter=0.0),
    )
    for name in "ab":
        otp.exit(otp.whereis(name), "kill")
    await asyncio.sleep(1.1)
    assert otp.whereis("a") is not None
    assert otp.whereis("b") is None
    await asyncio.sleep(4.0)
    assert otp.whereis("b") is not None

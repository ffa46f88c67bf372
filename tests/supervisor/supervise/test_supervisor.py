"""Supervisor, by the themes of OTP's supervisor_SUITE."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest
from structlog.testing import capture_logs

from gossamer.supervisor import (
    AlreadyPresent,
    AlreadyStarted,
    BadChildSpec,
    CallFailed,
    ChildCounts,
    ChildNotFound,
    ChildRestarting,
    ChildRunning,
    ChildSpec,
    Down,
    DynamicSupervisor,
    Ignore,
    StartFailed,
    Supervisor,
    call,
    exit,  # noqa: A004
    link,
    monitor,
    receive,
    self_pid,
    send,
    spawn,
    spawn_link,
    trap_exit,
    unlink,
    whereis,
)
from tests.supervisor.harness import Worker, settle, virtual


class Probe(Worker):
    """Writes down when it starts and ends."""

    async def init(self, name, events, stop_after=None, ends_with=None):
        trap_exit(True)
        await super().init()
        self.name, self.events = name, events
        self.stop_after, self.ends_with = stop_after, ends_with
        events.append(f"+{name}")

    async def terminate(self, reason):
        if self.stop_after is not None:
            await asyncio.sleep(self.stop_after)
        self.events.append(f"-{self.name}")


def probe(name, events, *, fails=None, stop_after=None, **options):
    """``fails`` is a list; while it holds something, starting pops and fails with it."""

    async def start():
        if fails:
            reason = fails.pop()
            if reason == "ignore":
                raise Ignore
            raise StartFailed(name, reason)
        return await Probe.start_link(name, events, stop_after, name=name)

    return ChildSpec(name, start, **options)


async def ended(pid):
    ref = monitor(pid)
    return (await receive(match=lambda m: isinstance(m, Down) and m.ref == ref)).reason


async def crash(name, reason="bad"):
    """End a child and let the supervisor do what it does."""
    pid = whereis(name)
    if reason == "kill":
        exit(pid, "kill")
    else:
        await call(pid, ("stop", reason))
    await settle(100)
    return pid


async def children(sup):
    return [(info.id, info.pid) for info in await Supervisor.which_children(sup)]


async def running(sup):
    return [info.id for info in await Supervisor.which_children(sup) if info.pid not in (None, "restarting")]


# Start.


@virtual
async def test_children_start_left_to_right_and_stop_right_to_left(rt):
    events = []
    trap_exit(True)
    sup = await Supervisor.start_link([probe(n, events) for n in "abc"])
    assert events == ["+a", "+b", "+c"]
    exit(sup, "shutdown")
    assert (await receive()).reason == "shutdown"
    assert events == ["+a", "+b", "+c", "-c", "-b", "-a"]


@virtual
async def test_a_child_that_fails_to_start_takes_back_those_before_it(rt):
    events = []
    trap_exit(True)
    specs = [
        probe("a", events),
        probe("b", events),
        probe("c", events, fails=["no luck"]),
        probe("d", events),
    ]
    with pytest.raises(StartFailed) as caught:
        await Supervisor.start_link(specs, name="sup")
    assert caught.value.reason == ("shutdown", ("failed_to_start_child", "c", "no luck"))
    assert events == ["+a", "+b", "-b", "-a"]
    assert whereis("sup") is None
    with pytest.raises(TimeoutError):
        await receive(timeout=1)


@pytest.mark.parametrize("wrong", ["raise", "return"])
@virtual
async def test_a_start_function_that_misbehaves_is_the_childs_failure(rt, wrong):
    async def start():
        if wrong == "raise":
            raise OSError("port taken")
        return "a pid"

    with pytest.raises(StartFailed, match=r"port taken|expected a Pid or None"):
        await Supervisor.start_link([ChildSpec("a", start)])


@pytest.mark.parametrize(
    ("restart", "kept"), [("permanent", True), ("transient", True), ("temporary", False)]
)
@virtual
async def test_a_child_that_ignores_keeps_its_specification_unless_temporary(rt, restart, kept):
    events = []
    sup = await Supervisor.start_link([probe("a", events, fails=["ignore"], restart=restart)])
    assert await children(sup) == ([("a", None)] if kept else [])
    spec = probe("b", events, fails=["ignore"], restart=restart)
    assert await Supervisor.start_child(sup, spec) is None
    assert ("b", None) in await children(sup) or not kept


@virtual
async def test_bad_specifications_start_nothing(rt):
    events = []
    with pytest.raises(StartFailed, match="auto_shutdown"):
        await Supervisor.start_link(
            [probe("a", events), probe("b", events, restart="transient", significant=True)]
        )
    with pytest.raises(StartFailed, match="one_for_one"):
        await Supervisor.start_link([], strategy="simple")
    assert not events


@virtual
async def test_a_supervisor_that_dies_while_starting_leaves_nothing(rt):
    events = []

    async def slow():
        await asyncio.sleep(100)

    async def starter():
        await Supervisor.start_link([probe("a", events), ChildSpec("b", slow)])

    pid = spawn(starter)
    await settle()
    assert events == ["+a"]
    exit(pid, "kill")
    await asyncio.sleep(200)
    assert rt.processes() == [self_pid()]


# Stop.


@virtual
async def test_a_child_gets_its_time_and_then_the_kill(rt):
    events = []
    sup = await Supervisor.start_link([probe("slow", events, stop_after=10, shutdown=3.0)])
    pid = whereis("slow")
    with capture_logs() as logs:
        await Supervisor.terminate_child(sup, "slow")
    assert rt.loop.time() == 3
    assert not rt.alive(pid)
    (report,) = [entry for entry in logs if entry["event"] == "shutdown_error"]
    assert (report["reason"], report["offender"]["id"]) == ("killed", "slow")


@virtual
async def test_infinity_waits(rt):
    events = []
    sup = await Supervisor.start_link([probe("slow", events, stop_after=1000, shutdown="infinity")])
    await Supervisor.terminate_child(sup, "slow")
    assert rt.loop.time() == 1000
    assert events[-1] == "-slow"


@virtual
async def test_brutal_kill_does_not_wait_and_is_not_reported(rt):
    events = []
    sup = await Supervisor.start_link([probe("a", events, stop_after=10, shutdown="brutal_kill")])
    with capture_logs() as logs:
        await Supervisor.terminate_child(sup, "a")
    assert rt.loop.time() == 0
    assert events == ["+a"]
    assert not logs


@pytest.mark.parametrize("restart", ["permanent", "transient", "temporary"])
@pytest.mark.parametrize("reason", ["normal", "shutdown", ("shutdown", "x"), "bad"])
@virtual
async def test_a_child_that_ends_by_itself_during_the_stop(rt, restart, reason):
    """Quiet: shutdown always, normal and (shutdown, _) unless permanent; the rest is reported."""

    async def body():
        trap_exit(True)
        await receive()
        from gossamer.supervisor import ExitProcess

        raise ExitProcess(reason)

    async def start():
        return spawn_link(body)

    sup = await Supervisor.start_link([ChildSpec("a", start, restart=restart)])
    with capture_logs() as logs:
        await Supervisor.terminate_child(sup, "a")
    quiet = reason == "shutdown" or (reason != "bad" and restart != "permanent")
    assert [e["event"] for e in logs] == ([] if quiet else ["shutdown_error"])


@virtual
async def test_a_child_that_died_before_the_stop_began(rt):
    events = []
    trap_exit(True)
    sup = await Supervisor.start_link([probe("a", events), probe("b", events)])
    exit(whereis("a"), "kill")
    exit(sup, "shutdown")
    await settle(100)
    assert not rt.alive(sup)
    assert rt.processes() == [self_pid()]


@virtual
async def test_a_child_that_unlinked_cannot_hang_its_supervisor(rt):
    async def body(sup):
        unlink(sup)
        trap_exit(True)
        while True:
            await receive()

    async def start():
        return spawn_link(body, self_pid())

    sup = await Supervisor.start_link([ChildSpec("a", start, shutdown=2.0)])
    await settle()
    ((_, pid),) = await children(sup)
    await Supervisor.terminate_child(sup, "a")
    assert rt.loop.time() == 2
    assert not rt.alive(pid)


# Administration.


@virtual
async def test_child_administration(rt):
    events = []
    sup = await Supervisor.start_link([], name="sup")
    spec = probe("a", events)
    pid = await Supervisor.start_child("sup", spec)
    with pytest.raises(AlreadyStarted) as caught:
        await Supervisor.start_child(sup, spec)
    assert caught.value.pid == pid
    assert await Supervisor.get_childspec(sup, "a") is spec
    with pytest.raises(ChildRunning):
        await Supervisor.restart_child(sup, "a")
    with pytest.raises(ChildRunning):
        await Supervisor.delete_child(sup, "a")
    await Supervisor.terminate_child(sup, "a")
    await Supervisor.terminate_child(sup, "a")
    assert await children(sup) == [("a", None)]
    with pytest.raises(AlreadyPresent):
        await Supervisor.start_child(sup, spec)
    again = await Supervisor.restart_child(sup, "a")
    assert again != pid
    assert await children(sup) == [("a", again)]
    await Supervisor.terminate_child(sup, "a")
    await Supervisor.delete_child(sup, "a")
    for request in (
        Supervisor.terminate_child,
        Supervisor.restart_child,
        Supervisor.delete_child,
        Supervisor.get_childspec,
    ):
        with pytest.raises(ChildNotFound, match="no child 'a'; this supervisor has none"):
            await request(sup, "a")


@virtual
async def test_a_child_that_fails_in_start_child_is_forgotten(rt):
    sup = await Supervisor.start_link([])
    with pytest.raises(StartFailed, match="no luck"):
        await Supervisor.start_child(sup, probe("a", [], fails=["no luck"]))
    assert await children(sup) == []


@virtual
async def test_a_child_that_fails_in_restart_child_stays_specified(rt):
    fails = []
    sup = await Supervisor.start_link([probe("a", [], fails=fails)])
    await Supervisor.terminate_child(sup, "a")
    fails.append("no luck")
    with pytest.raises(StartFailed):
        await Supervisor.restart_child(sup, "a")
    assert await children(sup) == [("a", None)]


@virtual
async def test_a_bad_start_child_does_not_hurt_the_supervisor(rt):
    sup = await Supervisor.start_link([])
    for wrong in ("a", probe("a", [], restart="transient", significant=True)):
        with pytest.raises(BadChildSpec):
            await Supervisor.start_child(sup, wrong)
    assert await children(sup) == []


@virtual
async def test_count_children(rt):
    events = []
    specs = [
        probe("a", events),
        probe("b", events, restart="transient"),
        ChildSpec("c", Supervisor.start_link, type="supervisor"),
    ]
    sup = await Supervisor.start_link(specs, intensity=1)
    assert await Supervisor.count_children(sup) == ChildCounts(3, 3, 1, 2)
    await crash("b", "normal")
    assert await Supervisor.count_children(sup) == ChildCounts(3, 2, 1, 2)


@virtual
async def test_an_already_started_child_outside_of_the_supervisor(rt):
    """A start that fails because the name is taken counts as a failed start, no more."""
    outside = await Worker.start(name="taken")
    with pytest.raises(StartFailed, match="held by"):
        await Supervisor.start_link([ChildSpec("a", partial(Worker.start_link, name="taken"))])
    assert rt.alive(outside)


# Restart types.


@pytest.mark.parametrize(
    ("restart", "reason", "again", "kept", "reported"),
    [
        ("permanent", "normal", True, True, True),
        ("permanent", "shutdown", True, True, True),
        ("permanent", "bad", True, True, True),
        ("transient", "normal", False, True, False),
        ("transient", ("shutdown", 1), False, True, False),
        ("transient", "bad", True, True, True),
        ("temporary", "normal", False, False, False),
        ("temporary", "shutdown", False, False, False),
        ("temporary", "bad", False, False, True),
    ],
)
@virtual
async def test_restart_types(rt, restart, reason, again, kept, reported):
    events = []
    sup = await Supervisor.start_link([probe("a", events, restart=restart)])
    with capture_logs() as logs:
        before = await crash("a", reason)
    assert [e["event"] for e in logs if e["event"] == "child_terminated"] == ["child_terminated"] * reported
    after = whereis("a")
    assert (after is not None and after != before) == again
    assert await children(sup) == ([("a", after)] if kept else [])


@virtual
async def test_a_temporary_bystander_of_a_sweep_is_not_restarted(rt):
    trap_exit(True)
    for strategy in ("one_for_all", "rest_for_one"):
        events = []
        specs = [probe("a", events), probe("b", events, restart="temporary"), probe("c", events)]
        sup = await Supervisor.start_link(specs, strategy=strategy)
        await crash("a")
        assert await running(sup) == ["a", "c"]
        assert events == ["+a", "+b", "+c", "-a", "-c", "-b", "+a", "+c"]
        exit(sup, "shutdown")
        await settle(50)


# Strategies.


@virtual
async def test_one_for_one_restarts_one(rt):
    events = []
    await Supervisor.start_link([probe(n, events) for n in "abc"])
    del events[:]
    await crash("b", "kill")
    assert events == ["+b"]


@virtual
async def test_one_for_all_stops_in_reverse_and_starts_in_order(rt):
    events = []
    sup = await Supervisor.start_link([probe(n, events) for n in "abc"], strategy="one_for_all")
    del events[:]
    await crash("b", "kill")
    assert events == ["-c", "-a", "+a", "+b", "+c"]
    assert await running(sup) == ["a", "b", "c"]


@virtual
async def test_rest_for_one_restarts_those_after(rt):
    events = []
    await Supervisor.start_link([probe(n, events) for n in "abcd"], strategy="rest_for_one")
    first = whereis("a")
    del events[:]
    await crash("b", "kill")
    assert events == ["-d", "-c", "+b", "+c", "+d"]
    assert whereis("a") == first


@pytest.mark.parametrize("strategy", ["one_for_one", "one_for_all", "rest_for_one"])
@virtual
async def test_as_many_restarts_as_the_intensity_allows(rt, strategy):
    """A sweep of three counts once; one more than allowed ends the supervisor with shutdown."""
    events = []
    trap_exit(True)
    sup = await Supervisor.start_link(
        [probe(n, events) for n in "abc"], strategy=strategy, intensity=3, period=10
    )
    for _ in range(3):
        await crash("a", "kill")
        await asyncio.sleep(1)
    assert rt.alive(sup)
    with capture_logs() as logs:
        await crash("a", "kill")
    assert not rt.alive(sup)
    assert (await receive()).reason == "shutdown"
    assert [e["reason"] for e in logs if e["event"] == "shutdown"] == ["reached_max_restart_intensity"]
    assert rt.processes() == [self_pid()]


@virtual
async def test_restarts_just_under_the_intensity_go_on_for_ever(rt):
    sup = await Supervisor.start_link([probe("a", [])], intensity=1, period=5)
    for _ in range(20):
        await crash("a", "kill")
        await asyncio.sleep(5.01)
    assert rt.alive(sup)


@virtual
async def test_failed_attempts_count_against_the_intensity(rt):
    fails = []
    trap_exit(True)
    sup = await Supervisor.start_link([probe("a", [], fails=fails)], intensity=5, period=10)
    fails.extend(["no"] * 4)
    await crash("a", "kill")
    assert rt.alive(sup)
    assert whereis("a") is not None
    fails.extend(["no"] * 4)
    await crash("a", "kill")
    assert (await receive()).reason == "shutdown"


@pytest.mark.parametrize("strategy", ["one_for_one", "one_for_all", "rest_for_one"])
@virtual
async def test_the_supervisor_answers_between_attempts(rt, strategy):
    fails = []
    sup = await Supervisor.start_link(
        [probe("a", []), probe("b", [], fails=fails)], strategy=strategy, intensity=10**6, period=1
    )
    fails.extend(["no"] * 50)
    exit(whereis("b"), "kill")
    await settle(5)
    seen = await children(sup)
    assert seen[1] == ("b", "restarting")
    assert (await Supervisor.count_children(sup)).active == 1
    with pytest.raises(ChildRestarting):
        await Supervisor.delete_child(sup, "b")
    with pytest.raises(ChildRestarting):
        await Supervisor.restart_child(sup, "b")
    await Supervisor.terminate_child(sup, "b")
    left = len(fails)
    await settle(50)
    assert len(fails) == left
    assert (await children(sup))[1] == ("b", None)


@virtual
async def test_a_restart_that_hangs_on_failing_ends_at_shutdown(rt):
    trap_exit(True)
    for strategy in ("one_for_one", "one_for_all", "rest_for_one"):
        fails = []
        sup = await Supervisor.start_link([probe("a", [], fails=fails)], strategy=strategy, intensity=10**9)
        fails.extend(["no"] * 10**5)
        exit(whereis("a"), "kill")
        await settle(20)
        exit(sup, "shutdown")
        assert await ended(sup) == "shutdown"


@virtual
async def test_another_childs_failed_restart_in_one_for_all(rt):
    """Siblings already restarted are stopped again, and all are tried again."""
    events, fails = [], []
    sup = await Supervisor.start_link(
        [probe("a", events), probe("b", events, fails=fails), probe("c", events)],
        strategy="one_for_all",
        intensity=3,
    )
    del events[:]
    fails.append("no")
    await crash("c", "kill")
    assert events == ["-b", "-a", "+a", "-a", "+a", "+b", "+c"]
    assert await running(sup) == ["a", "b", "c"]


@virtual
async def test_another_childs_failed_restart_in_rest_for_one(rt):
    """It goes on from the child that failed; those before it stay."""
    events, fails = [], []
    sup = await Supervisor.start_link(
        [probe("a", events), probe("b", events), probe("c", events, fails=fails), probe("d", events)],
        strategy="rest_for_one",
        intensity=3,
    )
    del events[:]
    fails.append("no")
    await crash("b", "kill")
    assert events == ["-d", "-c", "+b", "+c", "+d"]
    assert await running(sup) == ["a", "b", "c", "d"]


@virtual
async def test_a_child_that_ignores_its_restart_stays_down(rt):
    fails = []
    sup = await Supervisor.start_link([probe("a", [], fails=fails)])
    fails.append("ignore")
    await crash("a", "kill")
    assert await children(sup) == [("a", None)]
    assert await Supervisor.restart_child(sup, "a") == whereis("a")


@virtual
async def test_giving_up_escalates_to_the_supervisor_above(rt):
    events = []
    inner = ChildSpec(
        "inner",
        partial(Supervisor.start_link, [probe("a", events)], intensity=0, name="inner"),
        type="supervisor",
    )
    top = await Supervisor.start_link([inner, probe("b", events)], strategy="one_for_all", intensity=1)
    first = whereis("inner")
    del events[:]
    await crash("a", "kill")
    assert rt.alive(top)
    assert whereis("inner") not in (None, first)
    assert events == ["-b", "+a", "+b"]


# Significant children.


def significant(name, restart="transient"):
    return probe(name, [], restart=restart, significant=True)


@pytest.mark.parametrize(
    ("restart", "reason", "ends"),
    [
        ("transient", "normal", True),
        ("transient", ("shutdown", 1), True),
        ("transient", "bad", False),
        ("temporary", "normal", True),
        ("temporary", "bad", True),
    ],
)
@virtual
async def test_any_significant(rt, restart, reason, ends):
    trap_exit(True)
    specs = [significant("a", restart), significant("b", restart), probe("c", [])]
    sup = await Supervisor.start_link(specs, auto_shutdown="any_significant")
    await crash("a", reason)
    assert rt.alive(sup) != ends
    if ends:
        assert (await receive()).reason == "shutdown"
        assert rt.processes() == [self_pid()]


@virtual
async def test_all_significant_waits_for_the_last(rt):
    trap_exit(True)
    specs = [significant("a"), significant("b", "temporary"), probe("c", [])]
    sup = await Supervisor.start_link(specs, auto_shutdown="all_significant")
    await crash("a", "normal")
    assert rt.alive(sup)
    await crash("b", "bad")
    assert not rt.alive(sup)


@virtual
async def test_insignificant_children_never_shut_down(rt):
    specs = [probe("a", [], restart="transient"), probe("b", [], restart="temporary")]
    sup = await Supervisor.start_link(specs, auto_shutdown="any_significant")
    await crash("a", "normal")
    await crash("b", "normal")
    assert rt.alive(sup)


@virtual
async def test_terminating_a_significant_child_is_no_end_of_its_own(rt):
    sup = await Supervisor.start_link([significant("a"), significant("b")], auto_shutdown="any_significant")
    await Supervisor.terminate_child(sup, "a")
    assert rt.alive(sup)


@virtual
async def test_a_significant_bystander_of_a_sweep_does_not_shut_down(rt):
    specs = [probe("a", []), significant("b", "temporary"), significant("c")]
    sup = await Supervisor.start_link(specs, strategy="one_for_all", auto_shutdown="any_significant")
    await crash("a", "kill")
    assert rt.alive(sup)
    assert await running(sup) == ["a", "c"]


@virtual
async def test_automatic_shutdown_escalates_by_the_restart_type_above(rt):
    inner = ChildSpec(
        "inner",
        partial(Supervisor.start_link, [significant("a")], auto_shutdown="any_significant", name="inner"),
        type="supervisor",
        restart="transient",
    )
    top = await Supervisor.start_link([inner])
    await crash("a", "normal")
    assert rt.alive(top)
    assert await children(top) == [("inner", None)]


# Robustness.


@virtual
async def test_a_stranger_linked_to_the_supervisor_may_die(rt):
    async def stranger():
        link(sup)

    sup = await Supervisor.start_link([probe("a", [])])
    pid = whereis("a")
    spawn(stranger)
    await settle()
    assert rt.alive(sup)
    assert whereis("a") == pid


@virtual
async def test_unknown_requests_end_it_like_any_server(rt):
    sup = await Supervisor.start([probe("a", [])])
    send(sup, "what")
    assert await running(sup) == ["a"]
    with pytest.raises(CallFailed, match="handle_call"):
        await call(sup, "what")
    await settle()
    assert rt.processes() == [self_pid()]


@virtual
async def test_a_tree_falls_and_rises_in_order(rt):
    """Dynamic children do not come back with their restarted supervisor."""
    events = []

    def subtree(name):
        return ChildSpec(
            name,
            partial(Supervisor.start_link, [probe(f"{name}1", events), probe(f"{name}2", events)], name=name),
            type="supervisor",
        )

    pool = ChildSpec("pool", partial(DynamicSupervisor.start_link, name="pool"), type="supervisor")
    top = await Supervisor.start_link([subtree("x"), pool, subtree("y")], strategy="rest_for_one")
    await DynamicSupervisor.start_child("pool", probe("d", events))
    del events[:]
    exit(whereis("pool"), "kill")
    await settle(200)
    assert sorted(events[:-2]) == sorted(["-d", "-y2", "-y1"])
    assert events[-2:] == ["+y1", "+y2"]
    assert (await DynamicSupervisor.count_children("pool")).specs == 0
    assert rt.alive(top)


@virtual
async def test_restart_counts_show_in_the_tree(rt):
    sup = await Supervisor.start_link([probe("a", [])], intensity=5)
    await crash("a", "kill")
    await crash("a", "kill")
    (me,) = [node for node in await rt.tree() if node.pid == self_pid()]
    (node,) = me.children
    assert (node.pid, node.type) == (sup, "supervisor")
    assert [(child.name, child.restarts) for child in node.children] == [("a", 2)]

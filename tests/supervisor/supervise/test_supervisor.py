"""Supervisor, by the themes of OTP's supervisor_SUITE."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest
from structlog.testing import capture_logs

import gossamer.supervisor as otp
from tests.supervisor.harness import Worker, ended, settle


class Probe(Worker):
    """Writes down when it starts and ends."""

    async def init(self, name, events, stop_after=None, ends_with=None):
        otp.trap_exit(True)
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
                raise otp.Ignore
            raise otp.StartFailed(name, reason)
        return await Probe.start_link(name, events, stop_after, name=name)

    return otp.ChildSpec(name, start, **options)


async def crash(name, reason="bad"):
    """End a child and let the supervisor do what it does."""
    pid = otp.whereis(name)
    if reason == "kill":
        otp.exit(pid, "kill")
    else:
        await otp.call(pid, ("stop", reason))
    await settle(100)
    return pid


async def children(sup):
    return [(info.id, info.pid) for info in await otp.Supervisor.which_children(sup)]


async def running(sup):
    return [
        info.id for info in await otp.Supervisor.which_children(sup) if info.pid not in (None, "restarting")
    ]


# Start.


async def test_children_start_left_to_right_and_stop_right_to_left(rt):
    events = []
    otp.trap_exit(True)
    sup = await otp.Supervisor.start_link([probe(n, events) for n in "abc"])
    assert events == ["+a", "+b", "+c"]
    otp.exit(sup, "shutdown")
    assert (await otp.receive()).reason == "shutdown"
    assert events == ["+a", "+b", "+c", "-c", "-b", "-a"]


async def test_a_child_that_fails_to_start_takes_back_those_before_it(rt):
    events = []
    otp.trap_exit(True)
    specs = [
        probe("a", events),
        probe("b", events),
        probe("c", events, fails=["no luck"]),
        probe("d", events),
    ]
    with pytest.raises(otp.StartFailed) as caught:
        await otp.Supervisor.start_link(specs, name="sup")
    assert caught.value.reason == ("shutdown", ("failed_to_start_child", "c", "no luck"))
    assert events == ["+a", "+b", "-b", "-a"]
    assert otp.whereis("sup") is None
    with pytest.raises(TimeoutError):
        await otp.receive(timeout=1)


@pytest.mark.parametrize("wrong", ["raise", "return"])
async def test_a_start_function_that_misbehaves_is_the_childs_failure(rt, wrong):
    async def start():
        if wrong == "raise":
            raise OSError("port taken")
        return "a pid"

    with pytest.raises(otp.StartFailed, match=r"port taken|expected a Pid or None"):
        await otp.Supervisor.start_link([otp.ChildSpec("a", start)])


@pytest.mark.parametrize(
    ("restart", "kept"), [("permanent", True), ("transient", True), ("temporary", False)]
)
async def test_a_child_that_ignores_keeps_its_specification_unless_temporary(rt, restart, kept):
    events = []
    sup = await otp.Supervisor.start_link([probe("a", events, fails=["ignore"], restart=restart)])
    assert await children(sup) == ([("a", None)] if kept else [])
    spec = probe("b", events, fails=["ignore"], restart=restart)
    assert await otp.Supervisor.start_child(sup, spec) is None
    assert ("b", None) in await children(sup) or not kept


class Unwanted(otp.Supervisor):
    async def init(self, *args, **options):
        raise otp.Ignore


async def test_a_supervisor_that_ignores_stays_specified_and_can_be_asked_again(rt):
    spec = otp.ChildSpec("below", Unwanted.start_link, type="supervisor")
    top = await otp.Supervisor.start([spec])
    (info,) = await otp.Supervisor.which_children(top)
    assert (info.id, info.pid, info.type) == ("below", None, "supervisor")
    assert await otp.Supervisor.restart_child(top, "below") is None


async def test_bad_specifications_start_nothing(rt):
    events = []
    with pytest.raises(otp.StartFailed, match="auto_shutdown"):
        await otp.Supervisor.start_link(
            [probe("a", events), probe("b", events, restart="transient", significant=True)]
        )
    with pytest.raises(otp.StartFailed, match="one_for_one"):
        await otp.Supervisor.start_link([], strategy="simple")
    assert not events


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


@pytest.mark.parametrize(
    ("stop_after", "shutdown", "seconds", "last"),
    [(10, 3.0, 3, "+a"), (1000, "infinity", 1000, "-a"), (10, "brutal_kill", 0, "+a")],
)
async def test_a_child_gets_its_time_and_then_the_kill(rt, stop_after, shutdown, seconds, last):
    events = []
    sup = await otp.Supervisor.start_link([probe("a", events, stop_after=stop_after, shutdown=shutdown)])
    pid = otp.whereis("a")
    with capture_logs() as logs:
        await otp.Supervisor.terminate_child(sup, "a")
    assert rt.loop.time() == seconds
    assert not rt.alive(pid)
    assert events[-1] == last
    late = [entry["event"] for entry in logs if entry["event"] != "terminate_hangs"]
    assert late == ["shutdown_error"] * (shutdown == 3.0)


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


async def test_child_administration(rt):
    events = []
    sup = await otp.Supervisor.start_link([], name="sup")
    spec = probe("a", events)
    pid = await otp.Supervisor.start_child("sup", spec)
    with pytest.raises(otp.AlreadyStarted) as caught:
        await otp.Supervisor.start_child(sup, spec)
    assert caught.value.pid == pid
    assert await otp.Supervisor.get_childspec(sup, "a") is spec
    with pytest.raises(otp.ChildRunning):
        await otp.Supervisor.restart_child(sup, "a")
    with pytest.raises(otp.ChildRunning):
        await otp.Supervisor.delete_child(sup, "a")
    await otp.Supervisor.terminate_child(sup, "a")
    await otp.Supervisor.terminate_child(sup, "a")
    assert await children(sup) == [("a", None)]
    with pytest.raises(otp.AlreadyPresent):
        await otp.Supervisor.start_child(sup, spec)
    again = await otp.Supervisor.restart_child(sup, "a")
    assert again != pid
    assert await children(sup) == [("a", again)]
    await otp.Supervisor.terminate_child(sup, "a")
    await otp.Supervisor.delete_child(sup, "a")
    for request in (
        otp.Supervisor.terminate_child,
        otp.Supervisor.restart_child,
        otp.Supervisor.delete_child,
        otp.Supervisor.get_childspec,
    ):
        with pytest.raises(otp.ChildNotFound, match="no child 'a'; this supervisor has none"):
            await request(sup, "a")


async def test_a_child_that_fails_in_start_child_is_forgotten(rt):
    sup = await otp.Supervisor.start_link([])
    with pytest.raises(otp.StartFailed, match="no luck"):
        await otp.Supervisor.start_child(sup, probe("a", [], fails=["no luck"]))
    assert await children(sup) == []


async def test_a_child_that_fails_in_restart_child_stays_specified(rt):
    fails = []
    sup = await otp.Supervisor.start_link([probe("a", [], fails=fails)])
    await otp.Supervisor.terminate_child(sup, "a")
    fails.append("no luck")
    with pytest.raises(otp.StartFailed):
        await otp.Supervisor.restart_child(sup, "a")
    assert await children(sup) == [("a", None)]


async def test_a_bad_start_child_does_not_hurt_the_supervisor(rt):
    sup = await otp.Supervisor.start_link([])
    for wrong in ("a", probe("a", [], restart="transient", significant=True)):
        with pytest.raises(otp.BadChildSpec):
            await otp.Supervisor.start_child(sup, wrong)
    assert await children(sup) == []


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


async def test_an_already_started_child_outside_of_the_supervisor(rt):
    """A start that fails because the name is taken counts as a failed start, no more."""
    outside = await Worker.start(name="taken")
    with pytest.raises(otp.StartFailed, match="held by"):
        await otp.Supervisor.start_link([otp.ChildSpec("a", partial(Worker.start_link, name="taken"))])
    assert rt.alive(outside)


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


# Strategies.


SCENARIOS = {
    # Children, what is ordered, what starts and stops then, and who runs in the end.
    "one_for_one": [
        ("a b c", "kill b", "+b", "a b c"),
        ("a", "next a ignore, kill a", "", ""),
        ("a", "next a ignore, kill a, restart a", "+a", "a"),
    ],
    "one_for_all": [
        ("a b c", "kill b", "-c -a +a +b +c", "a b c"),
        # A temporary bystander of a sweep is not restarted.
        ("a b:temporary c", "end a bad", "-a -c -b +a +c", "a c"),
        # Siblings already restarted are stopped again, and all are tried again.
        ("a b c", "next b fail, kill c", "-b -a +a -a +a +b +c", "a b c"),
    ],
    "rest_for_one": [
        ("a b c d", "kill b", "-d -c +b +c +d", "a b c d"),
        ("a b:temporary c", "end a bad", "-a -c -b +a +c", "a c"),
        # It goes on from the child that failed; those before it stay.
        ("a b c d", "next c fail, kill b", "-d -c +b +c +d", "a b c d"),
    ],
    # Significant children are marked by a star.
    "one_for_one any_significant": [
        ("a:transient* b:transient* c", "end a normal", "-a -c -b", None),
        ("a:transient* b:transient* c", "end a shutdown", "-a -c -b", None),
        ("a:transient* b:transient* c", "end a bad", "-a +a", "a b c"),
        ("a:temporary* b:temporary* c", "end a normal", "-a -c -b", None),
        ("a:temporary* b:temporary* c", "end a bad", "-a -c -b", None),
        ("a:transient b:temporary", "end a normal, end b normal", "-a -b", ""),
        # Only an end of its own counts.
        ("a:transient* b:transient*", "terminate a", "-a", "b"),
    ],
    "one_for_one all_significant": [
        ("a:transient* b:temporary* c", "end a normal", "-a", "b c"),
        ("a:transient* b:temporary* c", "end a normal, end b bad", "-a -b -c", None),
    ],
    "one_for_all any_significant": [("a b:temporary* c:transient*", "kill a", "-c -b +a +c", "a c")],
}
"""By strategy and automatic shutdown."""


@pytest.mark.parametrize(
    ("flags", "names", "orders", "expected", "left"),
    [(flags, *scenario) for flags, scenarios in SCENARIOS.items() for scenario in scenarios],
)
async def test_what_starts_and_stops_when_a_child_ends(rt, flags, names, orders, expected, left):
    events, fails = [], {}

    def child(said):
        name, _, restart = said.partition(":")
        fails[name] = []
        flags = {"restart": restart.rstrip("*") or "permanent", "significant": said.endswith("*")}
        return probe(name, events, fails=fails[name], **flags)

    strategy, *shutdown = flags.split()
    specs = [child(said) for said in names.split()]
    sup = await otp.Supervisor.start(specs, strategy, 3, auto_shutdown=next(iter(shutdown), "never"))
    del events[:]
    for order in orders.split(", "):
        match order.split():
            case "next", name, outcome:
                fails[name].append(outcome)
            case "kill", name:
                await crash(name, "kill")
            case "end", name, reason:
                await crash(name, reason)
            case "terminate", name:
                await otp.Supervisor.terminate_child(sup, name)
            case "restart", name:
                await otp.Supervisor.restart_child(sup, name)
    assert events == expected.split()
    if left is None:
        assert rt.processes() == [otp.self_pid()]
    else:
        assert await running(sup) == left.split()


@pytest.mark.parametrize("strategy", ["one_for_one", "one_for_all", "rest_for_one"])
async def test_as_many_restarts_as_the_intensity_allows(rt, strategy):
    """A sweep of three counts once; one more than allowed ends the supervisor with shutdown."""
    events = []
    otp.trap_exit(True)
    sup = await otp.Supervisor.start_link(
        [probe(n, events) for n in "abc"], strategy=strategy, intensity=3, period=10
    )
    for _ in range(3):
        await crash("a", "kill")
        await asyncio.sleep(1)
    assert rt.alive(sup)
    with capture_logs() as logs:
        await crash("a", "kill")
    assert not rt.alive(sup)
    assert (await otp.receive()).reason == "shutdown"
    assert [e["reason"] for e in logs if e["event"] == "shutdown"] == ["reached_max_restart_intensity"]
    assert rt.processes() == [otp.self_pid()]


async def test_restarts_just_under_the_intensity_go_on_for_ever(rt):
    sup = await otp.Supervisor.start_link([probe("a", [])], intensity=1, period=5)
    for _ in range(20):
        await crash("a", "kill")
        await asyncio.sleep(5.01)
    assert rt.alive(sup)


async def test_failed_attempts_count_against_the_intensity(rt):
    fails = []
    otp.trap_exit(True)
    sup = await otp.Supervisor.start_link([probe("a", [], fails=fails)], intensity=5, period=10)
    fails.extend(["no"] * 4)
    await crash("a", "kill")
    assert rt.alive(sup)
    assert otp.whereis("a") is not None
    fails.extend(["no"] * 4)
    await crash("a", "kill")
    assert (await otp.receive()).reason == "shutdown"


@pytest.mark.parametrize("strategy", ["one_for_one", "one_for_all", "rest_for_one"])
async def test_the_supervisor_answers_between_attempts(rt, strategy):
    fails = []
    sup = await otp.Supervisor.start_link(
        [probe("a", []), probe("b", [], fails=fails)], strategy=strategy, intensity=10**6, period=1
    )
    fails.extend(["no"] * 50)
    otp.exit(otp.whereis("b"), "kill")
    await settle(5)
    seen = await children(sup)
    assert seen[1] == ("b", "restarting")
    assert (await otp.Supervisor.count_children(sup)).active == 1
    with pytest.raises(otp.ChildRestarting):
        await otp.Supervisor.delete_child(sup, "b")
    with pytest.raises(otp.ChildRestarting):
        await otp.Supervisor.restart_child(sup, "b")
    await otp.Supervisor.terminate_child(sup, "b")
    left = len(fails)
    await settle(50)
    assert len(fails) == left
    assert (await children(sup))[1] == ("b", None)


async def test_a_restart_that_hangs_on_failing_ends_at_shutdown(rt):
    otp.trap_exit(True)
    for strategy in ("one_for_one", "one_for_all", "rest_for_one"):
        fails = []
        sup = await otp.Supervisor.start_link(
            [probe("a", [], fails=fails)], strategy=strategy, intensity=10**9
        )
        fails.extend(["no"] * 10**5)
        otp.exit(otp.whereis("a"), "kill")
        await settle(20)
        otp.exit(sup, "shutdown")
        assert await ended(sup) == "shutdown"


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


async def test_a_suspended_supervisor_restarts_after_it_is_resumed(rt):
    sup = await otp.Supervisor.start([probe("a", [])], name="sup")
    await otp.suspend("sup")
    otp.exit(otp.whereis("a"), "kill")
    await settle()
    assert otp.whereis("a") is None
    await otp.resume("sup")
    await settle()
    assert otp.whereis("a") is not None
    assert (await otp.get_state(sup))["_restarts"] == 1

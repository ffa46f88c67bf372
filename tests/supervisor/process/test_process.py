"""Processes, mailboxes, links, monitors, exit signals, names and timers."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import weakref

import pytest
from structlog.testing import capture_logs

import gossamer.supervisor as otp
from tests.supervisor.harness import Worker, crashed, ended, settle, waits


async def test_messages_arrive_in_order(rt):
    me = otp.self_pid()

    async def echo():
        while True:
            message = await otp.receive()
            otp.send(me, message)

    pid = otp.spawn(echo)
    for number in range(500):
        otp.send(pid, number)
    assert [await otp.receive(timeout=1) for _ in range(500)] == list(range(500))


async def test_send_says_when_nobody_is_there(rt):
    pid = otp.spawn(waits)
    assert otp.send(pid, "hello")
    await settle()
    assert not otp.send(pid, "again")
    assert not otp.send("nobody", 1)
    assert not otp.send(("nobody", rt.node), 1)
    assert not otp.send(("somebody", "other@host"), 1)
    with pytest.raises(otp.BadDestination, match="expected a Pid"):
        otp.send(42, 1)


async def test_pid_of_an_earlier_creation_is_nobody(rt):
    pid = otp.spawn(waits)
    stale = otp.Pid(pid.node, pid.creation - 1, pid.number)
    assert not otp.send(stale, "hello")
    with pytest.raises(otp.CallFailed, match="noproc"):
        await otp.call(stale, "hello")
    assert await ended(stale) == "noproc"


async def test_receive_gives_up_after_its_time(rt):
    started = rt.loop.time()
    with pytest.raises(TimeoutError):
        await otp.receive(timeout=3)
    assert rt.loop.time() - started == 3


async def test_selective_receive_leaves_the_rest_in_order(rt):
    for message in ("a", "b", "c"):
        otp.send(otp.self_pid(), message)
    assert await otp.receive(match=lambda m: m == "b") == "b"
    assert [await otp.receive(), await otp.receive()] == ["a", "c"]
    otp.send_after(1, otp.self_pid(), "late")
    otp.send(otp.self_pid(), "early")
    assert await otp.receive(match=lambda m: m == "late") == "late"
    assert await otp.receive() == "early"


async def test_busy_mailbox_does_not_starve_others(rt):
    async def selfish():
        otp.send(otp.self_pid(), 1)
        while True:
            otp.send(otp.self_pid(), await otp.receive())

    pid = otp.spawn(selfish)
    await settle(100)
    assert rt.alive(pid)
    otp.exit(pid, "kill")
    assert await ended(pid) in ("killed", "noproc")


async def test_a_full_mailbox_refuses_messages_but_no_signal_and_says_what_to_do(rt):
    async def slow():
        otp.trap_exit(True)
        await asyncio.sleep(10)
        assert [await otp.receive() for _ in range(3)] == [1, 2, otp.Exit(me, "hello")]

    me = otp.self_pid()
    pid = otp.spawn(slow, max_mailbox=2, label="Slow")
    await settle()
    with capture_logs() as logs:
        assert [otp.send(pid, 1), otp.send(pid, 2)] == [True, True]
        otp.exit(pid, "hello")
        assert not otp.send(pid, 3)
        with pytest.raises(
            otp.MailboxFull, match=rf"the mailbox of Slow {pid} holds 2 messages.*send_wait\(\)"
        ):
            await otp.call(pid, "hello")
    (report,) = logs
    assert report["event"] == "mailbox_full"
    assert (report["pid"], report["label"], report["bound"]) == (str(pid), "Slow", 2)
    assert "send_wait()" in report["advice"]
    assert await ended(pid) == "normal"


async def test_send_wait_waits_for_room(rt):
    me = otp.self_pid()

    async def slow():
        for _ in range(3):
            await asyncio.sleep(1)
            otp.send(me, await otp.receive())

    pid = otp.spawn(slow, max_mailbox=1)
    for number in range(3):
        assert await otp.send_wait(pid, number)
    assert rt.loop.time() >= 1
    assert [await otp.receive() for _ in range(3)] == [0, 1, 2]


# Ends.


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (None, "normal"),
        (otp.ExitProcess("shutdown"), "shutdown"),
        (otp.ExitProcess(("shutdown", 3)), ("shutdown", 3)),
        (otp.ExitProcess("kill"), "kill"),
        (otp.CallFailed("server", "noproc"), ("noproc", ("call", "server"))),
    ],
)
async def test_a_body_ends_with_its_reason(rt, error, reason):
    async def body():
        await asyncio.sleep(1)
        if error is not None:
            raise error

    assert await ended(otp.spawn(body)) == reason


async def test_an_exception_ends_a_process_with_text_and_a_report(rt):
    async def body():
        await asyncio.sleep(1)
        raise ValueError("three is too many")

    with capture_logs() as logs:
        reason = await ended(otp.spawn(body, name="counter", label="the counter"))
    assert crashed(reason, "ValueError")
    assert str(reason) == "ValueError: three is too many"
    assert "three is too many" in reason.traceback
    (report,) = logs
    assert report["event"] == "crash"
    assert report["name"] == "counter"
    assert report["label"] == "the counter"
    assert "in body" in report["traceback"]


@pytest.mark.parametrize("error", [SystemExit(3), BaseException("odd"), RecursionError("deep")])
async def test_no_exception_of_a_process_leaves_it(rt, error):
    async def body():
        raise error

    assert crashed(await ended(otp.spawn(body)), type(error).__name__)


async def test_cancelled_before_its_first_step(rt):
    ran = []

    async def body():
        ran.append(1)

    pid = otp.spawn(body, name="early")
    otp.exit(pid, "shutdown")
    assert await ended(pid) == "shutdown"
    assert otp.whereis("early") is None
    assert not ran


async def test_a_raising_finally_does_not_hide_the_reason(rt):
    async def body():
        try:
            await otp.receive()
        finally:
            raise RuntimeError("clean-up failed")

    pid = otp.spawn(body)
    await settle()
    otp.exit(pid, "shutdown")
    assert await ended(pid) == "shutdown"


async def test_awaiting_something_cancelled_is_a_crash(rt):
    async def body():
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        await future

    assert crashed(await ended(otp.spawn(body)), "CancelledError")


async def test_a_swallowed_cancel_ends_at_the_next_receive(rt):
    async def stubborn():
        while True:
            try:
                await otp.receive()
            except asyncio.CancelledError:
                await asyncio.sleep(1)
                break
        await otp.receive()

    pid = otp.spawn(stubborn)
    await settle()
    otp.exit(pid, "shutdown")
    assert await ended(pid) == "shutdown"


async def test_kill_is_repeated_until_it_works(rt):
    tries = []

    async def stubborn():
        while len(tries) < 3:
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                tries.append(rt.loop.time())

    pid = otp.spawn(stubborn)
    await settle()
    otp.exit(pid, "kill")
    assert await ended(pid) == "killed"
    assert len(tries) == 3
    assert tries == sorted(set(tries))


async def test_what_survives_every_kill_is_a_zombie(rt):
    """It is unlinked, unregistered and reported; its task is kept, and forgotten once it ends."""
    release = asyncio.Event()

    async def undying():
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    pid = otp.spawn(undying, name="undying", label="Undying")
    asked = asyncio.ensure_future(otp.call(pid, "?", timeout=None))
    await settle()
    otp.exit(pid, "kill")
    with capture_logs() as logs:
        assert await ended(pid) == "killed"
    (report,) = logs
    assert (report["event"], report["pid"], report["label"]) == ("zombie", str(pid), "Undying")
    assert "undying" in report["where"]
    assert "CancelledError" in report["advice"]
    assert otp.whereis("undying") is None
    assert not rt.alive(pid)
    with pytest.raises(otp.CallFailed, match="killed"):
        await asked
    assert list(rt.zombies) == [pid]
    release.set()
    await settle()
    assert not rt.zombies


async def test_a_live_process_is_never_garbage_collected_and_an_ended_one_always(rt):
    """Nothing but the table holds it: its task waits for a future that nobody else knows."""

    async def parked(witness):
        await otp.receive()

    class Witness:
        """Held by the frame of one process."""

    witnesses = [Witness() for _ in range(50)]
    seen = [weakref.ref(witness) for witness in witnesses]
    pids = [otp.spawn(parked, witnesses.pop()) for _ in seen]
    servers = [await Worker.start() for _ in range(50)]
    for _ in range(3):
        await settle()
        gc.collect()
    assert all(map(rt.alive, pids + servers))
    assert [await otp.call(pid, number) for number, pid in enumerate(servers)] == list(range(50))
    seen.append(weakref.ref(rt.table[servers[0]].behaviour))
    for pid in [*pids, servers[0]]:
        otp.exit(pid, "kill")
    await settle()
    gc.collect()
    assert not any(reference() for reference in seen)


async def test_context_variables_of_a_child_stay_its_own(rt):
    variable = contextvars.ContextVar("variable", default="parent")

    async def child():
        variable.set("child")

    await ended(otp.spawn(child))
    assert variable.get() == "parent"


# Links.


async def test_link_carries_an_abnormal_end(rt):
    async def lost():
        otp.link(other)
        await otp.receive()

    other = otp.spawn(waits)
    pid = otp.spawn(lost)
    await settle()
    otp.exit(pid, "bad")
    assert await ended(other) in ("bad", "noproc")
    assert not rt.alive(pid)


async def test_normal_end_leaves_links_alone(rt):
    async def brief():
        otp.link(other)

    other = otp.spawn(waits)
    assert await ended(otp.spawn(brief)) == "normal"
    assert rt.alive(other)


async def test_trapped_links_become_messages(rt):
    otp.trap_exit(True)
    pid = otp.spawn_link(waits)
    await settle()
    otp.exit(pid, "kill")
    assert await otp.receive() == otp.Exit(pid, "killed")


async def test_a_victims_links_see_killed_and_can_trap_it(rt):
    """kill travels along a link as killed, which is an ordinary reason."""

    async def middle():
        otp.spawn_link(waits, name="inner")
        await otp.receive()

    otp.trap_exit(True)
    pid = otp.spawn_link(middle)
    await settle()
    inner = otp.whereis("inner")
    otp.exit(inner, "kill")
    assert await otp.receive() == otp.Exit(pid, "killed")


async def test_linking_to_nobody(rt):
    gone = otp.spawn(waits)
    otp.exit(gone, "kill")
    await ended(gone)
    otp.trap_exit(True)
    otp.link(gone)
    assert await otp.receive() == otp.Exit(gone, "noproc")

    async def careless():
        otp.link(gone)
        await otp.receive()

    assert await ended(otp.spawn(careless)) == "noproc"


async def test_unlink_is_for_both_sides(rt):
    otp.trap_exit(True)
    pid = otp.spawn_link(waits)
    await settle()
    otp.unlink(pid)
    otp.exit(pid, "bad")
    assert await ended(pid) == "bad"
    with pytest.raises(TimeoutError):
        await otp.receive(timeout=1)


async def test_at_most_one_link_a_pair(rt):
    otp.trap_exit(True)
    pid = otp.spawn_link(waits)
    otp.link(pid)
    await settle()
    otp.send(pid, "end")
    assert await otp.receive() == otp.Exit(pid, "normal")
    with pytest.raises(TimeoutError):
        await otp.receive(timeout=1)


async def test_a_long_chain_of_links_falls_at_once(rt):
    async def chain(left):
        if left:
            otp.spawn_link(chain, left - 1)
        await otp.receive()

    pid = otp.spawn(chain, 2000)
    await settle(2100)
    assert len(rt.processes()) == 2002
    otp.exit(pid, "bad")
    await settle(4200)
    assert rt.processes() == [otp.self_pid()]


# Monitors.


async def test_monitors_stack_and_each_tells_once(rt):
    pid = otp.spawn(waits)
    refs = [otp.monitor(pid), otp.monitor(pid)]
    otp.send(pid, "end")
    assert [await otp.receive(), await otp.receive()] == [otp.Down(ref, pid, "normal") for ref in refs]


async def test_monitor_of_nobody_tells_at_once(rt):
    ref = otp.monitor("nobody")
    assert await otp.receive() == otp.Down(ref, None, "noproc")


async def test_demonitor_and_flush(rt):
    pid = otp.spawn(waits)
    ref = otp.monitor(pid)
    assert otp.demonitor(ref)
    assert not otp.demonitor(ref)
    other = otp.monitor(pid)
    otp.send(pid, "end")
    await settle()
    assert not otp.demonitor(other, flush=True)
    with pytest.raises(TimeoutError):
        await otp.receive(timeout=1)


async def test_a_monitor_by_name_watches_the_holder_of_that_moment(rt):
    first = otp.spawn(waits, name="name")
    ref = otp.monitor("name")
    otp.send(first, "end")
    await settle()
    second = otp.spawn(waits, name="name")
    await settle()
    assert otp.whereis("name") == second
    assert await otp.receive() == otp.Down(ref, first, "normal")
    with pytest.raises(TimeoutError):
        await otp.receive(timeout=1)


async def test_names_are_free_before_anybody_is_told(rt):
    seen = []

    async def watcher():
        otp.trap_exit(True)
        otp.link(otp.whereis("server"))
        otp.monitor("server")
        for _ in range(2):
            await otp.receive()
            seen.append(otp.whereis("server"))

    pid = otp.spawn(waits, name="server")
    watching = otp.spawn(watcher)
    await settle()
    otp.exit(pid, "bad")
    await ended(watching)
    assert seen == [None, None]


# Exit signals.


async def test_kill_as_a_reason_of_a_link_is_a_reason_like_others(rt):
    """Only ``exit(pid, "kill")`` cannot be trapped; who ends *with* that reason passes it on as it is."""

    async def ends():
        await asyncio.sleep(1)
        raise otp.ExitProcess("kill")

    otp.trap_exit(True)
    victim = otp.spawn(ends)
    otp.link(victim)

    async def untrapped():
        otp.link(victim)
        await waits()

    other = otp.spawn_link(untrapped)
    assert await otp.receive() == otp.Exit(victim, "kill")
    assert await otp.receive() == otp.Exit(other, "kill")


async def test_exit_normal_is_dropped_unless_trapped(rt):
    pid = otp.spawn(waits)
    await settle()
    otp.exit(pid, "normal")
    await settle()
    assert rt.alive(pid)

    me = otp.self_pid()

    async def trapping():
        otp.trap_exit(True)
        otp.send(me, await otp.receive())

    other = otp.spawn(trapping)
    await settle()
    otp.exit(other, "normal")
    assert await otp.receive() == otp.Exit(me, "normal")


@pytest.mark.parametrize("reason", ["normal", "shutdown", "bad"])
async def test_exit_to_itself_ends_it(rt, reason):
    async def body():
        otp.exit(otp.self_pid(), reason)
        raise AssertionError("not reached")

    assert await ended(otp.spawn(body)) == reason


async def test_kill_cannot_be_trapped(rt):
    async def body():
        otp.trap_exit(True)
        while True:
            await otp.receive()

    pid = otp.spawn(body)
    await settle()
    otp.exit(pid, "shutdown")
    await settle()
    assert rt.alive(pid)
    otp.exit(pid, "kill")
    assert await ended(pid) == "killed"


# Names.


async def test_signals_of_one_sender_arrive_in_order_whatever_they_are(rt):
    got = []

    async def receiver():
        otp.trap_exit(True)
        await asyncio.sleep(1)
        while len(got) < 5:
            got.append(await otp.receive())

    pid = otp.spawn(receiver)

    async def sender():
        otp.link(pid)
        otp.send(pid, 1)
        otp.cast(pid, 2)
        otp.exit(pid, "three")
        otp.send(pid, 4)
        raise otp.ExitProcess("five")

    source = otp.spawn(sender)
    await rt.join(pid)
    assert got == [1, otp.Cast(2), otp.Exit(source, "three"), 4, otp.Exit(source, "five")]


async def test_a_name_has_one_holder(rt):
    pid = otp.spawn(waits, name="holder")
    assert otp.whereis("holder") == pid
    with pytest.raises(otp.NameTaken, match="held by"):
        otp.spawn(waits, name="holder")
    with pytest.raises(otp.NameTaken):
        otp.register("holder")
    otp.register("me")
    with pytest.raises(otp.NameTaken):
        otp.register("another")
    assert rt.unregister("me")
    assert not rt.unregister("me")
    assert otp.send(("holder", rt.node), "end")
    await settle()
    assert otp.whereis("holder") is None


# Timers.


async def test_send_after_and_cancel(rt):
    timer = otp.send_after(5, otp.self_pid(), "late")
    otp.send_after(2, otp.self_pid(), "early")
    assert await otp.receive() == "early"
    assert rt.loop.time() == 2
    assert otp.cancel_timer(timer) == 3
    assert otp.cancel_timer(timer) is None
    with pytest.raises(TimeoutError):
        await otp.receive(timeout=10)


# Calls.


@pytest.mark.parametrize("seconds", [0, -1, 3])
def test_a_timer_that_is_due_at_once_can_be_cancelled_on_uvloop_too(seconds):
    async def body():
        timer = otp.send_after(seconds, otp.self_pid(), "late")
        assert (otp.cancel_timer(timer) is None) == (seconds <= 0)
        assert otp.cancel_timer(timer) is None

    async def main():
        await otp.Runtime().run(body)

    with asyncio.Runner(loop_factory=pytest.importorskip("uvloop").Loop) as runner:
        runner.run(main())


async def test_a_plain_process_can_answer_calls(rt):
    async def server():
        caller = await otp.receive()
        otp.reply(caller, (caller.request, caller.pid))

    assert await otp.call(otp.spawn(server), "who") == ("who", otp.self_pid())


async def test_a_call_fails_with_the_reason_of_the_server_or_says_what_to_do(rt):
    async def server():
        await otp.receive()
        raise otp.ExitProcess(("shutdown", "done"))

    with pytest.raises(otp.CallFailed) as caught:
        await otp.call(otp.spawn(server), "hello")
    assert caught.value.reason == ("shutdown", "done")
    with pytest.raises(
        otp.CallFailed, match=r"call to 'nobody' failed: noproc; nobody is there.*by its name"
    ):
        await otp.call("nobody", 1)
    with pytest.raises(
        otp.CallFailed, match=r"noconnection; its node is not connected; see `gossamer nodes`"
    ):
        await otp.call(("server", "other@host"), 1)


async def test_a_cast_always_succeeds(rt):
    gone = otp.spawn(waits)
    otp.exit(gone, "kill")
    await settle()
    for nobody in (gone, "no such name", ("name", "no such node")):
        assert otp.cast(nobody, 1) is None


async def test_a_call_waits_five_seconds_unless_told_otherwise(rt):
    with pytest.raises(otp.CallTimeout):
        await otp.call(otp.spawn(asyncio.sleep, 100), "?")
    assert rt.loop.time() == 5


async def test_a_call_queued_behind_the_end_fails_too(rt):
    async def server():
        await asyncio.sleep(1)

    with pytest.raises(otp.CallFailed, match="normal"):
        await otp.call(otp.spawn(server), "hello")


async def test_calls_time_out_in_the_order_of_their_limits(rt):
    async def silent():
        await asyncio.sleep(100)

    pid = otp.spawn(silent)
    late = []

    async def client(limit):
        with pytest.raises(otp.CallTimeout, match=f"after {limit:g} s"):
            await otp.call(pid, 1, timeout=limit)
        late.append((limit, rt.loop.time()))

    clients = [otp.spawn(client, limit) for limit in (7.0, 2.0, 5.0, 2.0)]
    for one in clients:
        await ended(one)
    assert late == [(2.0, 2.0), (2.0, 2.0), (5.0, 5.0), (7.0, 7.0)]


async def test_a_late_answer_is_dropped(rt):
    async def slow():
        caller = await otp.receive()
        await asyncio.sleep(10)
        otp.reply(caller, "late")
        await otp.receive()

    pid = otp.spawn(slow)
    with pytest.raises(otp.CallTimeout):
        await otp.call(pid, "x", timeout=1)
    with pytest.raises(TimeoutError):
        await otp.receive(timeout=20)
    otp.exit(pid, "kill")


async def test_uncaught_call_failure_ends_the_caller_like_otp(rt):
    async def caller():
        await otp.call("nobody", 1)

    assert await ended(otp.spawn(caller)) == ("noproc", ("call", "nobody"))


class Asks(Worker):
    """Calls whom it is told to call."""

    async def handle_call(self, request, caller):
        return otp.Reply(await otp.call(request, otp.self_pid(), timeout=self.options.get("timeout", 5)))


async def test_calling_oneself_is_refused(rt):
    with pytest.raises(otp.CallingSelf, match="calls itself"):
        await otp.call(otp.self_pid(), 1)
    pid = await Asks.start(label="Narcissus")
    with pytest.raises(otp.CallFailed, match=rf"CallingSelf: Narcissus {pid} calls itself.*cast and go on"):
        await otp.call(pid, pid)


async def test_two_that_call_each_other_end_by_their_time_limits_and_the_circle_is_named(rt):
    one = await Asks.start(label="One", timeout=2)
    two = await Asks.start(label="Two", timeout=9)
    with capture_logs() as logs, pytest.raises(otp.CallFailed) as caught:
        await otp.call(one, two)
    assert rt.loop.time() == 2
    assert caught.value.reason == ("timeout", ("call", str(two)))
    assert not isinstance(caught.value, otp.CallTimeout)
    said = [entry["traceback"] for entry in logs if entry["event"] == "crash" and entry["pid"] == str(one)]
    assert f"deadlock: Two {two} -> One {one} -> Two {two}; break the circle with a cast" in said[0]


def test_outside_of_processes_the_functions_say_so():
    sends = (lambda: otp.send("x", 1), lambda: otp.cast("x", 1), lambda: otp.spawn(waits))
    for function in (otp.self_pid, *sends, otp.Runtime.current):
        with pytest.raises(otp.NotInProcess, match="Runtime"):
            function()


# The runtime.


async def test_a_runtime_serves_code_outside_of_processes():
    rt = otp.Runtime("a@h", 2)
    pid = await rt.start(Worker, 1, name="worker")
    assert await rt.call("worker", ("echo", 5)) == 5
    rt.cast(pid, "hello")
    rt.send(pid, "message")
    assert await rt.call(pid, "got") == [("cast", "hello"), "message"]
    assert rt.whereis("worker") == pid
    assert rt.processes() == [pid]
    assert str(pid) == "<a@h.1>"
    await rt.stop()
    assert not rt.alive(pid)


async def test_run_gives_back_what_a_function_raises():
    async def fails():
        raise KeyError("x")

    async def dies():
        raise otp.ExitProcess("bad")

    rt = otp.Runtime()
    with pytest.raises(KeyError):
        await rt.run(fails)
    with pytest.raises(otp.CallFailed, match="bad"):
        await rt.run(dies)
    await rt.stop()


async def test_two_runtimes_on_one_loop_do_not_mix():
    one, two = otp.Runtime("one@h"), otp.Runtime("two@h")

    async def body():
        assert otp.Runtime.current() is two
        assert otp.whereis("only") is None

    one.spawn(waits, name="only")
    await two.run(body)
    await one.stop()
    await two.stop()


async def test_halt_tells_nobody():
    rt = otp.Runtime()
    seen = []

    async def watcher(pid):
        otp.trap_exit(True)
        otp.link(pid)
        try:
            seen.append(await otp.receive())
        finally:
            seen.append("ended")

    rt.spawn(watcher, rt.spawn(waits))
    await settle()
    rt.halt()
    assert not rt.table
    await settle()
    assert seen == ["ended"]
    assert not rt.zombies


async def test_the_tree_shows_who_started_whom(rt):
    async def parent():
        otp.spawn(waits, label="child", name="kid")
        await otp.receive()

    pid = otp.spawn(parent, label="parent")
    await settle()
    otp.send("kid", "one")
    (me,) = [node for node in await rt.tree() if node.pid == otp.self_pid()]
    (node,) = me.children
    assert (node.pid, node.label, node.type) == (pid, "parent", "process")
    (child,) = node.children
    assert (child.name, child.label, child.mailbox) == ("kid", "child", 1)
    assert 0 < child.memory < 4096

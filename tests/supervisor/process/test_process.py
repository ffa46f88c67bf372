"""Processes, mailboxes, links, monitors, exit signals, names and timers."""

from __future__ import annotations

import asyncio
import contextvars
import gc

import pytest
from structlog.testing import capture_logs

from gossamer.supervisor import (
    BadDestination,
    CallFailed,
    CallingSelf,
    CallTimeout,
    Down,
    Exit,
    ExitProcess,
    MailboxFull,
    NameTaken,
    NotInProcess,
    Pid,
    Runtime,
    call,
    cancel_timer,
    cast,
    demonitor,
    exit,  # noqa: A004
    link,
    monitor,
    receive,
    register,
    reply,
    self_pid,
    send,
    send_after,
    send_wait,
    spawn,
    spawn_link,
    trap_exit,
    unlink,
    whereis,
)
from tests.supervisor.harness import VirtualLoop, Worker, crashed, settle, virtual


async def forever() -> None:
    await receive()


async def ended(pid: Pid) -> object:
    ref = monitor(pid)
    down = await receive(match=lambda m: isinstance(m, Down) and m.ref == ref)
    return down.reason


@virtual
async def test_messages_arrive_in_order(rt):
    me = self_pid()

    async def echo():
        while True:
            message = await receive()
            send(me, message)

    pid = spawn(echo)
    for number in range(500):
        send(pid, number)
    assert [await receive(timeout=1) for _ in range(500)] == list(range(500))


@virtual
async def test_send_says_when_nobody_is_there(rt):
    pid = spawn(forever)
    assert send(pid, "hello")
    await settle()
    assert not send(pid, "again")
    assert not send("nobody", 1)
    assert not send(("nobody", rt.node), 1)
    assert not send(("somebody", "other@host"), 1)
    with pytest.raises(BadDestination, match="expected a Pid"):
        send(42, 1)


@virtual
async def test_pid_of_an_earlier_creation_is_nobody(rt):
    pid = spawn(forever)
    stale = Pid(pid.node, pid.creation - 1, pid.number)
    assert not send(stale, "hello")
    with pytest.raises(CallFailed, match="noproc"):
        await call(stale, "hello")
    assert await ended(stale) == "noproc"


@virtual
async def test_receive_gives_up_after_its_time(rt):
    started = rt.loop.time()
    with pytest.raises(TimeoutError):
        await receive(timeout=3)
    assert rt.loop.time() - started == 3


@virtual
async def test_selective_receive_leaves_the_rest_in_order(rt):
    for message in ("a", "b", "c"):
        send(self_pid(), message)
    assert await receive(match=lambda m: m == "b") == "b"
    assert [await receive(), await receive()] == ["a", "c"]
    send_after(1, self_pid(), "late")
    send(self_pid(), "early")
    assert await receive(match=lambda m: m == "late") == "late"
    assert await receive() == "early"


@virtual
async def test_busy_mailbox_does_not_starve_others(rt):
    async def selfish():
        send(self_pid(), 1)
        while True:
            send(self_pid(), await receive())

    pid = spawn(selfish)
    await settle(100)
    assert rt.alive(pid)
    exit(pid, "kill")
    assert await ended(pid) in ("killed", "noproc")


@virtual
async def test_full_mailbox_refuses_messages_and_never_signals(rt):
    async def slow():
        trap_exit(True)
        await asyncio.sleep(10)
        assert [await receive() for _ in range(3)] == [1, 2, Exit(me, "hello")]

    me = self_pid()
    pid = spawn(slow, max_mailbox=2)
    await settle()
    with capture_logs() as logs:
        assert send(pid, 1)
        assert send(pid, 2)
        exit(pid, "hello")
        assert not send(pid, 3)
        with pytest.raises(MailboxFull, match="holds 2 messages"):
            await call(pid, "hello")
    assert [entry["event"] for entry in logs] == ["mailbox_full"]
    assert await ended(pid) == "normal"


@virtual
async def test_send_wait_waits_for_room(rt):
    me = self_pid()

    async def slow():
        for _ in range(3):
            await asyncio.sleep(1)
            send(me, await receive())

    pid = spawn(slow, max_mailbox=1)
    for number in range(3):
        assert await send_wait(pid, number)
    assert rt.loop.time() >= 1
    assert [await receive() for _ in range(3)] == [0, 1, 2]


# Ends.


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (None, "normal"),
        (ExitProcess("shutdown"), "shutdown"),
        (ExitProcess(("shutdown", 3)), ("shutdown", 3)),
        (ExitProcess("kill"), "kill"),
        (CallFailed("server", "noproc"), ("noproc", ("call", "server"))),
    ],
)
@virtual
async def test_a_body_ends_with_its_reason(rt, error, reason):
    async def body():
        await asyncio.sleep(1)
        if error is not None:
            raise error

    assert await ended(spawn(body)) == reason


@virtual
async def test_an_exception_ends_a_process_with_text_and_a_report(rt):
    async def body():
        await asyncio.sleep(1)
        raise ValueError("three is too many")

    with capture_logs() as logs:
        reason = await ended(spawn(body, name="counter", label="the counter"))
    assert crashed(reason, "ValueError")
    assert str(reason) == "ValueError: three is too many"
    assert "three is too many" in reason.traceback
    (report,) = logs
    assert report["event"] == "crash"
    assert report["name"] == "counter"
    assert report["label"] == "the counter"
    assert "in body" in report["traceback"]


@pytest.mark.parametrize("error", [SystemExit(3), BaseException("odd"), RecursionError("deep")])
@virtual
async def test_no_exception_of_a_process_leaves_it(rt, error):
    async def body():
        raise error

    assert crashed(await ended(spawn(body)), type(error).__name__)


@virtual
async def test_cancelled_before_its_first_step(rt):
    ran = []

    async def body():
        ran.append(1)

    pid = spawn(body, name="early")
    exit(pid, "shutdown")
    assert await ended(pid) == "shutdown"
    assert whereis("early") is None
    assert not ran


@virtual
async def test_a_raising_finally_does_not_hide_the_reason(rt):
    async def body():
        try:
            await receive()
        finally:
            raise RuntimeError("clean-up failed")

    pid = spawn(body)
    await settle()
    exit(pid, "shutdown")
    assert await ended(pid) == "shutdown"


@virtual
async def test_awaiting_something_cancelled_is_a_crash(rt):
    async def body():
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        await future

    assert crashed(await ended(spawn(body)), "CancelledError")


@virtual
async def test_a_swallowed_cancel_ends_at_the_next_receive(rt):
    async def stubborn():
        while True:
            try:
                await receive()
            except asyncio.CancelledError:
                await asyncio.sleep(1)
                break
        await receive()

    pid = spawn(stubborn)
    await settle()
    exit(pid, "shutdown")
    assert await ended(pid) == "shutdown"


@virtual
async def test_kill_is_repeated_until_it_works(rt):
    tries = []

    async def stubborn():
        while len(tries) < 3:
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                tries.append(rt.loop.time())

    pid = spawn(stubborn)
    await settle()
    exit(pid, "kill")
    assert await ended(pid) == "killed"
    assert len(tries) == 3
    assert tries == sorted(set(tries))


def test_what_survives_every_kill_is_a_zombie():
    """It is unlinked, unregistered and reported; its task is kept, and forgotten once it ends."""

    async def main() -> None:
        rt = Runtime("test@host")
        release = asyncio.Event()

        async def undying():
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    continue

        async def test():
            pid = spawn(undying, name="undying")
            await settle()
            exit(pid, "kill")
            with capture_logs() as logs:
                assert await ended(pid) == "killed"
            assert [entry["event"] for entry in logs] == ["zombie"]
            assert whereis("undying") is None
            assert not rt.alive(pid)
            assert list(rt.zombies) == [pid]
            release.set()
            await settle()
            assert not rt.zombies

        await rt.run(test)

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(main())


@virtual
async def test_no_live_process_is_garbage_collected(rt):
    """Nothing but the table holds it: its task waits for a future that nobody else knows."""
    finalised = []

    async def parked():
        try:
            await asyncio.get_running_loop().create_future()
        except BaseException:
            finalised.append(1)
            raise

    pids = [spawn(parked) for _ in range(50)]
    await settle()
    for _ in range(3):
        gc.collect()
    await settle()
    assert all(map(rt.alive, pids))
    assert not finalised


@virtual
async def test_a_process_is_forgotten_when_it_ends(rt):
    import weakref

    class Witness:
        pass

    async def body(witness):
        await asyncio.sleep(1)

    witness = Witness()
    watch = weakref.ref(witness)
    pid = spawn(body, witness)
    del witness
    assert await ended(pid) == "normal"
    await settle()
    assert watch() is None


@virtual
async def test_context_variables_of_a_child_stay_its_own(rt):
    variable = contextvars.ContextVar("variable", default="parent")

    async def child():
        variable.set("child")

    await ended(spawn(child))
    assert variable.get() == "parent"


# Links.


@virtual
async def test_link_carries_an_abnormal_end(rt):
    async def lost():
        link(other)
        await receive()

    other = spawn(forever)
    pid = spawn(lost)
    await settle()
    exit(pid, "bad")
    assert await ended(other) in ("bad", "noproc")
    assert not rt.alive(pid)


@virtual
async def test_normal_end_leaves_links_alone(rt):
    async def brief():
        link(other)

    other = spawn(forever)
    assert await ended(spawn(brief)) == "normal"
    assert rt.alive(other)


@virtual
async def test_trapped_links_become_messages(rt):
    trap_exit(True)
    pid = spawn_link(forever)
    await settle()
    exit(pid, "kill")
    assert await receive() == Exit(pid, "killed")


@virtual
async def test_a_victims_links_see_killed_and_can_trap_it(rt):
    """kill travels along a link as killed, which is an ordinary reason."""

    async def middle():
        spawn_link(forever, name="inner")
        await receive()

    trap_exit(True)
    pid = spawn_link(middle)
    await settle()
    inner = whereis("inner")
    exit(inner, "kill")
    assert await receive() == Exit(pid, "killed")


@virtual
async def test_linking_to_nobody(rt):
    gone = spawn(forever)
    exit(gone, "kill")
    await ended(gone)
    trap_exit(True)
    link(gone)
    assert await receive() == Exit(gone, "noproc")

    async def careless():
        link(gone)
        await receive()

    assert await ended(spawn(careless)) == "noproc"


@virtual
async def test_unlink_is_for_both_sides(rt):
    trap_exit(True)
    pid = spawn_link(forever)
    await settle()
    unlink(pid)
    exit(pid, "bad")
    assert await ended(pid) == "bad"
    with pytest.raises(TimeoutError):
        await receive(timeout=1)


@virtual
async def test_at_most_one_link_a_pair(rt):
    trap_exit(True)
    pid = spawn_link(forever)
    link(pid)
    await settle()
    send(pid, "end")
    assert await receive() == Exit(pid, "normal")
    with pytest.raises(TimeoutError):
        await receive(timeout=1)


@virtual
async def test_a_long_chain_of_links_falls_at_once(rt):
    async def chain(left):
        if left:
            spawn_link(chain, left - 1)
        await receive()

    pid = spawn(chain, 2000)
    await settle(2100)
    assert len(rt.processes()) == 2002
    exit(pid, "bad")
    await settle(4200)
    assert rt.processes() == [self_pid()]


# Monitors.


@virtual
async def test_monitors_stack_and_each_tells_once(rt):
    pid = spawn(forever)
    refs = [monitor(pid), monitor(pid)]
    send(pid, "end")
    assert [await receive(), await receive()] == [Down(ref, pid, "normal") for ref in refs]


@virtual
async def test_monitor_of_nobody_tells_at_once(rt):
    ref = monitor("nobody")
    assert await receive() == Down(ref, None, "noproc")


@virtual
async def test_demonitor_and_flush(rt):
    pid = spawn(forever)
    ref = monitor(pid)
    assert demonitor(ref)
    assert not demonitor(ref)
    other = monitor(pid)
    send(pid, "end")
    await settle()
    assert not demonitor(other, flush=True)
    with pytest.raises(TimeoutError):
        await receive(timeout=1)


@virtual
async def test_names_are_free_before_anybody_is_told(rt):
    seen = []

    async def watcher():
        trap_exit(True)
        link(whereis("server"))
        monitor("server")
        for _ in range(2):
            await receive()
            seen.append(whereis("server"))

    pid = spawn(forever, name="server")
    watching = spawn(watcher)
    await settle()
    exit(pid, "bad")
    await ended(watching)
    assert seen == [None, None]


# Exit signals.


@virtual
async def test_exit_normal_is_dropped_unless_trapped(rt):
    pid = spawn(forever)
    await settle()
    exit(pid, "normal")
    await settle()
    assert rt.alive(pid)

    me = self_pid()

    async def trapping():
        trap_exit(True)
        send(me, await receive())

    other = spawn(trapping)
    await settle()
    exit(other, "normal")
    assert await receive() == Exit(me, "normal")


@pytest.mark.parametrize("reason", ["normal", "shutdown", "bad"])
@virtual
async def test_exit_to_itself_ends_it(rt, reason):
    async def body():
        exit(self_pid(), reason)
        raise AssertionError("not reached")

    assert await ended(spawn(body)) == reason


@virtual
async def test_kill_cannot_be_trapped(rt):
    async def body():
        trap_exit(True)
        while True:
            await receive()

    pid = spawn(body)
    await settle()
    exit(pid, "shutdown")
    await settle()
    assert rt.alive(pid)
    exit(pid, "kill")
    assert await ended(pid) == "killed"


@virtual
async def test_signals_keep_their_place_in_the_mailbox(rt):
    got = []

    async def body():
        trap_exit(True)
        await asyncio.sleep(1)
        while len(got) < 3:
            got.append(await receive())

    pid = spawn(body)
    await settle()
    send(pid, 1)
    exit(pid, "hello")
    send(pid, 2)
    await ended(pid)
    assert got == [1, Exit(self_pid(), "hello"), 2]


# Names.


@virtual
async def test_a_name_has_one_holder(rt):
    pid = spawn(forever, name="holder")
    assert whereis("holder") == pid
    with pytest.raises(NameTaken, match="held by"):
        spawn(forever, name="holder")
    with pytest.raises(NameTaken):
        register("holder")
    register("me")
    with pytest.raises(NameTaken):
        register("another")
    assert rt.unregister("me")
    assert not rt.unregister("me")
    assert send(("holder", rt.node), "end")
    await settle()
    assert whereis("holder") is None


# Timers.


@virtual
async def test_send_after_and_cancel(rt):
    timer = send_after(5, self_pid(), "late")
    send_after(2, self_pid(), "early")
    assert await receive() == "early"
    assert rt.loop.time() == 2
    assert cancel_timer(timer) == 3
    assert cancel_timer(timer) is None
    with pytest.raises(TimeoutError):
        await receive(timeout=10)


# Calls.


@virtual
async def test_a_plain_process_can_answer_calls(rt):
    async def server():
        caller = await receive()
        reply(caller, (caller.request, caller.pid))

    assert await call(spawn(server), "who") == ("who", self_pid())


@virtual
async def test_call_fails_with_the_reason_of_the_server(rt):
    async def server():
        await receive()
        raise ExitProcess(("shutdown", "done"))

    with pytest.raises(CallFailed) as caught:
        await call(spawn(server), "hello")
    assert caught.value.reason == ("shutdown", "done")
    with pytest.raises(CallFailed, match="noproc"):
        await call("nobody", 1)
    with pytest.raises(CallFailed, match="noconnection"):
        await call(("server", "other@host"), 1)


@virtual
async def test_a_call_queued_behind_the_end_fails_too(rt):
    async def server():
        await asyncio.sleep(1)

    with pytest.raises(CallFailed, match="normal"):
        await call(spawn(server), "hello")


@virtual
async def test_calls_time_out_in_the_order_of_their_limits(rt):
    async def silent():
        await asyncio.sleep(100)

    pid = spawn(silent)
    late = []

    async def client(limit):
        with pytest.raises(CallTimeout, match=f"after {limit:g} s"):
            await call(pid, 1, timeout=limit)
        late.append((limit, rt.loop.time()))

    clients = [spawn(client, limit) for limit in (7.0, 2.0, 5.0, 2.0)]
    for one in clients:
        await ended(one)
    assert late == [(2.0, 2.0), (2.0, 2.0), (5.0, 5.0), (7.0, 7.0)]


@virtual
async def test_a_late_answer_is_dropped(rt):
    async def slow():
        caller = await receive()
        await asyncio.sleep(10)
        reply(caller, "late")
        await receive()

    pid = spawn(slow)
    with pytest.raises(CallTimeout):
        await call(pid, "x", timeout=1)
    with pytest.raises(TimeoutError):
        await receive(timeout=20)
    exit(pid, "kill")


@virtual
async def test_uncaught_call_failure_ends_the_caller_like_otp(rt):
    async def caller():
        await call("nobody", 1)

    assert await ended(spawn(caller)) == ("noproc", ("call", "nobody"))


@virtual
async def test_calling_oneself_is_refused(rt):
    with pytest.raises(CallingSelf, match="calls itself"):
        await call(self_pid(), 1)


@virtual
async def test_a_deadlock_names_its_circle(rt):
    async def partner(other):
        await asyncio.sleep(1)
        await call(other, "after you", timeout=3)

    first = spawn(partner, "second", name="first", label="First")
    spawn(partner, "first", name="second", label="Second")
    with capture_logs() as logs:
        await ended(first)
    assert any("deadlock: Second" in str(entry["traceback"]) for entry in logs)


def test_outside_of_processes_the_functions_say_so():
    for function in (self_pid, lambda: send("x", 1), lambda: spawn(forever), Runtime.current):
        with pytest.raises(NotInProcess, match="Runtime"):
            function()


# The runtime.


def test_a_runtime_serves_code_outside_of_processes():
    async def main() -> None:
        rt = Runtime("a@h", 2)
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

    asyncio.run(main())


def test_run_gives_back_what_a_function_raises():
    async def main() -> None:
        rt = Runtime()

        async def fails():
            raise KeyError("x")

        async def dies():
            raise ExitProcess("bad")

        with pytest.raises(KeyError):
            await rt.run(fails)
        with pytest.raises(CallFailed, match="bad"):
            await rt.run(dies)
        await rt.stop()

    asyncio.run(main())


def test_two_runtimes_on_one_loop_do_not_mix():
    async def main() -> None:
        one, two = Runtime("one@h"), Runtime("two@h")

        async def body():
            assert Runtime.current() is two
            assert whereis("only") is None

        one.spawn(forever, name="only")
        await two.run(body)
        await one.stop()
        await two.stop()

    asyncio.run(main())


def test_halt_tells_nobody():
    async def main() -> None:
        rt = Runtime()
        seen = []

        async def watcher(pid):
            trap_exit(True)
            link(pid)
            try:
                seen.append(await receive())
            finally:
                seen.append("ended")

        pid = rt.spawn(forever)
        rt.spawn(watcher, pid)
        await settle()
        rt.halt()
        assert not rt.table
        await settle()
        assert seen == ["ended"]
        assert not rt.zombies

    asyncio.run(main())


@virtual
async def test_the_tree_shows_who_started_whom(rt):
    async def parent():
        spawn(forever, label="child", name="kid")
        await receive()

    pid = spawn(parent, label="parent")
    await settle()
    send("kid", "one")
    (me,) = [node for node in await rt.tree() if node.pid == self_pid()]
    (node,) = me.children
    assert (node.pid, node.label, node.type) == (pid, "parent", "process")
    (child,) = node.children
    assert (child.name, child.label, child.mailbox) == ("kid", "child", 1)
    assert 0 < child.memory < 4096


def test_cast_outside_is_refused():
    with pytest.raises(NotInProcess):
        cast("x", 1)

"""Processes and their mailboxes, how a process ends, and the runtime that keeps them."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import weakref

import pytest
from structlog.testing import capture_logs

import gossamer.supervisor as otp
from tests.supervisor.harness import Worker, crashed, ended, settle, waits


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

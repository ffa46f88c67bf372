"""Calls between processes, their time limits and failures; timers."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

import gossamer.supervisor as otp
from tests.supervisor.harness import Worker, ended, nothing_comes, settle, waits


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
    await nothing_comes(20)
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


# Timers.


async def test_send_after_and_cancel(rt):
    timer = otp.send_after(5, otp.self_pid(), "late")
    otp.send_after(2, otp.self_pid(), "early")
    assert await otp.receive() == "early"
    assert rt.loop.time() == 2
    assert otp.cancel_timer(timer) == 3
    assert otp.cancel_timer(timer) is None
    await nothing_comes(10)

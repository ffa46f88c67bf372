"""GenServer: what callbacks return, how a server starts and how it ends."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

import gossamer.supervisor as otp
from tests.supervisor.harness import Worker, crashed, ended, nothing_comes, settle


class Scripted(otp.GenServer):
    """Runs the function that it is given, for every callback."""

    async def init(self, **script):
        self.script = script
        self.ends = script.get("ends", [])
        if "init" in script:
            return await script["init"](self)
        return None

    async def handle_call(self, request, caller):
        return await self.script["call"](self, request, caller)

    async def handle_cast(self, request):
        return await self.script["cast"](self, request)

    async def handle_info(self, message):
        return await self.script["info"](self, message)

    async def handle_continue(self, token):
        return await self.script["then"](self, token)

    async def terminate(self, reason):
        self.ends.append(reason)
        if "terminate" in self.script:
            await self.script["terminate"](self, reason)


def returns(value=None, *, after=0.0):
    """A callback that gives this back, after so many seconds."""

    async def callback(*_):
        await asyncio.sleep(after)
        return value

    return callback


def raises(error):
    """A callback that fails with this."""

    async def callback(*_):
        raise error

    return callback


def keeps(into, value=None):
    """A callback that notes what it is given last."""

    async def callback(*given):
        into.append(given[-1])
        return value

    return callback


async def traps(server):
    """An ``init`` that traps exits."""
    otp.trap_exit(True)


# Starting.


async def test_start_comes_back_when_init_is_done(rt):
    pid = await Scripted.start(init=returns(after=3), name="slow")
    assert rt.loop.time() == 3
    assert otp.whereis("slow") == pid


@pytest.mark.parametrize("start", [Scripted.start, Scripted.start_link])
def test_a_start_outside_of_processes_names_what_was_to_start(start):
    with pytest.raises(otp.NotInProcess, match=rf"^Scripted\.{start.__name__}\(\)"):
        asyncio.run(start())


async def test_a_server_that_ignores_leaves_nothing(rt):
    ends = []
    otp.trap_exit(True)
    with pytest.raises(otp.Ignore):
        await Scripted.start_link(init=raises(otp.Ignore), name="unwanted", ends=ends)
    assert otp.whereis("unwanted") is None
    assert not ends
    await nothing_comes()


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (otp.StopInit("no disc"), "no disc"),
        (otp.ExitProcess("shutdown"), "shutdown"),
        (ValueError("odd"), None),
    ],
)
async def test_a_failed_init_is_told_once_and_frees_the_name_first(rt, error, reason):
    """No stray EXIT reaches a starter that traps exits, and terminate does not run."""
    names, ends = [], []
    otp.trap_exit(True)
    with pytest.raises(otp.StartFailed) as caught:
        try:
            await Scripted.start_link(init=raises(error), name="server", ends=ends)
        finally:
            names.append(otp.whereis("server"))
    assert caught.value.reason == reason if reason else crashed(caught.value.reason, "ValueError")
    assert names == [None]
    assert not ends
    await nothing_comes()


async def test_a_name_in_use_refuses_the_start(rt):
    await Worker.start(name="server")
    with pytest.raises(otp.NameTaken):
        await Worker.start(name="server")


async def test_init_may_not_return_nonsense(rt):
    with pytest.raises(otp.StartFailed, match="expected None or Continue"):
        await Scripted.start(init=returns("ok"))


async def test_a_dying_starter_takes_the_starting_server_along(rt):
    async def starter():
        await Scripted.start_link(init=returns(after=100), name="half")

    pid = rt.spawn(starter)
    await settle()
    assert otp.whereis("half") is not None
    otp.exit(pid, "bad")
    await settle()
    assert otp.whereis("half") is None


# Serving.


async def test_calls_casts_and_messages_come_in_order(rt):
    pid = await Worker.start(1, 2)
    assert await otp.call(pid, "args") == (1, 2)
    otp.cast(pid, "a")
    otp.send(pid, "b")
    assert await otp.call(pid, "got") == [("cast", "a"), "b"]


async def test_an_answer_may_come_later_from_anybody(rt):
    async def on_call(server, request, caller):
        rt.spawn(answerer, caller)
        return otp.NoReply()

    async def answerer(caller):
        await asyncio.sleep(2)
        otp.reply(caller, "later")
        otp.reply(caller, "twice is dropped")

    pid = await Scripted.start(call=on_call)
    assert await otp.call(pid, 1) == "later"


async def test_continue_runs_before_queued_messages(rt):
    order = []

    async def init(server):
        otp.send(otp.self_pid(), "queued")
        return otp.Continue("first")

    async def then(server, token):
        order.append(token)
        return otp.NoReply(then=otp.Continue("second")) if token == "first" else None

    async def on_call(server, request, caller):
        return otp.Reply(list(order), then=otp.Continue("after the reply"))

    pid = await Scripted.start(init=init, then=then, info=keeps(order), call=on_call)
    assert await otp.call(pid, 1) == ["first", "second", "queued"]
    await settle()
    assert order[-1] == "after the reply"


async def test_a_timeout_comes_when_no_message_does(rt):
    got = []

    async def info(server, message):
        got.append((rt.loop.time(), message))

    async def on_cast(server, request):
        return otp.NoReply(timeout=request)

    pid = await Scripted.start(info=info, cast=on_cast)
    otp.cast(pid, 5)
    await asyncio.sleep(4)
    otp.send(pid, "in time")
    await asyncio.sleep(10)
    otp.cast(pid, 2)
    await asyncio.sleep(10)
    assert got == [(4, "in time"), (16, otp.Timeout())]


# Ending.


async def test_stop_terminates_first_and_answers_then(rt):
    ends = []

    async def terminate(server, reason):
        await asyncio.sleep(1)
        ends.append("done")

    stop = otp.Stop("normal", reply=("bye", ends))
    pid = await Scripted.start(call=returns(stop), terminate=terminate, ends=ends)
    answer = await otp.call(pid, 1)
    assert answer == ("bye", ["normal", "done"])
    await settle()
    assert not rt.alive(pid)


@pytest.mark.parametrize("reason", ["normal", "shutdown", ("shutdown", "x"), "bad"])
async def test_only_disorderly_ends_are_reported(rt, reason):
    pid = await Worker.start()
    with capture_logs() as logs:
        assert await otp.call(pid, ("stop", reason)) == "stopping"
        assert await ended(pid) in (reason, "noproc")
    assert [entry["event"] for entry in logs] == (["crash"] if reason == "bad" else [])


async def test_an_exception_ends_the_server_and_its_caller_hears_why(rt):
    ends = []
    pid = await Scripted.start(call=raises(ZeroDivisionError("oops")), ends=ends)
    with pytest.raises(otp.CallFailed, match="ZeroDivisionError: oops") as caught:
        await otp.call(pid, 1)
    assert crashed(caught.value.reason, "ZeroDivisionError")
    assert ends == [caught.value.reason]


@pytest.mark.parametrize("returned", [7, None, "reply", otp.Continue(1)])
async def test_a_wrong_return_ends_the_server_and_names_the_callback(rt, returned):
    pid = await Scripted.start(call=returns(returned))
    with pytest.raises(
        otp.CallFailed, match=r"Scripted.handle_call returned .*, expected Reply, NoReply or Stop"
    ):
        await otp.call(pid, 1)


async def test_a_reply_where_nobody_asked_ends_the_server(rt):
    pid = await Scripted.start(cast=returns(otp.Reply(1)))
    otp.cast(pid, 1)
    assert crashed(await ended(pid), "BadReturn")


async def test_a_server_without_the_callback_says_so(rt):
    pid = await otp.GenServer.start()
    with pytest.raises(otp.CallFailed, match=r"has no handle_call\(\)"):
        await otp.call(pid, 1)


async def test_an_unexpected_message_is_logged_and_dropped(rt):
    pid = await otp.GenServer.start()
    with capture_logs() as logs:
        otp.send(pid, "surprise")
        await settle()
    assert rt.alive(pid)
    assert [entry["event"] for entry in logs] == ["unexpected_message"]


async def test_the_parents_exit_terminates_a_trapping_server(rt):
    ends, pids = [], []

    async def parent():
        pids.append(await Scripted.start_link(init=traps, ends=ends))
        await otp.receive()

    boss = rt.spawn(parent)
    await settle()
    otp.exit(boss, "bad")
    await settle()
    assert ends == ["bad"]
    assert not rt.alive(pids[0])


@pytest.mark.parametrize("trapping", [False, True])
async def test_kill_and_an_untrapped_signal_end_without_terminate(rt, trapping):
    ends = []
    pid = await Scripted.start(init=traps if trapping else returns(), ends=ends)
    otp.exit(pid, "kill" if trapping else "bad")
    assert await ended(pid) == ("killed" if trapping else "bad")
    assert not ends


async def test_other_exits_are_messages_to_a_trapping_server(rt):
    got = []
    pid = await Scripted.start(init=traps, info=keeps(got))

    async def stranger():
        otp.exit(pid, "bad")

    source = rt.spawn(stranger)
    await settle()
    assert got == [otp.Exit(source, "bad")]


async def test_a_failing_terminate_replaces_the_reason(rt):
    failing = raises(OSError("disc full"))
    pid = await Scripted.start(cast=returns(otp.Stop("normal")), terminate=failing)
    otp.cast(pid, 1)
    assert crashed(await ended(pid), "OSError")


async def test_exit_process_in_a_callback_runs_terminate(rt):
    ends = []
    pid = await Scripted.start(cast=raises(otp.ExitProcess(("shutdown", "enough"))), ends=ends)
    otp.cast(pid, 1)
    assert await ended(pid) == ("shutdown", "enough")
    assert ends == [("shutdown", "enough")]


async def test_a_handler_that_swallows_its_cancel_still_ends(rt):
    async def on_cast(server, request):
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            pass

    pid = await Scripted.start(cast=on_cast)
    otp.cast(pid, 1)
    await settle()
    otp.exit(pid, "shutdown")
    assert await ended(pid) == "shutdown"


async def test_a_guarded_callback_that_raises_ends_the_server_through_terminate(rt):
    ends = []

    async def init(server):
        def callback():
            raise ValueError("in the loop's own turn")

        rt.loop.call_later(3, otp.guarded(callback))

    pid = await Scripted.start(init=init, ends=ends)
    reason = await ended(pid)
    assert crashed(reason, "ValueError")
    assert ends == [reason]


async def test_a_guarded_callback_runs_as_its_process_and_stops_with_it(rt):
    seen = []

    async def init(server):
        server.callback = otp.guarded(lambda: seen.append(otp.self_pid()))

    async def on_call(server, request, caller):
        return otp.Reply(server.callback)

    pid = await Scripted.start(init=init, call=on_call)
    callback = await otp.call(pid, 1)
    callback()
    assert seen == [pid]
    otp.exit(pid, "kill")
    await ended(pid)
    callback()
    assert seen == [pid]

"""GenServer: what callbacks return, how a server starts and how it ends."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

import gossamer.supervisor as otp
from tests.supervisor.harness import Worker, crashed, ended, settle


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


# Starting.


async def test_start_comes_back_when_init_is_done(rt):
    async def init(server):
        await asyncio.sleep(3)

    pid = await Scripted.start(init=init, name="slow")
    assert rt.loop.time() == 3
    assert otp.whereis("slow") == pid


@pytest.mark.parametrize("start", [Scripted.start, Scripted.start_link])
def test_a_start_outside_of_processes_names_what_was_to_start(start):
    with pytest.raises(otp.NotInProcess, match=rf"^Scripted\.{start.__name__}\(\)"):
        asyncio.run(start())


async def test_a_server_that_ignores_leaves_nothing(rt):
    ends = []

    async def init(server):
        raise otp.Ignore

    otp.trap_exit(True)
    with pytest.raises(otp.Ignore):
        await Scripted.start_link(init=init, name="unwanted", ends=ends)
    assert otp.whereis("unwanted") is None
    assert not ends
    with pytest.raises(TimeoutError):
        await otp.receive(timeout=1)


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
    names = []

    async def init(server):
        raise error

    otp.trap_exit(True)
    ends = []
    with pytest.raises(otp.StartFailed) as caught:
        try:
            await Scripted.start_link(init=init, name="server", ends=ends)
        finally:
            names.append(otp.whereis("server"))
    assert caught.value.reason == reason if reason else crashed(caught.value.reason, "ValueError")
    assert names == [None]
    assert not ends
    with pytest.raises(TimeoutError):
        await otp.receive(timeout=1)


async def test_a_name_in_use_refuses_the_start(rt):
    await Worker.start(name="server")
    with pytest.raises(otp.NameTaken):
        await Worker.start(name="server")


async def test_init_may_not_return_nonsense(rt):
    async def init(server):
        return "ok"

    with pytest.raises(otp.StartFailed, match="expected None or Continue"):
        await Scripted.start(init=init)


async def test_a_dying_starter_takes_the_starting_server_along(rt):
    async def init(server):
        await asyncio.sleep(100)

    async def starter():
        await Scripted.start_link(init=init, name="half")

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

    async def info(server, message):
        order.append(message)

    async def on_call(server, request, caller):
        return otp.Reply(list(order), then=otp.Continue("after the reply"))

    pid = await Scripted.start(init=init, then=then, info=info, call=on_call)
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

    async def on_call(server, request, caller):
        return otp.Stop("normal", reply=("bye", ends))

    async def terminate(server, reason):
        await asyncio.sleep(1)
        ends.append("done")

    pid = await Scripted.start(call=on_call, terminate=terminate, ends=ends)
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

    async def on_call(server, request, caller):
        raise ZeroDivisionError("oops")

    pid = await Scripted.start(call=on_call, ends=ends)
    with pytest.raises(otp.CallFailed, match="ZeroDivisionError: oops") as caught:
        await otp.call(pid, 1)
    assert crashed(caught.value.reason, "ZeroDivisionError")
    assert ends == [caught.value.reason]


@pytest.mark.parametrize("returned", [7, None, "reply", otp.Continue(1)])
async def test_a_wrong_return_ends_the_server_and_names_the_callback(rt, returned):
    async def on_call(server, request, caller):
        return returned

    pid = await Scripted.start(call=on_call)
    with pytest.raises(
        otp.CallFailed, match=r"Scripted.handle_call returned .*, expected Reply, NoReply or Stop"
    ):
        await otp.call(pid, 1)


async def test_a_reply_where_nobody_asked_ends_the_server(rt):
    async def on_cast(server, request):
        return otp.Reply(1)

    pid = await Scripted.start(cast=on_cast)
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

    async def init(server):
        otp.trap_exit(True)

    async def parent():
        pids.append(await Scripted.start_link(init=init, ends=ends))
        await otp.receive()

    boss = rt.spawn(parent)
    await settle()
    otp.exit(boss, "bad")
    await settle()
    assert ends == ["bad"]
    assert not rt.alive(pids[0])


@pytest.mark.parametrize("trapping", [False, True])
async def test_kill_and_an_untrapped_signal_end_without_terminate(rt, trapping):
    async def init(server):
        otp.trap_exit(trapping)

    ends = []
    pid = await Scripted.start(init=init, ends=ends)
    otp.exit(pid, "kill" if trapping else "bad")
    assert await ended(pid) == ("killed" if trapping else "bad")
    assert not ends


async def test_other_exits_are_messages_to_a_trapping_server(rt):
    got = []

    async def init(server):
        otp.trap_exit(True)

    async def info(server, message):
        got.append(message)

    pid = await Scripted.start(init=init, info=info)
    stranger = []

    async def body():
        stranger.append(otp.self_pid())
        otp.exit(pid, "bad")

    rt.spawn(body)
    await settle()
    assert got == [otp.Exit(stranger[0], "bad")]


async def test_a_failing_terminate_replaces_the_reason(rt):
    async def terminate(server, reason):
        raise OSError("disc full")

    async def on_cast(server, request):
        return otp.Stop("normal")

    pid = await Scripted.start(cast=on_cast, terminate=terminate)
    otp.cast(pid, 1)
    assert crashed(await ended(pid), "OSError")


async def test_exit_process_in_a_callback_runs_terminate(rt):
    ends = []

    async def on_cast(server, request):
        raise otp.ExitProcess(("shutdown", "enough"))

    pid = await Scripted.start(cast=on_cast, ends=ends)
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

"""GenServer: what callbacks return, how a server starts and how it ends."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from gossamer.supervisor import (
    CallFailed,
    CallTimeout,
    Continue,
    Down,
    Exit,
    ExitProcess,
    GenServer,
    Ignore,
    NameTaken,
    NoReply,
    NotInProcess,
    Reply,
    StartFailed,
    Stop,
    StopInit,
    Timeout,
    call,
    cast,
    exit,  # noqa: A004
    guarded,
    monitor,
    receive,
    reply,
    self_pid,
    send,
    trap_exit,
    whereis,
)
from tests.supervisor.harness import Worker, crashed, settle, virtual


class Scripted(GenServer):
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


async def ended(pid):
    ref = monitor(pid)
    return (await receive(match=lambda m: isinstance(m, Down) and m.ref == ref)).reason


# Starting.


@virtual
async def test_start_comes_back_when_init_is_done(rt):
    async def init(server):
        await asyncio.sleep(3)

    pid = await Scripted.start(init=init, name="slow")
    assert rt.loop.time() == 3
    assert whereis("slow") == pid


@pytest.mark.parametrize("start", [Scripted.start, Scripted.start_link])
def test_a_start_outside_of_processes_names_what_was_to_start(start):
    with pytest.raises(NotInProcess, match=rf"^Scripted\.{start.__name__}\(\)"):
        asyncio.run(start())


@virtual
async def test_a_server_that_ignores_leaves_nothing(rt):
    async def init(server):
        raise Ignore

    trap_exit(True)
    with pytest.raises(Ignore):
        await Scripted.start_link(init=init, name="unwanted")
    assert whereis("unwanted") is None
    with pytest.raises(TimeoutError):
        await receive(timeout=1)


@pytest.mark.parametrize(
    ("error", "reason"),
    [(StopInit("no disc"), "no disc"), (ExitProcess("shutdown"), "shutdown"), (ValueError("odd"), None)],
)
@virtual
async def test_a_failed_init_is_told_once_and_frees_the_name_first(rt, error, reason):
    """No stray EXIT reaches a starter that traps exits, and terminate does not run."""
    names = []

    async def init(server):
        raise error

    trap_exit(True)
    ends = []
    with pytest.raises(StartFailed) as caught:
        try:
            await Scripted.start_link(init=init, name="server", ends=ends)
        finally:
            names.append(whereis("server"))
    assert caught.value.reason == reason if reason else crashed(caught.value.reason, "ValueError")
    assert names == [None]
    assert not ends
    with pytest.raises(TimeoutError):
        await receive(timeout=1)


@virtual
async def test_a_name_in_use_refuses_the_start(rt):
    await Worker.start(name="server")
    with pytest.raises(NameTaken):
        await Worker.start(name="server")


@virtual
async def test_init_may_not_return_nonsense(rt):
    async def init(server):
        return "ok"

    with pytest.raises(StartFailed, match="expected None or Continue"):
        await Scripted.start(init=init)


@virtual
async def test_a_dying_starter_takes_the_starting_server_along(rt):
    async def init(server):
        await asyncio.sleep(100)

    async def starter():
        await Scripted.start_link(init=init, name="half")

    pid = rt.spawn(starter)
    await settle()
    assert whereis("half") is not None
    exit(pid, "bad")
    await settle()
    assert whereis("half") is None


# Serving.


@virtual
async def test_calls_casts_and_messages_come_in_order(rt):
    pid = await Worker.start(1, 2)
    assert await call(pid, "args") == (1, 2)
    cast(pid, "a")
    send(pid, "b")
    assert await call(pid, "got") == [("cast", "a"), "b"]


@virtual
async def test_an_answer_may_come_later_from_anybody(rt):
    async def on_call(server, request, caller):
        rt.spawn(answerer, caller)
        return NoReply()

    async def answerer(caller):
        await asyncio.sleep(2)
        reply(caller, "later")
        reply(caller, "twice is dropped")

    pid = await Scripted.start(call=on_call)
    assert await call(pid, 1) == "later"


@virtual
async def test_continue_runs_before_queued_messages(rt):
    order = []

    async def init(server):
        send(self_pid(), "queued")
        return Continue("first")

    async def then(server, token):
        order.append(token)
        return NoReply(then=Continue("second")) if token == "first" else None

    async def info(server, message):
        order.append(message)

    async def on_call(server, request, caller):
        return Reply(list(order), then=Continue("after the reply"))

    pid = await Scripted.start(init=init, then=then, info=info, call=on_call)
    assert await call(pid, 1) == ["first", "second", "queued"]
    await settle()
    assert order[-1] == "after the reply"


@virtual
async def test_a_timeout_comes_when_no_message_does(rt):
    got = []

    async def info(server, message):
        got.append((rt.loop.time(), message))

    async def on_cast(server, request):
        return NoReply(timeout=request)

    pid = await Scripted.start(info=info, cast=on_cast)
    cast(pid, 5)
    await asyncio.sleep(4)
    send(pid, "in time")
    await asyncio.sleep(10)
    cast(pid, 2)
    await asyncio.sleep(10)
    assert got == [(4, "in time"), (16, Timeout())]


# Ending.


@virtual
async def test_stop_terminates_first_and_answers_then(rt):
    ends = []

    async def on_call(server, request, caller):
        return Stop("normal", reply=("bye", ends))

    async def terminate(server, reason):
        await asyncio.sleep(1)
        ends.append("done")

    pid = await Scripted.start(call=on_call, terminate=terminate, ends=ends)
    answer = await call(pid, 1)
    assert answer == ("bye", ["normal", "done"])
    await settle()
    assert not rt.alive(pid)


@pytest.mark.parametrize("reason", ["normal", "shutdown", ("shutdown", "x"), "bad"])
@virtual
async def test_only_disorderly_ends_are_reported(rt, reason):
    pid = await Worker.start()
    with capture_logs() as logs:
        assert await call(pid, ("stop", reason)) == "stopping"
        assert await ended(pid) in (reason, "noproc")
    assert [entry["event"] for entry in logs] == (["crash"] if reason == "bad" else [])


@virtual
async def test_an_exception_ends_the_server_and_its_caller_hears_why(rt):
    ends = []

    async def on_call(server, request, caller):
        raise ZeroDivisionError("oops")

    pid = await Scripted.start(call=on_call, ends=ends)
    with pytest.raises(CallFailed, match="ZeroDivisionError: oops") as caught:
        await call(pid, 1)
    assert crashed(caught.value.reason, "ZeroDivisionError")
    assert ends == [caught.value.reason]


@pytest.mark.parametrize("returned", [7, None, "reply", Continue(1)])
@virtual
async def test_a_wrong_return_ends_the_server_and_names_the_callback(rt, returned):
    async def on_call(server, request, caller):
        return returned

    pid = await Scripted.start(call=on_call)
    with pytest.raises(
        CallFailed, match=r"Scripted.handle_call returned .*, expected Reply, NoReply or Stop"
    ):
        await call(pid, 1)


@virtual
async def test_a_reply_where_nobody_asked_ends_the_server(rt):
    async def on_cast(server, request):
        return Reply(1)

    pid = await Scripted.start(cast=on_cast)
    cast(pid, 1)
    assert crashed(await ended(pid), "BadReturn")


@virtual
async def test_a_server_without_the_callback_says_so(rt):
    pid = await GenServer.start()
    with pytest.raises(CallFailed, match=r"has no handle_call\(\)"):
        await call(pid, 1)


@virtual
async def test_an_unexpected_message_is_logged_and_dropped(rt):
    pid = await GenServer.start()
    with capture_logs() as logs:
        send(pid, "surprise")
        await settle()
    assert rt.alive(pid)
    assert [entry["event"] for entry in logs] == ["unexpected_message"]


@virtual
async def test_the_parents_exit_terminates_a_trapping_server(rt):
    ends, pids = [], []

    async def init(server):
        trap_exit(True)

    async def parent():
        pids.append(await Scripted.start_link(init=init, ends=ends))
        await receive()

    boss = rt.spawn(parent)
    await settle()
    exit(boss, "bad")
    await settle()
    assert ends == ["bad"]
    assert not rt.alive(pids[0])


@virtual
async def test_an_untrapped_signal_ends_without_terminate(rt):
    ends = []
    pid = await Scripted.start(ends=ends)
    exit(pid, "bad")
    assert await ended(pid) == "bad"
    assert not ends


@virtual
async def test_other_exits_are_messages_to_a_trapping_server(rt):
    got = []

    async def init(server):
        trap_exit(True)

    async def info(server, message):
        got.append(message)

    pid = await Scripted.start(init=init, info=info)
    stranger = []

    async def body():
        stranger.append(self_pid())
        exit(pid, "bad")

    rt.spawn(body)
    await settle()
    assert got == [Exit(stranger[0], "bad")]


@virtual
async def test_a_failing_terminate_replaces_the_reason(rt):
    async def terminate(server, reason):
        raise OSError("disc full")

    async def on_cast(server, request):
        return Stop("normal")

    pid = await Scripted.start(cast=on_cast, terminate=terminate)
    cast(pid, 1)
    assert crashed(await ended(pid), "OSError")


@virtual
async def test_exit_process_in_a_callback_runs_terminate(rt):
    ends = []

    async def on_cast(server, request):
        raise ExitProcess(("shutdown", "enough"))

    pid = await Scripted.start(cast=on_cast, ends=ends)
    cast(pid, 1)
    assert await ended(pid) == ("shutdown", "enough")
    assert ends == [("shutdown", "enough")]


@virtual
async def test_a_handler_that_swallows_its_cancel_still_ends(rt):
    async def on_cast(server, request):
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            pass

    pid = await Scripted.start(cast=on_cast)
    cast(pid, 1)
    await settle()
    exit(pid, "shutdown")
    assert await ended(pid) == "shutdown"


@virtual
async def test_two_servers_that_call_each_other_time_out(rt):
    async def on_call(server, request, caller):
        return Reply(await call(request, self_pid(), timeout=2))

    one = await Scripted.start(call=on_call, label="One")
    two = await Scripted.start(call=on_call, label="Two")
    with pytest.raises(CallFailed) as caught:
        await call(one, two)
    assert caught.value.reason == ("timeout", ("call", str(two)))
    assert not isinstance(caught.value, CallTimeout)


@virtual
async def test_a_guarded_callback_that_raises_ends_the_server_through_terminate(rt):
    ends = []

    async def init(server):
        def callback():
            raise ValueError("in the loop's own turn")

        rt.loop.call_later(3, guarded(callback))

    pid = await Scripted.start(init=init, ends=ends)
    reason = await ended(pid)
    assert crashed(reason, "ValueError")
    assert ends == [reason]


@virtual
async def test_a_guarded_callback_runs_as_its_process_and_stops_with_it(rt):
    seen = []

    async def init(server):
        server.callback = guarded(lambda: seen.append(self_pid()))

    async def on_call(server, request, caller):
        return Reply(server.callback)

    pid = await Scripted.start(init=init, call=on_call)
    callback = await call(pid, 1)
    callback()
    assert seen == [pid]
    exit(pid, "kill")
    await ended(pid)
    callback()
    assert seen == [pid]

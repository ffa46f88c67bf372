"""Mistakes that everybody makes once: the error names the mistake and says what to write instead."""

from __future__ import annotations

import pytest

from gossamer.supervisor import (
    BadChildSpec,
    CallFailed,
    ChildSpec,
    DynamicSupervisor,
    GenServer,
    Keep,
    Next,
    NoReply,
    NotAsync,
    Reply,
    StartFailed,
    StateMachine,
    Supervisor,
    call,
    monitor,
    receive,
    spawn,
    spawn_link,
    trap_exit,
)
from tests.supervisor.harness import Worker, crashed, virtual


class Plain(GenServer):
    """Somebody forgot ``async``."""

    def handle_call(self, request, caller):
        return Reply(request)

    def handle_cast(self, request):
        return NoReply()

    def handle_info(self, message):
        return None


class PlainEnd(Worker):
    def terminate(self, reason):
        return None


class PlainInit(GenServer):
    def init(self):
        self.ready = True


class PlainMachine(StateMachine):
    async def init(self):
        return Next("idle")

    def handle_event(self, event, state):
        return Keep()


class Delegates(GenServer):
    """A plain function that gives back something to await is no mistake."""

    def handle_call(self, request, caller):
        return self.serve(request)

    async def serve(self, request):
        return Reply(request * 2)


@virtual
async def test_a_callback_that_is_no_async_def_is_named(rt):
    pid = await Plain.start()
    with pytest.raises(
        CallFailed, match=r"NotAsync: Plain\.handle_call gave back Reply.*`async def handle_call`"
    ):
        await call(pid, "hello")


@pytest.mark.parametrize(("kind", "message"), [("handle_cast", 1), ("handle_info", 2)])
@virtual
async def test_so_are_those_that_nobody_waits_for(rt, kind, message):
    pid = await Plain.start()
    monitor(pid)
    (rt.cast if kind == "handle_cast" else rt.send)(pid, message)
    reason = (await receive()).reason
    assert crashed(reason, "NotAsync")
    assert f"`async def {kind}`" in reason.message


@virtual
async def test_so_is_terminate(rt):
    pid = await PlainEnd.start()
    with pytest.raises(CallFailed, match="`async def terminate`"):
        await call(pid, ("stop", "over"))


@virtual
async def test_an_init_that_is_no_async_def_is_named_to_who_starts_it(rt):
    with pytest.raises(StartFailed, match=r"PlainInit\.init gave back NoneType.*`async def init`"):
        await PlainInit.start()


@virtual
async def test_so_is_the_callback_of_a_state_machine(rt):
    pid = await PlainMachine.start()
    with pytest.raises(CallFailed, match="`async def handle_event`"):
        await call(pid, 1)


@virtual
async def test_a_callback_that_comes_from_a_mixin_is_found_too(rt):
    class Mixin:
        def handle_call(self, request, caller):
            return Reply(1)

    class Mixed(Mixin, GenServer):
        pass

    with pytest.raises(CallFailed, match="`async def handle_call`"):
        await call(await Mixed.start(), 1)


@virtual
async def test_a_plain_function_that_returns_an_awaitable_serves(rt):
    assert await call(await Delegates.start(), 21) == 42


@virtual
async def test_a_body_that_is_no_async_def_is_named(rt):
    def body():
        return 1

    monitor(spawn(body))
    reason = (await receive()).reason
    assert crashed(reason, "NotAsync")
    assert "`async def body`" in reason.message
    with pytest.raises(NotAsync, match="`async def body`"):
        await rt.run(body)


@pytest.mark.parametrize("how", [spawn, spawn_link])
@virtual
async def test_an_actor_class_as_a_body_is_told_from_its_start_function(rt, how):
    trap_exit(True)
    pid = how(Worker)
    monitor(pid)
    down = await receive(match=lambda message: hasattr(message, "ref"))
    assert "it is an actor class: pass `Worker.start_link`" in down.reason.message


def test_an_actor_class_in_a_child_specification_is_told_from_its_start_function():
    with pytest.raises(BadChildSpec, match=r"pass `Worker\.start_link`"):
        ChildSpec("worker", Worker)


@virtual
async def test_an_actor_class_instead_of_a_child_specification_is_too(rt):
    expected = r"pass `ChildSpec\('id', Worker\.start_link\)`"
    sup = await Supervisor.start_link([], name="sup")
    dynamic = await DynamicSupervisor.start_link()
    with pytest.raises(StartFailed, match=expected):
        await Supervisor.start_link([Worker])
    with pytest.raises(BadChildSpec, match=expected):
        await Supervisor.start_child(sup, Worker)
    with pytest.raises(BadChildSpec, match=expected):
        await DynamicSupervisor.start_child(dynamic, Worker)


def test_a_call_instead_of_the_function_is_told():
    with pytest.raises(BadChildSpec, match=r"pass `partial\(start, …\)` instead of `start\(…\)`"):
        ChildSpec("worker", Worker.start_link(1))


@virtual
async def test_a_start_function_that_is_no_async_def_is_named(rt):
    def start_worker():
        return spawn(receive)

    with pytest.raises(StartFailed, match="`async def start_worker`"):
        await Supervisor.start_link([ChildSpec("worker", start_worker)])


@virtual
async def test_a_named_behaviour_starts_with_what_init_takes(rt):
    pid = await Worker.named("here", label="a label").start_link(1, option=2)
    assert await call("here", "args") == (1,)
    assert (rt.table[pid].name, rt.table[pid].label) == ("here", "a label")
    other = await Worker.named().start(3)
    assert (rt.table[other].name, await call(other, "args")) == (None, (3,))

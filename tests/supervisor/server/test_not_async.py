"""Mistakes that everybody makes once: the error names the mistake and says what to write instead."""

from __future__ import annotations

from functools import partial

import pytest

import gossamer.supervisor as otp
from gossamer.errors import UsageError
from tests.supervisor.harness import Worker, crashed, ended


class Plain(otp.GenServer):
    """Somebody forgot ``async``."""

    def handle_call(self, request, caller):
        return otp.Reply(request)

    def handle_cast(self, request):
        return otp.NoReply()

    def handle_info(self, message):
        return None


class PlainEnd(Worker):
    def terminate(self, reason):
        return None


class PlainInit(otp.GenServer):
    def init(self):
        self.ready = True


class PlainMachine(otp.StateMachine):
    async def init(self):
        return otp.Next("idle")

    def handle_event(self, event, state):
        return otp.Keep()


class Mixin:
    def handle_call(self, request, caller):
        return otp.Reply(1)


class Mixed(Mixin, otp.GenServer):
    pass


class Delegates(otp.GenServer):
    """A plain function that gives back something to await is no mistake."""

    def handle_call(self, request, caller):
        return self.serve(request)

    async def serve(self, request):
        return otp.Reply(request * 2)


@pytest.mark.parametrize(
    ("kind", "request_", "said"),
    [
        (Plain, "hello", r"NotAsync: Plain\.handle_call gave back Reply.*`async def handle_call`"),
        (Mixed, 1, "`async def handle_call`"),
        (PlainEnd, ("stop", "over"), "`async def terminate`"),
        (PlainMachine, 1, "`async def handle_event`"),
    ],
)
async def test_a_callback_that_is_no_async_def_is_named(rt, kind, request_, said):
    pid = await kind.start()
    with pytest.raises(otp.CallFailed, match=said):
        await otp.call(pid, request_)


@pytest.mark.parametrize(("tell", "callback"), [(otp.cast, "handle_cast"), (otp.send, "handle_info")])
async def test_so_are_those_that_nobody_waits_for(rt, tell, callback):
    pid = await Plain.start()
    tell(pid, 1)
    reason = await ended(pid)
    assert crashed(reason, "NotAsync")
    assert f"`async def {callback}`" in reason.message


async def test_an_init_that_is_no_async_def_is_named_to_who_starts_it(rt):
    with pytest.raises(otp.StartFailed, match=r"PlainInit\.init gave back NoneType.*`async def init`"):
        await PlainInit.start()


async def test_a_plain_function_that_returns_an_awaitable_serves(rt):
    assert await otp.call(await Delegates.start(), 21) == 42


async def test_a_body_that_is_no_async_def_is_named(rt):
    def body():
        return 1

    reason = await ended(otp.spawn(body))
    assert crashed(reason, "NotAsync")
    assert "`async def body`" in reason.message
    with pytest.raises(otp.NotAsync, match="`async def body`"):
        await rt.run(body)


async def test_an_actor_class_as_a_body_is_told_from_its_start_function(rt):
    reason = await ended(otp.spawn(Worker))
    assert "it is an actor class: pass `Worker.start_link`" in reason.message


def test_an_actor_class_in_a_child_specification_is_told_from_its_start_function():
    with pytest.raises(otp.BadChildSpec, match=r"pass `Worker\.start_link`"):
        otp.ChildSpec("worker", Worker)


async def test_an_actor_class_instead_of_a_child_specification_is_too(rt):
    expected = r"pass `ChildSpec\('id', Worker\.start_link\)`"
    sup = await otp.Supervisor.start_link([], name="sup")
    dynamic = await otp.DynamicSupervisor.start_link()
    with pytest.raises(otp.StartFailed, match=expected):
        await otp.Supervisor.start_link([Worker])
    with pytest.raises(otp.BadChildSpec, match=expected):
        await otp.Supervisor.start_child(sup, Worker)
    with pytest.raises(otp.BadChildSpec, match=expected):
        await otp.DynamicSupervisor.start_child(dynamic, Worker)


def test_a_call_instead_of_the_function_is_told():
    with pytest.raises(otp.BadChildSpec, match=r"pass `partial\(start, …\)` instead of `start\(…\)`"):
        otp.ChildSpec("worker", Worker.start_link(1))


@pytest.mark.parametrize("start", [Worker.start, partial(Worker.start, 1), Worker.named("worker").start])
def test_a_start_function_that_links_nothing_is_refused_since_no_end_of_it_would_be_seen(start):
    with pytest.raises(otp.BadChildSpec, match="pass `start_link` instead of `start`"):
        otp.ChildSpec("worker", start)


@pytest.mark.parametrize("given", [Worker.start_link, Worker()])
async def test_a_runtime_starts_an_actor_class_and_nothing_else(given, rt):
    with pytest.raises(UsageError, match="expected an actor class"):
        await rt.start(given)


async def test_a_start_function_that_is_no_async_def_is_named(rt):
    def start_worker():
        return otp.spawn(otp.receive)

    with pytest.raises(otp.StartFailed, match="`async def start_worker`"):
        await otp.Supervisor.start_link([otp.ChildSpec("worker", start_worker)])


async def test_a_named_behaviour_starts_with_what_init_takes(rt):
    pid = await Worker.named("here", label="a label").start_link(1, option=2)
    assert await otp.call("here", "args") == (1,)
    assert (rt.table[pid].name, rt.table[pid].label) == ("here", "a label")
    other = await Worker.named().start(3)
    assert (rt.table[other].name, await otp.call(other, "args")) == (None, (3,))

"""StateMachine: postponing, events put in front, and the three timeouts."""

from __future__ import annotations

import asyncio

import pytest

from gossamer.supervisor import (
    CallEvent,
    CallFailed,
    Cast,
    Down,
    Enter,
    EventTimeout,
    Exit,
    Info,
    Internal,
    Keep,
    NamedTimeout,
    Next,
    StartFailed,
    StateMachine,
    StateTimeout,
    Stop,
    call,
    cast,
    exit,  # noqa: A004
    get_state,
    monitor,
    receive,
    resume,
    send,
    suspend,
    trap_exit,
)
from tests.supervisor.harness import crashed, settle, virtual


class Scripted(StateMachine):
    """Asks a function for every event, and remembers what came in which state."""

    async def init(self, first, script, log, ends=None):
        self.script, self.log, self.ends = script, log, ends if ends is not None else []
        return first

    async def handle_event(self, event, state):
        self.log.append((event, state))
        return self.script(event, state)

    async def terminate(self, reason):
        self.ends.append(reason)


class Entering(Scripted):
    state_enter = True


class Door(StateMachine):
    """Locked by a code; opens for ten seconds."""

    async def init(self, code):
        self.code, self.typed = code, ""
        return Next("locked")

    async def handle_event(self, event, state):
        match event, state:
            case Cast(digit), "locked":
                self.typed += digit
                if self.typed == self.code:
                    self.typed = ""
                    return Next("open", state_timeout=10.0)
                return Keep(timeouts={"forget": 5.0})
            case NamedTimeout("forget"), "locked":
                self.typed = ""
                return Keep()
            case StateTimeout(), "open":
                return Next("locked")
            case CallEvent("state"), _:
                return Keep(reply=state)
            case CallEvent("enter"), "open":
                return Keep(reply="inside")
            case CallEvent("enter"), "locked":
                return Keep(postpone=True)
        return None


@virtual
async def test_a_door(rt):
    door = await Door.start("12")
    waiting = rt.spawn(lambda: call(door, "enter", timeout=None))
    done = rt.join(waiting)
    cast(door, "1")
    await asyncio.sleep(6)
    cast(door, "2")
    assert await call(door, "state") == "locked"
    for digit in "12":
        await asyncio.sleep(6)
        cast(door, digit)
    assert await call(door, "state") == "locked"
    await asyncio.sleep(6)
    for digit in "12":
        cast(door, digit)
    assert await call(door, "state") == "open"
    assert await done == "normal"
    await asyncio.sleep(10)
    assert await call(door, "state") == "locked"


@virtual
async def test_postponed_events_come_back_in_order_when_the_state_changes(rt):
    log = []

    def script(event, state):
        if state == "closed":
            return Next("open") if event == Cast("open") else Keep(postpone=True)
        return None

    pid = await Scripted.start(Next("closed"), script, log)
    for word in ("a", "b", "open", "c"):
        cast(pid, word)
    await settle()
    assert [(e.request, s) for e, s in log] == [
        ("a", "closed"),
        ("b", "closed"),
        ("open", "closed"),
        ("a", "open"),
        ("b", "open"),
        ("c", "open"),
    ]


@virtual
async def test_the_same_state_again_brings_nothing_back(rt):
    log = []
    script = lambda event, state: Keep(postpone=True) if event == Cast("later") else Next("same")  # noqa: E731
    pid = await Scripted.start(Next("same"), script, log)
    cast(pid, "later")
    cast(pid, "x")
    await settle()
    assert len(log) == 2


@virtual
async def test_events_put_in_front_come_before_postponed_and_queued_ones(rt):
    log = []

    def script(event, state):
        if event == Cast("postpone me") and state == 1:
            return Keep(postpone=True)
        if event == Cast("go"):
            return Next(2, events=(Internal("x"), Internal("y")))
        return None

    pid = await Scripted.start(Next(1), script, log)
    for word in ("postpone me", "go", "queued"):
        cast(pid, word)
    await settle()
    assert [event for event, _ in log][2:] == [
        Internal("x"),
        Internal("y"),
        Cast("postpone me"),
        Cast("queued"),
    ]


@virtual
async def test_any_event_cancels_the_event_timeout(rt):
    log = []
    script = lambda event, state: Keep(event_timeout=5.0) if event == Cast("start") else None  # noqa: E731
    pid = await Scripted.start(Next("s"), script, log)
    cast(pid, "start")
    await asyncio.sleep(4)
    send(pid, "disturb")
    await asyncio.sleep(10)
    cast(pid, "start")
    await asyncio.sleep(6)
    assert [event for event, _ in log] == [Cast("start"), Info("disturb"), Cast("start"), EventTimeout()]


@virtual
async def test_the_state_timeout_ends_with_its_state(rt):
    log = []

    def script(event, state):
        match event:
            case Cast(("go", where)):
                return Next(where, state_timeout=5.0)
            case Cast("leave"):
                return Next("elsewhere")
        return None

    pid = await Scripted.start(Next("s", state_timeout=3.0), script, log)
    await asyncio.sleep(4)
    cast(pid, ("go", "t"))
    await asyncio.sleep(4)
    send(pid, "does not matter")
    cast(pid, ("go", "t"))
    await asyncio.sleep(4)
    cast(pid, "leave")
    await asyncio.sleep(10)
    assert [s for e, s in log if e == StateTimeout()] == ["s"]


@virtual
async def test_named_timeouts_survive_changes_and_can_be_cancelled(rt):
    log = []

    def script(event, state):
        if event == Cast("start"):
            return Next("running", timeouts={"a": 5.0, "b": 6.0})
        if event == Cast("cancel b"):
            return Next("other", timeouts={"b": None})
        return None

    pid = await Scripted.start(Next("idle"), script, log)
    cast(pid, "start")
    cast(pid, "cancel b")
    await asyncio.sleep(10)
    assert [e for e, _ in log][2:] == [NamedTimeout("a")]


@virtual
async def test_a_fired_but_cancelled_timeout_never_comes(rt):
    """The timer fires while the machine is busy with the event that cancels it."""
    log = []

    def script(event, state):
        if event == Cast("start"):
            return Keep(state_timeout=1.0)
        if event == Cast("move"):
            return Next("moved")
        return None

    pid = await Scripted.start(Next("s"), script, log)
    cast(pid, "start")
    await settle()
    await suspend(pid)
    cast(pid, "move")
    await asyncio.sleep(2)
    await resume(pid)
    await settle()
    assert [e for e, _ in log] == [Cast("start"), Cast("move")]


@virtual
async def test_enter_events_come_first(rt):
    log = []
    script = lambda event, state: Next("b") if event == Cast("go") else None  # noqa: E731
    pid = await Entering.start(Next("a", events=(Internal(1),)), script, log)
    cast(pid, "go")
    await settle()
    assert log == [
        (Enter(None), "a"),
        (Internal(1), "a"),
        (Cast("go"), "a"),
        (Enter("a"), "b"),
    ]


@virtual
async def test_stop_terminates_and_answers(rt):
    ends = []
    pid = await Scripted.start(Next(1), lambda e, s: Stop("shutdown", reply="bye"), [], ends)
    assert await call(pid, "end") == "bye"
    assert ends == ["shutdown"]
    await settle()
    assert not rt.alive(pid)


@pytest.mark.parametrize("returned", [5, "open"])
@virtual
async def test_a_wrong_return_ends_the_machine(rt, returned):
    pid = await Scripted.start(Next(1), lambda e, s: returned, [])
    with pytest.raises(CallFailed, match="expected Next, Keep, Stop or None"):
        await call(pid, 1)
    pid = await Scripted.start(Next(1), lambda e, s: Keep(reply=1), [])
    ref = monitor(pid)
    cast(pid, 1)
    down = await receive()
    assert isinstance(down, Down)
    assert down.ref == ref
    assert crashed(down.reason, "BadReturn")
    with pytest.raises(StartFailed, match="expected Next"):
        await Scripted.start(Keep(), None, [])


@virtual
async def test_the_parents_exit_and_the_state_for_inspection(rt):
    ends = []

    class Trapping(Scripted):
        async def init(self, *args):
            trap_exit(True)
            return await super().init(*args)

    trap_exit(True)
    pid = await Trapping.start_link(Next("s"), lambda e, s: None, [], ends)
    assert (await get_state(pid))["state"] == "s"
    exit(pid, "shutdown")
    assert await receive() == Exit(pid, "shutdown")
    assert ends == ["shutdown"]

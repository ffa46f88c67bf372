"""StateMachine: postponing, events put in front, and the three timeouts."""

from __future__ import annotations

import asyncio

import pytest

import gossamer.supervisor as otp
from tests.supervisor.harness import crashed, settle


class Scripted(otp.StateMachine):
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


async def scripted(first, answers, kind=Scripted):
    """A machine that answers events as the table says, by event and state or by event alone; and its log."""
    log = []

    def script(event, state):
        return answers.get((_word(event), state), answers.get(_word(event)))

    return await kind.start(first, script, log), log


def _word(event):
    return event.request if isinstance(event, otp.Cast) else None


def tell(pid, *words):
    for word in words:
        otp.cast(pid, word)


class Door(otp.StateMachine):
    """Locked by a code; opens for ten seconds."""

    async def init(self, code):
        self.code, self.typed = code, ""
        return otp.Next("locked")

    async def handle_event(self, event, state):
        match event, state:
            case otp.Cast(digit), "locked":
                self.typed += digit
                if self.typed == self.code:
                    self.typed = ""
                    return otp.Next("open", state_timeout=10.0)
                return otp.Keep(timeouts={"forget": 5.0})
            case otp.NamedTimeout("forget"), "locked":
                self.typed = ""
                return otp.Keep()
            case otp.StateTimeout(), "open":
                return otp.Next("locked")
            case otp.CallEvent("state"), _:
                return otp.Keep(reply=state)
            case otp.CallEvent("enter"), "open":
                return otp.Keep(reply="inside")
            case otp.CallEvent("enter"), "locked":
                return otp.Keep(postpone=True)
        return None


async def test_a_door(rt):
    door = await Door.start("12")
    waiting = rt.spawn(lambda: otp.call(door, "enter", timeout=None))
    done = rt.join(waiting)
    otp.cast(door, "1")
    await asyncio.sleep(6)
    otp.cast(door, "2")
    assert await otp.call(door, "state") == "locked"
    for digit in "12":
        await asyncio.sleep(6)
        otp.cast(door, digit)
    assert await otp.call(door, "state") == "locked"
    await asyncio.sleep(6)
    for digit in "12":
        otp.cast(door, digit)
    assert await otp.call(door, "state") == "open"
    assert await done == "normal"
    await asyncio.sleep(10)
    assert await otp.call(door, "state") == "locked"


async def test_postponed_events_come_back_in_order_when_the_state_changes(rt):
    later = otp.Keep(postpone=True)
    answers = {("a", "closed"): later, ("b", "closed"): later, ("open", "closed"): otp.Next("open")}
    pid, log = await scripted(otp.Next("closed"), answers)
    tell(pid, "a", "b", "open", "c")
    await settle()
    seen = [f"{event.request} {state}" for event, state in log]
    assert seen == ["a closed", "b closed", "open closed", "a open", "b open", "c open"]


async def test_the_same_state_again_brings_nothing_back(rt):
    answers = {"later": otp.Keep(postpone=True), "x": otp.Next("same")}
    pid, log = await scripted(otp.Next("same"), answers)
    tell(pid, "later", "x")
    await settle()
    assert len(log) == 2


async def test_events_put_in_front_come_before_postponed_and_queued_ones(rt):
    go = otp.Next(2, events=(otp.Internal("x"), otp.Internal("y")))
    pid, log = await scripted(otp.Next(1), {("postpone me", 1): otp.Keep(postpone=True), "go": go})
    tell(pid, "postpone me", "go", "queued")
    await settle()
    assert [event for event, _ in log][2:] == [
        otp.Internal("x"),
        otp.Internal("y"),
        otp.Cast("postpone me"),
        otp.Cast("queued"),
    ]


async def test_any_event_cancels_the_event_timeout(rt):
    pid, log = await scripted(otp.Next("s"), {"start": otp.Keep(event_timeout=5.0)})
    otp.cast(pid, "start")
    await asyncio.sleep(4)
    otp.send(pid, "disturb")
    await asyncio.sleep(10)
    otp.cast(pid, "start")
    await asyncio.sleep(6)
    assert [event for event, _ in log] == [
        otp.Cast("start"),
        otp.Info("disturb"),
        otp.Cast("start"),
        otp.EventTimeout(),
    ]


async def test_the_state_timeout_ends_with_its_state(rt):
    answers = {"go": otp.Next("t", state_timeout=5.0), "leave": otp.Next("elsewhere")}
    pid, log = await scripted(otp.Next("s", state_timeout=3.0), answers)
    await asyncio.sleep(4)
    otp.cast(pid, "go")
    await asyncio.sleep(4)
    otp.send(pid, "does not matter")
    otp.cast(pid, "go")
    await asyncio.sleep(4)
    otp.cast(pid, "leave")
    await asyncio.sleep(10)
    assert [s for e, s in log if e == otp.StateTimeout()] == ["s"]


async def test_named_timeouts_survive_changes_and_can_be_cancelled(rt):
    answers = {
        "start": otp.Next("running", timeouts={"a": 5.0, "b": 6.0}),
        "cancel b": otp.Next("other", timeouts={"b": None}),
    }
    pid, log = await scripted(otp.Next("idle"), answers)
    tell(pid, "start", "cancel b")
    await asyncio.sleep(10)
    assert [e for e, _ in log][2:] == [otp.NamedTimeout("a")]


async def test_a_fired_but_cancelled_timeout_never_comes(rt):
    """The timer fires while the machine is busy with the event that cancels it."""
    answers = {"start": otp.Keep(state_timeout=1.0), "move": otp.Next("moved")}
    pid, log = await scripted(otp.Next("s"), answers)
    otp.cast(pid, "start")
    await settle()
    await otp.suspend(pid)
    otp.cast(pid, "move")
    await asyncio.sleep(2)
    await otp.resume(pid)
    await settle()
    assert [e for e, _ in log] == [otp.Cast("start"), otp.Cast("move")]


async def test_enter_events_come_first(rt):
    pid, log = await scripted(otp.Next("a", events=(otp.Internal(1),)), {"go": otp.Next("b")}, Entering)
    otp.cast(pid, "go")
    await settle()
    assert log == [
        (otp.Enter(None), "a"),
        (otp.Internal(1), "a"),
        (otp.Cast("go"), "a"),
        (otp.Enter("a"), "b"),
    ]


async def test_stop_terminates_and_answers(rt):
    ends = []
    pid = await Scripted.start(otp.Next(1), lambda e, s: otp.Stop("shutdown", reply="bye"), [], ends)
    assert await otp.call(pid, "end") == "bye"
    assert ends == ["shutdown"]
    await settle()
    assert not rt.alive(pid)


@pytest.mark.parametrize("returned", [5, "open"])
async def test_a_wrong_return_ends_the_machine(rt, returned):
    pid = await Scripted.start(otp.Next(1), lambda e, s: returned, [])
    with pytest.raises(otp.CallFailed, match="expected Next, Keep, Stop or None"):
        await otp.call(pid, 1)
    pid = await Scripted.start(otp.Next(1), lambda e, s: otp.Keep(reply=1), [])
    ref = otp.monitor(pid)
    otp.cast(pid, 1)
    down = await otp.receive()
    assert isinstance(down, otp.Down)
    assert down.ref == ref
    assert crashed(down.reason, "BadReturn")
    with pytest.raises(otp.StartFailed, match="expected Next"):
        await Scripted.start(otp.Keep(), None, [])


async def test_the_parents_exit_and_the_state_for_inspection(rt):
    ends = []

    class Trapping(Scripted):
        async def init(self, *args):
            otp.trap_exit(True)
            return await super().init(*args)

    otp.trap_exit(True)
    pid = await Trapping.start_link(otp.Next("s"), lambda e, s: None, [], ends)
    assert (await otp.get_state(pid))["state"] == "s"
    otp.exit(pid, "shutdown")
    assert await otp.receive() == otp.Exit(pid, "shutdown")
    assert ends == ["shutdown"]

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


LATER = otp.Keep(postpone=True)
CASES = {
    "postponed events come back in order when the state changes": (
        otp.Next("closed"),
        {"a closed": LATER, "b closed": LATER, "open closed": otp.Next("open")},
        "a b open c",
        "a closed, b closed, open closed, a open, b open, c open",
    ),
    "the same state again brings nothing back": (
        otp.Next("same"),
        {"later same": LATER, "x same": otp.Next("same")},
        "later x",
        "later same, x same",
    ),
    "events put in front come before postponed and queued ones": (
        otp.Next("1"),
        {"later 1": LATER, "go 1": otp.Next("2", events=(otp.Internal("x"), otp.Internal("y")))},
        "later go queued",
        "later 1, go 1, x 2, y 2, later 2, queued 2",
    ),
    "any event cancels the event timeout": (
        otp.Next("s"),
        {"start s": otp.Keep(event_timeout=5.0)},
        "start 4 !disturb 10 start 6",
        "start s, disturb s, start s, EventTimeout s",
    ),
    "the state timeout ends with its state": (
        otp.Next("s", state_timeout=3.0),
        {"go s": otp.Next("t", state_timeout=5.0), "leave t": otp.Next("elsewhere")},
        "4 go 4 !whatever 0 leave 10",
        "StateTimeout s, go s, whatever t, leave t",
    ),
    "the state timeout outlives what does not change the state": (
        otp.Next("s", state_timeout=3.0),
        {},
        "2 !whatever 2",
        "whatever s, StateTimeout s",
    ),
    "named timeouts survive changes and can be cancelled": (
        otp.Next("idle"),
        {
            "start idle": otp.Next("running", timeouts={"a": 5.0, "b": 6.0}),
            "cancel running": otp.Next("other", timeouts={"b": None}),
        },
        "start cancel 10",
        "start idle, cancel running, NamedTimeout(a) other",
    ),
    "enter events come first": (
        otp.Next("a", events=(otp.Internal("inside"),)),
        {"go a": otp.Next("b")},
        "go",
        "Enter(None) a, inside a, go a, Enter(a) b",
    ),
}


@pytest.mark.parametrize("case", CASES)
async def test_the_order_of_events(rt, case):
    """A machine is told words (``!``: plain messages), left alone for seconds, and sees these events."""
    first, answers, told, expected = CASES[case]
    log = []
    kind = type("Machine", (Scripted,), {"state_enter": "Enter" in expected})
    pid = await kind.start(first, lambda event, state: answers.get(f"{_word(event)} {state}"), log)
    for word in told.split():
        if word.isdigit():
            await asyncio.sleep(int(word))
        elif word.startswith("!"):
            otp.send(pid, word[1:])
        else:
            otp.cast(pid, word)
    await settle()
    assert ", ".join(f"{_word(event)} {state}" for event, state in log) == expected


def _word(event):
    match event:
        case otp.Cast(word) | otp.Info(word) | otp.Internal(word):
            return word
        case otp.Enter(of) | otp.NamedTimeout(of):
            return f"{type(event).__name__}({of})"
    return type(event).__name__


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


async def test_a_fired_but_cancelled_timeout_never_comes(rt):
    """The timer fires while the machine is busy with the event that cancels it."""
    answers = {"start": otp.Keep(state_timeout=1.0), "move": otp.Next("moved")}
    log = []
    pid = await Scripted.start(otp.Next("s"), lambda event, state: answers.get(_word(event)), log)
    otp.cast(pid, "start")
    await settle()
    await otp.suspend(pid)
    otp.cast(pid, "move")
    await asyncio.sleep(2)
    await otp.resume(pid)
    await settle()
    assert [e for e, _ in log] == [otp.Cast("start"), otp.Cast("move")]


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

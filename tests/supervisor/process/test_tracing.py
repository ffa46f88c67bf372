"""Tracing: everything a process takes in and sends out, shortened, without secrets, and bounded."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import pytest
from msgspec import Struct

import gossamer.supervisor as otp
from gossamer.supervisor.process.tracing import BACKLOG, TRACES
from tests.supervisor.harness import Worker, settle


class Busy(otp.GenServer):
    """Uses everything a process can."""

    async def init(self, other: otp.Pid) -> None:
        otp.trap_exit(True)
        self.other = other

    async def handle_call(self, request: Any, caller: Any) -> otp.Reply | otp.NoReply:
        if request == "later":
            self.caller = caller
            return otp.NoReply()
        return otp.Reply(await otp.call(self.other, ("echo", request)))

    async def handle_cast(self, request: Any) -> None:
        other = self.other
        match request:
            case "tell":
                otp.send(other, "hello")
                otp.cast(other, "there")
            case "tie":
                otp.link(other)
                otp.unlink(other)
                otp.demonitor(otp.monitor(other))
            case "spawn":
                otp.exit(otp.spawn(asyncio.sleep, 9, label="child"), "enough")
            case "answer":
                otp.reply(self.caller, "at last")
            case "ask nobody":
                try:
                    await otp.call("nobody", "?")
                except otp.CallFailed:
                    pass

    async def handle_info(self, message: Any) -> None:
        pass


async def traced(rt: Any, *options: Any) -> tuple[otp.Pid, otp.Pid, list[tuple[str, Any]]]:
    other = await Worker.start()
    pid = await Busy.start(other)
    return pid, other, tapped(pid)


def tapped(pid: otp.Pid) -> list[tuple[str, Any]]:
    """What is seen of a process from now on."""
    seen: list[tuple[str, Any]] = []
    otp.trace(pid, lambda event, about: seen.append((event, about)))
    return seen


async def test_a_late_answer_is_seen_when_it_is_given(rt):
    pid, _, seen = await traced(rt)
    asked = asyncio.ensure_future(otp.call(pid, "later"))
    await settle()
    otp.cast(pid, "answer")
    assert await asked == "at last"
    assert seen[-1] == ("reply", otp.Sent(otp.self_pid(), "at last"))


async def test_a_call_that_fails_is_seen_with_the_reason(rt):
    pid, _, seen = await traced(rt)
    otp.cast(pid, "ask nobody")
    await settle()
    assert seen[1:] == [("call", otp.Sent("nobody", "?")), ("failure", otp.Sent("nobody", "noproc"))]


async def test_messages_ties_children_and_exits_are_seen(rt):
    pid, other, seen = await traced(rt)
    for order in ("tell", "tie", "spawn"):
        otp.cast(pid, order)
    await settle()
    out = [(event, about) for event, about in seen if event != "receive"]
    child = out[6][1].to
    assert [event for event, _ in out] == [
        *("send", "send", "link", "unlink", "monitor", "demonitor", "spawn", "exit"),
    ]
    assert out[0][1] == otp.Sent(other, "hello")
    assert out[1][1].message.request == "there"
    assert out[6:] == [("spawn", otp.Sent(child, "child")), ("exit", otp.Sent(child, "enough"))]


async def test_signals_and_the_end_are_seen_and_the_end_takes_the_taps_off(rt):
    pid, _, seen = await traced(rt)
    otp.exit(pid, "trapped")
    otp.exit(pid, "kill")
    await settle()
    assert [event for event, _ in seen] == ["signal", "signal", "end"]
    assert seen[0][1].reason == "trapped"
    assert seen[-1] == ("end", "killed")
    assert rt.traced == 0
    assert rt.reach is rt.table


async def test_a_port_is_traced_like_a_process(rt):
    port = otp.Port()
    pid = port.open()
    seen = tapped(pid)
    otp.send(pid, 1)
    otp.exit(pid, "over")
    assert [event for event, _ in seen] == ["receive", "signal", "end"]


async def test_messages_of_timers_are_seen(rt):
    async def body() -> None:
        otp.send_after(1, me, "tick")
        await otp.receive()

    me = otp.self_pid()
    pid = otp.spawn(body)
    seen = tapped(pid)
    assert await otp.receive() == "tick"
    assert seen == [("send", otp.Sent(me, "tick"))]
    otp.exit(pid, "kill")


async def test_a_tap_that_raises_is_taken_off_and_the_process_lives(rt):
    pid, _, seen = await traced(rt)
    otp.trace(pid, lambda event, about: 1 / 0)
    assert await otp.call(pid, 1) == 1
    assert await otp.call(pid, 2) == 2
    assert len(seen) == 8


async def test_two_traces_of_one_process_end_each_by_itself(rt):
    pid, _, seen = await traced(rt)
    async with aclosing(otp.follow(rt, pid, now=rt.loop.time)) as lines:
        assert (await anext(lines)).event == "tracing"
        assert await otp.call(pid, 1) == 1
        assert (await anext(lines)).event == "call"
    assert await otp.call(pid, 2) == 2
    assert len(seen) == 8
    otp.trace(pid, None)
    assert rt.traced == 0


async def test_lines_say_who_and_what_in_order(rt):
    pid, other, _ = await traced(rt)
    async with aclosing(otp.follow(rt, pid, now=rt.loop.time)) as lines:
        first = await anext(lines)
        assert (first.peer, first.text) == (str(pid), "Busy")
        await otp.call(pid, 7)
        otp.exit(pid, "kill")
        got = [line async for line in lines]
    me = str(otp.self_pid())
    assert [(line.event, line.way, line.peer, line.text) for line in got] == [
        ("call", "in", me, "7"),
        ("call", "out", str(other), "('echo', 7)"),
        ("answer", "in", str(other), "7"),
        ("reply", "out", me, "7"),
        ("exit", "in", me, "kill"),
        ("end", "", "", "killed"),
    ]


async def test_a_trace_ends_after_its_time_and_after_its_lines(rt):
    pid, _, _ = await traced(rt)
    lines = [line async for line in otp.follow(rt, pid, now=rt.loop.time, seconds=3) if line]
    assert [line.event for line in lines] == ["tracing", "over"]
    async with aclosing(otp.follow(rt, pid, now=rt.loop.time, limit=2)) as stream:
        await anext(stream)
        await otp.call(pid, 1)
        assert [line.event async for line in stream] == ["call", "call", "over"]
    assert rt.alive(pid)


async def test_a_quiet_trace_gives_a_sign_of_life(rt):
    pid, _, _ = await traced(rt)
    async with aclosing(otp.follow(rt, pid, now=rt.loop.time, seconds=5, pulse=2)) as lines:
        assert [line and line.event async for line in lines] == ["tracing", None, None, None, "over"]


async def test_what_comes_faster_than_it_is_read_is_counted(rt):
    pid = await Worker.start()
    async with aclosing(otp.follow(rt, pid, now=rt.loop.time)) as lines:
        await anext(lines)
        for number in range(BACKLOG + 7):
            otp.send(pid, number)
        otp.exit(pid, "kill")
        got = [line async for line in lines]
    assert len(got) == BACKLOG + 2
    assert got[-2].event == "lost"
    assert got[-2].text.startswith("8 lines")
    assert got[-1].event == "end"


async def test_who_is_not_there_cannot_be_traced(rt):
    with pytest.raises(otp.NoSuchProcess, match=r"no process nobody on test@host.*gossamer ps"):
        await anext(otp.follow(rt, "nobody", now=rt.loop.time))


async def test_only_so_many_are_traced_at_a_time(rt):
    for _ in range(TRACES):
        otp.trace(await Worker.start(), lambda event, about: None)
    with pytest.raises(otp.TooManyTraces, match="end one"):
        await anext(otp.follow(rt, otp.self_pid(), now=rt.loop.time))


async def test_a_full_mailbox_shows_what_it_drops(rt):
    pid = otp.spawn(asyncio.sleep, 9, max_mailbox=1)
    seen = []
    otp.trace(pid, lambda event, about: seen.append(event))
    assert otp.send(pid, 1)
    assert not otp.send(pid, 2)
    assert seen == ["receive", "dropped"]


class Login(Struct):
    user: str
    password: bytes
    api_token: str = ""


class Publish(Struct):
    topic: str
    payload: bytes


@dataclass
class Keys:
    action: str
    key: bytes


class Sealed:
    def __repr__(self) -> str:
        raise AssertionError("code of the value ran")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Login("ann", b"hunter2", "abc"), "Login(user='ann', password=***, api_token=***)"),
        (Keys("install", b"secret"), "Keys(action='install', key=***)"),
        ({"Password": "x", "n": 1}, "{'Password': ***, 'n': 1}"),
        (("auth", b"hunter2"), "('auth', <7 bytes>)"),
        (Publish("a/b", b"21.5"), "Publish(topic='a/b', payload=b'21.5')"),
        (Publish("a", b"x" * 99), "Publish(topic='a', payload=b'xxxxxxxxxxxxxxxxxxxxxxxx'… <99 bytes>)"),
        (Sealed(), "<Sealed>"),
        ([Sealed()] * 8, "[" + "<Sealed>, " * 6 + "… 2 more]"),
        (otp.Pid("n", 1, 2), "<n.2>"),
        (10**10_000, "<a big number>"),
        (float("nan"), "nan"),
        (True, "True"),
        ([[[[[1]]]]], "[[[[list(…)]]]]"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_are_shown_without_secrets(value, text):
    assert otp.rendered(value) == text


def test_a_shown_value_is_bounded():
    tree: Any = "x" * 1000
    for _ in range(50):
        tree = [tree] * 1000
    assert len(otp.rendered(tree)) <= 200

"""Links, monitors, exit signals and names. By script: who does what to whom, and what becomes of them.

A block is one scenario, opened by a sentence on what it shows. Each line is something that a process does, or
the test itself, which is ``x``; after ``=>`` stands what followed, in order.

::

    spawn a b [trapping]     a link b     a unlink b     a exit b REASON     a end REASON
    a monitor b     a demonitor (the last)     ``name b`` instead of ``b``: by its registered name
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import gossamer.supervisor as otp
from tests.scripts import commands, compare, scripted
from tests.supervisor.harness import ended, nothing_comes, settle, waits


@scripted(Path(__file__).parent / "scenarios")
async def test_scenario(rt, file, block):
    scene = Scene(rt)
    compare(file, block, [await scene.run(*words) for words in commands(block)])
    scene.end()


class Scene:
    """Some processes, and what was seen of them since the last line."""

    def __init__(self, rt):
        self.rt, self.seen, self.refs = rt, [], []
        self.pids = {"x": otp.self_pid()}

    async def run(self, who="", *words):
        """Do what a line says; what followed, as text."""
        self.seen.clear()
        if who == "spawn":
            for name in words:
                if name != "trapping":
                    self.spawn(name, "trapping" in words)
        elif who == "x":
            self.act(who, *words)
        elif who:
            otp.send(self.pids[who], words)
        await settle()
        return ", ".join(self.seen)

    def end(self):
        for pid in self.pids.values():
            if pid != otp.self_pid():
                otp.exit(pid, "kill")

    def spawn(self, name, trapping):
        pid = self.pids[name] = otp.spawn(self.live, name, trapping, name=name)
        entry = self.rt.table[pid]
        entry.watch(self.rt.new_ref(), lambda down: self.seen.append(f"{name} ended {down.reason}"))

    async def live(self, name, trapping):
        otp.trap_exit(trapping)
        while True:
            message = await otp.receive()
            if isinstance(message, otp.Exit | otp.Down):
                kind = type(message).__name__.lower()
                of = message.source if isinstance(message, otp.Exit) else message.pid
                of = next((known for known, pid in self.pids.items() if pid == of), None)
                self.seen.append(f"{name} got {kind} of {of}: {message.reason}")
            else:
                self.act(name, *message)

    def act(self, name, verb, *words):
        if words and words[0] == "name":
            _, to, *more = words
        elif words:
            to, more = self.pids.get(words[0]), words[1:]
        match verb:
            case "end":
                raise otp.ExitProcess(words[0])
            case "monitor":
                self.refs.append(otp.monitor(to))
            case "demonitor":
                self.seen.append(f"{name} said {otp.demonitor(self.refs[-1])}")
            case _:
                getattr(otp, verb)(to, *more)


# What the scripts cannot say.


async def test_a_long_chain_of_links_falls_at_once(rt):
    async def chain(left):
        if left:
            otp.spawn_link(chain, left - 1)
        await otp.receive()

    pid = otp.spawn(chain, 2000)
    await settle(2100)
    assert len(rt.processes()) == 2002
    otp.exit(pid, "bad")
    await settle(4200)
    assert rt.processes() == [otp.self_pid()]


async def test_demonitor_and_flush(rt):
    pid = otp.spawn(waits)
    ref = otp.monitor(pid)
    assert otp.demonitor(ref)
    assert not otp.demonitor(ref)
    other = otp.monitor(pid)
    otp.send(pid, "end")
    await settle()
    assert not otp.demonitor(other, flush=True)
    await nothing_comes()


async def test_names_are_free_before_anybody_is_told(rt):
    seen = []

    async def watcher():
        otp.trap_exit(True)
        otp.link(otp.whereis("server"))
        otp.monitor("server")
        for _ in range(2):
            await otp.receive()
            seen.append(otp.whereis("server"))

    pid = otp.spawn(waits, name="server")
    watching = otp.spawn(watcher)
    await settle()
    otp.exit(pid, "bad")
    await ended(watching)
    assert seen == [None, None]


async def test_signals_of_one_sender_arrive_in_order_whatever_they_are(rt):
    got = []

    async def receiver():
        otp.trap_exit(True)
        await asyncio.sleep(1)
        while len(got) < 5:
            got.append(await otp.receive())

    pid = otp.spawn(receiver)

    async def sender():
        otp.link(pid)
        otp.send(pid, 1)
        otp.cast(pid, 2)
        otp.exit(pid, "three")
        otp.send(pid, 4)
        raise otp.ExitProcess("five")

    source = otp.spawn(sender)
    await rt.join(pid)
    assert got == [1, otp.Cast(2), otp.Exit(source, "three"), 4, otp.Exit(source, "five")]


async def test_a_name_has_one_holder(rt):
    pid = otp.spawn(waits, name="holder")
    assert otp.whereis("holder") == pid
    with pytest.raises(otp.NameTaken, match="held by"):
        otp.spawn(waits, name="holder")
    with pytest.raises(otp.NameTaken):
        otp.register("holder")
    otp.register("me")
    with pytest.raises(otp.NameTaken):
        otp.register("another")
    assert rt.unregister("me")
    assert not rt.unregister("me")
    assert otp.send(("holder", rt.node), "end")
    await settle()
    assert otp.whereis("holder") is None

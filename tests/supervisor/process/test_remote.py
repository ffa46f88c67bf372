"""Signals between two runtimes that a router connects: the hook that carries processes across nodes."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

import gossamer.supervisor as otp
from gossamer.supervisor.process.signals import Signal
from tests.supervisor.harness import Worker, settle


class Wire:
    """Carries signals as msgpack, to prove that they are plain data, one loop turn later."""

    def __init__(self, *runtimes):
        self.peers = {runtime.node: runtime for runtime in runtimes}
        self.cut = False
        for runtime in runtimes:
            runtime.remote = self

    def route(self, signal):
        peer = self.peers.get(signal.node)
        if peer is None or self.cut:
            return False
        packed = msgspec.msgpack.encode(signal)
        asyncio.get_running_loop().call_soon(
            lambda: self.cut or peer.deliver_remote(msgspec.msgpack.decode(packed, type=Signal))
        )
        return True

    def lose(self):
        self.cut = True
        one, two = self.peers.values()
        one.node_lost(two.node)
        two.node_lost(one.node)


async def worker(rt):
    other = otp.Runtime("other@host", 3)
    wire = Wire(rt, other)
    return other, wire, await other.start(Worker, name="worker")


async def test_call_cast_and_send_cross(rt):
    other, _, pid = await worker(rt)
    assert await otp.call(pid, ["echo", 1]) == 1
    assert await otp.call(("worker", "other@host"), "x") == "x"
    otp.cast(pid, "a")
    assert otp.send(("worker", "other@host"), "b")
    assert await otp.call(pid, "got") != []
    await other.stop()


async def test_a_missing_server_and_a_dying_one(rt):
    other, _, pid = await worker(rt)
    with pytest.raises(otp.CallFailed, match="noproc"):
        await otp.call(("nobody", "other@host"), 1)
    with pytest.raises(otp.CallFailed, match="noproc"):
        await otp.call(otp.Pid("other@host", 2, pid.number), 1)
    await other.call(pid, ("stop", "normal"))
    with pytest.raises(otp.CallFailed, match="noproc"):
        await otp.call(pid, 1)
    with pytest.raises(otp.CallFailed, match="noconnection"):
        await otp.call(("worker", "third@host"), 1)
    await other.stop()


async def test_links_and_exits_cross(rt):
    other, _, pid = await worker(rt)
    otp.trap_exit(True)
    otp.link(pid)
    await settle()
    otp.exit(pid, "bad")
    assert await otp.receive() == otp.Exit(pid, "bad")
    again = await other.start(Worker)
    otp.link(again)
    await settle()
    otp.exit(again, ("shutdown", ("deep", 1)))
    assert await otp.receive() == otp.Exit(again, ("shutdown", ("deep", 1)))
    otp.link(pid)
    assert await otp.receive() == otp.Exit(pid, "noproc")
    await other.stop()


async def test_unlink_crosses(rt):
    other, _, pid = await worker(rt)
    otp.trap_exit(True)
    otp.link(pid)
    otp.unlink(pid)
    await settle()
    otp.exit(pid, "kill")
    with pytest.raises(TimeoutError):
        await otp.receive(timeout=1)
    await other.stop()


async def test_our_end_reaches_the_other_side(rt):
    other, _, pid = await worker(rt)

    async def partner():
        otp.link(pid)
        await otp.receive()

    mine = rt.spawn(partner)
    await settle()
    otp.exit(mine, "bad")
    await settle()
    assert not other.alive(pid)
    await other.stop()


async def test_monitors_cross(rt):
    other, _, pid = await worker(rt)
    refs = [otp.monitor(pid), otp.monitor(("worker", "other@host"))]
    dropped = otp.monitor(pid)
    await settle()
    otp.demonitor(dropped)
    gone = otp.monitor(("nobody", "other@host"))
    assert await otp.receive() == otp.Down(gone, None, "noproc")
    otp.exit(pid, "kill")
    assert [await otp.receive(), await otp.receive()] == [otp.Down(ref, pid, "killed") for ref in refs]
    with pytest.raises(TimeoutError):
        await otp.receive(timeout=1)
    await other.stop()


async def test_a_lost_node_ends_every_tie_with_noconnection(rt):
    other, wire, pid = await worker(rt)
    otp.trap_exit(True)
    otp.link(pid)
    ref = otp.monitor(pid)
    await settle()

    async def caller():
        with pytest.raises(otp.CallFailed, match="noconnection"):
            await otp.call(pid, ("echo", 1), timeout=None)

    await other.call(pid, ("echo", 1))
    mine = rt.spawn(caller)
    done = rt.join(mine)
    await asyncio.sleep(0)
    wire.lose()
    assert await otp.receive(match=lambda m: isinstance(m, otp.Down)) == otp.Down(ref, pid, "noconnection")
    assert await otp.receive() == otp.Exit(pid, "noconnection")
    assert await done == "normal"
    await settle()
    assert not other.alive(pid)
    assert not otp.send(pid, "x")
    otp.link(pid)
    assert await otp.receive() == otp.Exit(pid, "noconnection")
    ref = otp.monitor(pid)
    assert await otp.receive() == otp.Down(ref, pid, "noconnection")
    assert not rt.remote_calls
    await other.stop()


async def test_ties_of_ended_processes_are_forgotten(rt):
    other, _, pid = await worker(rt)

    async def brief():
        otp.monitor(pid)
        otp.link(pid)

    await rt.join(rt.spawn(brief))
    await settle()
    assert not rt.remote_ties["other@host"]
    assert otp.self_pid() in rt.table
    await other.stop()

"""Signals between two runtimes that a router connects: the hook that carries processes across nodes."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from gossamer.supervisor import (
    CallFailed,
    Down,
    Exit,
    Pid,
    Runtime,
    call,
    cast,
    demonitor,
    exit,  # noqa: A004
    link,
    monitor,
    receive,
    self_pid,
    send,
    trap_exit,
    unlink,
)
from gossamer.supervisor.process.signals import Signal
from tests.supervisor.harness import Worker, settle, virtual


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
    other = Runtime("other@host", 3)
    wire = Wire(rt, other)
    return other, wire, await other.start(Worker, name="worker")


@virtual
async def test_call_cast_and_send_cross(rt):
    other, _, pid = await worker(rt)
    assert await call(pid, ["echo", 1]) == 1
    assert await call(("worker", "other@host"), "x") == "x"
    cast(pid, "a")
    assert send(("worker", "other@host"), "b")
    assert await call(pid, "got") != []
    await other.stop()


@virtual
async def test_a_missing_server_and_a_dying_one(rt):
    other, _, pid = await worker(rt)
    with pytest.raises(CallFailed, match="noproc"):
        await call(("nobody", "other@host"), 1)
    with pytest.raises(CallFailed, match="noproc"):
        await call(Pid("other@host", 2, pid.number), 1)
    await other.call(pid, ("stop", "normal"))
    with pytest.raises(CallFailed, match="noproc"):
        await call(pid, 1)
    with pytest.raises(CallFailed, match="noconnection"):
        await call(("worker", "third@host"), 1)
    await other.stop()


@virtual
async def test_links_and_exits_cross(rt):
    other, _, pid = await worker(rt)
    trap_exit(True)
    link(pid)
    await settle()
    exit(pid, "bad")
    assert await receive() == Exit(pid, "bad")
    again = await other.start(Worker)
    link(again)
    await settle()
    exit(again, ("shutdown", ("deep", 1)))
    assert await receive() == Exit(again, ("shutdown", ("deep", 1)))
    link(pid)
    assert await receive() == Exit(pid, "noproc")
    await other.stop()


@virtual
async def test_unlink_crosses(rt):
    other, _, pid = await worker(rt)
    trap_exit(True)
    link(pid)
    unlink(pid)
    await settle()
    exit(pid, "kill")
    with pytest.raises(TimeoutError):
        await receive(timeout=1)
    await other.stop()


@virtual
async def test_our_end_reaches_the_other_side(rt):
    other, _, pid = await worker(rt)

    async def partner():
        link(pid)
        await receive()

    mine = rt.spawn(partner)
    await settle()
    exit(mine, "bad")
    await settle()
    assert not other.alive(pid)
    await other.stop()


@virtual
async def test_monitors_cross(rt):
    other, _, pid = await worker(rt)
    refs = [monitor(pid), monitor(("worker", "other@host"))]
    dropped = monitor(pid)
    await settle()
    demonitor(dropped)
    gone = monitor(("nobody", "other@host"))
    assert await receive() == Down(gone, None, "noproc")
    exit(pid, "kill")
    assert [await receive(), await receive()] == [Down(ref, pid, "killed") for ref in refs]
    with pytest.raises(TimeoutError):
        await receive(timeout=1)
    await other.stop()


@virtual
async def test_a_lost_node_ends_every_tie_with_noconnection(rt):
    other, wire, pid = await worker(rt)
    trap_exit(True)
    link(pid)
    ref = monitor(pid)
    await settle()

    async def caller():
        with pytest.raises(CallFailed, match="noconnection"):
            await call(pid, ("echo", 1), timeout=None)

    await other.call(pid, ("echo", 1))
    mine = rt.spawn(caller)
    done = rt.join(mine)
    await asyncio.sleep(0)
    wire.lose()
    assert await receive(match=lambda m: isinstance(m, Down)) == Down(ref, pid, "noconnection")
    assert await receive() == Exit(pid, "noconnection")
    assert await done == "normal"
    await settle()
    assert not other.alive(pid)
    assert not send(pid, "x")
    link(pid)
    assert await receive() == Exit(pid, "noconnection")
    ref = monitor(pid)
    assert await receive() == Down(ref, pid, "noconnection")
    assert not rt.remote_calls
    await other.stop()


@virtual
async def test_ties_of_ended_processes_are_forgotten(rt):
    other, _, pid = await worker(rt)

    async def brief():
        monitor(pid)
        link(pid)

    await rt.join(rt.spawn(brief))
    await settle()
    assert not rt.remote_ties["other@host"]
    assert self_pid() in rt.table
    await other.stop()

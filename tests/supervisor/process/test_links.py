"""Links, monitors, exit signals and names."""

from __future__ import annotations

import asyncio

import pytest

import gossamer.supervisor as otp
from tests.supervisor.harness import ended, linked, nothing_comes, settle, waits


async def test_link_carries_an_abnormal_end(rt):
    other = otp.spawn(waits)
    pid = otp.spawn(linked, other)
    await settle()
    otp.exit(pid, "bad")
    assert await ended(other) in ("bad", "noproc")
    assert not rt.alive(pid)


async def test_normal_end_leaves_links_alone(rt):
    async def brief():
        otp.link(other)

    other = otp.spawn(waits)
    assert await ended(otp.spawn(brief)) == "normal"
    assert rt.alive(other)


async def test_trapped_links_become_messages(rt):
    otp.trap_exit(True)
    pid = otp.spawn_link(waits)
    await settle()
    otp.exit(pid, "kill")
    assert await otp.receive() == otp.Exit(pid, "killed")


async def test_a_victims_links_see_killed_and_can_trap_it(rt):
    """kill travels along a link as killed, which is an ordinary reason."""

    async def middle():
        otp.spawn_link(waits, name="inner")
        await otp.receive()

    otp.trap_exit(True)
    pid = otp.spawn_link(middle)
    await settle()
    inner = otp.whereis("inner")
    otp.exit(inner, "kill")
    assert await otp.receive() == otp.Exit(pid, "killed")


async def test_linking_to_nobody(rt):
    gone = otp.spawn(waits)
    otp.exit(gone, "kill")
    await ended(gone)
    otp.trap_exit(True)
    otp.link(gone)
    assert await otp.receive() == otp.Exit(gone, "noproc")
    assert await ended(otp.spawn(linked, gone)) == "noproc"


async def test_unlink_is_for_both_sides(rt):
    otp.trap_exit(True)
    pid = otp.spawn_link(waits)
    await settle()
    otp.unlink(pid)
    otp.exit(pid, "bad")
    assert await ended(pid) == "bad"
    await nothing_comes()


async def test_at_most_one_link_a_pair(rt):
    otp.trap_exit(True)
    pid = otp.spawn_link(waits)
    otp.link(pid)
    await settle()
    otp.send(pid, "end")
    assert await otp.receive() == otp.Exit(pid, "normal")
    await nothing_comes()


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


# Monitors.


async def test_monitors_stack_and_each_tells_once(rt):
    pid = otp.spawn(waits)
    refs = [otp.monitor(pid), otp.monitor(pid)]
    otp.send(pid, "end")
    assert [await otp.receive(), await otp.receive()] == [otp.Down(ref, pid, "normal") for ref in refs]


async def test_monitor_of_nobody_tells_at_once(rt):
    ref = otp.monitor("nobody")
    assert await otp.receive() == otp.Down(ref, None, "noproc")


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


async def test_a_monitor_by_name_watches_the_holder_of_that_moment(rt):
    first = otp.spawn(waits, name="name")
    ref = otp.monitor("name")
    otp.send(first, "end")
    await settle()
    second = otp.spawn(waits, name="name")
    await settle()
    assert otp.whereis("name") == second
    assert await otp.receive() == otp.Down(ref, first, "normal")
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


# Exit signals.


async def test_kill_as_a_reason_of_a_link_is_a_reason_like_others(rt):
    """Only ``exit(pid, "kill")`` cannot be trapped; who ends *with* that reason passes it on as it is."""

    async def ends():
        await asyncio.sleep(1)
        raise otp.ExitProcess("kill")

    otp.trap_exit(True)
    victim = otp.spawn(ends)
    otp.link(victim)
    other = otp.spawn_link(linked, victim)
    assert await otp.receive() == otp.Exit(victim, "kill")
    assert await otp.receive() == otp.Exit(other, "kill")


async def test_exit_normal_is_dropped_unless_trapped(rt):
    pid = otp.spawn(waits)
    await settle()
    otp.exit(pid, "normal")
    await settle()
    assert rt.alive(pid)

    me = otp.self_pid()

    async def trapping():
        otp.trap_exit(True)
        otp.send(me, await otp.receive())

    other = otp.spawn(trapping)
    await settle()
    otp.exit(other, "normal")
    assert await otp.receive() == otp.Exit(me, "normal")


@pytest.mark.parametrize("reason", ["normal", "shutdown", "bad"])
async def test_exit_to_itself_ends_it(rt, reason):
    async def body():
        otp.exit(otp.self_pid(), reason)
        raise AssertionError("not reached")

    assert await ended(otp.spawn(body)) == reason


async def test_kill_cannot_be_trapped(rt):
    async def body():
        otp.trap_exit(True)
        while True:
            await otp.receive()

    pid = otp.spawn(body)
    await settle()
    otp.exit(pid, "shutdown")
    await settle()
    assert rt.alive(pid)
    otp.exit(pid, "kill")
    assert await ended(pid) == "killed"


# Names.


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

"""The process table as a tree: bounded, read in turns with others, and found by what people type."""

from __future__ import annotations

import asyncio

import pytest

import gossamer.supervisor as otp
from gossamer.supervisor.process.tree import SLICE
from tests.supervisor.harness import Worker, settle


async def forever() -> None:
    await asyncio.sleep(1e9)


async def test_a_big_table_is_read_in_slices_and_summed_up(rt):
    for _ in range(5 * SLICE):
        otp.Port().open(label="connection")
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    busy = otp.spawn(others)
    (me,) = await rt.tree(fold=3)
    assert turns >= 4
    assert [child.label for child in me.children].count("connection") == 3
    (connections,) = me.folded
    assert (connections.label, connections.number) == ("connection", 5 * SLICE - 3)
    assert connections.memory > 100 * connections.number
    otp.exit(busy, "kill")


async def test_what_ends_while_the_table_is_read_is_left_out(rt):
    pids = [otp.Port().open(label="connection") for _ in range(3 * SLICE)]

    async def reaper() -> None:
        for pid in pids[2 * SLICE :]:
            otp.exit(pid, "kill")

    otp.spawn(reaper)
    (me,) = await rt.tree(fold=0)
    assert [kind.number for kind in me.folded if kind.label == "connection"] == [2 * SLICE]


async def test_those_below_a_process_that_is_not_shown_are_counted(rt):
    async def parent() -> None:
        otp.spawn(forever, label="leaf")
        await forever()

    for _ in range(5):
        otp.spawn(parent, label="parent")
    await settle()
    (me,) = await rt.tree(fold=2)
    assert {kind.label: kind.number for kind in me.folded} == {"parent": 3, "leaf": 3}


async def test_one_process_can_be_asked_for_with_those_below_it(rt):
    async def parent() -> None:
        otp.send(otp.spawn(forever, label="leaf", name="kid"), "one")
        await forever()

    pid = otp.spawn(parent, label="parent")
    await settle()
    (node,) = await rt.tree(root=pid)
    assert (node.pid, node.label, node.type) == (pid, "parent", "process")
    (child,) = node.children
    assert (child.name, child.label, child.mailbox) == ("kid", "leaf", 1)
    assert 0 < child.memory < 4096
    assert await rt.tree(root=otp.Pid("test@host", 7, 999)) == []


async def test_a_process_that_waits_for_another_says_for_whom(rt):
    slow = otp.spawn(forever, name="slow")

    async def asks() -> None:
        await otp.call("slow", "?", timeout=None)

    pid = otp.spawn(asks)
    await settle()
    (node,) = await rt.tree(root=pid)
    assert (node.status, node.note) == ("calling", f"waits for slow {slow}")


async def test_dropped_messages_show(rt):
    pid = otp.spawn(forever, max_mailbox=1)
    for _ in range(3):
        otp.send(pid, 1)
    (node,) = await rt.tree(root=pid)
    assert (node.mailbox, node.dropped) == (1, 2)


async def test_a_process_is_found_by_what_people_type(rt):
    pid = await Worker.start(name="ledger")
    for text in ("ledger", str(pid), str(pid).strip("<>"), str(pid.number), f" {pid} "):
        assert otp.locate(rt, text) == pid
    for text in ("nobody", "999", "<test@host.999>", "", "<>", "test@host.", "9" * 40):
        with pytest.raises(otp.NoSuchProcess, match="gossamer ps"):
            otp.locate(rt, text)
    with pytest.raises(otp.NoSuchProcess, match="--node other@host"):
        otp.locate(rt, "<other@host.3>")

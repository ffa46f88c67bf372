"""The process table as a tree: bounded, read in turns with others, and found by what people type."""

from __future__ import annotations

import asyncio

import pytest

from gossamer.supervisor import (
    NoSuchProcess,
    Pid,
    Port,
    Registry,
    call,
    exit,  # noqa: A004
    locate,
    receive,
    self_pid,
    send,
    spawn,
)
from gossamer.supervisor.process.tree import SLICE
from tests.supervisor.harness import Worker, settle, virtual


async def forever() -> None:
    await asyncio.sleep(1e9)


@virtual
async def test_a_big_table_is_read_in_slices_and_summed_up(rt):
    for _ in range(5 * SLICE):
        Port().open(label="connection")
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    busy = spawn(others)
    (me,) = await rt.tree(fold=3)
    assert turns >= 4
    assert [child.label for child in me.children].count("connection") == 3
    (connections,) = me.folded
    assert (connections.label, connections.number) == ("connection", 5 * SLICE - 3)
    assert connections.memory > 100 * connections.number
    exit(busy, "kill")


@virtual
async def test_what_ends_while_the_table_is_read_is_left_out(rt):
    pids = [Port().open(label="connection") for _ in range(3 * SLICE)]

    async def reaper() -> None:
        for pid in pids[2 * SLICE :]:
            exit(pid, "kill")

    spawn(reaper)
    (me,) = await rt.tree(fold=0)
    assert [kind.number for kind in me.folded if kind.label == "connection"] == [2 * SLICE]


@virtual
async def test_those_below_a_process_that_is_not_shown_are_counted(rt):
    async def parent() -> None:
        spawn(forever, label="leaf")
        await forever()

    for _ in range(5):
        spawn(parent, label="parent")
    await settle()
    (me,) = await rt.tree(fold=2)
    assert {kind.label: kind.number for kind in me.folded} == {"parent": 3, "leaf": 3}


@virtual
async def test_one_process_can_be_asked_for_with_those_below_it(rt):
    async def parent() -> None:
        spawn(forever, label="leaf")
        await forever()

    pid = spawn(parent)
    await settle()
    (node,) = await rt.tree(root=pid)
    assert (node.pid, [child.label for child in node.children]) == (pid, ["leaf"])
    assert await rt.tree(root=Pid("test@host", 7, 999)) == []


@virtual
async def test_a_process_that_waits_for_another_says_for_whom(rt):
    slow = spawn(forever, name="slow")

    async def asks() -> None:
        await call("slow", "?", timeout=None)

    pid = spawn(asks)
    await settle()
    (node,) = await rt.tree(root=pid)
    assert (node.status, node.note) == ("calling", f"waits for slow {slow}")


@virtual
async def test_dropped_messages_show(rt):
    pid = spawn(forever, max_mailbox=1)
    for _ in range(3):
        send(pid, 1)
    (node,) = await rt.tree(root=pid)
    assert (node.mailbox, node.dropped) == (1, 2)


@virtual
async def test_a_process_is_found_by_what_people_type(rt):
    pid = await Worker.start(name="ledger")
    for text in ("ledger", str(pid), str(pid).strip("<>"), str(pid.number), f" {pid} "):
        assert locate(rt, text) == pid
    for text in ("nobody", "999", "<test@host.999>", "", "<>", "test@host.", "9" * 40):
        with pytest.raises(NoSuchProcess, match="gossamer ps"):
            locate(rt, text)
    with pytest.raises(NoSuchProcess, match="--node other@host"):
        locate(rt, "<other@host.3>")


@virtual
async def test_a_registry_knows_the_keys_of_each_process(rt):
    registry = Registry("duplicate")

    async def member(keys: str) -> None:
        for key in keys:
            registry.register(key)
        await receive()

    pids = [spawn(member, keys) for keys in ("ab", "b", "")]
    await settle()
    assert [registry.keys(pid) for pid in (*pids, self_pid())] == [["a", "b"], ["b"], [], []]
    exit(pids[0], "kill")
    await settle()
    assert registry.keys(pids[0]) == []
    assert len(registry) == 1

"""The store: tables, their processes, and what survives which failure."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from gossamer.mnesia_like import Change, Store
from gossamer.mnesia_like.replication.replication import Replication
from gossamer.mnesia_like.replicator import _Inbox
from gossamer.mnesia_like.watermark import Watermark
from gossamer.supervisor import Runtime

from .hub import cluster, until


async def test_a_row_is_visible_on_every_peer_when_visible_says_so() -> None:
    """Three nodes; the number of the write tells when."""
    async with cluster("abc", "owned") as (_, _, tables):
        number = tables[0].write("a/b", 1)
        assert not tables[0].is_visible(number)
        assert await tables[0].visible(number)
        assert [t.read("a/b") for t in tables] == [{"a": 1}] * 3
        assert tables[1].owners() == ["a"]
        assert list(tables[2].rows("a")) == [("a", "a/b", 1)]
        assert await tables[0].visible(tables[0].delete("a/b"))
        assert [len(t) for t in tables] == [0, 0, 0]


async def test_writes_of_one_turn_travel_in_one_frame_a_peer() -> None:
    """A thousand writes, one frame to each of two peers."""
    async with cluster("abc", "owned") as (hub, (a, _b, _c), tables):
        await a.store.wait_for_tables()
        await tables[0].visible(tables[0].write("first", 1))
        before = hub.links["a"].sent
        for i in range(1000):
            number = tables[0].write(f"k{i}", i)
        await tables[0].visible(number)
        assert hub.links["a"].sent - before == 2


async def test_a_number_reached_in_the_turn_in_which_the_time_ends_is_told_once() -> None:
    """Whether in time or late is nobody's concern; twice would be."""
    numbers, told = [0], list[bool]()
    mark = Watermark(lambda: numbers[-1])
    mark.reached(1, 0.0).add_done_callback(lambda reached: told.append(reached.result()))

    def reach() -> None:
        numbers.append(1)
        mark.moved()

    asyncio.get_running_loop().call_soon(reach)
    await asyncio.sleep(0.01)
    assert told == [True]


async def test_whoever_waits_for_a_table_that_is_dropped_is_told_no_when_the_time_is_up() -> None:
    """It is not known any more how far it is."""
    async with cluster("ab", "owned") as (_, (a, _b), (ta, _)):
        await until(lambda: a.store.table_info("t")["followers"])
        waiting = asyncio.ensure_future(ta.visible(ta.write("k", 1), 0.01))
        await a.store.del_table_copy("t")
        assert not await waiting


async def test_visible_is_bounded_and_ends_when_the_peer_goes_down() -> None:
    """A silent peer costs the time limit; a dead one nothing."""
    async with cluster("ab", "owned") as (hub, (a, _b), (table, _)):
        await until(lambda: a.store.table_info("t")["followers"])
        hub.cut.add(frozenset("ab"))
        number = table.write("k", 1)
        assert not await table.visible(number, timeout=0.05)
        waiting = asyncio.ensure_future(table.visible(number, timeout=30.0))
        await asyncio.sleep(0)
        hub.part("b", left=False)
        assert await waiting


async def test_the_restart_of_the_replicator_loses_nothing() -> None:
    """Readers keep the rows; writes made in between reach the peers; frames missed come again."""
    async with cluster("ab", "owned", tick=0.02) as (_, (_a, b), (ta, tb)):
        await ta.visible(ta.write("before", 1))
        victim = b.child("replicator")
        b.runtime.exit(victim, "kill")
        ta.write("while down", 2)
        tb.write("own", 3)
        assert tb.read("before") == {"a": 1}
        await until(lambda: ta.read("own") == {"b": 3} and tb.read("while down") == {"a": 2})
        assert b.child("replicator") != victim


async def test_a_frame_that_fails_a_replicator_does_not_come_again_and_loses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Half of it may have taken effect: the session is begun anew, and transactions with it."""
    async with cluster("ab", "shared", tick=0.02) as (_, (a, b), (ta, tb)):
        await until(lambda: a.store.replication.connected() and b.store.replication.connected())
        core, victim = b.store.replication, b.child("replicator")

        def fail(*args: Any) -> Any:
            monkeypatch.undo()
            raise RuntimeError("a fault of its own")

        monkeypatch.setattr(core, "receive", fail)

        async def both(tx: Any) -> None:
            for key in ("left", "right"):
                await tx.write("t", key, 1)

        await a.store.transaction(both, timeout=30)
        await until(lambda: tb.read("left") == tb.read("right") == 1 and b.child("replicator") != victim)
        await b.store.transaction(both, timeout=30)
        await until(lambda: not any(h.store.replication.transactions.locks.owners() for h in (a, b)))
        assert ta.read("left") == 1


@pytest.mark.parametrize("part", ["installed", "send"])
async def test_what_a_failing_replicator_did_not_send_is_made_up_for(
    monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    """To whomever it was to go: nobody stays prepared, with locks, because somebody else's vote failed it."""
    async with cluster("abc", "shared", tick=0.02) as (_, hosts, tables):
        a = hosts[0]
        await until(lambda: all(len(h.store.replication.holders("t")) == 2 for h in hosts))
        for table in tables:
            assert await table.safe(table.write(table.node, 1), 5.0)
        victim = a.child("replicator")
        target: Any = tables[0] if part == "installed" else a.store.link

        def fail(*args: Any) -> Any:
            monkeypatch.undo()
            raise RuntimeError("a fault of its own")

        async def write(tx: Any) -> None:
            if a.child("replicator") == victim:
                monkeypatch.setattr(target, part, fail)
            await tx.write("t", "k", 1)

        async with asyncio.timeout(10.0):
            await a.store.transaction(write)
            await until(lambda: all(table.read("k") == 1 for table in tables))
            await until(lambda: not any(h.store.replication.transactions.locks.owners() for h in hosts))
            await until(lambda: a.child("replicator") != victim)


async def test_a_frame_that_cannot_be_read_is_made_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """By another session; but a peer of whom nothing can be read speaks otherwise, and is left alone."""
    async with cluster("ab", "shared", tick=0.02) as (hub, (a, b), (ta, tb)):
        await until(lambda: all(h.store.replication.holders("t") for h in (a, b)))
        deliver = hub.deliver

        def garble(source: str, target: str, session: int, frame: bytes) -> None:
            monkeypatch.undo()
            deliver(source, target, session, frame[:-1])

        monkeypatch.setattr(hub, "deliver", garble)
        await a.store.transaction(lambda tx: tx.write("t", "k", 1), timeout=5.0)
        await until(lambda: ta.read("k") == tb.read("k") == 1)
        assert hub.session("a", "b") > 1
        hub.join("other")
        hub.deliver("other", "a", 1, b"another format")
        bad = a.store.replication.counts
        await until(lambda before=bad["bad_frames"]: bad["bad_frames"] > before)
        assert hub.session("a", "other") == 1


async def test_an_event_that_found_the_mailbox_full_is_made_up_for() -> None:
    """What the link says is compared with what is known, again and again."""
    async with cluster("ab", "owned", tick=0.02) as (hub, (a, _b), _):
        await until(lambda: a.store.replication.connected() == {"b": 2})
        hub.cut.add(frozenset("ab"))
        await until(lambda: a.store.replication.connected() == {})
        hub.cut.clear()
        await until(lambda: a.store.replication.connected() == {"b": 2})


async def test_a_peer_that_came_while_the_mailbox_was_full_comes_again() -> None:
    """In another session, since its first frames would be those of a stranger."""
    renewed: list[str] = []
    link: Any = SimpleNamespace(renew=renewed.append)
    replication = Replication(node="a", creation=1)
    runtime = Runtime(node="a", creation=1)
    inbox = _Inbox(runtime, runtime.spawn(asyncio.sleep, 3600, max_mailbox=1), link, replication)
    inbox.peer_up("b", 2, 1)
    inbox.peer_up("c", 3, 1)
    assert renewed == ["c"]
    await runtime.stop()


async def test_a_subscriber_sees_own_and_replicated_changes_in_the_writers_turn() -> None:
    """Events carry op, owner, key and value."""
    async with cluster("ab", "owned") as (_, _, (ta, tb)):
        events: list[Any] = []
        ta.subscribe(events.extend)
        ta.write("x", 1)
        assert events == [("write", "a", "x", 1)]
        tb.write("y", 2)
        await tb.visible(tb.delete("x"))
        await tb.visible(tb.delete("y"))
        assert events[1:] == [("write", "b", "y", 2), ("delete", "b", "y", None)]


async def test_a_failing_subscriber_harms_neither_writer_nor_other_subscribers() -> None:
    """It is logged and dropped."""
    store = Store(node="a", creation=1)
    table = await store.create_table("t")
    calls: list[Change] = []

    def fail(change: Change) -> None:
        raise ValueError(change.table)

    table.subscribe_batches(fail)
    table.subscribe_batches(calls.append)
    table.write(1, 1)
    table.write(1, 2)
    assert [c.written for c in calls] == [{1: 1}, {1: 2}]


async def test_a_failing_subscriber_in_a_process_crashes_that_process_only() -> None:
    """And a subscription ends with the process that made it."""
    store = Store(node="a", creation=1)
    table = await store.create_table("t")
    runtime = Runtime(node="a", creation=1)

    async def body() -> None:
        def fail(change: Change) -> None:
            raise ValueError("from the subscriber")

        table.subscribe_batches(fail)
        await asyncio.sleep(3600)

    pid = runtime.spawn(body)
    await asyncio.sleep(0)
    table.write(1, 1)
    await until(lambda: not runtime.alive(pid))
    table.write(1, 2)
    assert table._subscriptions == []
    await runtime.stop()


async def test_info_tells_sizes_positions_and_followers() -> None:
    """What ``gossamer tables`` shows."""
    async with cluster("ab", "owned") as (_, (a, b), (ta, _)):
        await ta.visible(ta.write("k", 1))
        info = b.store.table_info("t")
        assert info["owners"] == {"b": 0, "a": 1}
        assert info["replicas"]["a"] == {"up": True, "behind": 0, "loaded": True}
        assert a.store.table_info("t")["followers"]["b"]["confirmed"] == 1

"""Events: every change once and in order, from a number on; what happens to the store as a whole."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.mnesia_like import Disc, InconsistentDatabase, LocalTable, Store, TableDef
from gossamer.mnesia_like.errors import HistoryLostError
from gossamer.mnesia_like.events import Overload, StoreDown, StoreUp, SystemEvent
from gossamer.mnesia_like.table.table import TableOwner

from .hub import Hub, host, until


def follow(events: list[Any], into: dict[Any, Any]) -> None:
    for kind, _, key, value in events:
        if kind == "snapshot":
            into.clear()
        elif kind == "write":
            into[key] = value
        else:
            del into[key]


@given(
    st.lists(st.tuples(st.sampled_from(["write", "delete", "away", "back"]), st.integers(0, 5)), max_size=40)
)
def test_a_subscriber_that_was_away_goes_on_where_it_was(script: list[tuple[str, int]]) -> None:
    """Whether the changes are still kept or a snapshot has to stand in: it ends with the table's rows."""
    table = LocalTable(TableDef(name="t", history=4), TableOwner("a"))
    seen: dict[int, int] = {}
    subscription: Any = table.subscribe(lambda events: follow(events, seen))
    away = False
    for number, (what, key) in enumerate(script):
        if what == "write":
            table.write(key, number)
        elif what == "delete":
            table.delete(key)
        elif what == "away":
            subscription.cancel()
            away = True
        elif away:
            subscription = table.subscribe(
                lambda events: follow(events, seen), from_seq=subscription.seq, snapshot=True
            )
            away = False
    if away:
        table.subscribe(lambda events: follow(events, seen), from_seq=subscription.seq, snapshot=True)
    assert seen == table.rows()


def test_what_is_not_kept_is_said() -> None:
    """Which numbers can be had, and what to do; numbers to come are refused too."""
    table = LocalTable(TableDef(name="t", history=2), TableOwner("a"))
    start = table.seq
    for i in range(5):
        table.write(i, i)
    told: list[Any] = []
    for asked in (start, table.seq + 1):
        with pytest.raises(
            HistoryLostError, match=f"expected {start + 3} to {start + 5}; subscribe with snap"
        ):
            table.subscribe(told.extend, from_seq=asked)
    assert told == []
    subscription = table.subscribe(told.extend, from_seq=start + 3)
    assert told == [("write", "a", 3, 3), ("write", "a", 4, 4)]
    assert subscription.seq == table.seq
    table.subscribe(told.extend, from_seq=start, snapshot=True)
    assert told[2] == ("snapshot", "", None, None)
    assert len(told) == 8


async def test_numbers_grow_through_the_lives_of_a_node() -> None:
    """What an earlier life had told is never taken for this one's."""
    seqs = []
    for creation in (1, 2):
        table = await Store(node="a", creation=creation).create_table("t", replication="owned")
        seqs.append(table.seq)
        for i in range(100):
            table.write(i, i)
        seqs.append(table.seq)
    assert seqs == sorted(set(seqs))


async def test_events_of_peers_are_numbered_and_kept_too() -> None:
    """Of owned and shared tables, deletions and purges among them."""
    hub = Hub()
    async with host("a", hub) as a, host("b", hub) as b:
        for kind in ("owned", "shared"):
            made: list[Any] = [
                await h.store.create_table(kind, replication=kind)  # type: ignore[call-overload]
                for h in (a, b)
            ]
            ta, tb = made
            start = ta.seq
            tb.write("k", 1)
            await until(lambda t=ta: "k" in t)
            tb.delete("k")
            await until(lambda t=ta: "k" not in t)
            told: list[Any] = []
            ta.subscribe(told.extend, from_seq=start)
            assert told == [("write", "b", "k", 1), ("delete", "b", "k", None)]


async def test_the_store_tells_who_comes_and_goes_and_who_cannot_keep_up(tmp_path: Any) -> None:
    """Nodes up and down, a disc that is behind, a peer that needs a snapshot; and what others pass on."""
    hub = Hub()
    told: list[SystemEvent] = []
    options: dict[str, Any] = {"tick": 0.02, "window": 2000, "log_bytes": 2000}
    async with host("a", hub, disc=Disc(tmp_path / "t.db"), **options) as a:
        subscription = a.store.subscribe(told.append)
        async with host("b", hub, **options) as b:
            ta, _ = [await h.store.create_table("t", replication="owned") for h in (a, b)]
            assert await ta.visible(ta.write("k", 1))
            assert StoreUp("b", 2) in told
            hub.hold()
            for i in range(200):
                ta.write(i, "x" * 100)
                await asyncio.sleep(0)
            hub.release()
            await until(lambda: Overload("peer", "b needs a snapshot of table 't'") in told)
            hub.part("b", left=True)
            await until(lambda: StoreDown("b", left=True) in told)
        slow = await a.store.create_table("slow", storage="disc_copies")
        handle = a.store._disc
        assert handle is not None
        assert handle.file is not None
        # The row of the table itself may be on its way.
        await until(lambda: not a.store.queue.waiting)
        a.store.queue.bound = 1
        handle.file._conn.execute("PRAGMA query_only = 1")
        slow.write(1, 1)
        await until(lambda: Overload("disc", "1 rows wait, at most 1 may") in told)
        handle.file._conn.execute("PRAGMA query_only = 0")
        a.store.publish(InconsistentDatabase("running_partitioned_network", "b"))
        assert told[-1] == InconsistentDatabase("running_partitioned_network", "b")
        subscription.cancel()
        a.store.publish(InconsistentDatabase("running_partitioned_network", "c"))
        assert told[-1].node == "b"  # type: ignore[union-attr]

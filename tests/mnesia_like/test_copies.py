"""Copies that are dropped, rows that are dumped, versions that lose."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gossamer.clock import HybridLogicalClock
from gossamer.mnesia_like import Disc, Discarded, NoSuchTableError, Store, TablesNotLoadedError, Transaction

from .hub import Hub, host, until


async def test_a_dropped_copy_is_gone_here_and_its_rows_live_on_elsewhere(tmp_path: Path) -> None:
    """Memory and disc; what it alone held of a shared table is taken over."""
    hub = Hub()
    disc = Disc(tmp_path / "tables.db")
    async with host("a", hub, tick=0.02, disc=disc) as a, host("b", hub, tick=0.02) as b:
        ta = await a.store.create_table("t", replication="shared", storage="disc_copies")
        tb = await b.store.create_table("t", replication="shared")
        assert await ta.visible(ta.write("k", 1))
        await a.store.del_table_copy("t")
        with pytest.raises(NoSuchTableError):
            a.store.table("t")
        await until(lambda: b.store.table_info("t")["owners"] == {"b": 1, "a": 0}, 15.0)
        assert b.store.dump("t") == [("a", "k", 1)]
        assert await tb.visible(tb.write("more", 2), timeout=5.0)
        again = await a.store.create_table("t", replication="shared", storage="disc_copies")
        await until(lambda: dict(again.rows()) == {"k": 1, "more": 2}, 15.0)


async def test_a_copy_that_is_made_again_is_told_anew_what_of_it_is_safe() -> None:
    """Though its rows stand where those of its predecessor stood; and what that one said is forgotten."""
    hub = Hub()
    async with host("a", hub, tick=0.02) as a, host("b", hub, tick=0.02) as b:
        ta, tb = [await h.store.create_table("t", replication="shared") for h in (a, b)]
        for table in (ta, tb):
            assert await table.safe(table.write(table.node, 1), 5.0)
        await b.store.del_table_copy("t")
        await until(lambda: "b" not in ta.core.burial.epoch.members)
        assert not ta.core.burial._said
        again = await b.store.create_table("t", replication="shared")
        number = again.write("b", 2)
        assert number == 1
        assert await again.safe(number, 5.0)
        assert await ta.safe(ta.core.position, 5.0)


async def test_rows_of_an_owned_table_go_with_their_owners_copy() -> None:
    """And come back with it."""
    hub = Hub()
    async with host("a", hub, tick=0.02) as a, host("b", hub, tick=0.02) as b:
        ta = await a.store.create_table("t", replication="owned")
        tb = await b.store.create_table("t", replication="owned")
        assert await ta.visible(ta.write("k", 1))
        await a.store.del_table_copy("t")
        await until(lambda: len(tb) == 0)
        again = await a.store.create_table("t", replication="owned")
        again.write("k", 2)
        await until(lambda: tb.read("k") == {"a": 2})
        assert b.store.dump("t") == [("a", "k", 2)]


async def test_what_loses_in_a_merge_is_handed_over() -> None:
    """The loser's version and value, and who won; a failing callback harms nothing."""
    hub = Hub()
    async with host("a", hub) as a, host("b", hub) as b:
        ta, tb = [await h.store.create_table("t", replication="shared") for h in (a, b)]
        assert await ta.visible(ta.write("k", 0))
        hub.partition("a", "b")
        await until(lambda: not a.store.replication.peers() and not b.store.replication.peers())
        ta.write("k", "lost")
        losing = ta.core.versions["k"]
        await asyncio.sleep(0.005)
        tb.write("k", "won")
        seen: list[Any] = []

        def fail(lost: list[Discarded]) -> None:
            seen.append(lost)
            raise ValueError("from the callback")

        ta.on_discard(fail)
        kept: list[Discarded] = []
        tb.on_discard(kept.extend)
        hub.heal("a", "b")
        await until(lambda: ta.read("k") == "won" and kept)
        winning = tb.core.versions["k"]
        assert seen == [[Discarded("t", "k", losing, ["lost"], winning, "b", ours=True)]]
        assert kept == [Discarded("t", "k", losing, ["lost"], winning, "a")]
        assert HybridLogicalClock.wall_of(losing[0]) <= HybridLogicalClock.wall_of(winning[0])


async def test_a_table_that_is_not_there_cannot_be_dropped() -> None:
    """The error names those that are."""
    store = Store(node="a", creation=1)
    await store.create_table("t")
    with pytest.raises(NoSuchTableError, match="it has: t"):
        await store.del_table_copy("u")
    await store.del_table_copy("t")
    assert store.tables() == []


async def test_a_table_can_be_dropped_under_a_transaction() -> None:
    """It learns that the table is gone."""
    store = Store(node="a", creation=1)
    await store.create_table("t", replication="shared")

    async def work(tx: Transaction) -> None:
        await tx.write("t", "k", 1)
        if store.tables():
            await store.del_table_copy("t")
        await tx.write("t", "k", 2)

    with pytest.raises(NoSuchTableError):
        await store.transaction(work)
    assert store.system_info()["transactions"]["locks"] == []


async def test_a_peer_that_takes_nothing_costs_its_window_and_catches_up_by_a_snapshot() -> None:
    """However much is written meanwhile; and it is seen who is behind."""
    hub = Hub()
    options: Any = {"tick": 0.02, "window": 20_000, "log_bytes": 50_000}
    async with host("a", hub, **options) as a, host("b", hub, **options) as b:
        ta, tb = [await h.store.create_table("t", replication="owned") for h in (a, b)]
        assert await ta.visible(ta.write("first", 1))
        hub.hold()
        for turn in range(100):
            for key in range(50):
                ta.write(f"{turn}/{key}", "x" * 100)
            await asyncio.sleep(0)
        await until(lambda: not a.store.replication.tables["t"].log.dirty)
        info = a.store.table_info("t")
        assert info["log_bytes"] <= 50_000 + 10_000
        assert info["followers"]["b"]["in_flight_bytes"] <= 20_000 + 10_000
        assert info["followers"]["b"]["confirmed"] < info["position"]
        hub.release()
        await until(lambda: len(tb) == 5001, 20.0)
        assert a.store.system_info()["counts"]["snapshots"] >= 1


async def test_a_node_whose_peers_are_dead_starts_with_what_it_has(tmp_path: Path) -> None:
    """It waits no longer than it was told to, says of whom it waits, and is complete once they return."""
    hub = Hub()
    disc = Disc(tmp_path / "tables.db")
    async with host("a", disc=disc) as a:
        table = await a.store.create_table("t", replication="shared", storage="disc_copies")
        table.write("old", 1)
        await table.durable()
    async with host("a", hub, disc=disc) as a:
        table = await a.store.create_table("t", replication="shared", storage="disc_copies")
        with pytest.raises(TablesNotLoadedError, match="b is not connected"):
            await a.store.wait_for_tables(peers=["b"], timeout=0.05)
        assert dict(table.rows()) == {"old": 1}
        table.write("new", 2)
        async with host("b", hub) as b:
            other = await b.store.create_table("t", replication="shared")
            other.write("theirs", 3)
            await a.store.wait_for_tables(peers=["b"], timeout=10.0)
            await until(lambda: dict(table.rows()) == dict(other.rows()) == {"old": 1, "new": 2, "theirs": 3})

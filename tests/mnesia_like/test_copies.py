"""Copies that are dropped, rows that are dumped, versions that lose."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gossamer.clock import HybridLogicalClock
from gossamer.mnesia_like import Discarded, Store, Transaction
from gossamer.mnesia_like.errors import NoSuchTableError

from .hub import cluster, until


async def test_a_copy_that_is_made_again_is_told_anew_what_of_it_is_safe() -> None:
    """Though its rows stand where those of its predecessor stood; and what that one said is forgotten."""
    async with cluster("ab", "shared", tick=0.02) as (_, (_a, b), (ta, tb)):
        for table in (ta, tb):
            assert await table.safe(table.write(table.node, 1), 5.0)
        await b.store.del_table_copy("t")
        await until(lambda: "b" not in ta.core.collector.epoch.members)
        assert not ta.core.collector._reports
        again = await b.store.create_table("t", replication="shared")
        number = again.write("b", 2)
        assert number == 1
        assert await again.safe(number, 5.0)
        assert await ta.safe(ta.core.position, 5.0)


async def test_what_loses_in_a_merge_is_handed_over() -> None:
    """The loser's version and value, and who won; a failing callback harms nothing."""
    async with cluster("ab", "shared") as (hub, (a, b), (ta, tb)):
        assert await ta.visible(ta.write("k", 0))
        hub.partition("a", "b")
        await until(lambda: not a.store.replication.connected() and not b.store.replication.connected())
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
    assert store.replication.transactions.locks.owners() == []


async def test_a_peer_that_takes_nothing_costs_its_window_and_catches_up_by_a_snapshot() -> None:
    """However much is written meanwhile; and it is seen who is behind."""
    options: Any = {"tick": 0.02, "window": 20_000, "log_bytes": 50_000}
    async with cluster("ab", "owned", **options) as (hub, (a, _b), (ta, tb)):
        assert await ta.visible(ta.write("first", 1))
        hub.hold()
        for turn in range(100):
            for key in range(50):
                ta.write(f"{turn}/{key}", "x" * 100)
            await asyncio.sleep(0)
        await until(lambda: not a.store.replication.tables["t"].log.open_size)
        info = a.store.table_info("t")
        assert info["log_bytes"] <= 50_000 + 10_000
        assert info["followers"]["b"]["in_flight_bytes"] <= 20_000 + 10_000
        assert info["followers"]["b"]["confirmed"] < info["position"]
        hub.release()
        await until(lambda: len(tb) == 5001, 20.0)
        assert a.store.replication.counts["snapshots"] >= 1

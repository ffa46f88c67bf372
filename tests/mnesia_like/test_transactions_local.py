"""Transactions over tables of one node, alone and together with shared ones, and into discs that are full."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.mnesia_like import Disc, Store, Transaction
from gossamer.mnesia_like.disc.disc import DiscFile
from gossamer.mnesia_like.errors import (
    DiscError,
    TransactionAbortedError,
    TransactionRefusedError,
)

from .hub import Host, Hub, host, until


async def tables(store: Store, **options: Any) -> tuple[Any, Any]:
    return (
        await store.create_table("local", **options),
        await store.create_table("shared", replication="shared", **options),
    )


async def test_rows_of_both_kinds_change_in_one_turn() -> None:
    """Nobody sees one without the other, here; nothing of either where it is aborted."""
    hub = Hub()
    async with host("a", hub) as a, host("b", hub) as b:
        local, shared = await tables(a.store)
        _, there = await tables(b.store)
        await a.store.wait_for_tables(peers=["b"])
        pairs: list[Any] = []
        for table in (local, shared):
            table.subscribe(lambda _: pairs.append((local.read("k", 0), shared.read("k", 0))))

        async def both(tx: Transaction, fail: bool) -> Any:
            for table in ("local", "shared"):
                await tx.write(table, "k", await tx.read(table, "k", 0, write=True) + 1)
            assert await tx.match("local") == [("k", await tx.read("local", "k"))]
            if fail:
                tx.abort("enough")
            return await tx.read("local", "k")

        assert await a.store.transaction(both, False) == 1
        with pytest.raises(TransactionAbortedError):
            await a.store.transaction(both, True)
        assert (local.read("k"), shared.read("k")) == (1, 1)
        # The subscribers are told one after the other, within the turn in which both are in effect.
        assert pairs[-1] == (1, 1)
        await until(lambda: there.read("k") == 1)
        assert len(b.store.table("local")) == 0  # type: ignore[arg-type]


async def test_transactions_of_one_node_wait_for_each_other() -> None:
    """In whatever order they take their locks; bags and deletions too; single writes in between are seen."""
    store = Store(node="a", creation=1)
    await store.create_table("local")
    bag = await store.create_table("bag", type="bag")

    async def move(tx: Transaction, source: int, target: int) -> None:
        for key, change in ((source, -1), (target, 1)):
            value = await tx.read("local", key, 0, write=True)
            await asyncio.sleep(0)
            await tx.write("local", key, value + change)
        await tx.write("bag", "moves", f"{source} {target}")

    local: Any = store.table("local")
    for key in range(3):
        local.write(key, 100)
    jobs = [store.transaction(move, i % 3, (i + 1 + i % 2) % 3, timeout=30.0) for i in range(60)]
    running = asyncio.gather(*jobs)
    await asyncio.sleep(0)
    local.write("unrelated", 1)
    await running
    assert sum(local.read(key) for key in range(3)) == 300
    assert len(bag.read("moves")) == len({(i % 3, (i + 1 + i % 2) % 3) for i in range(60)})

    attempts = 0

    async def slow(tx: Transaction) -> None:
        nonlocal attempts
        attempts += 1
        value = await tx.read("local", 0)
        if attempts == 1:
            local.write(0, value + 1000)
        await tx.write("local", "copy", value)
        await tx.delete("bag", "moves")

    await store.transaction(slow)
    assert attempts == 2
    assert local.read("copy") == local.read(0)
    assert len(bag) == 0


plans = st.recursive(
    st.tuples(st.just("write"), st.integers(0, 3), st.integers(0, 9))
    | st.tuples(st.just("delete"), st.integers(0, 3)),
    lambda inner: st.tuples(st.just("nested"), st.lists(inner, max_size=4), st.booleans()),
    max_leaves=10,
)


@settings(max_examples=100, deadline=None)
@given(plan=st.lists(plans, max_size=5), abort=st.booleans())
async def test_nested_transactions_undo_what_is_theirs(plan: list[Any], abort: bool) -> None:
    """At any depth, over both kinds of table at once, as a model of copied dicts does."""
    store = Store(node="a", creation=1)
    both = await tables(store)
    for table in both:
        table.write(0, "old")

    def model(rows: dict[int, Any], steps: list[Any]) -> dict[int, Any]:
        for step in steps:
            if step[0] == "write":
                rows = rows | {step[1]: step[2]}
            elif step[0] == "delete":
                rows = {key: value for key, value in rows.items() if key != step[1]}
            elif not step[2]:
                rows = model(rows, step[1])
        return rows

    async def run(tx: Transaction, steps: list[Any], fail: bool) -> None:
        for step in steps:
            for table in ("local", "shared"):
                if step[0] == "write":
                    await tx.write(table, step[1], step[2])
                elif step[0] == "delete":
                    await tx.delete(table, step[1])
            if step[0] == "nested":
                with contextlib.suppress(TransactionAbortedError):
                    await tx.transaction(run, step[1], step[2])
        if fail:
            tx.abort("inner")

    with contextlib.suppress(TransactionAbortedError):
        await store.transaction(run, plan, abort)
    expected = {0: "old"} if abort else model({0: "old"}, plan)
    assert [dict(table.rows()) for table in both] == [expected, expected]
    assert store.replication.transactions.locks.owners() == []


def file_of(node: Host) -> DiscFile:
    handle = node.store._disc
    assert handle is not None
    assert handle.file is not None
    return handle.file


async def test_a_transaction_into_a_full_disc_changes_nothing(tmp_path: Path) -> None:
    """At the node that runs it, and where one that takes part has no space; what came before is not lost."""
    hub = Hub()
    disc = {"storage": "disc_copies"}
    async with (
        host("a", hub, disc=Disc(tmp_path / "a"), disc_retry=0.02) as a,
        host("b", hub, disc=Disc(tmp_path / "b"), disc_retry=0.02) as b,
    ):
        local, shared = await tables(a.store, **disc)
        _, there = await tables(b.store, **disc)
        await a.store.wait_for_tables(peers=["b"])

        async def write(tx: Transaction, value: Any) -> None:
            await tx.write("local", "k", value)
            await tx.write("shared", "k", value)

        await a.store.transaction(write, "before")
        await local.durable()
        await until(lambda: there.read("k") == "before")
        await there.durable()
        for node, error, whose in ((a, DiscError, local), (b, TransactionRefusedError, there)):
            file = file_of(node)
            handle: Any = node.store._disc
            await handle.run(file.limit_pages, file.pages() + 1)
            if node is a:
                # The one that finds out is in effect, and on disc once there is space.
                await a.store.transaction(write, "x" * 100_000)
                with pytest.raises(DiscError, match="free some space"):
                    await local.durable()
            else:
                whose.write("big", "x" * 100_000)
                with pytest.raises(DiscError):
                    await whose.durable()
            before = dict(local.rows()), dict(shared.rows()), dict(there.rows())
            with pytest.raises(error, match=r"full|space"):
                await a.store.transaction(write, "refused")
            assert (dict(local.rows()), dict(shared.rows()), dict(there.rows())) == before
            await handle.run(file.limit_pages, 0)
            await until(lambda node=node: node.store.queue.failed is None)
        await a.store.transaction(write, "after")
        await local.durable()
        await until(lambda: there.read("k") == "after")
        await there.durable()
    for name, table in (("a", "local"), ("a", "shared"), ("b", "shared")):
        found = Disc(tmp_path / name).open()
        assert "after" in str(found.load(table)["k"])
        found.close()


@pytest.fixture
def small_disc(tmp_path: Path) -> Iterator[Path]:
    """A file system of half a megabyte."""
    place = tmp_path / "small"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=512k", "none", str(place)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("no tmpfs can be mounted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.real
async def test_a_file_system_that_is_really_full(small_disc: Path) -> None:
    """Nothing acknowledged is lost, and it goes on when there is space."""
    ballast = small_disc / "ballast"
    ballast.write_bytes(bytes(200_000))
    path = small_disc / "tables.db"
    async with host("a", disc=Disc(path), disc_retry=0.02) as a:
        local, _ = await tables(a.store, storage="disc_copies")

        async def write(tx: Transaction, key: int) -> None:
            await tx.write("local", key, "x" * 20_000)

        acknowledged = []
        with pytest.raises(DiscError, match="free some space"):
            for key in range(100):
                await a.store.transaction(write, key)
                await local.durable()
                acknowledged.append(key)
        assert acknowledged
        size = len(local)
        with pytest.raises(DiscError):
            await a.store.transaction(write, 1000)
        assert len(local) == size
        ballast.unlink()
        await until(lambda: a.store.queue.failed is None)
        await a.store.transaction(write, 2000)
        await local.durable()
    found = Disc(path).open()
    assert {*acknowledged, 2000} <= set(found.load("local"))
    found.close()

"""Backups come back whole, or are refused; and rows that live on disc alone."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from gossamer.mnesia_like import Disc, DiscError, Store
from gossamer.mnesia_like.errors import CorruptTablesError, NoSuchTableError, TableExistsError
from gossamer.mnesia_like.values import encode

from .hub import host

ROWS: dict[Any, Any] = {("t", i): {"v": [i, b"x", None, 1.5]} for i in range(2500)}


async def filled() -> Store:
    store = Store(node="a", creation=1)
    for name, options in (
        ("local", {}),
        ("owned", {"replication": "owned"}),
        ("shared", {"replication": "shared"}),
    ):
        table: Any = await store.create_table(name, **options)
        for key, value in ROWS.items():
            table.write(key, value)
    bag = await store.create_table("bag", type="bag")
    bag.write("k", 1)
    bag.write("k", [2])
    return store


async def test_a_backup_comes_back_whole(tmp_path: Path) -> None:
    """Tables are created where they are missing; newer rows stay."""
    store = await filled()
    size = await store.backup(tmp_path / "b")
    assert size == (tmp_path / "b").stat().st_size
    other = Store(node="b", creation=1)
    local = await other.create_table("local")
    local.write("newer", 1)
    counts = await other.restore(tmp_path / "b")
    assert counts == {"local": 2500, "owned": 2500, "shared": 2500, "bag": 1}
    assert local.rows() == ROWS | {"newer": 1}
    owned: Any = other.table("owned")
    assert owned.rows_of("b") == ROWS
    shared: Any = other.table("shared")
    assert shared.rows() == ROWS
    bag: Any = other.table("bag")
    assert bag.read("k") == [1, [2]]


async def test_single_tables_can_be_backed_up_and_restored(tmp_path: Path) -> None:
    """By name; a wrong name changes nothing."""
    store = await filled()
    await store.backup(tmp_path / "b", ["bag", "local"])
    with pytest.raises(NoSuchTableError):
        await store.backup(tmp_path / "c", ["unknown"])
    other = Store(node="b", creation=1)
    with pytest.raises(NoSuchTableError, match="owned"):
        await other.restore(tmp_path / "b", ["owned"])
    assert other.tables() == []
    await other.restore(tmp_path / "b", ["bag"])
    assert other.tables() == ["bag"]


async def test_a_table_of_another_definition_is_not_overwritten(tmp_path: Path) -> None:
    """Both definitions are named, and no row is written."""
    store = await filled()
    await store.backup(tmp_path / "b", ["local"])
    other = Store(node="b", creation=1)
    table = await other.create_table("local", type="bag")
    with pytest.raises(TableExistsError, match="local bag"):
        await other.restore(tmp_path / "b")
    assert len(table) == 0


@pytest.mark.parametrize("where", [3, 200, 5000, 100_000, -3000, -1])
@pytest.mark.parametrize("how", ["flip", "cut"])
async def test_a_damaged_backup_is_refused_or_gives_back_what_was_in_it(
    tmp_path: Path, where: int, how: str
) -> None:
    """Wherever one bit is wrong, or the end is missing; nothing else is ever restored."""
    store = await filled()
    await store.backup(tmp_path / "b", ["local"])
    data = bytearray((tmp_path / "b").read_bytes())
    if how == "flip":
        data[where] ^= 1
    else:
        del data[where:]
    (tmp_path / "b").write_bytes(data)
    other = Store(node="b", creation=1)
    try:
        await other.restore(tmp_path / "b")
    except CorruptTablesError as error:
        assert "nothing was restored" in str(error)  # noqa: PT017
        assert other.tables() == []
    else:
        local: Any = other.table("local")
        assert local.rows() == ROWS
        assert where not in (3, 100_000), "the head, and a row"


async def test_a_backup_that_cannot_be_written_or_read_says_why(tmp_path: Path) -> None:
    """The path is named."""
    store = await filled()
    with pytest.raises(DiscError, match="no/such/dir"):
        await store.backup(tmp_path / "no/such/dir/b")
    with pytest.raises(DiscError, match="missing"):
        await store.restore(tmp_path / "missing")


async def test_what_is_no_backup_is_refused_and_said_so(tmp_path: Path) -> None:
    """An empty file, and one that a node keeps its tables in."""
    (tmp_path / "empty").touch()
    async with host("a", disc=Disc(tmp_path / "tables.db")) as a:
        await a.store.create_table("t", storage="disc_copies", replication="shared")
        await a.store.copy_disc(tmp_path / "copy")
    store = Store(node="b", creation=1)
    for name in ("empty", "copy"):
        with pytest.raises(CorruptTablesError, match=f"{name}: it is no backup.*nothing was restored"):
            await store.restore(tmp_path / name)
    assert store.tables() == []


@pytest.mark.parametrize("number", [errno.EACCES, errno.ENOSPC])
async def test_a_backup_that_cannot_be_copied_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """With what the system says, and what to do."""
    store = await filled()
    await store.backup(tmp_path / "b")

    def fails(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(shutil, "copyfile", fails)
    with pytest.raises(DiscError, match=f"b: .*{os.strerror(number)}; give the path .* room for"):
        await store.restore(tmp_path / "b")


async def test_what_was_committed_to_a_journal_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "tables.db"
    async with host("a", disc=Disc(path)) as a:
        journal, rows = await a.store.create_journal("j")
        assert rows == {}
        commits = asyncio.Event()
        journal.on_commit(commits.set)
        journal.put(encode(("k", 1)), encode([b"old"]))
        ticket = journal.put(encode(("k", 1)), encode([b"new"]))
        journal.put(encode(("k", 2)), encode(2))
        journal.put(encode(("k", 2)), None)
        while journal.committed < ticket:
            commits.clear()
            await asyncio.wait_for(commits.wait(), 10)
    async with host("a", disc=Disc(path)) as a:
        _, rows = await a.store.create_journal("j")
        assert rows == {("k", 1): [b"new"]}


async def test_a_journal_and_a_table_do_not_share_a_name(tmp_path: Path) -> None:
    async with host("a", disc=Disc(tmp_path / "tables.db")) as a:
        await a.store.create_table("j", storage="disc_copies")
        with pytest.raises(TableExistsError):
            await a.store.create_journal("j")

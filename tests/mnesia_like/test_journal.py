"""Rows that live on disc alone."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gossamer.mnesia_like import Disc
from gossamer.mnesia_like.errors import TableExistsError
from gossamer.mnesia_like.values import encode

from .hub import host


async def test_what_was_committed_comes_back_in_order_of_writing(tmp_path: Path) -> None:
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

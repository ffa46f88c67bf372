"""Disc copies: what was acknowledged survives, what is damaged is refused, what cannot be written is said."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gossamer.mnesia_like import Disc, DiscError, TableDef
from gossamer.mnesia_like.__main__ import main
from gossamer.mnesia_like.disc.queue import DiscQueue
from gossamer.mnesia_like.errors import (
    BackupExistsError,
    CorruptTablesError,
    DiscBehindError,
    DiscProcessMissingError,
)
from gossamer.mnesia_like.values import encode
from gossamer.supervisor import StartFailed

from .hub import Hub, host, until

DEFINITION = TableDef(name="t", storage="disc_copies")


def rows_on(path: Path, table: str = "t") -> dict[Any, Any]:
    file = Disc(path).open()
    try:
        return file.load(table)
    finally:
        file.close()


def fill(path: Path, count: int = 1000) -> None:
    file = Disc(path).open()
    file.create(DEFINITION)
    file.commit({"t": {encode(i): encode("x" * 50) for i in range(count)}})
    file.close()


async def test_the_kill_of_the_disc_process_loses_nothing(tmp_path: Path) -> None:
    """Its successor closes the file it left open and commits what waits."""
    async with host("a", disc=Disc(tmp_path / "tables.db")) as a:
        table = await a.store.create_table("t", storage="disc_copies")
        for round_ in range(3):
            for i in range(100):
                table.write((round_, i), i)
            await asyncio.sleep(0)
            victim = a.child("disc")
            a.runtime.exit(victim, "kill")
            await until(lambda victim=victim: not a.runtime.alive(victim))
            await table.durable()
    assert len(rows_on(tmp_path / "tables.db")) == 300


async def test_an_abandoned_store_leaves_what_was_acknowledged_and_no_lock(tmp_path: Path) -> None:
    """As after kill -9, within one process."""
    path = tmp_path / "tables.db"
    async with host("a", disc=Disc(path)) as a:
        table = await a.store.create_table("t", storage="disc_copies")
        table.write("kept", 1)
        await table.durable()
        table.write("lost", 1)
        a.runtime.halt()
        a.store.abandon()
        assert rows_on(path) == {"kept": 1}


_VICTIM = """
import asyncio, random, sys
from gossamer.mnesia_like import Disc, Store, Transaction
from gossamer.supervisor import Runtime, Supervisor

async def main(path, seed, serial, creation):
    rng = random.Random(seed)
    store = Store(node="a", creation=creation, disc=Disc(path))
    runtime = Runtime(node="a", creation=creation)
    await runtime.start(Supervisor, [store.child_spec()])
    tables = [
        await store.create_table(kind, storage="disc_copies", replication=kind)
        for kind in ("local", "owned", "shared")
    ]
    print("started", flush=True)

    async def both(tx, key, serial):
        await tx.write("local", key, serial)
        await tx.write("shared", key, serial)

    while True:
        for _ in range(rng.randrange(1, 40)):
            serial += 1
            key = rng.randrange(200)
            table = rng.choice(tables)
            if rng.random() < 0.2:
                table.delete(key)
                print("delete", table.name, key, serial)
            elif rng.random() < 0.1:
                # While it waits the disc may take what was written so far, and then what it writes.
                print("pausing", flush=True)
                print("write local", key, serial)
                print("pausing", flush=True)
                print("write shared", key, serial)
                print("pausing", flush=True)
                await store.transaction(both, key, serial)
            else:
                table.write(key, serial)
                print("write", table.name, key, serial)
        print("asked", flush=True)
        await tables[0].durable()
        print("acknowledged", flush=True)

asyncio.run(main(sys.argv[1], *map(int, sys.argv[2:])))
"""

KINDS = ("local", "owned", "shared")


def held_on(path: Path) -> dict[str, dict[int, int]]:
    """What the file holds of each table: values, without what is not a row or is deleted."""
    shared = {k: row[2] for k, row in rows_on(path, "shared").items() if k is not None and len(row) == 3}
    return {"local": rows_on(path, "local"), "owned": rows_on(path, "owned"), "shared": shared}


@pytest.mark.parametrize("seed", range(4))
def test_what_was_acknowledged_survives_kill_9(tmp_path: Path, seed: int) -> None:
    """Life after life on one file, killed anywhere: it holds all that was acknowledged, and what was written
    after that up to a moment at which the disc was given a turn."""
    path = tmp_path / "tables.db"
    rng = random.Random(seed)
    state: dict[str, dict[int, int]] = {kind: {} for kind in KINDS}
    serial = 0
    for life in range(1, 4):
        command = [sys.executable, "-c", _VICTIM, str(path), str(seed * 10 + life), str(serial), str(life)]
        victim = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert victim.stdout is not None
        lines: list[str] = []
        stop_at = rng.randrange(2, 1500)
        for line in victim.stdout:
            lines.append(line)
            if len(lines) >= stop_at:
                victim.send_signal(signal.SIGKILL)
                break
        # What it said before it died counts as well; a last line may be cut off.
        lines += victim.stdout.read().splitlines(keepends=True)
        victim.wait()
        victim.stdout.close()
        possible = [{kind: dict(rows) for kind, rows in state.items()}]
        for line in lines:
            match line.split() if line.endswith("\n") else []:
                case ["write", kind, key, number]:
                    serial = int(number)
                    state[kind][int(key)] = serial
                case ["delete", kind, key, number]:
                    serial = int(number)
                    state[kind].pop(int(key), None)
                case ["pausing" | "asked"]:
                    possible.append({kind: dict(rows) for kind, rows in state.items()})
                case ["acknowledged"]:
                    del possible[:-1]
        found = held_on(path)
        assert found in possible, f"seed={seed} life={life}"
        state = found


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"not a database at all" * 100,
        lambda data: data[: len(data) // 2],
        lambda data: data[:-3000] + bytes(2000) + data[-1000:],
        lambda data: data.replace(b"x" * 50, b"x" * 49 + b"y", 1),
    ],
    ids=["garbage", "truncated", "zeroed", "one letter"],
)
async def test_a_damaged_file_is_refused_and_can_be_rebuilt(tmp_path: Path, damage: Any) -> None:
    """It is left as it is; with on_corrupt='rebuild' it is moved aside and the tables start empty."""
    path = tmp_path / "tables.db"
    fill(path)
    broken = damage(path.read_bytes())
    path.write_bytes(broken)
    with pytest.raises(CorruptTablesError, match="on_corrupt='rebuild'") as info:
        rows_on(path)
    assert info.value.path == str(path)
    assert path.read_bytes() == broken
    async with host("a", disc=Disc(path, on_corrupt="rebuild")) as a:
        table = await a.store.create_table("t", storage="disc_copies")
        assert len(table) == 0
        table.write("fresh", 1)
        await table.durable()
    assert rows_on(path) == {"fresh": 1}
    assert (tmp_path / "tables.db.corrupt-1").read_bytes() == broken


async def test_a_damaged_file_is_set_aside_and_the_tables_load_from_the_peers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As an operator does it: the refusal names the command, and after it all that peers have is back."""
    hub = Hub()
    path = tmp_path / "tables.db"
    options: dict[str, Any] = {"replication": "shared", "storage": "disc_copies", "nodes": "all"}
    async with host("b", hub, tick=0.02) as b:
        async with host("a", hub, disc=Disc(path), tick=0.02) as a:
            made = await a.store.create_table("t", **options)
            for key in range(500):
                made.write(key, "x" * 50)
            await made.durable()
            there: Any = b.store.table("t")
            await until(lambda: len(there) == 500)
            hub.part("a", left=False)
        assert main(["check", str(path)]) == 0
        # The rows, and perhaps who the members are.
        assert re.search(r"t +shared set +50[01] rows", capsys.readouterr().out)
        assert main(["set-aside", str(path)]) == 2
        data = path.read_bytes()
        path.write_bytes(data[:8192] + bytes(len(data) - 8192))
        with pytest.raises(StartFailed, match=r"python -m gossamer.mnesia_like set-aside"):
            async with host("a", disc=Disc(path)):
                pass
        assert main(["check", str(path)]) == 1
        assert main(["set-aside", str(path)]) == 0
        assert main(["check", str(path)]) == 2
        assert (tmp_path / "tables.db.corrupt-1").exists()
        async with host("a", hub, disc=Disc(path), tick=0.02) as a:
            await until(lambda: "t" in a.store.tables() and len(a.store.table("t")) == 500)  # type: ignore[arg-type]
            await a.store.wait_for_tables(peers=["b"])
            assert main(["check", str(path)]) == 2
            await a.store.table("t").durable()
        assert len(rows_on(path)) >= 500


async def test_who_has_read_enough_of_a_check_sees_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "tables.db"
    async with host("a", disc=Disc(path)) as a:
        await (await a.store.create_table("t", storage="disc_copies")).durable()
    command = [sys.executable, "-m", "gossamer.mnesia_like", "check", str(path)]
    read, write = os.pipe()
    os.close(read)
    done = await asyncio.to_thread(
        subprocess.run, command, stdout=write, stderr=subprocess.PIPE, text=True, timeout=60, check=False
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (-signal.SIGPIPE, "")


def test_a_file_of_another_release_is_refused_as_such(tmp_path: Path) -> None:
    """Who went back to an older release is told so, and not to throw the file away."""
    path = tmp_path / "tables.db"
    fill(path, 3)
    with closing(sqlite3.connect(path)) as later:
        later.execute("UPDATE _format SET version = '3'")
        later.commit()
    with pytest.raises(
        CorruptTablesError, match="format 3, expected 1 or 2; start the release that wrote it"
    ):
        Disc(path).open()
    assert path.is_file()


@pytest.mark.parametrize("at", ["commit", "open"])
def test_a_row_that_closes_the_way_back_keeps_older_releases_from_the_file(tmp_path: Path, at: str) -> None:
    path, closes = tmp_path / "tables.db", ("t", encode("closes"))

    def form(key: str, closes: tuple[str, bytes] | None) -> str:
        """The format after a write."""
        file = Disc(path, closing=closes).open()
        file.create(DEFINITION)
        file.commit({"t": {encode(key): encode(1)}})
        file.close()
        with closing(sqlite3.connect(path)) as found:
            return str(found.execute("SELECT version FROM _format").fetchone()[0])

    assert form("other", closes) == "1"
    assert form("closes", closes if at == "commit" else None) == ("2" if at == "commit" else "1")
    assert form("other", closes) == "2"
    assert rows_on(path) == {"other": 1, "closes": 1}


@pytest.mark.parametrize(
    ("ill", "well", "advice"),
    [
        ("query_only = 1", "query_only = 0", "make the file and its directory writable"),
        ("max_page_count = 6", "max_page_count = 100000", "free some space"),
    ],
    ids=["read-only", "full"],
)
async def test_a_disc_that_takes_no_writes_refuses_them_and_recovers(
    tmp_path: Path, ill: str, well: str, advice: str
) -> None:
    """Of disc tables only; nothing refused is changed, nothing written before is lost, and it goes on."""
    path = tmp_path / "tables.db"
    async with host("a", disc=Disc(path), disc_retry=0.02) as a:
        table = await a.store.create_table("t", storage="disc_copies")
        memory = await a.store.create_table("m")
        handle: Any = a.store._disc
        conn = handle.file._conn
        table.write("first", 1)
        await table.durable()
        await handle.run(conn.execute, f"PRAGMA {ill}")
        table.write("big", "x" * 100_000)
        with pytest.raises(DiscError, match=advice):
            await table.durable()
        for refused in (lambda: table.write("refused", 1), lambda: table.delete("first")):
            with pytest.raises(DiscError):
                refused()
        memory.write("third", 3)
        assert set(table.rows()) == {"first", "big"}
        await handle.run(conn.execute, f"PRAGMA {well}")
        await until(lambda: a.store.queue.failed is None)
        table.write("after", 1)
        await table.durable()
    assert set(rows_on(path)) == {"first", "big", "after"}


def test_what_cannot_be_opened_is_named(tmp_path: Path) -> None:
    (tmp_path / "dir").mkdir()
    with pytest.raises(DiscError, match="make the file and its directory writable"):
        Disc(tmp_path / "dir").open()


def test_one_file_serves_one_process(tmp_path: Path) -> None:
    """The second that opens it is told to stop."""
    file = Disc(tmp_path / "tables.db").open()
    with pytest.raises(DiscError, match="a data directory of its own"):
        Disc(tmp_path / "tables.db").open()
    file.close()


def test_commits_are_all_or_nothing(tmp_path: Path) -> None:
    """A batch that fails half-way leaves no trace, and the sums still add up."""
    path = tmp_path / "tables.db"
    fill(path, 10)
    file = Disc(path).open()
    before = file.load("t")
    with pytest.raises(Exception, match="no such table"):
        file.commit({"t": {encode(1): encode("changed")}, "unknown": {encode(1): encode(1)}})
    assert file.load("t") == before
    file.commit({"t": {encode(1): None, encode(2): encode("new"), encode(99): None}})
    assert file.load("t") == {k: "new" if k == 2 else v for k, v in before.items() if k != 1}
    file.close()


def test_the_queue_is_bounded() -> None:
    """A disc that is far behind refuses more, until it has caught up."""
    queue = DiscQueue(bound=2)
    queue.put("t", b"1", b"x")
    queue.put("t", b"1", b"y")
    queue.check()
    queue.put("t", b"2", b"x")
    with pytest.raises(DiscBehindError, match="at most 2"):
        queue.check()
    assert queue.take() == {"t": {b"1": b"y", b"2": b"x"}}
    queue.succeed()
    queue.check()


async def test_what_was_written_before_a_copy_is_in_it(tmp_path: Path) -> None:
    """Rows that no commit had taken yet as well; the copy opens as a disc, and writing goes on meanwhile."""
    copy = tmp_path / "backups" / "copy.db"
    async with host("a", disc=Disc(tmp_path / "tables.db")) as a:
        table = await a.store.create_table("t", storage="disc_copies")
        for i in range(3000):
            table.write(i, "x" * 100)
        later = itertools.count(3000)
        copying = asyncio.ensure_future(a.store.copy_disc(copy))
        while not copying.done():
            table.write(next(later), "later")
            await asyncio.sleep(0.001)
        assert await copying == copy.stat().st_size
        await table.durable()
        found = rows_on(copy)
        assert {i: found.get(i) for i in range(3000)} == dict.fromkeys(range(3000), "x" * 100)
        assert copy.stat().st_mode & 0o777 == 0o600
        assert [entry.name for entry in os.scandir(copy.parent)] == ["copy.db"]


async def test_a_copy_that_cannot_be_written_leaves_everything_as_it_was(tmp_path: Path) -> None:
    there = tmp_path / "there.db"
    there.write_text("mine")
    async with host("a", disc=Disc(tmp_path / "tables.db")) as a:
        table = await a.store.create_table("t", storage="disc_copies")
        with pytest.raises(BackupExistsError, match=r"there\.db exists"):
            await a.store.copy_disc(there)
        with pytest.raises(BackupExistsError):
            await a.store.copy_disc("/")
        with pytest.raises(DiscError, match=rf"there is no directory {tmp_path}/mnt; choose a place"):
            await a.store.copy_disc(tmp_path / "mnt" / "copy.db")
        table.write(1, "goes on")
        await table.durable()
    assert there.read_text() == "mine"
    async with host("b") as b:
        with pytest.raises(DiscProcessMissingError):
            await b.store.copy_disc(tmp_path / "copy.db")
    assert sorted(entry.name for entry in os.scandir(tmp_path)) == ["tables.db", "there.db"]

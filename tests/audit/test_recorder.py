"""From a buffer to files by way of a real writer, which outlives whatever happens to its node."""

import asyncio
import functools
import os
import signal
import subprocess
import sys
import textwrap

import pytest

from gossamer.audit import KINDS, EventBuffer, Limits, Recorder, schema
from gossamer.audit.journal import Batch, Journal, frame, to_parquet
from gossamer.supervisor import ChildSpec, Runtime, Supervisor

pq = pytest.importorskip("pyarrow.parquet")
pytestmark = pytest.mark.real

NODE = "n1@127.0.0.1"
LIMITS = Limits(rotate_size=32 * 2**20, rotate_after=60.0, keep_size=0, keep_for=0.0)


def rows_of(root):
    files = sorted(root.rglob("day=*/*/*/*.parquet"))
    rows = [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
    return sorted(rows, key=lambda row: (row["creation"], row["seq"]))


def buffer(limit=100_000):
    import time

    return EventBuffer(limit=limit, wall=time.time)


async def until(condition):
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - files and processes raise no event
            await asyncio.sleep(0.05)


def recorder(it, root):
    options = {"root": root, "node": NODE, "creation": 1, "limits": LIMITS, "share": 1.0}
    start = functools.partial(Recorder.start_link, it, name="recorder", **options)
    return ChildSpec("recorder", start, shutdown=40.0)


async def stop(runtime):
    runtime.exit(runtime.whereis("node"), "shutdown")
    await until(lambda: runtime.whereis("node") is None)
    await runtime.stop()


def published(it, number, count=1):
    it.note(KINDS[schema.PUBLISHED], NODE, 1, number, count, "a/b", 0, False, 10 * count, None, "c1")


async def test_what_was_noted_is_in_files_once_the_node_has_stopped(tmp_path):
    it = buffer()
    runtime = Runtime(node=NODE, creation=1)
    await runtime.start(Supervisor, [recorder(it, tmp_path)], name="node")
    for number in range(1, 5001):
        published(it, number)
    await stop(runtime)
    rows = rows_of(tmp_path)
    assert [row["seq"] for row in rows] == list(range(1, 5003))
    assert [row["event"] for row in rows[:2]] == [schema.OPENED, schema.PUBLISHED]
    assert rows[-1]["event"] == schema.CLOSED
    assert rows[1]["topic"] == "a/b"
    assert rows[1]["recorder"] == NODE
    assert not list(tmp_path.rglob("*.part"))
    assert not list(tmp_path.rglob("*.journal"))


NODE_PROGRAM = """
    import asyncio, sys, time
    from pathlib import Path
    from gossamer.audit import KINDS, Limits, Recorder, EventBuffer, schema
    from gossamer.supervisor import ChildSpec, Runtime, Supervisor

    async def main():
        buffer = EventBuffer(limit=100_000, wall=time.time)
        runtime = Runtime(node="n1@127.0.0.1", creation=1)
        await runtime.start(
            Recorder, buffer, root=Path(sys.argv[1]), node="n1@127.0.0.1", creation=1,
            limits=Limits(2**25, 60.0, 0, 0.0), share=1.0, name="recorder",
        )
        for number in range(1, 1001):
            buffer.note(KINDS[schema.PUBLISHED], "n1@127.0.0.1", 1, number, 1, "a", 0, False, 1, None, "c")
        while len(buffer):
            await asyncio.sleep(0.01)
        print("handed over", flush=True)
        await asyncio.sleep(600)

    asyncio.run(main())
"""


async def test_a_killed_node_leaves_whole_files_with_all_that_it_handed_over(tmp_path):
    node = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", textwrap.dedent(NODE_PROGRAM), str(tmp_path)), stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(60):
        async for line in node.stdout:
            if line == b"handed over\n":
                break
    node.kill()
    await node.wait()
    await until(lambda: list(tmp_path.rglob("day=*/*/*/*.parquet")))
    rows = rows_of(tmp_path)
    assert sum(row["event"] == schema.PUBLISHED for row in rows) == 1000
    (file,) = tmp_path.rglob("day=*/*/*/*.parquet")
    metadata = pq.ParquetFile(file).metadata.metadata
    assert metadata[b"gossamer.audit.closed"] == b"false"
    # The writer has ended by itself.
    await until(lambda: not writers(tmp_path))


def writers(root):
    listed = subprocess.run(["ps", "-eo", "pid,args", "-ww"], capture_output=True, text=True, check=True)
    lines = listed.stdout.splitlines()
    return [int(line.split()[0]) for line in lines if "gossamer.audit" in line and str(root) in line]


async def test_a_killed_writer_is_replaced_and_its_journal_finished(tmp_path):
    it = buffer()
    runtime = Runtime(node=NODE, creation=1)
    await runtime.start(Supervisor, [recorder(it, tmp_path)], name="node")
    first = runtime.whereis("recorder")
    for number in range(1, 101):
        published(it, number)
    await until(lambda: list(tmp_path.rglob("*.journal")))
    await until(lambda: sum(p.stat().st_size for p in tmp_path.rglob("*.journal")) > 1000)
    (writer,) = writers(tmp_path)
    os.kill(writer, signal.SIGKILL)
    await until(lambda: runtime.whereis("recorder") not in (None, first))
    published(it, 101)
    await until(lambda: not len(it))
    await stop(runtime)
    numbers = [row["message"] for row in rows_of(tmp_path) if row["event"] == schema.PUBLISHED]
    assert sorted(numbers) == list(range(1, 102))


def test_a_journal_whose_end_is_missing_gives_what_is_whole(tmp_path):
    it = buffer()
    journal = Journal(tmp_path / "j" / "1.journal", node=NODE, creation=3)
    for number in range(1, 4):
        published(it, number)
        journal.append(frame(Batch(None, it.take())))
    journal.close()
    data = journal.path.read_bytes()
    journal.path.write_bytes(data[:-5])
    made = to_parquet(journal.path, tmp_path)
    assert made is not None
    assert [row["message"] for row in rows_of(tmp_path)] == [1, 2]
    assert not journal.path.exists()
    journal.path.write_bytes(b"")
    assert to_parquet(journal.path, tmp_path) is None


def test_a_stalled_disc_costs_bounded_memory_and_is_a_gap_in_the_file(tmp_path):
    it = buffer(limit=10)
    journal = Journal(tmp_path / "j" / "1.journal", node=NODE, creation=3)
    for number in range(1, 31):
        published(it, number)
    assert len(it) == 10
    journal.append(frame(Batch(None, it.take())))
    journal.close()
    made = to_parquet(journal.path, tmp_path)
    assert b"20]]" in pq.ParquetFile(made).metadata.metadata[b"gossamer.audit.gaps"]
    assert rows_of(tmp_path)[-1]["reason"] == "overflow"


def test_old_files_go_first_and_only_this_nodes(tmp_path):
    from gossamer.audit.writer import Writer

    def file(node, hour, age):
        path = tmp_path / "day=2026-01-01" / f"hour={hour:02}" / f"node={node}" / f"1-{1:016}.parquet"
        path.parent.mkdir(parents=True)
        path.write_bytes(b"x" * 100)
        os.utime(path, (1_000_000 - age, 1_000_000 - age))
        return path

    mine = [file("n1", hour, age=3600 * (10 - hour)) for hour in range(5)]
    theirs = file("n2", 0, age=10**6)
    writer = Writer(tmp_path, node="n1", creation=1, limits=LIMITS._replace(keep_size=250, keep_for=9 * 3600))
    writer._forget(1_000_000)
    assert [path.exists() for path in mine] == [False, False, False, True, True]
    assert theirs.exists()
    assert not mine[1].parent.exists()

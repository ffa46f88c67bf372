"""Rates of replicated tables: ``python bench/tables.py [--rows N]`` prints one table.

Everything runs in this one process and on its one core: rates "applied" are of the follower alone, frames of
the owner having been made before. Rows are routes: a filter and None.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

from gossamer.mnesia_like import Change, Disc, OwnedTable, Store, Transaction
from gossamer.mnesia_like.definition import TableDef
from gossamer.mnesia_like.disc.disc import DiscFile
from gossamer.mnesia_like.replication.exchange import Action, Send
from gossamer.mnesia_like.replication.own_log import OwnLog
from gossamer.mnesia_like.replication.replication import Replication
from gossamer.mnesia_like.values import NIL, encode

ROUTES = TableDef(name="routes", replication="owned")


def filters(count: int) -> list[str]:
    """As many filters, in the shape that the route benchmarks use."""
    return [f"site/{i % 1000}/dev/{i // 1000}/metric/{i}" for i in range(count)]


def put(log: OwnLog, key: str) -> None:
    """Write a route, as its table does."""
    log.write(key, None, ROUTES.encode_key(key) + NIL)


def pair(rows: int) -> tuple[Replication, Replication]:
    """An owner with so many rows, and a follower that has none."""
    owner, follower = Replication(node="a", creation=1), Replication(node="b", creation=2)
    for core in (owner, follower):
        core.create(ROUTES, 0.0)
    log = owner.tables["routes"].log
    for key in filters(rows):
        put(log, key)
    owner.flush()
    return owner, follower


def frames(actions: list[Action]) -> list[bytes]:
    return [action.frame for action in actions if isinstance(action, Send)]


def exchange(
    owner: Replication, follower: Replication, to_owner: list[bytes], to_follower: list[bytes]
) -> int:
    """Hand frames to and fro until silence; how many bytes went to the follower."""
    total = 0
    while to_owner or to_follower:
        answers: list[bytes] = []
        for frame in to_follower:
            total += len(frame)
            answers += frames(follower.receive("a", frame, 0.0))
        to_follower = []
        for frame in to_owner + answers:
            to_follower += frames(owner.receive("b", frame, 0.0))
        to_owner = []
    return total


def connect(owner: Replication, follower: Replication) -> int:
    up = frames(owner.peer_up("b", 2, 1, 0.0))
    return exchange(owner, follower, frames(follower.peer_up("a", 1, 1, 0.0)), up)


def timed(work: Callable[[], object]) -> float:
    gc.collect()
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def bench_core(rows: int) -> None:
    keys = filters(rows)
    log = Replication(node="a", creation=1).create(ROUTES, 0.0)[0].log
    seconds = timed(lambda: [put(log, key) for key in keys])
    show("write, pure core", rows, seconds)

    owner, follower = pair(rows)
    wire = 0

    def load() -> None:
        nonlocal wire
        wire = connect(owner, follower)

    seconds = timed(load)
    assert len(follower.tables["routes"].replicas["a"].rows) == rows
    show("snapshot, both ends", rows, seconds, f"{wire / rows:.0f} B a row on the wire")

    # Live deltas of 1,000 changes a turn, half of them deletions.
    log = owner.tables["routes"].log
    turns: list[list[bytes]] = []
    acks: list[bytes] = []
    applying = 0.0
    changes = 0
    for turn in range(200):
        for i in range(500):
            put(log, f"live/{turn}/{i}")
            if turn:
                gone = f"live/{turn - 1}/{i}"
                log.delete(gone, encode(gone))
            changes += 2 if turn else 1
        turns.append(frames(owner.flush()))
        start = time.perf_counter()
        for frame in turns[-1]:
            acks += frames(follower.receive("a", frame, 0.0))
        applying += time.perf_counter() - start
        for frame in acks:
            owner.receive("b", frame, 0.0)
        acks.clear()
    show("apply, batches of 1,000", changes, applying)

    sweep = timed(lambda: _digest(owner, follower))
    show("digest, both ends", rows, sweep)


def _digest(owner: Replication, follower: Replication) -> None:
    to_follower = frames(owner.tick(61.0))
    while owner.busy or follower.busy or to_follower:
        for frame in to_follower:
            follower.receive("a", frame, 61.0)
        to_follower = frames(owner.work())
        follower.work()
    assert follower.counts["digest_mismatches"] == 0


def bench_memory(rows: int) -> None:
    owner, follower = pair(rows)
    messages: list[bytes] = []
    to_follower = frames(owner.peer_up("b", 2, 1, 0.0))
    gc.collect()
    tracemalloc.start()
    exchange(owner, follower, frames(follower.peer_up("a", 1, 1, 0.0)), to_follower)
    del owner, messages, to_follower
    gc.collect()
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    keys = sum(len(k) for k in follower.tables["routes"].replicas["a"].rows) / rows
    text = f"B a row, of which {keys:.0f} B are the filter's text"
    print(f"{'memory at a follower':28}{held / rows:>14.0f} {text}")


async def bench_store(rows: int) -> None:
    store = Store(node="a", creation=1)
    table = await store.create_table("routes", replication="owned")
    assert isinstance(table, OwnedTable)
    keys = filters(rows)
    seconds = timed(lambda: [table.write(key, None) for key in keys])
    show("table.write", rows, seconds)
    seconds = timed(lambda: [table.read(key) for key in keys])
    show("table.read", rows, seconds)
    local = await store.create_table("local")
    seconds = timed(lambda: [local.write(key, 1) for key in keys])
    show("local table.write", rows, seconds)
    shared = await store.create_table("shared", replication="shared")
    seconds = timed(lambda: [shared.write(key, 1) for key in keys])
    show("shared table.write", rows, seconds)
    change = Change("shared", "b", {key: [1 << 62, "b", 2] for key in keys}, ())
    seconds = timed(lambda: shared.absorb(change))
    show("shared rows merged", rows, seconds)
    count = min(rows, 20_000)

    async def increment(tx: Transaction, key: str) -> None:
        await tx.write("shared", key, await tx.read("shared", key, write=True))

    start = time.perf_counter()
    for key in keys[:count]:
        await store.transaction(increment, key)
    show("transactions, one node", count, time.perf_counter() - start, "read and write of one row")


def bench_disc(rows: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "tables.db"
        file: DiscFile = Disc(path).open()
        file.create(TableDef(name="t", storage="disc_copies"))
        batch = {encode(key): encode(1) for key in filters(rows)}
        items = list(batch.items())
        seconds = timed(lambda: file.commit({"t": batch}))
        show("disc commit, one batch", rows, seconds)
        small = [dict(items[i : i + 100]) for i in range(0, min(rows, 20_000), 100)]
        seconds = timed(lambda: [file.commit({"t": part}) for part in small])
        show("disc commit, 100 a batch", len(small) * 100, seconds)
        file.close()
        seconds = timed(lambda: rows_of(path))
        show("disc open, check and load", rows, seconds)


def bench_cost(most: int, plot: Path | None) -> None:
    """What a route costs in bytes, by nodes and filters: on the wire to one node, and in its memory."""
    print(f"{'nodes':>6}{'filters':>10}{'B/route joining':>17}{'B/route live':>14}{'B/route in memory':>19}")
    lines: dict[int, list[tuple[int, float, float]]] = {}
    for nodes in (3, 5, 9):
        count = 10_000
        while count <= most:
            joining, live, held = cost(nodes, count)
            print(f"{nodes:>6}{count:>10,}{joining:>17.1f}{live:>14.1f}{held:>19.1f}", flush=True)
            lines.setdefault(nodes, []).append((count, live, held))
            count *= 10
    print("one row a filter; all nodes own as many; of a route, each other node is sent its bytes once")
    if plot is not None:
        plot.write_text(drawing(lines))


def cost(nodes: int, count: int) -> tuple[float, float, float]:
    """Bytes a route: to a joiner, to a follower of live writes, and held by a node that has all of them."""
    share = count // nodes
    keys = filters(share * nodes)
    follower = Replication(node="n0", creation=1)
    follower.create(ROUTES, 0.0)
    joining = live = held = 0
    gc.collect()
    for number in range(nodes):
        mine = keys[number * share : (number + 1) * share]
        if number == 0:
            tracemalloc.start()
            log = follower.tables["routes"].log
            # Text of its own, as if it had come from a client.
            for key in mine:
                put(log, key.encode().decode())
            follower.flush()
            held += tracemalloc.get_traced_memory()[0]
            tracemalloc.stop()
            continue
        for when in ("joining", "live"):
            owner = Replication(
                node=f"n{number}", creation=2, log_bytes=1 << (0 if when == "joining" else 30)
            )
            owner.create(ROUTES, 0.0)
            log = owner.tables["routes"].log
            other = follower
            if when == "joining":
                other = Replication(node="joiner", creation=1)
                other.create(ROUTES, 0.0)
            sent = 0
            if when == "live":
                sent += introduce(owner, other)
                tracemalloc.start()
                before = tracemalloc.get_traced_memory()[0]
            for start in range(0, share, 1000):
                for key in mine[start : start + 1000]:
                    put(log, key)
                sent += hand_over(owner, other, frames(owner.flush()))
            if when == "live":
                del owner, log
                gc.collect()
                held += tracemalloc.get_traced_memory()[0] - before
                tracemalloc.stop()
                live += sent
            else:
                joining += introduce(owner, other)
    others = share * (nodes - 1)
    return joining / others, live / others, held / (share * nodes)


def introduce(owner: Replication, follower: Replication) -> int:
    """Let them follow each other; bytes that went to the follower."""
    to_follower = frames(owner.peer_up(follower.node, follower.creation, 1, 0.0))
    to_owner = frames(follower.peer_up(owner.node, owner.creation, 1, 0.0))
    for frame in to_owner:
        to_follower += frames(owner.receive(follower.node, frame, 0.0))
    return hand_over(owner, follower, to_follower)


def hand_over(owner: Replication, follower: Replication, to_follower: list[bytes]) -> int:
    total = 0
    while to_follower:
        answers: list[bytes] = []
        for frame in to_follower:
            total += len(frame)
            answers += frames(follower.receive(owner.node, frame, 0.0))
        to_follower = [f for a in answers for f in frames(owner.receive(follower.node, a, 0.0))]
    return total


def drawing(lines: dict[int, list[tuple[int, float, float]]]) -> str:
    """Bytes a route in memory over filters, one line for each number of nodes, as SVG."""
    top = 1.2 * max(held for points in lines.values() for _, _, held in points)
    shapes = []
    for colour, (nodes, points) in zip(("#1b6ca8", "#c8553d", "#588b4b"), lines.items(), strict=True):
        path = [(80 + 120 * (len(str(n)) - 5), 220 - 180 * held / top) for n, _, held in points]
        text = " ".join(f"{x:.0f},{y:.1f}" for x, y in path)
        shapes.append(f'<polyline points="{text}" fill="none" stroke="{colour}" stroke-width="2"/>')
        at = 30 + 16 * len(shapes) // 2
        shapes.append(f'<text x="350" y="{at}" fill="{colour}">{nodes} nodes</text>')
    marks = [f'<text x="{80 + 120 * i}" y="240">{10_000 * 10**i:,}</text>' for i in range(3)]
    marks += [f'<text x="8" y="{224 - 180 * v / top:.0f}">{v:.0f} B</text>' for v in (0, top / 2, top)]
    said = "Bytes a route takes in memory over the number of filters, a line for each size of cluster."
    page = '<rect width="440" height="250" fill="#fff"/>'
    head = ["<title>Memory a route, by filters</title>", f"<desc>{said}</desc>", page]
    body = "\n".join([*head, *shapes, *marks])
    frame = 'xmlns="http://www.w3.org/2000/svg" viewBox="0 0 440 250" font-family="sans-serif" font-size="12"'
    return f"<svg {frame}>\n{body}\n</svg>\n"


def rows_of(path: Path) -> int:
    file = Disc(path).open()
    count = len(file.load("t"))
    file.close()
    return count


def show(what: str, count: int, seconds: float, remark: str = "") -> None:
    print(f"{what:28}{count / seconds:>14,.0f} rows/s{count:>12,} rows in {seconds:6.2f} s  {remark}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--cost", action="store_true", help="bytes a route by nodes and filters, only that")
    parser.add_argument("--plot", type=Path, help="with --cost: write the memory as SVG")
    options = parser.parse_args()
    rows = options.rows
    if options.cost:
        bench_cost(rows, options.plot)
        return
    bench_core(rows)
    asyncio.run(bench_store(min(rows, 300_000)))
    bench_memory(min(rows, 200_000))
    bench_disc(min(rows, 200_000))


if __name__ == "__main__":
    main()

"""How fast a split is seen and healed, and what healing a large table moves.

``python bench/healing.py`` prints, for five whole nodes at default settings on virtual time, the seconds from
the cut until every node knows, from mended links until all routes are equal, and until all is healed (15 s of
these autoheal waits). Then, with two stores over real loopback in this one process, the seconds and
bytes it takes until a table of a million rows is equal again. ``--rows N`` for another size.

Rows of an *owned* table (routes, sessions) move by their log after a short split and after one that outlasts
their grace time, which is set to two seconds for that. Those of a *shared* one (retained messages) are taken
over by the survivors when their grace time ends; its split is a short one.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Callable
from functools import partial

import structlog

from gossamer.distribution import Distribution, StreamTransport
from gossamer.gossip import Status
from gossamer.mnesia_like import OwnedTable, SharedTable, Store
from gossamer.network import SystemNetwork
from gossamer.node.replication import TableLinks
from gossamer.supervisor import Runtime, Supervisor
from gossamer.testing import SimNetwork, run_simulation
from gossamer.testing.cluster import SimCluster

SEEDS = 10
SLICE = 5000
GRACE = 2.0


async def until(holds: Callable[[], bool], step: float) -> None:
    while True:
        if holds():
            return
        await asyncio.sleep(step)


async def one_split(sim: SimNetwork) -> tuple[float, float, float]:
    """Seconds until all know, until routes are equal, until healed."""
    cluster = SimCluster(sim, 5)
    for number in range(1, 6):
        await cluster.start(number)
    await cluster.settled()
    sides = ([1, 2, 3], [4, 5])
    clients = {number: await cluster.client(number) for number in cluster.nodes}
    for number, client in clients.items():
        await client.subscribe(f"at/{number}", "all/#", qos=1)
    await cluster.settled()
    now = sim.loop.time
    cluster.partition(*sides)
    begun = now()
    across = {number: len(side) for side in sides for number in side}

    def knows(number: int) -> bool:
        members = cluster.nodes[number].members.members()
        return sum(member.status is Status.ONLINE for member in members) == across[number]

    await until(lambda: all(map(knows, cluster.nodes)), 0.05)
    known = now() - begun
    await asyncio.sleep(10.0)
    for number, client in clients.items():
        await client.subscribe(f"during/{number}", qos=1)
    cluster.heal()
    begun = now()
    await cluster.settled()
    equal = now() - begun
    healings = [node.healing for node in cluster.nodes.values()]
    await until(lambda: all(healing.history and not healing.open for healing in healings), 0.1)
    healed = now() - begun
    if not all(client.connected for client in clients.values()):
        raise RuntimeError("a client was dropped")
    await cluster.stop_all()
    return known, equal, healed


class Host:
    """A store and its links."""

    def __init__(self, name: str) -> None:
        self.runtime = Runtime(node=name, creation=1)
        carrier = StreamTransport(SystemNetwork())
        self.links = Distribution(self.runtime, carrier, cookie="benchmark cookie", address=("127.0.0.1", 0))
        self.store = Store(node=name, creation=1, link=TableLinks(self.links))

    async def start(self) -> SharedTable:
        await self.runtime.start(Supervisor, [self.links.child_spec(), self.store.child_spec()])
        self.owned = await self.store.create_table("owned", replication="owned", grace=GRACE)
        return await self.store.create_table("rows", replication="shared")

    def bytes_out(self) -> int:
        return sum(counts.streams["replication"].bytes_out for counts in self.links.counts().values())


def meet(one: Host, other: Host) -> None:
    for here, there in ((one, other), (other, one)):
        here.links.connect(there.runtime.node, there.runtime.creation, there.links.address)


def part(one: Host, other: Host) -> None:
    for here, there in ((one, other), (other, one)):
        here.links.disconnect(there.runtime.node, "down")


async def equal(tables: list[SharedTable], rows: int, marks: list[str]) -> float:
    """Seconds until both have all rows."""
    begun = time.perf_counter()
    await until(lambda: all(len(t) == rows and all(mark in t for mark in marks) for t in tables), 0.01)
    return time.perf_counter() - begun


async def write(table: SharedTable | OwnedTable, keys: range, prefix: str) -> None:
    for number in keys:
        table.write(f"{prefix}/{number}", number)
        if number % SLICE == SLICE - 1:
            await asyncio.sleep(0)


async def large(rows: int, changed: int) -> None:
    hosts = [Host("one@127.0.0.1"), Host("two@127.0.0.1")]
    tables = [await host.start() for host in hosts]
    meet(*hosts)
    await hosts[0].store.wait_for_tables(timeout=30, peers=[hosts[1].store.node])
    begun = time.perf_counter()
    await write(tables[0], range(rows), "row")
    await equal(tables, rows, [])
    before = sum(host.bytes_out() for host in hosts)
    print(f"{rows} rows on both: {before / 1e6:.1f} MB in {time.perf_counter() - begun:.1f} s")
    part(*hosts)
    await asyncio.sleep(1.0)
    for side, table in enumerate(tables):
        await write(table, range(changed), f"new/{side}")
        await write(table, range(0, rows, max(1, rows // changed)), "row")
    count, marks = len(tables[0]) + changed, [f"new/{side}/{changed - 1}" for side in (0, 1)]
    before = sum(host.bytes_out() for host in hosts)
    begun = time.perf_counter()
    meet(*hosts)
    await equal(tables, count, marks)
    await until(lambda: tables[0].core.versions == tables[1].core.versions, 0.05)
    took, moved = time.perf_counter() - begun, sum(host.bytes_out() for host in hosts) - before
    print(
        f"after a split in which each side wrote {changed} new rows and {changed} of the others': "
        f"equal again after {took:.2f} s, {moved / 1e3:.0f} kB moved"
    )
    for host in hosts:
        await host.runtime.stop()


def holds(table: OwnedTable, rows: int, mark: str) -> bool:
    return len(table) == rows and mark in table


async def owned(rows: int, changed: int) -> None:
    """One store owns the rows; the other holds them, is cut off, and has them again."""
    hosts = [Host("one@127.0.0.1"), Host("two@127.0.0.1")]
    for host in hosts:
        await host.start()
    meet(*hosts)
    await hosts[0].store.wait_for_tables(timeout=30, peers=[hosts[1].store.node])
    mine, theirs = hosts[0].owned, hosts[1].owned
    begun = time.perf_counter()
    await write(mine, range(rows), "row")
    await until(lambda: len(theirs) == rows, 0.01)
    before = sum(host.bytes_out() for host in hosts)
    print(f"{rows} rows of one owner: {before / 1e6:.1f} MB in {time.perf_counter() - begun:.1f} s")
    count = rows
    for what in ("short", "long"):
        part(*hosts)
        await asyncio.sleep(0.5)
        if what == "long":
            await until(lambda: not theirs.rows_of(hosts[0].store.node), 0.1)
        await write(mine, range(changed), f"new/{what}")
        for number in range(0, rows, max(1, rows // changed)):
            mine.write(f"row/{number}", what)
        count += changed
        before = sum(host.bytes_out() for host in hosts)
        begun = time.perf_counter()
        meet(*hosts)
        await until(partial(holds, theirs, count, f"new/{what}/{changed - 1}"), 0.01)
        took, moved = time.perf_counter() - begun, sum(host.bytes_out() for host in hosts) - before
        print(
            f"after a {what} split in which the owner wrote {changed} new rows and {changed} again: equal "
            f"after {took:.2f} s (bound 10 s), {moved / 1e3:.0f} kB moved"
        )
        if dict(mine.rows_of(hosts[0].store.node)) != dict(theirs.rows_of(hosts[0].store.node)):
            raise RuntimeError("the copies differ")
    for host in hosts:
        await host.runtime.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--changed", type=int, default=1000)
    arguments = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    times = [run_simulation(one_split, seed=seed)[0] for seed in range(SEEDS)]
    for what, column, bound in zip(
        ("cut to known by all", "mended to equal routes", "mended to healed"),
        zip(*times, strict=True),
        ("5", "6", ""),
        strict=True,
    ):
        ordered = sorted(column)
        limit = f" (bound {bound} s)" if bound else ""
        print(f"{what}: median {ordered[len(ordered) // 2]:.2f} s, worst {ordered[-1]:.2f} s{limit}")
    asyncio.run(owned(arguments.rows, arguments.changed))
    asyncio.run(large(arguments.rows, arguments.changed))


if __name__ == "__main__":
    main()

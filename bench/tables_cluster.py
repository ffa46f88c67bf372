"""Tables over real links: three stores in this one process and on its one core, loopback between them.

``python bench/tables_cluster.py`` prints, for plain streams and for gRPC, how long a write takes until both
others have applied it, and how many writes a second all three end up with; then the
same of transactions that read and write one row.
"""

from __future__ import annotations

import asyncio
import time

import structlog

from gossamer.distribution import Distribution, GrpcTransport, LinkTransport, StreamTransport
from gossamer.mnesia_like import OwnedTable, Store, Transaction
from gossamer.network import SystemNetwork
from gossamer.node.replication import TableLinks
from gossamer.supervisor import Runtime, Supervisor

NODES = 3
SINGLE = 500
BATCHES, BATCH = 200, 1000


async def bench(transport: type) -> None:
    runtimes: list[Runtime] = []
    links: list[Distribution] = []
    stores: list[Store] = []
    for i in range(NODES):
        name = f"n{i}@127.0.0.1"
        runtime = Runtime(node=name, creation=i + 1)
        carrier: LinkTransport = transport(*([SystemNetwork()] if transport is StreamTransport else []))
        distribution = Distribution(runtime, carrier, cookie="benchmark cookie", address=("127.0.0.1", 0))
        store = Store(node=name, creation=i + 1, link=TableLinks(distribution))
        await runtime.start(Supervisor, [distribution.child_spec(), store.child_spec()])
        runtimes.append(runtime)
        links.append(distribution)
        stores.append(store)
    tables: list[OwnedTable] = [await s.create_table("routes", replication="owned") for s in stores]
    for mine in links:
        for theirs in links:
            if mine is not theirs:
                mine.connect(theirs.runtime.node, theirs.runtime.creation, theirs.address)
    for store in stores:
        await store.wait_for_tables(timeout=10, peers=[s.node for s in stores if s is not store])

    table = tables[0]
    times = []
    for i in range(SINGLE):
        start = time.perf_counter()
        assert await table.visible(table.write(f"single/{i}", None))
        times.append(time.perf_counter() - start)
    times.sort()

    start = time.perf_counter()
    for batch in range(BATCHES):
        for i in range(BATCH):
            table.write(f"site/{batch}/dev/{i}/metric", None)
        await asyncio.sleep(0)
    assert await table.visible(table.write("last", None), timeout=60)
    seconds = time.perf_counter() - start
    assert len({len(t) for t in tables}) == 1
    print(
        f"{transport.__name__:18}visible p50 {times[SINGLE // 2] * 1e3:6.2f} ms, "
        f"p99 {times[SINGLE * 99 // 100] * 1e3:6.2f} ms;"
        f"{BATCHES * BATCH / seconds:>12,.0f} writes/s at all {NODES} nodes"
    )
    shared = [await s.create_table("shared", replication="shared") for s in stores]
    await stores[0].wait_for_tables(timeout=10)

    async def transfer(tx: Transaction, number: int) -> None:
        await tx.write("shared", number, await tx.read("shared", number, 0, write=True) + 1)

    # The first one waits until all know who has the table.
    await stores[0].transaction(transfer, -1)
    times = []
    for i in range(SINGLE):
        start = time.perf_counter()
        await stores[0].transaction(transfer, i)
        times.append(time.perf_counter() - start)
    times.sort()
    start = time.perf_counter()
    jobs = [stores[i % NODES].transaction(transfer, i) for i in range(SINGLE)]
    await asyncio.gather(*jobs)
    seconds = time.perf_counter() - start
    # A transaction returns when it is decided; the others hold its locks until they have its rows.
    async with asyncio.timeout(10):
        while any(sum(table.rows().values()) != 2 * SINGLE + 1 for table in shared):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    middle, most = times[SINGLE // 2] * 1e3, times[SINGLE * 99 // 100] * 1e3
    print(
        f"{'':18}transaction p50 {middle:6.2f} ms, p99 {most:6.2f} ms;"
        f"{SINGLE / seconds:>9,.0f} a second at once"
    )
    for runtime in runtimes:
        await runtime.stop()


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(30))
    for kind in (StreamTransport, GrpcTransport):
        asyncio.run(bench(kind))

"""Ranges that split and merge in a cluster: who reads and writes meanwhile sees nothing of it."""

import asyncio

import pytest

from gossamer import basekv
from gossamer.basekv import BadRangeError, Put
from gossamer.basekv.balancing import MergeSmall, SplitBySize
from gossamer.basekv.server import BASEKV, ListRanges

from .clusters import nodes, until
from .test_quorum_tables import formed, run


async def changing(cluster):
    """Have ranges that may change: behind a flag, until real nodes were broken under it."""
    await formed(cluster)
    node = cluster.nodes[1]
    await run(cluster, 1, node.feature_table.enable, "ranges")
    await until(lambda: all("ranges" in one.features.enabled for one in cluster.nodes.values()))


async def ranges(cluster, number):
    return await cluster.nodes[number].runtime.call(BASEKV, ListRanges())


async def known(cluster, wanted, within=20):
    """Wait until all nodes know so many ranges; return them."""
    async with asyncio.timeout(within):
        while True:
            found = [await ranges(cluster, number) for number in cluster.nodes]
            if all(one == found[0] for one in found) and len(found[0]) == wanted:
                return found[0]
            await asyncio.sleep(0.2)


async def led(cluster, number, voters=3, within=20):
    """Wait until a range's group has a leader and so many voters."""
    async with asyncio.timeout(within):
        while True:
            for node in cluster.nodes.values():
                for group in await node.runtime.call("raft", "status"):
                    members = [one for one in group["members"] if one["voter"] and one["match"] is not None]
                    leads = group["role"] == "leader" and group["kind"] == basekv.kind_of(number)
                    if leads and len(members) == voters:
                        return group
            await asyncio.sleep(0.1)


@nodes(3, discs=True, seeds=3)
async def test_what_was_written_is_read_after_splits_and_merges(sim, cluster):
    await changing(cluster)
    keys = [bytes([first, second]) for first in (0, 20, 40, 70) for second in range(20)]
    for key in keys:
        await run(cluster, 1, basekv.write, [Put(key, b"v" + key)])
    right = await run(cluster, 2, basekv.split, b"\x14")
    assert (right.start, right.end, right.version) == (b"\x14", b"\x40", 2)
    for number in (1, 2, 3):
        assert await run(cluster, number, basekv.scan, b"", b"\x50") == [(key, b"v" + key) for key in keys]
    await led(cluster, right.number)
    await known(cluster, 5)
    assert await run(cluster, 3, basekv.write, [Put(b"\x20", b"new")])
    await run(cluster, 1, basekv.merge, 0)
    found = await known(cluster, 4)
    assert found[0] == basekv.RangeInfo(0, b"", b"\x40", 3)
    await run(cluster, 1, basekv.merge, 0)
    await known(cluster, 3)
    rows = dict(await run(cluster, 2, basekv.scan, b"", b"\x50"))
    assert rows == {key: b"v" + key for key in keys} | {b"\x20": b"new"}
    await asyncio.sleep(45)
    kinds = {group["kind"] for group in await cluster.nodes[1].runtime.call("raft", "status")}
    assert {kind for kind in kinds if kind.startswith("basekv")} == {"basekv/0", "basekv/2", "basekv/3"}


@nodes(3, discs=True, seeds=4)
async def test_writers_wait_for_a_moment_at_most_while_ranges_change(sim, cluster, seed):
    await changing(cluster)
    over, written, longest = asyncio.Event(), {}, 0.0

    async def keep_writing(number):
        nonlocal longest
        step = 0
        while not over.is_set():
            step += 1
            key = bytes([0, number, step % 7])
            await asyncio.sleep(0.1)
            begun = sim.loop.time()
            await run(cluster, number, basekv.write, [Put(key, b"%d" % step)])
            assert await run(cluster, number, basekv.get, key) == b"%d" % step
            longest = max(longest, sim.loop.time() - begun)
            written[key] = b"%d" % step

    writers = [asyncio.ensure_future(keep_writing(number)) for number in (1, 2, 3)]
    for _ in range(3):
        right = await run(cluster, 1, basekv.split, b"\0\2")
        await led(cluster, right.number)
        await asyncio.sleep(3)
        await run(cluster, 2, basekv.merge, 0)
        await known(cluster, 4)
    over.set()
    await asyncio.gather(*writers)
    assert dict(await run(cluster, 1, basekv.scan, b"\0", b"\1")) == written
    assert longest < 2.5, longest


@nodes(3, discs=True)
async def test_a_change_that_cannot_be_says_why(sim, cluster):
    await changing(cluster)
    for key, why in ((b"\x40", "the border of range 1"), (b"x" * 18, "a border of 18 bytes")):
        with pytest.raises(BadRangeError, match=why):
            await run(cluster, 1, basekv.split, key)
    with pytest.raises(BadRangeError, match="range 99: got a number that no range has, expected one of 0, 1"):
        await run(cluster, 1, basekv.merge, 99)
    with pytest.raises(BadRangeError, match="range 3: got the last range"):
        await run(cluster, 1, basekv.merge, 3)


@nodes(3, discs=True, seeds=3)
async def test_a_node_that_was_down_has_its_replica_when_it_is_back(sim, cluster):
    await changing(cluster)
    await run(cluster, 1, basekv.write, [Put(b"\x20", b"1")])
    cluster.crash(3)
    right = await run(cluster, 1, basekv.split, b"\x10")
    await led(cluster, right.number)
    assert await run(cluster, 2, basekv.get, b"\x20") == b"1"
    await cluster.restart(3)
    await asyncio.sleep(20)
    group = await led(cluster, right.number)
    assert {member["match"] for member in group["members"]} == {group["committed"]}
    assert {member["replica"] for member in group["members"]} <= {1, *range(group["committed"])}


@nodes(3, discs=True)
async def test_a_range_that_grows_is_split_and_joined_again_when_it_is_empty(sim, cluster, monkeypatch):
    for balancer, limit in ((SplitBySize, 20_000), (MergeSmall, 5_000)):
        balance = balancer.balance

        def tiny(self, view, now, balance=balance, limit=limit):
            self.bytes, self.patience = limit, 5.0
            return balance(self, view, now)

        monkeypatch.setattr(balancer, "balance", tiny)
    await changing(cluster)
    keys = [bytes([first, second]) for first in range(10, 20) for second in range(10)]
    for key in keys:
        await run(cluster, 1, basekv.write, [Put(key, bytes(500))])
    async with asyncio.timeout(120):
        while True:
            found = await ranges(cluster, 1)
            if len(found) >= 6:
                break
            await asyncio.sleep(1)
    assert [key for key, _ in await run(cluster, 2, basekv.scan, b"", b"\x40")] == keys
    assert all(info.start <= b"\x40" for info in found[:-3])
    for key in keys:
        await run(cluster, 3, basekv.delete, key)
    await known(cluster, 4, within=200)
    assert await run(cluster, 2, basekv.scan, b"", b"\x40") == []

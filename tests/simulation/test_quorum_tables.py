"""Tables of a quorum: what was written is there for everybody, or nothing is answered."""

import asyncio
from functools import partial
from itertools import count

import pytest

from gossamer import basekv
from gossamer.basekv import KINDS, BadRowError
from gossamer.errors import GossamerError, UnavailableError
from gossamer.mnesia_like import QuorumTable
from gossamer.raft.host import client, server
from gossamer.raft.host.messages import Packets

from .clusters import nodes


async def formed(cluster):
    """Wait until each range has a leader and three voters."""
    async with asyncio.timeout(90):
        led = set()
        while not led >= set(KINDS):
            await asyncio.sleep(0.5)
            for node in cluster.nodes.values():
                led |= {
                    group["kind"] for group in await node.runtime.call("raft", "status") if settled(group)
                }


async def leads(cluster, number):
    """Ranges that a node leads, and in which term."""
    groups = await cluster.nodes[number].runtime.call("raft", "status")
    return {
        group["kind"]: group["term"]
        for group in groups
        if group["role"] == "leader" and group["kind"] in KINDS
    }


def settled(group):
    voters = [member for member in group["members"] if member["voter"]]
    return group["role"] == "leader" and not group["joint"] and len(voters) == 3


def run(cluster, number, function, *arguments):
    return cluster.nodes[number].runtime.run(function, *arguments)


@nodes(3, discs=True)
async def test_what_one_node_wrote_every_node_reads(sim, cluster):
    await formed(cluster)
    orders, stock = QuorumTable("orders"), QuorumTable("stock")
    await run(cluster, 1, orders.write, ("a", 1), {"sum": 5})
    await run(cluster, 2, stock.write, "bolts", 7)
    assert await run(cluster, 3, orders.read, ("a", 1)) == {"sum": 5}
    assert await run(cluster, 1, orders.rows) == {("a", 1): {"sum": 5}}
    assert await run(cluster, 1, stock.read, "nuts", 0) == 0
    await run(cluster, 3, orders.delete, ("a", 1))
    assert await run(cluster, 2, orders.rows) == {}
    assert await run(cluster, 2, stock.rows) == {"bolts": 7}


@nodes(3, discs=True)
async def test_leaders_of_ranges_are_spread_over_nodes_and_stay(sim, cluster):
    await formed(cluster)
    await asyncio.sleep(60)
    led = {number: await leads(cluster, number) for number in (1, 2, 3)}
    assert sum(map(len, led.values())) == len(KINDS)
    assert max(map(len, led.values())) < len(KINDS)
    await asyncio.sleep(60)
    assert {number: await leads(cluster, number) for number in (1, 2, 3)} == led


@nodes(3, discs=True, seeds=3)
async def test_idle_ranges_say_little_and_are_led_again_two_seconds_after_a_death(sim, cluster, monkeypatch):
    await formed(cluster)
    await asyncio.sleep(30)
    said, cast = [], server.cast
    monkeypatch.setattr(server, "cast", lambda to, message: (said.append(type(message)), cast(to, message)))
    await asyncio.sleep(60)
    # To two others twice a second, and as many answers; each tick it would be five times as many. A minute
    # may begin and end with one.
    assert said.count(Packets) <= (60 * 2 + 1) * 3 * (2 + 2)
    led = {number: await leads(cluster, number) for number in (1, 2, 3)}
    killed = max(led, key=lambda number: len(led[number]))
    cluster.crash(killed)
    await asyncio.sleep(2)
    now = [await leads(cluster, number) for number in (1, 2, 3) if number != killed]
    assert led[killed].keys() <= now[0].keys() | now[1].keys()


@nodes(3, discs=True)
async def test_a_read_that_may_be_stale_is_answered_here_while_the_state_is_young(sim, cluster, monkeypatch):
    await formed(cluster)
    table = QuorumTable("orders")
    await run(cluster, 1, table.write, "x", 1)
    await asyncio.sleep(10)

    def read(number, staleness):
        return run(cluster, number, partial(table.read, "x", max_staleness=staleness))

    with monkeypatch.context() as patch:
        patch.delattr(client, "_until")
        assert {await read(number, 2.0) for number in (1, 2, 3)} == {1}
    cluster.partition([1, 2], [3])
    await asyncio.sleep(5)
    await run(cluster, 2, table.write, "x", 2)
    assert await read(3, 15.0) == 1
    with pytest.raises(UnavailableError):
        await read(3, 2.0)
    await asyncio.sleep(15)
    with pytest.raises(UnavailableError):
        await read(3, 15.0)
    cluster.heal()
    await asyncio.sleep(20)
    assert await read(3, 2.0) == 2


@nodes(3, discs=True)
async def test_a_clock_that_is_a_day_off_changes_no_leader_and_no_age(sim, cluster):
    await formed(cluster)
    await asyncio.sleep(60)
    led = {number: await leads(cluster, number) for number in (1, 2, 3)}
    table = QuorumTable("orders")
    for number, seconds in ((1, 86_400.0), (2, -86_400.0)):
        cluster.nodes[number].clock.jump(seconds)
    await asyncio.sleep(30)
    await run(cluster, 1, table.write, "x", 1)
    await asyncio.sleep(5)
    for number in (1, 2, 3):
        assert await run(cluster, number, table.read, "x") == 1
        assert await run(cluster, number, partial(table.read, "x", max_staleness=2.0)) == 1
    assert {number: await leads(cluster, number) for number in (1, 2, 3)} == led


@nodes(3, discs=True)
async def test_of_those_that_insert_or_replace_at_once_one_succeeds(sim, cluster):
    await formed(cluster)
    table = QuorumTable("locks")
    inserted = await asyncio.gather(*(run(cluster, n, table.insert_new, "x", n) for n in (1, 2, 3)))
    assert sorted(inserted) == [False, False, True]
    holder = await run(cluster, 1, table.read, "x")
    replaced = await asyncio.gather(*(run(cluster, n, table.replace, "x", holder, -n) for n in (1, 2, 3)))
    assert sorted(replaced) == [False, False, True]


@nodes(3, discs=True)
async def test_rows_beyond_a_page_come_in_order(sim, cluster):
    await formed(cluster)
    table = QuorumTable("many")
    await asyncio.gather(*(run(cluster, 1 + n % 3, table.write, n, n) for n in range(-1, 1200)))
    assert await run(cluster, 2, table.rows) == {n: n for n in range(-1, 1200)}
    assert list(await run(cluster, 2, table.rows, 700)) == list(range(700))


@nodes(3, discs=True)
async def test_a_node_that_was_away_for_more_than_a_frame_catches_up(sim, cluster):
    """What it lacks goes in parts, and no node keeps entries without bound."""
    await formed(cluster)
    tables = [QuorumTable(f"large{n}") for n in range(8)]
    cluster.crash(3)
    for n in range(40):
        await asyncio.gather(*(run(cluster, 1, table.write, n % 4, bytes(80_000)) for table in tables))
    await cluster.restart(3)
    await asyncio.sleep(30)
    behind = [
        member["match"]
        for number in (1, 2, 3)
        for group in await cluster.nodes[number].runtime.call("raft", "status")
        for member in group["members"]
        if group["role"] == "leader" and member["match"] != group["committed"]
    ]
    assert behind == []
    assert await run(cluster, 3, tables[0].rows) == {n: bytes(80_000) for n in range(4)}


@nodes(3, discs=True, seeds=2)
async def test_writes_that_waited_without_a_quorum_are_not_done_once_it_is_back(sim, cluster):
    await formed(cluster)
    table = QuorumTable("orders")
    cluster.partition([1], [2, 3])
    await asyncio.sleep(5)
    waiting = [
        asyncio.ensure_future(run(cluster, 1, table.write, f"x{n}", bytes(120_000))) for n in range(12)
    ]
    found = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(one, basekv.NotWrittenError) for one in found)
    cluster.heal()
    await asyncio.sleep(30)
    done = await run(cluster, 2, table.rows)
    assert len(done) <= sum(one.unknown for one in found)


@nodes(3, discs=True)
async def test_a_row_that_no_table_takes_is_refused(sim, cluster):
    await formed(cluster)
    table = QuorumTable("orders")
    with pytest.raises(BadRowError, match="at most 4096 bytes"):
        await run(cluster, 1, table.write, "x" * 5000, 1)
    many = [basekv.Put(b"\0%d" % n, b"x" * 100_000) for n in range(10)]
    with pytest.raises(BadRowError, match="at most 524288 bytes"):
        await run(cluster, 1, basekv.write, many)
    for several in ([basekv.Put(b"\0", b""), basekv.Put(b"\xf0", b"")], [basekv.DeleteRange(b"\0", b"\xf0")]):
        with pytest.raises(BadRowError, match="keys of several ranges"):
            await run(cluster, 1, basekv.write, several)
    await run(cluster, 1, table.write, "x", 1)


@nodes(3, discs=True, seeds=3)
async def test_the_smaller_side_of_a_cut_answers_nothing_and_the_larger_goes_on(sim, cluster):
    await formed(cluster)
    table = QuorumTable("orders")
    await run(cluster, 3, table.write, "x", "before")
    cluster.partition([1, 2], [3])
    with pytest.raises(UnavailableError):
        await run(cluster, 3, table.read, "x")
    with pytest.raises(UnavailableError, match="may be done or not"):
        await run(cluster, 3, table.write, "x", "from the smaller side")
    await run(cluster, 1, table.write, "x", "from the larger side")
    cluster.heal()
    await asyncio.sleep(20)
    assert await run(cluster, 3, table.read, "x") == "from the larger side"


@nodes(3, discs=True, seeds=5)
async def test_a_counter_that_all_raise_has_every_step_that_was_acknowledged(sim, cluster, seed):
    """Nodes die and come back meanwhile. A step without an answer may be done or not."""
    await formed(cluster)
    table, rng = QuorumTable("counters"), sim.rng("deaths")
    done, unknown, over = [], [], asyncio.Event()
    await run(cluster, 1, table.write, "n", [0, ""])

    async def raise_it(number):
        for step in count():
            if over.is_set():
                return
            await asyncio.sleep(rng.uniform(0, 0.3))
            if number not in cluster.nodes:
                continue
            mark = f"{number}:{step}"
            try:
                async with asyncio.timeout(30):
                    value, last = await run(cluster, number, table.read, "n")
                    if await run(cluster, number, table.replace, "n", [value, last], [value + 1, mark]):
                        done.append(mark)
            except (GossamerError, TimeoutError):
                unknown.append(mark)

    workers = [asyncio.ensure_future(raise_it(number)) for number in (1, 2, 3)]
    for _ in range(4):
        await asyncio.sleep(rng.uniform(2, 10))
        number = rng.choice([1, 2, 3])
        cluster.crash(number)
        await asyncio.sleep(rng.uniform(0.5, 10))
        await cluster.restart(number)
    await asyncio.sleep(30)
    over.set()
    await asyncio.gather(*workers)
    value, _ = await run(cluster, 1, table.read, "n")
    assert len(done) <= value <= len(done) + len(unknown)
    assert len(done) > 20

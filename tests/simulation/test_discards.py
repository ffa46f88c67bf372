"""Rows that both sides of a split wrote: each table heals as it says; what loses is kept, to be replayed."""

import asyncio

import pytest

from gossamer.autoheal import AUTOHEAL, NotInQuarantineError, Replay, register_merge

from .clusters import mend, nodes

register_merge("test.sum", lambda key, ours, theirs: (ours or 0) + (theirs or 0))


async def begin(cluster, heal):
    await make(cluster, heal)
    tables = {number: node.store.table("t") for number, node in cluster.nodes.items()}
    tables[5].write("both", "before")
    tables[4].write("theirs", "before")
    tables[1].write("ours", "before")
    tables[1].write("deleted", "before")
    tables[5].write("kept", "before")
    await asyncio.sleep(20)
    assert all(dict(table.rows()) == dict(tables[1].rows()) for table in tables.values())
    return tables


async def make(cluster, heal):
    for node in cluster.nodes.values():
        await node.store.create_table("t", replication="shared", heal=heal)


async def split(cluster, tables, length=20.0):
    """The smaller side writes last, so that the latest write is always its own."""
    cluster.partition([1, 2, 3], [4, 5])
    await asyncio.sleep(length)
    tables[1].write("both", "majority")
    tables[2].write("ours", "majority")
    await asyncio.sleep(0.5)
    tables[4].write("both", "minority")
    tables[5].write("theirs", "minority")
    tables[4].write("new", "minority")
    tables[4].delete("deleted")
    await asyncio.sleep(length / 2)


async def healed(cluster, heal, *, length=20.0, pause=5.0):
    """The tables after such a split has healed."""
    tables = await begin(cluster, heal)
    await split(cluster, tables, length)
    await mend(cluster, pause=pause)
    return tables


def equal_rows(tables):
    first, *others = [dict(table.rows()) for table in tables.values()]
    assert all(rows == first for rows in others)
    return first


def lost(node):
    """What stands in a node's quarantine: key, value, and who wrote it."""
    return {(row.key, *row.value, row.version[1][:5]) for row in node.healing.quarantine}


@nodes(start="in turn")
@pytest.mark.parametrize("length", [20.0, 60.0], ids=["short", "longer than the grace of rows"])
async def test_lww_keeps_the_latest_write_and_quarantines_the_other(sim, cluster, length):
    tables = await healed(cluster, "lww", length=length)
    assert equal_rows(tables) == {
        "both": "minority",
        "theirs": "minority",
        "ours": "majority",
        "new": "minority",
        "kept": "before",
    }
    assert lost(cluster.nodes[1]) == {("both", "majority", "node1")}
    # Who had the later row already may never have seen the other.
    for node in cluster.nodes.values():
        assert lost(node) <= {("both", "majority", "node1")}
    assert cluster.nodes[3].healing.history[0].rows.quarantined == 1


@nodes(start="in turn")
@pytest.mark.parametrize("length", [20.0, 60.0], ids=["short", "longer than the grace of rows"])
async def test_the_survivors_rows_win_and_the_others_can_be_replayed(sim, cluster, length):
    tables = await healed(cluster, "survivors", length=length)
    assert equal_rows(tables) == {
        "both": "majority",
        "theirs": "before",
        "ours": "majority",
        "deleted": "before",
        "kept": "before",
    }
    (episode,) = cluster.nodes[5].healing.history
    coordinator = next(node for node in cluster.nodes.values() if node.name == episode.coordinator)
    assert lost(coordinator) == {
        ("both", "minority", "node4"),
        ("theirs", "minority", "node5"),
        ("new", "minority", "node4"),
        ("deleted", "node4"),
    }
    assert episode.rows.restored == episode.rows.quarantined == 4
    row = next(row for row in coordinator.healing.quarantine if row.key == "new")
    assert row.plan == episode.plan
    assert (await coordinator.runtime.call(AUTOHEAL, Replay(row.id))).key == "new"
    await asyncio.sleep(1)
    assert equal_rows(tables)["new"] == "minority"
    assert isinstance(await coordinator.runtime.call(AUTOHEAL, Replay(row.id)), NotInQuarantineError)


@nodes(seeds=range(12), start="in turn")
async def test_a_merge_function_decides(sim, cluster):
    await make(cluster, "test.sum")
    tables = {number: node.store.table("t") for number, node in cluster.nodes.items()}
    cluster.partition([1, 2], [3, 4], [5])
    await asyncio.sleep(20)
    for number in (5, 1, 3):
        tables[number].write("votes", number)
        await asyncio.sleep(0.5)
    tables[4].write("theirs", 7)
    await mend(cluster)
    assert equal_rows(tables) == {"votes": 9, "theirs": 7}
    (episode,) = cluster.nodes[5].healing.history
    assert episode.rows.merged == 1


@nodes(start="in turn")
async def test_a_merge_function_that_is_missing_leaves_the_latest_write(sim, cluster):
    tables = await healed(cluster, "test.missing")
    assert equal_rows(tables)["both"] == "minority"
    assert cluster.nodes[1].healing.history[0].rows.left >= 1
    assert ("both", "majority", "node1") in lost(cluster.nodes[1])


@nodes(start="in turn", discs=True)
async def test_the_quarantine_outlives_the_node(sim, cluster):
    await healed(cluster, "survivors", pause=2)
    before = lost(cluster.nodes[1])
    assert before
    cluster.crash(1)
    await asyncio.sleep(10)
    await cluster.restart(1)
    assert lost(cluster.nodes[1]) == before


@nodes(start="in turn")
async def test_a_coordinator_that_dies_before_the_heal_leaves_what_the_next_one_needs(sim, cluster):
    tables = await begin(cluster, "survivors")
    await split(cluster, tables)
    cluster.heal()
    await asyncio.sleep(10)
    assert cluster.nodes[1].healing.open
    cluster.crash(1)
    await asyncio.sleep(150)
    tables.pop(1)
    rows = equal_rows(tables)
    assert (rows["both"], rows["theirs"], "new" in rows) == ("majority", "before", False)


@nodes(start="in turn", discs=[False, True])
async def test_a_healer_that_dies_in_mid_split_goes_on_where_it_was(sim, cluster):
    tables = await begin(cluster, "survivors")
    cluster.partition([1, 2, 3], [4, 5])
    await asyncio.sleep(20)
    for node in cluster.nodes.values():
        node.runtime.exit(node.runtime.whereis(AUTOHEAL), "kill")
    await asyncio.sleep(5)
    cluster.partition([1, 2], [3], [4, 5])
    await asyncio.sleep(20)
    tables[1].write("both", "majority")
    await asyncio.sleep(0.5)
    tables[4].write("theirs", "minority")
    tables[3].write("both", "minority")
    await mend(cluster)
    rows = equal_rows(tables)
    assert (rows["both"], rows["theirs"]) == ("majority", "before")


@nodes(start="in turn", cluster={"heal_restarts": "node"})
async def test_restart_node_drops_the_clients_of_the_minority_and_lets_the_survivors_win(sim, cluster):
    tables = await begin(cluster, "lww")
    clients = {number: await cluster.client(number) for number in cluster.nodes}
    await split(cluster, tables)
    await mend(cluster)
    assert {number for number, client in clients.items() if not client.connected} == {4, 5}
    assert equal_rows(tables)["both"] == "majority"
    again = await cluster.client(5)
    assert again.connected
    await cluster.settled()


@nodes(seeds=3, start="in turn")
async def test_a_heal_tells_of_rows_that_its_coordinator_never_saw_lose(sim, cluster):
    """Whoever holds a row that loses lets go of it, and then some nodes hear of the winner alone."""
    tables = await begin(cluster, "lww")
    cluster.partition([1, 2, 3], [4, 5])
    await asyncio.sleep(20)
    tables[5].write("both", "minority")
    await asyncio.sleep(0.5)
    tables[2].write("both", "majority")
    await asyncio.sleep(5)
    await mend(cluster, pause=2)
    most = max(len(lost(node)) for node in cluster.nodes.values())
    assert most >= 1
    assert cluster.nodes[1].healing.history[0].rows.quarantined == most

"""The load of a drill, on simulated nodes and virtual time."""

import asyncio
from pathlib import Path

import pytest

from gossamer.drill.record import Phase, PhaseName
from gossamer.drill.run.load import Load
from gossamer.launch import NodePlan
from gossamer.testing import SimNetwork
from gossamer.testing.cluster import MQTT_PORT, SimCluster, address_of

SPLIT = {"node1@10.0.0.1": "1", "node2@10.0.0.2": "2"}


def shown(cluster: SimCluster) -> list[NodePlan]:
    return [
        NodePlan(node.name, Path(), {"mqtt": MQTT_PORT}, address_of(number))
        for number, node in sorted(cluster.nodes.items())
    ]


def never(phase: PhaseName, one: str, other: str) -> bool:
    return False


@pytest.fixture
async def drill(sim: SimNetwork):
    """Two nodes under 60 messages a second, the drops that were told, and the time."""
    async with SimCluster(sim, 2) as cluster:
        await cluster.settled()
        drops: list[tuple[str, str]] = []
        loop = asyncio.get_running_loop()
        begin = loop.time()
        load = Load(
            shown(cluster),
            rate=60.0,
            seed=sim.seed,
            network=sim.host("10.0.1.1"),
            now=lambda: loop.time() - begin,
            changed=lambda client, why: why and drops.append((client.client_id, client.node.name)),
        )
        await load.connect()
        yield cluster, load, drops
        await load.close()


async def test_all_that_is_sent_to_a_whole_cluster_arrives_once(drill) -> None:
    _cluster, load, drops = drill
    load.begin()
    await asyncio.sleep(10)
    await load.stop()
    await asyncio.sleep(2)
    rows = load.ledger.tallies((Phase("warm-up", 0, 99),), side_of=SPLIT.get, parted=never, late_after=1.0)
    # Two nodes, each way, three qualities of service, two kinds of sessions.
    assert len(rows) == 2 * 2 * 3 * 2
    assert all(row.sent == row.acknowledged == row.delivered > 0 for row in rows)
    assert not any(row.late or row.lost or row.doubled for row in rows)
    assert 590 <= sum(row.sent for row in rows) <= 610, "the pace is the one that was ordered"
    by_qos = [sum(row.sent for row in rows if row.qos == qos) for qos in (0, 1, 2)]
    assert abs(by_qos[1] - by_qos[0] - by_qos[2]) <= 2 * 4 * 4
    assert (load.withheld, load.ledger.foreign, load.ledger.owed, drops) == (0, 0, 0, [])


async def test_who_loses_a_connection_comes_back_and_its_session_with_it(drill) -> None:
    _cluster, load, drops = drill
    [kept] = [client for client in load.subscribers if client.client_id == "drill-sub-2-1p"]
    kept._connection.drop()
    load.begin()
    await asyncio.sleep(5)
    await load.stop()
    await asyncio.sleep(2)
    assert drops == [("drill-sub-2-1p", "node2@10.0.0.2")]
    assert kept.connected
    streams = [s for s in load.ledger.streams if (s.target, s.qos, s.persistent) == (drops[0][1], 1, True)]
    assert all(list(stream.copies) == [1] * len(stream.sent) for stream in streams)
    assert all(len(stream.sent) > 0 for stream in streams)


async def test_a_node_that_is_gone_has_its_load_withheld_not_caught_up(drill) -> None:
    cluster, load, drops = drill
    load.begin()
    await asyncio.sleep(2)
    cluster.crash(2)
    await asyncio.sleep(4)
    sent = sum(len(stream.sent) for stream in load.ledger.streams)
    await cluster.restart(2)
    await asyncio.sleep(8)
    await load.stop()
    # Six subscribers there, and a publisher to either node.
    assert len(drops) == 8
    assert {node for _, node in drops} == {"node2@10.0.0.2"}
    assert load.withheld > 60
    assert all(client.connected for client in (*load.subscribers, *load.publishers))
    after = sum(len(stream.sent) for stream in load.ledger.streams) - sent
    assert after <= 60 * 8 + 10


async def test_what_nobody_subscribes_to_while_a_client_is_away_is_cut_off_from_it(drill) -> None:
    _cluster, load, _drops = drill
    [clean] = [client for client in load.subscribers if client.client_id == "drill-sub-2-1c"]
    clean._connection.drop()
    await asyncio.sleep(0.05)
    for _ in range(len(load._lanes)):
        load._publish_one(load._now())
    await asyncio.sleep(5)
    rows = load.ledger.tallies((Phase("heal", 0, 99),), side_of=SPLIT.get, parted=never, late_after=1.0)
    lost = [row for row in rows if row.lost]
    assert {(row.target, row.qos, row.persistent, row.parted) for row in lost} == {("2", 1, False, True)}
    assert not any(row.parted for row in rows if row not in lost)

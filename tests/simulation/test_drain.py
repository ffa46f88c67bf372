"""A node that is emptied before it leaves: clients go elsewhere, sessions follow or are fetched."""

import asyncio

import pytest

from gossamer.config import Endpoint
from gossamer.mqtt.client import RefusedError
from gossamer.testing.traffic import Flow

from .clusters import nodes
from .flows import resumed


@nodes(3, seeds=2)
async def test_a_drained_node_has_nothing_left_and_nothing_is_lost(sim, cluster):
    flow = Flow(await cluster.client(3), "t", pause=0.01)
    movers = [await cluster.client(1, f"mover{n}", session_expiry=3000) for n in range(3)]
    away = [await cluster.client(1, f"away{n}", session_expiry=3000) for n in range(3)]
    for client in (*movers, *away):
        await client.subscribe("t", qos=1)
    for client in away:
        client.drop()
    passer = await cluster.client(1, "passer")
    await asyncio.sleep(1)
    flow.start()
    node = cluster.nodes[1]
    draining = asyncio.create_task(node.view.drain())
    lives = {client.client_id: [client] for client in (*movers, *away)}
    for client in (*movers, passer):
        await client.lost
        assert client.left == 0x9C
    for client in movers:
        again = await resumed(cluster, 2, client.client_id)
        lives[client.client_id].append(again)
    said = await draining
    assert said.endswith("drained: 4 clients sent elsewhere, 6 sessions moved, 0 left")
    assert node.broker.sessions == {}
    await node.view.leave()
    await asyncio.sleep(1)
    await flow.stop()
    for client in away:
        again = await resumed(cluster, 3, client.client_id)
        lives[client.client_id].append(again)
    await asyncio.sleep(3)
    for mine in lives.values():
        got = {m.payload for life in mine for m in life.messages}
        assert not set(flow.acknowledged) - got


@nodes(2)
async def test_a_drained_node_takes_clients_again_once_it_joins(sim, cluster):
    node = cluster.nodes[1]
    await asyncio.sleep(2)
    await node.view.drain()
    with pytest.raises(RefusedError, match="0x9c"):
        await cluster.client(1)
    await node.view.leave()
    await asyncio.sleep(5)
    await node.view.join([Endpoint(host="10.0.0.2", port=7946)])
    await cluster.client(1)

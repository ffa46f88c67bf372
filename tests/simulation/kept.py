"""Sessions of a node that is away, flows meanwhile, and what must be true of them afterwards."""

import asyncio
from functools import partial

from gossamer.testing.traffic import Flow

from .clusters import nodes
from .flows import doubled, in_order, numbered, resumed, session, stop, subscriber
from .recording import Recording

three = partial(nodes, 3, discs=True, cluster={"autoclean": None})
"""Nodes of which none is ever removed."""


async def begin(cluster, *, qos=2):
    """A session at the third node that is connected, and one that is not."""
    here = await session(cluster, 3, "here", "t/#", qos=qos)
    away = await session(cluster, 3, "away", "t/#", qos=qos)
    await away.disconnect()
    passing = await subscriber(cluster, 3, "t/#", qos=1, name="passing")
    await cluster.settled()
    return here, passing


async def under_load(cluster):
    """As ``begin``, with flows of both QoS from the other nodes, which run for some seconds already."""
    here, passing = await begin(cluster)
    running = [
        Flow(await cluster.client(number), f"t/{number}/{qos}", qos=qos, pause=0.1).start()
        for number in (1, 2)
        for qos in (1, 2)
    ]
    await asyncio.sleep(3)
    return here, passing, running


async def finish(cluster, running):
    await asyncio.sleep(5)
    await stop(running)
    await cluster.settled(timeout=90)
    await asyncio.sleep(5)


def judge(running, *clients, qos2=True):
    """All that was acknowledged, in order; of QoS 2 nothing twice."""
    got = [payload for client in clients for payload in client.payloads()]
    for flow in running:
        mine = [payload for payload in got if payload.startswith(flow.topic.encode() + b" ")]
        assert not [payload for payload in flow.acknowledged if payload not in set(mine)]
        if flow.qos == 2:
            assert len(mine) == len(set(mine))


async def whole_again(cluster, running):
    """The client of the session that was away: it has everything, in order and once."""
    await finish(cluster, running)
    back = await resumed(cluster, 3, "away", pause=5)
    gets_everything_once(running, back)
    return back


def gets_everything_once(running, client):
    judge(running, client)
    assert not doubled(client)
    assert all(in_order(client, flow.topic) for flow in running)


async def published_meanwhile(cluster, count, *, pause=10):
    """A client of node 1 that published so much after node 3 had died, and what node 1 recorded of it."""
    speaker = await cluster.client(1)
    cluster.crash(3)
    await asyncio.sleep(pause)
    recording = Recording(cluster.nodes[1])
    await numbered(speaker, "t/x", count, qos=1)
    return speaker, recording


async def roamer(cluster):
    """A session at the third node of a client that has just gone, and is to be seen elsewhere."""
    await begin(cluster)
    client = await session(cluster, 3, "roams", "r", qos=2)
    await cluster.settled()
    client.drop()


def kept(cluster, number=1):
    return cluster.nodes[number].broker.handoff.hint_store


def drops(cluster, reason):
    return sum(kept(cluster, number).stats().get(f"away_dropped_{reason}", 0) for number in cluster.nodes)


def told_lost(recording, reason):
    """The messages that node 3 will not get of the node that is recorded, by their place among its own."""
    rows = recording.told("dropped")
    assert {(row["peer"], row["client"], row["reason"]) for row in rows} == {("node3@10.0.0.3", None, reason)}
    sent = recording.messages("published")
    return sorted(sent.index(number) for number in recording.messages("dropped"))


def nothing_left_at(cluster, number):
    return kept(cluster, number).stats()["away_waiting"] == 0


def nothing_left(cluster):
    return all(nothing_left_at(cluster, number) for number in cluster.nodes)

"""What is kept for a node that is away outlasts starts, further deaths and departures of the others."""

import asyncio

import pytest

from gossamer.config import GossipConfig
from gossamer.testing.traffic import Flow

from .clusters import heal, restart, until
from .flows import SESSION, doubled, new_session, numbered, resumed, session, stop
from .kept import begin, judge, kept, nothing_left, nothing_left_at, three


@three(seeds=2)
async def test_a_node_that_dies_again_before_it_has_said_what_it_has(sim, cluster):
    """Nobody knows of a session of its then; it is not elsewhere for that, and what comes is kept for it."""
    await begin(cluster)
    cluster.crash(3)
    await asyncio.sleep(10)
    starts = asyncio.create_task(cluster.restart(3))
    node = cluster.nodes[1]
    sessions = node.broker.takeovers.ownership._rows
    name = "node3@10.0.0.3"
    # Up, and what is known of its former life is gone.
    await until(lambda: name in node.distribution.nodes() and not sessions.rows_of(name), pause=0.0005)
    cluster.crash(3)
    starts.cancel()
    await asyncio.wait([starts])
    await asyncio.sleep(10)
    speaker = await cluster.client(1)
    sent = await numbered(speaker, "t/x", 5, qos=2)
    moved = await new_session(cluster, 2, "away", "t/#", qos=2)
    await asyncio.sleep(5)
    await restart(cluster, 3, pause=30)
    assert moved.payloads() == sent


@three(seeds=2, start=False)
@pytest.mark.parametrize("stays", ["was there", "came later"])
async def test_a_node_that_leaves_hands_on_what_it_keeps(sim, cluster, stays):
    """The node that is away gets it from a member that stays, though that had not been there when it went."""
    await cluster.start(1, 3)
    if stays == "was there":
        await cluster.start(2)
    await cluster.settled()
    away = await session(cluster, 3, "away", "t/#", qos=2)
    goes = await session(cluster, 3, "goes", "t/#", qos=2)
    await away.disconnect()
    await cluster.settled()
    running = [Flow(await cluster.client(1), f"t/1/{qos}", qos=qos, pause=0.1).start() for qos in (1, 2)]
    await asyncio.sleep(3)
    cluster.crash(3)
    await asyncio.sleep(10)
    goes.drop()
    if stays == "came later":
        await cluster.start(2)
        await cluster.settled(1, 2)
    went = await cluster.client(2, "goes", **SESSION)
    before = [list(flow.acknowledged) for flow in running]
    await went.subscribe("t/#", qos=2)
    since = [len(flow.acknowledged) for flow in running]
    await asyncio.sleep(5)
    await stop(running)
    assert kept(cluster).stats()["away_waiting"] > 200
    await cluster.nodes[1].view.leave()
    assert nothing_left_at(cluster, 1)
    await cluster.stop(1)
    after = Flow(await cluster.client(2), "t/2", qos=2).start(20)
    await after.finish()
    await restart(cluster, 3, among=(2, 3), pause=30)
    back = await resumed(cluster, 3, "away", pause=5)
    judge(running if stays == "came later" else [*running, after], back)
    assert not doubled(back)
    got = {*goes.payloads(), *went.payloads()}
    for flow, earlier, count in zip(running, before, since, strict=True):
        assert not [
            payload for payload in (*earlier, *list(flow.acknowledged)[count + 1 :]) if payload not in got
        ]
    assert not [payload for payload in doubled(went) if b"/2 " in payload]
    if stays == "was there":
        # What it had where it went is not for its old session: QoS 1 comes twice of two seconds at most.
        assert len(doubled(went)) <= 2.5 / 0.1
    assert nothing_left(cluster)


async def gets_what_is_published_where(cluster, started, *, away, name="late"):
    """A session of a node that is away gets what is published at one that has just started."""
    sent = await numbered(await cluster.client(started), "t/x", 5, qos=2)
    await restart(cluster, away)
    back = await resumed(cluster, away, name, timeout=40, pause=20)
    assert back.payloads() == sent


@three(seeds=2)
@pytest.mark.parametrize("moves", [True, False], ids=["moves", "begins"])
async def test_a_node_that_starts_keeps_for_one_that_is_away_what_it_never_knew_of(sim, cluster, moves):
    """The session came to the node that is away while the other was down, too."""
    first = await session(cluster, 2, "late", "t/#", qos=2)
    await cluster.settled()
    first.drop()
    cluster.crash(1)
    await asyncio.sleep(5)
    if moves:
        late = await cluster.client(3, "late", **SESSION)
    else:
        late = await session(cluster, 3, "another", "t/#", qos=2)
    await asyncio.sleep(3)
    cluster.crash(3)
    late.drop()
    await asyncio.sleep(10)
    await cluster.restart(1)
    await gets_what_is_published_where(cluster, 1, away=3, name="late" if moves else "another")


@three(seeds=2)
async def test_a_node_that_starts_is_told_of_one_that_gossip_does_not_know(sim, cluster):
    """Who tells has started since that went: what gossip knows is on no disc, what it keeps for others is."""
    cluster.crash(3)
    late = await session(cluster, 2, "late", "t/#", qos=2)
    await cluster.settled(1, 2)
    cluster.crash(2)
    late.drop()
    await asyncio.sleep(10)
    cluster.crash(1)
    await cluster.restart(1)
    await restart(cluster, 3, among=(1, 3))
    await gets_what_is_published_where(cluster, 3, away=2)
    assert nothing_left(cluster)


@three(seeds=2, start=False, cluster={"autoclean": None, "gossip": GossipConfig(down_retention=20.0)})
async def test_a_node_that_joins_is_told_of_one_that_gossip_has_forgotten(sim, cluster):
    await cluster.start(1, 2)
    late = await session(cluster, 2, "late", "t/#", qos=2)
    await cluster.settled(1, 2)
    cluster.crash(2)
    late.drop()
    await asyncio.sleep(60)
    assert cluster.nodes[1].members.get("node2@10.0.0.2") is None
    await restart(cluster, 3, among=(1, 3))
    await gets_what_is_published_where(cluster, 3, away=2)
    assert nothing_left(cluster)


@three(seeds=2)
async def test_a_node_that_starts_keeps_for_a_session_that_has_gone_back_meanwhile(sim, cluster):
    """Its disc says that the client has left the node that is away; it was there again when that went."""
    client = await session(cluster, 3, "late", "t/#", qos=2)
    await cluster.settled()
    client.drop()
    cluster.partition([3], [1, 2])
    await asyncio.sleep(40)
    client = await session(cluster, 2, "late", "t/#", qos=2)
    await asyncio.sleep(5)
    client.drop()
    cluster.crash(1)
    await heal(cluster, among=(2, 3), pause=15)
    client = await resumed(cluster, 3, "late", timeout=40, pause=5)
    cluster.crash(3)
    client.drop()
    await asyncio.sleep(10)
    await cluster.restart(1)
    await gets_what_is_published_where(cluster, 1, away=3)


@three()
async def test_what_a_disc_remembers_of_a_member_that_has_left_is_nothing_to_the_others(sim, cluster):
    """It left while the node whose disc that is was down; nobody keeps anything for it any more."""
    await session(cluster, 3, "gone", "t/#", qos=1)
    await cluster.settled()
    cluster.crash(3)
    await asyncio.sleep(15)
    cluster.crash(2)
    await restart(cluster, 3, among=(1, 3))
    await cluster.nodes[3].view.leave()
    await asyncio.sleep(5)
    await restart(cluster, 2, among=(1, 2), pause=10)
    for number in (1, 2):
        keeper = cluster.nodes[number].broker.handoff.keeper
        assert not keeper.anybody_away, number
        assert not [name for name in keeper.departures.had if name.startswith("node3")]

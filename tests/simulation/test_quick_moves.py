"""A client that is on another node before the cluster knows of its last connection: the new one is served."""

import asyncio
from itertools import combinations

import pytest

from gossamer.testing.links import LinkQuality

from .clusters import nodes, until
from .flows import SESSION, gone, numbered, resumed, session
from .kept import three


async def hop(cluster, number, how, **options):
    """Connect to a node, wait for CONNACK or not, and end the connection or not, as ``how`` says."""
    coming = asyncio.create_task(cluster.client(number, "c", **options))
    if how.startswith("told"):
        client = await coming
        if how == "told, goodbye":
            await client.disconnect()
        elif how == "told, gone":
            client.drop()
    else:
        # Just before its CONNACK, perhaps before its CONNECT is there.
        await asyncio.sleep(0.004)
        if how == "gone":
            coming.cancel()
    return coming


@nodes(3, seeds=6)
@pytest.mark.parametrize("kept", [True, False], ids=["persistent", "clean"])
@pytest.mark.parametrize("how", ["told, goodbye", "told, gone", "told, stays", "gone"])
async def test_the_last_connection_is_served_and_no_other(sim, cluster, kept, how):
    # Until then a session that is left behind waits for what others may have kept for it.
    await asyncio.sleep(10)
    rng = sim.rng("moves")
    if latency := rng.choice([0, 0.02, 0.1]):
        # No node knows of a claim of another one before the client is there, or has gone on.
        for one, other in combinations((1, 2, 3), 2):
            sim.shape(cluster.address(one), cluster.address(other), LinkQuality(latency=latency))
    options = {"clean_start": not kept, "session_expiry": 300 if kept else None, "timeout": 30}
    if kept and rng.random() < 0.5:
        home = await cluster.client(2, "c", **options)
        await home.disconnect()
        await asyncio.sleep(rng.choice([0, 1]))
    earlier = []
    for number in rng.sample([1, 2, 3], 2):
        earlier.append(await hop(cluster, number, how, **options))
        await asyncio.sleep(rng.choice([0, rng.uniform(0, 0.03)]))
    last = rng.choice([1, 2, 3])
    client = await cluster.client(last, "c", **options)
    await asyncio.sleep(3)
    assert client.connected, client.left
    for coming in earlier:
        if coming.done() and not coming.cancelled() and coming.exception() is None:
            assert not coming.result().connected
        coming.cancel()
    holders = {number for number, node in cluster.nodes.items() if "c" in node.broker.sessions}
    claims = {n: node.broker.takeovers.claims("c") for n, node in cluster.nodes.items()}
    assert holders == {last}, claims
    if kept and how != "gone":
        assert client.session_present


@nodes(3, seeds=4)
async def test_a_node_whose_client_has_given_up_does_not_take_its_session_when_a_cut_ends(sim, cluster):
    """It asked for it behind the cut; since then the client has been served by another node."""
    await gone(cluster, 1, "c", "t", qos=1)
    await asyncio.sleep(1)
    cluster.cut(1, 3)
    cluster.cut(2, 3)
    coming = asyncio.create_task(cluster.client(3, "c", **SESSION))
    await asyncio.sleep(sim.rng("when").uniform(0.1, 0.3))
    coming.cancel()
    (await resumed(cluster, 2, "c")).drop()
    cluster.heal()
    await asyncio.sleep(10)
    assert [n for n, node in cluster.nodes.items() if "c" in node.broker.sessions] == [2]


class Ahead:
    """A wall clock that is an hour ahead."""

    def __init__(self, clock):
        self.monotonic = clock.monotonic
        self.wall = lambda: clock.wall() + 3600


@nodes(3, seeds=6)
async def test_a_clock_that_is_ahead_keeps_nobody(sim, cluster):
    """A node whose clock is an hour ahead has had the client; the others serve it all the same, at once."""
    rng = sim.rng("moves")
    ahead = rng.choice([1, 2, 3])
    broker = cluster.nodes[ahead].broker
    for part in (broker.table, broker.takeovers.contests, broker.takeovers.successors):
        part._clock = Ahead(cluster.nodes[ahead].clock)
    lives = []
    for number in (ahead, ahead, *rng.sample([1, 2, 3], 3)):
        lives.append(await cluster.client(number, "c", **SESSION, timeout=30))
        assert lives[-1].session_present == (len(lives) > 1)
        await asyncio.sleep(rng.uniform(0, 0.03))
    await asyncio.sleep(3)
    assert [life.connected for life in lives] == [False] * 4 + [True]


@nodes(2, seeds=2)
@pytest.mark.parametrize(("first", "last"), [(1, 2), (2, 1)])
async def test_of_claims_that_cross_the_later_one_wins_whatever_the_names(sim, cluster, first, last):
    """Neither node knows of the other's claim while it serves the client."""
    await asyncio.sleep(10)
    sim.shape(cluster.address(1), cluster.address(2), LinkQuality(latency=0.1))
    old = await cluster.client(first, "c", clean_start=True, timeout=30)
    new = await cluster.client(last, "c", clean_start=True, timeout=30)
    assert old.connected
    assert new.connected
    await asyncio.sleep(3)
    assert (old.connected, new.connected) == (False, True)


async def behind(cluster):
    """A client whose session is at node 2, which was stopped in order, and comes back later."""
    await gone(cluster, 2, "c", "t", qos=1)
    await asyncio.sleep(1)
    await cluster.stop(2)
    await asyncio.sleep(0.5)


@three(seeds=3)
async def test_a_new_session_ends_whose_client_did_not_wait_for_its_connack(sim, cluster):
    """Otherwise it is found later, subscribed to nothing, and said to be the one that the client had."""
    await behind(cluster)
    # The other node hears of it after its client has gone.
    sim.shape(cluster.address(1), cluster.address(3), LinkQuality(latency=0.05))
    coming = asyncio.create_task(cluster.client(3, "c", **SESSION))
    await until(lambda: "c" in cluster.nodes[3].broker.sessions, pause=0.0001)
    coming.cancel()
    await asyncio.sleep(1)
    assert not cluster.nodes[3].broker.sessions
    anew = await cluster.client(1, "c", **SESSION)
    assert not anew.session_present


@three(seeds=3)
async def test_what_a_new_session_that_has_moved_does_not_want_yet_is_kept_for_the_older(sim, cluster):
    await behind(cluster)
    new = await cluster.client(3, "c", **SESSION)
    assert not new.session_present
    new.drop()
    here = await resumed(cluster, 1, "c")
    speaker = await cluster.client(1, "speaker")
    sent = await numbered(speaker, "t", 5)
    await here.subscribe("t", qos=1)
    await cluster.restart(2)
    await asyncio.sleep(15)
    assert here.payloads() == sent


@nodes(3, seeds=3, discs=True)
async def test_a_client_that_began_anew_and_is_back_at_its_older_session_hears_that_it_is_new(sim, cluster):
    """What it published since has identifiers of which the older one knows nothing, or something else."""
    client = await session(cluster, 1, "roams", "r", qos=2)
    await cluster.settled()
    client.drop()
    cluster.partition([1], [2, 3])
    await asyncio.sleep(10)
    anew = await cluster.client(3, "roams", **SESSION)
    assert not anew.session_present
    speaker = await cluster.client(1, "speaker")
    sent = await numbered(speaker, "r", 5, qos=2)
    anew.drop()
    cluster.heal()
    superseded = cluster.nodes[1].broker.takeovers.superseded
    await until(lambda: superseded.has("roams"), pause=0.001)
    cluster.crash(3)
    await until(lambda: "node3@10.0.0.3" not in cluster.nodes[1].distribution.nodes())
    assert superseded.has("roams")
    back = await cluster.client(1, "roams", **SESSION)
    assert not back.session_present
    await asyncio.sleep(5)
    assert back.payloads() == sent
    back.drop()
    await resumed(cluster, 2, "roams")

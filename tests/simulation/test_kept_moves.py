"""What is kept for a node that is away follows sessions that move meanwhile, and comes once."""

import asyncio

import pytest

from gossamer.mqtt.migration.successors import SUBSCRIBE_TIMEOUT
from gossamer.mqtt.migration.superseded import RETRY_INTERVAL
from gossamer.testing.links import LinkQuality
from gossamer.testing.traffic import Flow

from .clusters import heal, until
from .flows import SESSION, doubled, fill_disc, numbered, resumed, session, stop
from .kept import begin, finish, roamer, three, under_load


@three()
async def test_a_session_that_moved_meanwhile_gets_everything_and_nothing_twice(sim, cluster):
    here, _, running = await under_load(cluster)
    cluster.partition([1, 2], [3])
    await asyncio.sleep(12)
    # It has lost its connection as well, and finds another node.
    here.drop()
    moved = await cluster.client(2, "here", **SESSION)
    before = [list(flow.acknowledged) for flow in running]
    await moved.subscribe("t/#", qos=2)
    since = [len(flow.acknowledged) for flow in running]
    await asyncio.sleep(sim.rng("length").uniform(2, 30))
    cluster.heal()
    await finish(cluster, running)
    await asyncio.sleep(20)
    got = {*here.payloads(), *moved.payloads()}
    for flow, earlier, count in zip(running, before, since, strict=True):
        # Between its arrival and its SUBSCRIBE it was subscribed to nothing there.
        wanted = [*earlier, *list(flow.acknowledged)[count + 1 :]]
        assert not [payload for payload in wanted if payload not in got]
    # In the two seconds in which a client may subscribe to all that it wants QoS 1 may come by both ways, and
    # until the session has looked twice after that: once to ask for marks, once to find that they came.
    twice = doubled(moved)
    assert not [payload for payload in twice if b"/2 " in payload]
    assert len(twice) <= 2 * (SUBSCRIBE_TIMEOUT + 2 * RETRY_INTERVAL) / 0.1
    assert not [payload for payload in here.payloads() if payload in moved.payloads() and b"/2 " in payload]
    assert not [name for name in cluster.nodes[3].broker.sessions if name == "here"]


@three(seeds=4)
async def test_what_comes_live_behind_it_is_there_for_a_session_that_goes_and_comes_back(sim, cluster):
    """Sent before the session had gone, it arrives while it returns, before the mark of either move."""
    await begin(cluster)
    cluster.crash(3)
    await asyncio.sleep(5)
    speaker = await cluster.client(1, "speaker")
    kept = [b"%d " % number + bytes(2000) for number in range(600)]
    for payload in kept:
        await speaker.publish("t/1/2", payload, qos=2)
    sim.shape(cluster.address(1), cluster.address(3), LinkQuality(bandwidth=100_000), one_way=True)
    starting = asyncio.create_task(cluster.restart(3))
    await until(lambda: "node3@10.0.0.3" in cluster.nodes[1].distribution.nodes(), pause=0.001)
    live = [b"live %d" % number for number in range(5)]
    for payload in live:
        await speaker.publish("t/1/2", payload, qos=2)
    there = await resumed(cluster, 2, "away", timeout=60)
    await starting
    await there.disconnect()
    await asyncio.sleep(sim.rng("when").uniform(0, 8))
    back = await cluster.client(3, "away", **SESSION, timeout=60)
    await asyncio.sleep(60)
    got = there.payloads() + back.payloads()
    assert not [payload for payload in [*kept, *live] if payload not in got]
    assert len(got) == len(set(got))


@three(seeds=3)
async def test_what_one_side_keeps_follows_a_session_that_moved_on_the_other(sim, cluster):
    """The publishers' node does not see it go, and keeps for a node that has it no more after the cut."""
    home = await session(cluster, 2, "moves", "t/#", qos=2)
    running = [Flow(await cluster.client(1), f"t/{qos}", qos=qos, pause=0.1).start() for qos in (1, 2)]
    await asyncio.sleep(2)
    await home.disconnect()
    cluster.partition([1], [2, 3])
    await asyncio.sleep(sim.rng("moves").uniform(0, 12))
    moved = await resumed(cluster, 3, "moves")
    await asyncio.sleep(sim.rng("heals").uniform(8, 20))
    cluster.heal()
    await asyncio.sleep(30)
    await stop(running)
    await asyncio.sleep(5)
    got = {*home.payloads(), *moved.payloads()}
    assert not [payload for flow in running for payload in flow.acknowledged if payload not in got]
    assert not [payload for payload in doubled(moved) if b"/2 " in payload]
    assert not [name for name in cluster.nodes[2].broker.sessions if name == "moves"]


@three(seeds=3)
@pytest.mark.parametrize("length", [3, 25], ids=["short", "longer than others are waited for"])
async def test_what_is_kept_follows_a_session_to_a_node_that_is_away_too(sim, cluster, length):
    """The publishers' node, which nobody hears, sees the session go, and then the node that it went to."""
    home = await session(cluster, 2, "moves", "t/#", qos=2)
    later = await session(cluster, 3, "later", "u", qos=2)
    await cluster.settled()
    await home.disconnect()
    speaker = await cluster.client(1, "speaker")
    for other in (2, 3):
        cluster.cut(1, other, one_way=True)
    sent = [b"%d" % number for number in range(10)]
    sending = [
        asyncio.create_task(speaker.publish("t/x", payload, qos=1 + place % 2))
        for place, payload in enumerate(sent)
    ]
    await asyncio.sleep(1)
    moved = await resumed(cluster, 3, "moves")
    await moved.disconnect()
    await later.subscribe("t/#", qos=2)
    await asyncio.wait_for(asyncio.gather(*sending), 30)
    cluster.heal()
    cluster.partition([1, 2], [3])
    await asyncio.sleep(length)
    cluster.heal()
    await cluster.settled(timeout=90)
    await asyncio.sleep(15)
    back = await resumed(cluster, 3, "moves")
    await asyncio.sleep(5)
    assert sorted(moved.payloads() + back.payloads()) == sent
    assert not later.payloads()


@three(seeds=4)
@pytest.mark.parametrize("anew", [False, True])
async def test_what_a_node_keeps_that_died_before_it_saw_the_cut_follows_a_session(sim, cluster, anew):
    """It knows from its disc what the others want, and not whose sessions they had."""
    home = await session(cluster, 2, "moves", "t/#", qos=2)
    await session(cluster, 2, "stays", "#", qos=2)
    steady = await session(cluster, 3, "steady", "u", qos=1)
    await asyncio.sleep(2)
    await home.disconnect()
    cluster.partition([1], [2, 3])
    await asyncio.sleep(sim.rng("dies").uniform(0.1, 1))
    cluster.crash(1)
    starts = asyncio.create_task(cluster.restart(1))
    await asyncio.sleep(sim.rng("moves").uniform(0, 3))
    moved = await resumed(cluster, 3, "moves")
    await moved.disconnect()
    await starts
    sent = [
        *await numbered(await cluster.client(1, "first"), "t/1", 5, qos=1),
        *await numbered(await cluster.client(1, "second"), "t/2", 5, qos=2),
    ]
    others = await numbered(await cluster.client(1, "third"), "u", 5, qos=1)
    begun = await session(cluster, 1, "moves", "t/#", qos=2) if anew else None
    await asyncio.sleep(15)
    cluster.heal()
    await asyncio.sleep(30)
    back = begun or await resumed(cluster, 3, "moves")
    await asyncio.sleep(5)
    assert sorted(back.payloads()) == sorted(sent)
    assert steady.payloads() == others


@three(seeds=2)
async def test_what_follows_a_session_to_a_node_whose_disc_is_full_is_queued_once(sim, cluster):
    home = await session(cluster, 2, "moves", "t/#", qos=1)
    speaker = await cluster.client(1, "speaker")
    await home.disconnect()
    cluster.partition([1], [2, 3])
    await asyncio.sleep(10)
    moved = await resumed(cluster, 3, "moves")
    sent = await numbered(speaker, "t/x", 20, qos=1)
    disc = await fill_disc(cluster, 3)
    cluster.heal()
    await asyncio.sleep(40)
    disc.limit_pages(0)
    await asyncio.sleep(20)
    assert moved.payloads() == sent


@three(seeds=2)
@pytest.mark.parametrize("goes_on", [False, True])
async def test_what_waits_for_a_session_on_its_way_to_a_node_that_is_back(sim, cluster, monkeypatch, goes_on):
    """It came behind the mark of the move, so it is for the session there, which was elsewhere before."""
    await roamer(cluster)
    cluster.partition([1, 2], [3])
    await asyncio.sleep(10)
    speaker = await cluster.client(1, "speaker")
    await speaker.publish("t/1/1", b"is kept", qos=1)
    moved = await session(cluster, 2, "roams", "r", qos=2)
    await asyncio.sleep(3)

    async def busy(_peer, _turn):
        await asyncio.sleep(0.1)
        return False

    # The node that is back does not get to say what it has.
    with monkeypatch.context() as patch:
        patch.setattr(cluster.nodes[1].broker.handoff, "_greeted", busy)
        await heal(cluster, pause=3)
        moved.drop()
        coming = asyncio.create_task(cluster.client(3, "roams", **SESSION))
        await asyncio.sleep(1.5)
        await speaker.publish("r", b"on its way", qos=2)
        assert not coming.done()
        cluster.partition([1], [2, 3])
        last = await coming
        assert last.session_present
        await asyncio.sleep(5)
    if goes_on:
        await last.disconnect()
        last = await cluster.client(2, "roams", **SESSION)
    await asyncio.sleep(5)
    await heal(cluster, pause=20)
    assert last.payloads() == [b"on its way"]


@three(seeds=3)
async def test_what_is_published_before_the_node_that_a_session_went_to_is_back_is_for_it(sim, cluster):
    """The one that it left is back from behind the cut at once, and wants it no more."""
    await roamer(cluster)
    speaker = await cluster.client(1, "speaker")
    cluster.partition([1], [2, 3])
    await asyncio.sleep(10)
    (await resumed(cluster, 2, "roams")).drop()
    sim.shape(cluster.address(1), cluster.address(2), LinkQuality(latency=0.1))
    cluster.heal()
    there = cluster.nodes[1].distribution.nodes
    await until(lambda: "node3@10.0.0.3" in there())
    # Nothing is kept by then, which would have to be handed on.
    await asyncio.sleep(0.3)
    assert "node2@10.0.0.2" not in there()
    sent = await numbered(speaker, "r", 20, qos=2, pause=0.05)
    back = await resumed(cluster, 2, "roams", pause=30)
    assert back.payloads() == sent


@three(seeds=3)
@pytest.mark.parametrize("length", [3, 25], ids=["short", "longer than others are waited for"])
async def test_what_is_published_once_all_is_kept_for_the_node_that_a_session_left_follows_it(
    sim, cluster, length
):
    """The node that it went to is back later, and nobody has said yet what is wanted there."""
    await roamer(cluster)
    speaker = await cluster.client(1, "speaker")
    cluster.partition([1], [2, 3])
    await asyncio.sleep(10)
    before = await numbered(speaker, "r", 5, qos=2)
    (await resumed(cluster, 2, "roams")).drop()
    cluster.heal()
    cluster.cut(1, 2)
    there = cluster.nodes[1].distribution.nodes
    await until(lambda: "node3@10.0.0.3" in there())
    await asyncio.sleep(length)
    assert "node2@10.0.0.2" not in there()
    sent = await numbered(speaker, "r", 20, qos=2, first=5, pause=0.05)
    cluster.heal()
    await cluster.settled(timeout=90)
    back = await resumed(cluster, 2, "roams", pause=30)
    assert sorted(back.payloads(), key=int) == [*before, *sent]


@three(seeds=3)
async def test_a_session_that_moves_between_nodes_of_which_one_does_not_reach_the_publisher(sim, cluster):
    """Nobody is held for down, since the third node sees both."""
    await roamer(cluster)
    speaker = await cluster.client(1, "speaker")
    cluster.cut(1, 2)
    await asyncio.sleep(sim.rng("moves").uniform(0, 20))
    (await resumed(cluster, 2, "roams")).drop()
    await asyncio.sleep(1)
    sending = asyncio.create_task(numbered(speaker, "r", 20, qos=2, first=5, pause=0.05))
    await asyncio.sleep(10)
    cluster.heal()
    await cluster.settled(timeout=90)
    sent = await sending
    back = await resumed(cluster, 2, "roams", pause=30)
    assert back.payloads() == sent

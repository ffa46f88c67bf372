"""A session that began anew elsewhere, and the older one of its client that a node has which was away."""

import asyncio

from gossamer.testing.links import LinkQuality

from .clusters import heal, restart, until
from .flows import SESSION, new_session, numbered, resumed, session
from .kept import begin, kept, roamer, three


@three(seeds=3)
async def test_what_a_new_session_had_whose_node_dies_is_not_for_the_old_one_too(sim, cluster):
    """But for the seconds in which the client may not have subscribed to all that it wants."""
    await begin(cluster)
    cluster.crash(3)
    moved = await new_session(cluster, 1, "here", "t/#", qos=2)
    await asyncio.sleep(3)
    speaker = await cluster.client(2)
    await numbered(speaker, "t/x", 5, qos=2)
    await asyncio.sleep(5)
    had = moved.payloads()
    assert len(had) == 5
    cluster.crash(1)
    starts = asyncio.create_task(cluster.restart(3))
    old = await resumed(cluster, 2, "here", timeout=60)
    await starts
    await speaker.publish("t/x", b"later", qos=2)
    await asyncio.sleep(10)
    assert old.payloads() == [b"later"]


@three(seeds=2)
async def test_a_session_that_began_behind_a_cut_and_is_over_is_not_where_its_client_is(sim, cluster):
    """Its node has seen a later claim by the time at which its client would have subscribed to everything."""
    await roamer(cluster)
    cluster.partition([1], [2, 3])
    await asyncio.sleep(10)
    speaker = await cluster.client(1, "speaker")
    for _ in range(600):
        await speaker.publish("t/1/1", bytes(2000), qos=1)
    anew = await new_session(cluster, 1, "roams", "r", qos=2)
    anew.drop()
    await resumed(cluster, 3, "roams")
    # What was kept is on its way for long enough, so the node is expected still when it dies.
    sim.shape(cluster.address(1), cluster.address(3), LinkQuality(bandwidth=100_000), one_way=True)
    cluster.heal()
    await asyncio.sleep(4)
    assert "node3@10.0.0.3" in cluster.nodes[1].distribution.nodes()
    assert cluster.nodes[1].broker.handoff.anybody
    cluster.crash(3)
    await asyncio.sleep(10)
    sent = await numbered(speaker, "r", 5, qos=2)
    await restart(cluster, 3, pause=20)
    back = await resumed(cluster, 3, "roams", pause=5)
    assert back.payloads() == sent


@three(seeds=2)
async def test_a_client_that_went_back_behind_a_cut_is_not_where_it_was_seen_last(sim, cluster):
    """It has begun anew since, and what comes until it subscribes is for the session that it had."""
    # Somebody there wants it in any case, as far as node 1 can know.
    await session(cluster, 2, "stays", "#", qos=2)
    client = await session(cluster, 2, "roams", "r", qos=2)
    await cluster.settled()
    client.drop()
    client = await resumed(cluster, 3, "roams")
    cluster.partition([1], [2, 3])
    assert len(cluster.nodes[1].broker.takeovers.claims("roams")) == 2
    client.drop()
    await asyncio.sleep(10)
    (await resumed(cluster, 2, "roams")).drop()
    await asyncio.sleep(2)
    speaker = await cluster.client(1, "speaker")
    cluster.heal()
    cluster.cut(1, 2)
    anew = await cluster.client(1, "roams", **SESSION)
    assert not anew.session_present
    await until(lambda: kept(cluster).by_peer["node3@10.0.0.3"].state == "live")
    sent = await numbered(speaker, "r", 5, qos=2)
    await anew.subscribe("r", qos=2)
    await asyncio.sleep(5)
    await heal(cluster, pause=20)
    assert anew.payloads() == sent


@three(seeds=2)
async def test_what_a_client_had_as_its_new_session_began_comes_from_an_older_one_no_more(sim, cluster):
    """Its node kept the same for the one that had the older session, and died before that was back."""
    await roamer(cluster)
    cluster.crash(3)
    await asyncio.sleep(10)
    speaker = await cluster.client(1, "speaker")
    await speaker.publish("r", b"before", qos=2)
    anew = await new_session(cluster, 2, "roams", "r", qos=2)
    sent = await numbered(speaker, "r", 30, qos=2, pause=0.1)
    await asyncio.sleep(3)
    assert anew.payloads() == sent
    cluster.crash(2)
    await asyncio.sleep(10)
    await cluster.restart(3)
    back = await resumed(cluster, 3, "roams")
    await speaker.publish("r", b"after", qos=2)
    await asyncio.sleep(30)
    assert back.payloads() == [b"before", b"after"]


@three(seeds=3)
async def test_what_a_new_session_had_is_dropped_from_the_older_one_while_that_is_offered(sim, cluster):
    """Nothing is taken of the older one while the client goes on subscribing; then its node is stopped."""
    await roamer(cluster)
    cluster.crash(3)
    await asyncio.sleep(10)
    speaker = await cluster.client(1, "speaker")
    await speaker.publish("r", b"before", qos=2)
    anew = await new_session(cluster, 2, "roams", "r", qos=2)
    sending = asyncio.create_task(numbered(speaker, "r", 50, qos=2, pause=0.02))
    await cluster.restart(3)
    sent = await sending
    for _ in range(6):
        await anew.subscribe("r", qos=2)
        await asyncio.sleep(0.5)
    await cluster.stop(2)
    back = await new_session(cluster, 3, "roams", "r", qos=2)
    await speaker.publish("r", b"after", qos=2)
    await asyncio.sleep(10)
    assert anew.payloads() == sent
    assert back.payloads() == [b"before", b"after"]


@three(seeds=3)
async def test_what_an_older_session_has_waits_for_a_client_that_fell_as_it_began_to_subscribe(sim, cluster):
    """Behind a cut it was told that its session is new, and its node died under its first SUBSCRIBE."""
    old = await session(cluster, 2, "roams", "a", qos=2)
    await old.subscribe("b", qos=2)
    await cluster.settled()
    old.drop()
    sent = await numbered(await cluster.client(1), "b", 5, qos=2)
    cluster.partition([1, 2], [3])
    await asyncio.sleep(10)
    anew = await new_session(cluster, 3, "roams", "a", qos=2)
    cluster.crash(3)
    cluster.heal()
    await restart(cluster, 3, pause=5)
    back = await resumed(cluster, 1, "roams")
    for wanted in ("a", "b"):
        await back.subscribe(wanted, qos=2)
    await asyncio.sleep(10)
    assert [*anew.payloads(), *back.payloads()] == sent


@three(seeds=3)
async def test_what_is_published_as_a_cut_ends_follows_a_session_that_began_behind_it(sim, cluster):
    """To the publisher's node it is where it was before, and there is only what nothing was taken of yet."""
    old = await session(cluster, 1, "roams", "r", qos=1)
    await cluster.settled()
    old.drop()
    speaker = await cluster.client(3, "speaker")
    await speaker.publish("r", b"before", qos=1)
    cluster.partition([1, 2], [3])
    await asyncio.sleep(2)
    cluster.crash(1)
    await asyncio.sleep(8)
    anew = await new_session(cluster, 2, "roams", "r", qos=1)
    await cluster.restart(1)
    # Until it has been silent for a moment, it may subscribe to more.
    for _ in range(6):
        await anew.subscribe("r", qos=1)
        await asyncio.sleep(0.5)
    sim.shape(cluster.address(2), cluster.address(3), LinkQuality(latency=0.1), one_way=True)
    cluster.heal()
    there = cluster.nodes[3].distribution.nodes
    await until(lambda: "node1@10.0.0.1" in there(), pause=0.0005)
    sent = await numbered(speaker, "r", 20, qos=1)
    await asyncio.sleep(15)
    assert {b"before", *sent} <= set(anew.payloads())


@three()
async def test_the_time_to_subscribe_is_that_of_one_session_not_of_the_next(sim, cluster):
    """Or what is published before the next one subscribes would be kept for nobody."""
    await session(cluster, 3, "c", "t", qos=1)
    cluster.crash(3)
    await asyncio.sleep(15)
    first = await new_session(cluster, 1, "c", "t", qos=1)
    await asyncio.sleep(1)
    broker = cluster.nodes[1].broker
    first.drop()
    broker.table.end(broker.sessions["c"], None)
    client = await cluster.client(1, "c", **SESSION)
    assert not client.session_present
    await asyncio.sleep(1.5)
    speaker = await cluster.client(2)
    sent = await numbered(speaker, "t", 3)
    await client.subscribe("t", qos=1)
    await restart(cluster, 3, pause=10)
    assert client.payloads() == sent

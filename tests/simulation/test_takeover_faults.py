"""A session moves whole, or stays where it is, whatever fails in the middle of the move."""

import asyncio

import pytest

from gossamer.testing.traffic import Flow

from .clusters import heal, nodes, restart, until
from .flows import SESSION, delivered, doubled, fill_disc, gone, in_order, numbered, resumed, session, stop


@nodes(3, seeds=5, discs=True)
@pytest.mark.parametrize("victim", [1, 2])
async def test_a_node_that_dies_in_the_middle_loses_no_session_of_its_disc(sim, cluster, victim):
    """It is killed at a random point of the move and comes back; whatever was acknowledged is delivered."""
    rng = sim.rng("when")
    old = await session(cluster, 1, "c", "t", qos=1)
    flow = Flow(await cluster.client(3), "t", pause=0.002).start()
    await asyncio.sleep(0.3)
    lives = [old]
    old.drop()
    await asyncio.sleep(0.1)
    moving = asyncio.create_task(cluster.client(2, "c", **SESSION, timeout=40))
    await asyncio.sleep(rng.uniform(0, 0.02))
    # Publishers are told what is safe by nodes that live: what comes while one is down is another matter.
    await flow.stop()
    cluster.crash(victim, "kill")
    await asyncio.wait([moving])
    if moving.exception() is None:
        lives.append(moving.result())
        if victim == 1:
            await lives[-1].subscribe("t", qos=1)
    await asyncio.sleep(30)
    await restart(cluster, victim, pause=10)
    lives.append(await cluster.client(3, "c", **SESSION, timeout=40))
    await asyncio.sleep(5)
    assert lives[-1].session_present
    assert not set(flow.acknowledged) - set(delivered(lives, flow))
    assert [n for n, node in cluster.nodes.items() if "c" in node.broker.sessions] == [3]


@nodes(3, seeds=8, discs=True)
@pytest.mark.parametrize("when", ["moving", "told"])
async def test_nothing_is_delivered_by_both_where_the_new_node_dies(sim, cluster, when):
    """In the middle of the move, or once the client has been told: everything arrives, and in one session
    once, however often they come and go."""
    rng = sim.rng("when")
    lives = [await cluster.client(1, "c", **SESSION)]
    await lives[0].subscribe("t", qos=2)
    lives[0].drop()
    speaker = await cluster.client(3)
    await asyncio.sleep(0.1)
    sent = await numbered(speaker, "t", 20, qos=2)
    moving = asyncio.create_task(cluster.client(2, "c", **SESSION, timeout=40))
    if when == "moving":
        await asyncio.sleep(rng.uniform(0, 0.02))
    else:
        await asyncio.wait([moving])
        await asyncio.sleep(rng.uniform(0, 0.005))
    cluster.crash(2, "kill")
    await asyncio.wait([moving])
    if moving.exception() is None:
        lives.append(moving.result())
    await asyncio.sleep(rng.choice([5, 30]))
    lives.append(await cluster.client(1, "c", **SESSION, timeout=40))
    await lives[-1].subscribe("t", qos=2)
    await asyncio.sleep(2)
    await restart(cluster, 2, pause=10)
    lives.append(await cluster.client(3, "c", **SESSION, timeout=40))
    await asyncio.sleep(5)
    sessions = [[]]
    for life in lives:
        if not life.session_present:
            sessions.append([])
        sessions[-1] += [m.payload for m in life.messages if not m.dup]
    assert all(len(got) == len(set(got)) for got in sessions), sessions
    assert {payload for got in sessions for payload in got} == set(sent)
    assert sum("c" in node.broker.sessions for node in cluster.nodes.values()) == 1


@nodes(3, seeds=4)
async def test_a_cut_in_the_middle_leaves_one_owner_after_it(sim, cluster):
    rng = sim.rng("when")
    await gone(cluster, 1, "c", "t", qos=1)
    flow = Flow(await cluster.client(3), "t", pause=0.01).start()
    await asyncio.sleep(0.3)
    moving = asyncio.create_task(cluster.client(2, "c", **SESSION, timeout=40))
    await asyncio.sleep(rng.uniform(0, 0.02))
    cluster.cut(1, 2)
    await asyncio.wait([moving])
    lives = [] if moving.exception() else [moving.result()]
    # SUBACK is held for as long as a node that is not declared down does not know.
    subscribing = [asyncio.create_task(life.subscribe("t", qos=1, timeout=200)) for life in lives]
    await asyncio.sleep(40)
    await flow.stop()
    await heal(cluster)
    await asyncio.gather(*subscribing, return_exceptions=True)
    await asyncio.sleep(20)
    assert sum("c" in node.broker.sessions for node in cluster.nodes.values()) == 1
    lives.append(await cluster.client(3, "c", **SESSION, timeout=40))
    await asyncio.sleep(5)
    assert not set(flow.acknowledged) - set(delivered(lives, flow))


@nodes(3, seeds=2)
async def test_what_waits_only_for_late_messages_is_no_session_once_its_successor_is_gone(sim, cluster):
    """Its client had more from the successor, and knows of identifiers that are not known here."""
    await gone(cluster, 3, "c", "t", qos=2)
    cluster.crash(1)
    await asyncio.sleep(10)
    client = await resumed(cluster, 2, "c", pause=0.5)
    # Node 1 may have kept something for it.
    assert cluster.nodes[3].broker.takeovers.superseded.has("c")
    cluster.crash(2)
    await cluster.restart(2)
    await asyncio.sleep(2)
    client = await cluster.client(3, "c", **SESSION)
    assert not client.session_present


@nodes(2, seeds=2, discs=True)
async def test_a_session_moves_whole_from_a_node_whose_disc_is_full(sim, cluster):
    first = await session(cluster, 1, "moves", "t", qos=2)
    await first.disconnect()
    speaker = await cluster.client(2, "speaker")
    disc = await fill_disc(cluster, 1)
    sent = [b"%d" % number for number in range(30)]

    async def publish():
        for payload in sent:
            sending.append(asyncio.create_task(speaker.publish("t", payload, qos=2)))
            await asyncio.sleep(0.1)

    sending = []
    publishing = asyncio.create_task(publish())
    await asyncio.sleep(0.5)
    async with asyncio.timeout(5):
        moved = await resumed(cluster, 2, "moves")
    await publishing
    await asyncio.sleep(2)
    assert moved.payloads() == sent
    assert not all(task.done() for task in sending), "what is acknowledged waits for the full disc"
    disc.limit_pages(0)
    await asyncio.wait_for(asyncio.gather(*sending), 10)
    await asyncio.sleep(5)
    assert moved.payloads() == sent
    assert "moves" not in cluster.nodes[1].broker.sessions


@nodes(3, seeds=2)
async def test_nothing_is_lost_where_a_mark_reaches_one_side_of_a_move_alone(sim, cluster, monkeypatch):
    """As where the link to the other had just been made again."""
    first = await session(cluster, 2, "moves", "t/#", qos=2)
    flows = [Flow(await cluster.client(1), f"t/{qos}", qos=qos, pause=0.02).start() for qos in (1, 2)]
    await asyncio.sleep(1)
    first.drop()
    router = cluster.nodes[1].broker.router
    link = {name: way for name, way in router.forwarders().items() if name == cluster.nodes[2].name}
    with monkeypatch.context() as patch:
        patch.setattr(router, "forwarders", lambda: link)
        moved = await resumed(cluster, 3, "moves")
    await asyncio.sleep(1)
    await stop(flows)
    await asyncio.sleep(3)
    got = {*first.payloads(), *moved.payloads()}
    assert not [payload for flow in flows for payload in flow.acknowledged if payload not in got]
    assert not [payload for payload in doubled(moved) if b"/2 " in payload]
    assert all(in_order(moved, flow.topic) for flow in flows)


@nodes(3)
async def test_a_session_that_is_ended_while_it_moves_lets_go_who_waits_for_what_came_since(
    sim, cluster, monkeypatch
):
    await gone(cluster, 2, "moves", "t", qos=2)
    router, source = cluster.nodes[1].broker.router, cluster.nodes[2]
    link = {name: way for name, way in router.forwarders().items() if name == cluster.nodes[3].name}
    with monkeypatch.context() as patch:
        # The source waits for a mark that does not come.
        patch.setattr(router, "forwarders", lambda: link)
        moving = asyncio.create_task(resumed(cluster, 3, "moves"))
        await asyncio.sleep(1)
        assert not moving.done()
        assert source.broker.table.kick("moves")
        async with asyncio.timeout(1):
            await moving


@nodes(3, seeds=4)
async def test_a_node_that_is_away_for_one_side_of_a_move_alone_marks_once_it_is_back(
    sim, cluster, monkeypatch
):
    """Without its mark the session goes on listening where it was, and is served again with what it has."""
    here, there = cluster.nodes[2].distribution, cluster.nodes[3].distribution
    first = await session(cluster, 2, "moves", "t", qos=2)
    speaker = await cluster.client(1)
    await cluster.settled()
    first.drop()
    with monkeypatch.context() as patch:
        # As if it heard of it later than the other.
        patch.setattr(here, "disconnect", lambda _name, _reason: None)
        cluster.freeze(1)
        await asyncio.sleep(5)
        assert (len(here.nodes()), len(there.nodes())) == (2, 1)
        moving = asyncio.create_task(cluster.client(3, "moves", **SESSION))
        await asyncio.sleep(0.1)
        cluster.thaw(1)
        moved = await moving
    assert moved.session_present
    await cluster.settled(timeout=90)
    await asyncio.sleep(1)
    publishing = asyncio.create_task(speaker.publish("t", b"once", qos=2))
    async with asyncio.timeout(5):
        await until(lambda: moved.messages, pause=0.001)
    cluster.freeze(3)
    moved.drop()
    again = await cluster.client(2, "moves", **SESSION, timeout=40)
    await asyncio.sleep(5)
    cluster.thaw(3)
    await publishing
    await cluster.settled(timeout=90)
    await asyncio.sleep(10)
    assert [*moved.payloads(), *again.payloads()] == [b"once"]


@nodes(3, seeds=4, discs=True)
async def test_a_session_that_has_moved_is_not_served_again_by_a_restarted_node(sim, cluster):
    """It was kept there for what a node that is away may still have for it. Its client had all of it
    elsewhere: served again, it would give it the same messages once more."""
    rng = sim.rng("when")
    lives = [await session(cluster, 1, "c", "t", qos=2)]
    cluster.crash(2, "kill")
    await until(lambda: len(cluster.nodes[1].distribution.nodes()) == 1)
    lives[0].drop()
    lives.append(await cluster.client(3, "c", **SESSION, timeout=40))
    assert lives[-1].session_present
    cluster.crash(1, "kill")
    await cluster.restart(1)
    await until(lambda: len(cluster.nodes[1].distribution.nodes()) == 1)
    await asyncio.sleep(rng.uniform(0, 0.3))
    sent = await numbered(await cluster.client(3), "t", 20, qos=2)
    await until(lambda: len(lives[-1].payloads()) == len(sent))
    cluster.crash(3, "kill")
    lives.append(await cluster.client(1, "c", **SESSION, timeout=40))
    assert not lives[-1].session_present
    await lives[-1].subscribe("t", qos=2)
    await asyncio.sleep(5)
    assert not lives[-1].payloads()


@nodes(2, discs=True)
async def test_a_node_that_has_not_met_both_sides_of_a_move_does_not_say_that_it_has_marked(sim, cluster):
    """Otherwise both would wait three seconds for a mark that was never sent."""
    takeovers = cluster.nodes[1].broker.takeovers
    here, there = (cluster.nodes[number].name for number in (1, 2))
    assert takeovers.mark("token", there, here)
    assert takeovers.mark("token", "", there)
    assert not takeovers.mark("token", "unmet@10.0.0.9", there)


@nodes(4, seeds=6, start=False, discs=True)
async def test_a_node_that_joins_in_the_middle_of_a_move_does_not_hold_it_up(sim, cluster):
    """Its mark is not asked for with the others, and nobody has published there yet."""
    await cluster.start(1, 2, 3)
    await cluster.settled()
    client = await session(cluster, 1, "moves", "t", qos=1)
    joining = asyncio.create_task(cluster.start(4))
    loop = asyncio.get_running_loop()
    slowest, number, until = 0.0, 1, loop.time() + 5
    while not joining.done() or loop.time() < until:
        client.drop()
        number = number % 3 + 1
        began = loop.time()
        client = await resumed(cluster, number, "moves")
        slowest = max(slowest, loop.time() - began)
    await joining
    assert slowest < 1

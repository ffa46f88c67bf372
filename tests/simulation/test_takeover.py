"""A client that comes to another node finds its session there, whole."""

import asyncio

import msgspec
import pytest

from gossamer.errors import UnavailableError
from gossamer.mqtt import Message, Properties
from gossamer.mqtt.codec.packets import Pubcomp, Publish, Pubrec, Pubrel, Subscription, Will
from gossamer.mqtt.messages.message_ids import NO_IDENT
from gossamer.mqtt.migration import superseded
from gossamer.mqtt.migration.superseded import Remains
from gossamer.mqtt.migration.target import Taking
from gossamer.testing.links import LinkQuality
from gossamer.testing.traffic import Flow

from .clusters import nodes, until
from .flows import SESSION, doubled, fill_disc, in_order, numbered, resumed, session, stop, subscriber
from .recording import Recording


@nodes(3, seeds=4)
async def test_a_session_follows_its_client_and_nothing_is_lost_or_doubled(sim, cluster):
    flows = [Flow(await cluster.client(n), f"t/{n}", pause=0.003) for n in (1, 2, 3)]
    client = await session(cluster, 1, "mover", "t/#", qos=1)
    for flow in flows:
        flow.start()
    lives = [client]
    rng = sim.rng("moves")
    for number in (2, 3, 1, 2):
        await asyncio.sleep(rng.uniform(0.1, 1))
        if rng.random() < 0.5:
            lives[-1].drop()
        lives.append(await resumed(cluster, number, "mover"))
    await asyncio.sleep(0.5)
    await stop(flows)
    await asyncio.sleep(3)
    got = [m for life in lives for m in life.messages]
    for flow in flows:
        assert len(flow.acknowledged) > 50
        mine = [m.payload for m in got if m.topic == flow.topic.encode()]
        assert not set(flow.acknowledged) - set(mine)
        # Only what was in flight when the connection ended may come again, and says so.
        first = [m.payload for m in got if m.topic == flow.topic.encode() and not m.dup]
        assert len(first) == len(set(first))
    assert sum("mover" in node.broker.sessions for node in cluster.nodes.values()) == 1


@nodes(3, seeds=2)
async def test_clean_start_ends_the_session_on_the_other_node(sim, cluster):
    old = await session(cluster, 1, "c", "t", qos=1)
    await asyncio.sleep(1)
    new = await cluster.client(2, "c")
    await asyncio.sleep(1)
    assert not new.session_present
    assert old.left == 0x8E
    assert "c" not in cluster.nodes[1].broker.sessions
    speaker = await cluster.client(3)
    await speaker.publish("t", b"x", qos=1)
    await asyncio.sleep(1)
    assert new.messages == []


def delivered(lives, flow):
    return [m.payload for life in lives for m in life.messages if m.topic == flow.topic.encode()]


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
    await cluster.restart(victim)
    await cluster.settled(timeout=90)
    await asyncio.sleep(10)
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
    await cluster.restart(2)
    await cluster.settled(timeout=90)
    await asyncio.sleep(10)
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
    old = await session(cluster, 1, "c", "t", qos=1)
    old.drop()
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
    cluster.heal()
    await cluster.settled(timeout=90)
    await asyncio.gather(*subscribing, return_exceptions=True)
    await asyncio.sleep(20)
    assert sum("c" in node.broker.sessions for node in cluster.nodes.values()) == 1
    lives.append(await cluster.client(3, "c", **SESSION, timeout=40))
    await asyncio.sleep(5)
    assert not set(flow.acknowledged) - set(delivered(lives, flow))


@nodes(2, seeds=3, discs=True)
@pytest.mark.parametrize("clean", [False, True])
async def test_what_waits_on_a_node_that_was_down_follows_the_client(sim, cluster, clean):
    """To its new session, if it wants that topic still and did not want a clean one; else it is counted."""
    old = await session(cluster, 1, "c", "kept/+", "gone/+", qos=2)
    old.drop()
    speaker = await cluster.client(1)
    await asyncio.sleep(0.1)
    recordings = [Recording(cluster.nodes[1]), Recording(cluster.nodes[2])]
    for number in range(3):
        await speaker.publish(f"kept/{number}", b"k", qos=1 + number % 2)
        await speaker.publish(f"gone/{number}", b"g", qos=1)
    sent = recordings[0].told("published")
    cluster.crash(1)
    await asyncio.sleep(30)
    new = await cluster.client(2, "c", clean_start=clean, session_expiry=3000)
    assert not new.session_present
    await new.subscribe("kept/#", qos=1)
    await cluster.restart(1)
    await cluster.settled(timeout=90)
    await asyncio.sleep(10)
    assert sorted(m.topic for m in new.messages) == ([] if clean else [b"kept/0", b"kept/1", b"kept/2"])
    assert cluster.nodes[1].broker.hub.drops["session_superseded"] == (6 if clean else 3)
    # Each message that was taken from its publisher is told as delivered where the client is, or as lost.
    there = recordings[1]
    names = {row["message"]: row["topic"] for row in sent}
    told = {kind: sorted(names[n] for n in there.messages(kind)) for kind in ("delivered", "dropped")}
    gone, kept = [f"gone/{n}" for n in range(3)], [f"kept/{n}" for n in range(3)]
    assert told == {"delivered": [] if clean else kept, "dropped": gone + kept if clean else gone}
    assert {(row["client"], row["reason"]) for row in there.told("dropped")} == {("c", "session_superseded")}
    assert "c" not in cluster.nodes[1].broker.sessions


@nodes(2)
@pytest.mark.parametrize("connected", [True, False])
async def test_the_state_moves_whole(sim, cluster, connected):
    will = Will(topic=b"w", payload=b"gone", qos=1, properties=Properties(will_delay=600))
    old = await subscriber(cluster, 1, "t", qos=2, name="c", session_expiry=3000, will=will)
    node = cluster.nodes[1].broker
    session = node.sessions["c"]
    wanted = Subscription("opt/+", 1, no_local=True, retain_as_published=True, retain_handling=2)
    session.subscribe(wanted, 77)
    node.table.subscribe_again(session)
    if not connected:
        old.drop()
        await asyncio.sleep(100)
    session.unreleased(5, NO_IDENT)
    session.keep(9, b"\x62\x02\x00\x09")
    now = node.hub.now()
    fresh = Message(
        b"t",
        b"later",
        qos=1,
        properties=Properties(message_expiry=500, user=(("a", "1"), ("b", "2"), ("a", "3"))),
        expires_at=now + 500,
    )
    stale = Message(b"t", b"too late", qos=1, properties=Properties(message_expiry=1), expires_at=now + 0.001)
    for message in (fresh, stale):
        head, tail = message.parts(5, 2, (), now)
        session.enqueue(head, tail, message)
    before = dict(session.subscriptions)
    await asyncio.sleep(10)
    client = await cluster.client(2, "c", clean_start=False, session_expiry=4000)
    await asyncio.sleep(1)
    moved = cluster.nodes[2].broker.sessions["c"]
    assert client.session_present
    assert dict(moved.subscriptions) == before
    assert set(moved.incoming) == {5}
    assert moved.inflight == {}
    assert old.left == (0x8E if connected else None)
    [message] = client.messages
    assert message.payload == b"later"
    assert message.properties.user == (("a", "1"), ("b", "2"), ("a", "3"))
    assert 480 <= message.properties.message_expiry <= 490
    assert moved.expiry == 4000
    # The client is back: its will is void, and stays so.
    watcher = await subscriber(cluster, 1, "w", qos=1)
    await asyncio.sleep(700)
    assert watcher.messages == []


@nodes(2)
async def test_the_will_and_the_end_of_a_session_move_with_it(sim, cluster):
    """The client asks for its session and goes before it gets it; what was to happen to it still does."""
    will = Will(topic=b"w", payload=b"gone", qos=1, properties=Properties(will_delay=300))
    old = await subscriber(cluster, 1, "t", qos=1, name="c", session_expiry=1000, will=will)
    old.drop()
    watcher = await subscriber(cluster, 1, "w", qos=1)
    await asyncio.sleep(100)
    await cluster.nodes[2].runtime.run(cluster.nodes[2].broker.takeovers.fetch, "c", clean=False)
    assert "c" in cluster.nodes[2].broker.sessions
    await asyncio.sleep(150)
    assert watcher.payloads() == []
    await asyncio.sleep(100)
    assert watcher.payloads() == [b"gone"]
    assert "c" in cluster.nodes[2].broker.sessions
    await asyncio.sleep(700)
    assert not any("c" in node.broker.sessions for node in cluster.nodes.values())


@nodes(2)
async def test_a_large_queue_moves_in_parts(sim, cluster):
    old = await session(cluster, 1, "c", "t", qos=1)
    old.drop()
    speaker = await cluster.client(1)
    await asyncio.sleep(0.1)
    payloads = [b"%d " % n * 50_000 for n in range(20)]
    for payload in payloads:
        await speaker.publish("t", payload, qos=1)
    client = await cluster.client(2, "c", **SESSION)
    await asyncio.sleep(10)
    assert client.payloads() == payloads


@nodes(2)
async def test_a_kick_reaches_the_node_that_has_the_client(sim, cluster):
    client = await cluster.client(1, "c", **SESSION)
    await asyncio.sleep(1)
    node = cluster.nodes[2]
    assert await node.runtime.run(node.broker.takeovers.kick, "c") is True
    await client.lost
    assert client.left == 0x98
    assert "c" not in cluster.nodes[1].broker.sessions
    assert await node.runtime.run(node.broker.takeovers.kick, "nobody") is False
    # Nobody knows whether it is on a node that says nothing.
    cluster.cut(1, 2)
    with pytest.raises(UnavailableError, match=r"node1.* did not answer"):
        await node.runtime.run(node.broker.takeovers.kick, "nobody")


@nodes(3, seeds=3)
async def test_a_share_group_loses_nothing_while_a_member_moves(sim, cluster):
    mover = await cluster.client(1, "mover", **SESSION)
    stayer = await cluster.client(3, "stayer", **SESSION)
    for member in (mover, stayer):
        await member.subscribe("$share/g/t", qos=1)
    await asyncio.sleep(1)
    flow = Flow(await cluster.client(2), "t", pause=0.003).start()
    lives = [mover]
    for number in (2, 3, 1):
        await asyncio.sleep(sim.rng("when").uniform(0.1, 0.4))
        lives.append(await resumed(cluster, number, "mover"))
    await asyncio.sleep(0.3)
    await flow.stop()
    await asyncio.sleep(3)
    got = [m for life in (*lives, stayer) for m in life.messages]
    assert not set(flow.acknowledged) - {m.payload for m in got}
    first = [m.payload for m in got if not m.dup]
    assert len(first) == len(set(first))
    assert sum(len(life.messages) for life in lives) > 20


@nodes(2)
async def test_a_storm_of_takeovers_ends_with_every_session_in_one_place(sim, cluster):
    names = [f"c{number}" for number in range(1000)]
    for name in names:
        client = await cluster.client(1, name, session_expiry=300)
        await client.subscribe(f"t/{name}", qos=1)
    moved = await asyncio.gather(*(cluster.client(2, name, **SESSION, timeout=60) for name in names))
    assert all(client.session_present for client in moved)
    await asyncio.sleep(5)
    assert set(names) <= set(cluster.nodes[2].broker.sessions)
    assert not set(names) & set(cluster.nodes[1].broker.sessions)


@nodes(3, seeds=4)
async def test_a_client_that_gives_up_waiting_finds_its_session_later(sim, cluster):
    old = await session(cluster, 1, "c", "t", qos=1)
    old.drop()
    await asyncio.sleep(1)
    moving = asyncio.create_task(cluster.client(2, "c", **SESSION))
    await asyncio.sleep(sim.rng("when").uniform(0, 0.02))
    if moving.done():
        moving.result().drop()
    moving.cancel()
    speaker = await cluster.client(3)
    await speaker.publish("t", b"x", qos=1)
    await asyncio.sleep(20)
    await speaker.publish("t", b"y", qos=1)
    client = await cluster.client(3, "c", **SESSION)
    await asyncio.sleep(1)
    assert client.session_present
    assert client.payloads() == [b"x", b"y"]


@nodes(3, seeds=2)
async def test_a_node_that_hears_late_who_has_a_session_does_not_say_that_there_is_none(sim, cluster):
    """The giver's claim is gone as soon as it has seen the taker's; not so where that is not known yet."""
    await session(cluster, 1, "c", "t", qos=1)
    sim.shape(cluster.address(2), cluster.address(3), LinkQuality(latency=1.5), one_way=True)
    moving = asyncio.create_task(cluster.client(2, "c", **SESSION, timeout=60))
    await until(lambda: "c" not in cluster.nodes[1].broker.sessions)
    assert not moving.done()
    moving.cancel()
    await resumed(cluster, 3, "c", timeout=60)
    sim.shape(cluster.address(2), cluster.address(3), None)
    await asyncio.sleep(5)
    # Only who has it claims it at last.
    assert [cluster.nodes[number].broker.takeovers.claims("c").keys() for number in (1, 2, 3)] == [
        {cluster.nodes[3].name}
    ] * 3


@nodes(2, seeds=8, start=False)
async def test_two_that_wait_for_a_session_do_not_both_take_it(sim, cluster, monkeypatch):
    """Both connections find that it is on its way elsewhere, and are there when it is over."""
    run, running, most = Taking.run, [], []

    async def counted(taking):
        running.append(taking._home.ownership.node)
        most.append(running.count(taking._home.ownership.node))
        try:
            return await run(taking)
        finally:
            running.remove(taking._home.ownership.node)

    monkeypatch.setattr(Taking, "run", counted)
    await cluster.start()
    await cluster.settled()
    sim.shape(cluster.address(1), cluster.address(2), LinkQuality(latency=0.1, jitter=0.1))
    old = await session(cluster, 1, "c", "t", qos=2)
    old.drop()
    flow = Flow(await cluster.client(2), "t", qos=2, pause=0.02).start()
    there = asyncio.create_task(cluster.client(2, "c", **SESSION))
    await until(lambda: cluster.nodes[1].broker.takeovers.is_moving("c"), pause=0.001)
    first = asyncio.create_task(cluster.client(1, "c", **SESSION))
    await asyncio.sleep(0.01)
    second = asyncio.create_task(cluster.client(1, "c", **SESSION))
    await asyncio.wait([there, first, second])
    assert second.result().session_present
    await asyncio.sleep(1)
    await flow.stop()
    await asyncio.sleep(3)
    lives = [task.result() for task in (there, first, second) if not task.exception()]
    assert set(flow.acknowledged) <= {payload for life in lives for payload in life.payloads()}
    assert max(most) == 1


@nodes(3, seeds=2)
async def test_what_waits_only_for_late_messages_is_no_session_once_its_successor_is_gone(sim, cluster):
    """Its client had more from the successor, and knows of identifiers that are not known here."""
    client = await session(cluster, 3, "c", "t", qos=2)
    client.drop()
    cluster.crash(1)
    await asyncio.sleep(10)
    client = await resumed(cluster, 2, "c")
    await asyncio.sleep(0.5)
    # Node 1 may have kept something for it.
    assert cluster.nodes[3].broker.takeovers.remains.has("c")
    cluster.crash(2)
    await cluster.restart(2)
    await asyncio.sleep(2)
    client = await cluster.client(3, "c", **SESSION)
    assert not client.session_present


@nodes(2, seeds=2)
async def test_a_session_that_began_behind_a_cut_has_the_subscriptions_of_the_one_it_meets(sim, cluster):
    """Its client has subscribed once, and was told at each later CONNACK that it has a session."""
    client = await session(cluster, 2, "c", "t", qos=1)
    client.drop()
    cluster.cut(1, 2)
    await asyncio.sleep(40)
    # It gives up before it has heard that it has no session there.
    (await cluster.client(1, "c", **SESSION)).drop()
    cluster.heal()
    await until(lambda: len(cluster.nodes[2].broker.takeovers.claims("c")) > 1)
    client = await resumed(cluster, 2, "c")
    speaker = await cluster.client(1)
    await speaker.publish("t", b"x", qos=1)
    await asyncio.sleep(1)
    assert client.payloads() == [b"x"]


@nodes(2, seeds=2)
@pytest.mark.parametrize("there_again", [True, False], ids=["where it began", "where it went"])
async def test_a_publisher_of_two_sessions_is_known_by_what_it_began_in_either(sim, cluster, there_again):
    """One began behind a cut, and the other is what is gone on with: a half sent message is in the first."""
    hearer = await subscriber(cluster, 1, "t", qos=2, session_expiry=300)
    (await cluster.client(2, "c", **SESSION)).drop()
    cluster.cut(1, 2)
    await asyncio.sleep(40)
    publisher = await cluster.client(1, "c", **SESSION)
    assert not publisher.session_present
    message = Publish(topic=b"t", payload=b"x", qos=2, packet_id=7)
    await publisher.ask(message, Pubrec, 7)
    publisher.drop()
    await asyncio.sleep(1)
    publisher = await resumed(cluster, 2, "c")
    cluster.heal()
    await until(lambda: len(cluster.nodes[2].broker.takeovers.claims("c")) > 1)
    if there_again:
        publisher.drop()
        publisher = await resumed(cluster, 1, "c")
    else:
        # Until the node has been told what is left of the other session, nobody there knows.
        await asyncio.sleep(3)
    message = msgspec.structs.replace(message, dup=True)
    await publisher.ask(message, Pubrec, 7)
    await publisher.ask(Pubrel(7), Pubcomp, 7)
    await asyncio.sleep(1)
    assert hearer.payloads() == [b"x"]


async def in_two_copies(sim, cluster):
    """The session of "c", subscribed to "stays" and "gone", moves from node 1 to node 2, and they are cut off
    from each other before node 1 knows that it has; its client's first connection on node 2."""
    client = await session(cluster, 1, "c", "stays", "gone", qos=1)
    client.drop()
    await asyncio.sleep(1)
    sim.shape(cluster.address(1), cluster.address(2), LinkQuality(latency=0.1))
    moving = asyncio.create_task(cluster.client(2, "c", **SESSION, timeout=40))
    taker = cluster.nodes[2]
    await until(lambda: taker.name in taker.broker.takeovers.claims("c"))
    cluster.cut(1, 2)
    client = await moving
    sim.shape(cluster.address(1), cluster.address(2), None)
    assert client.session_present
    await asyncio.sleep(40)
    assert all("c" in node.broker.sessions for node in cluster.nodes.values())
    return client


async def meet(cluster, client, monkeypatch, *, there_again):
    """Both copies are seen by both nodes; the client stays where the later claim is, on node 1, or goes
    to the other before that is told anything."""

    async def not_yet(*_):
        return None

    with monkeypatch.context() as patch:
        if there_again:
            patch.setattr(Remains, "_was_given", not_yet)
        cluster.heal()
        await until(lambda: cluster.nodes[2].broker.takeovers.ownership.better("c"))
        if there_again:
            client.drop()
            client = await resumed(cluster, 2, "c")
    await cluster.settled(timeout=90)
    await asyncio.sleep(20)
    assert sum("c" in node.broker.sessions for node in cluster.nodes.values()) == 1
    return client


@nodes(2, seeds=2, start=False)
@pytest.mark.parametrize("there_again", [True, False], ids=["back", "stays"])
@pytest.mark.parametrize("changed", [1, 2])
@pytest.mark.parametrize("disc", [True, False], ids=["disc", "memory"])
async def test_of_two_copies_of_a_session_the_subscriptions_changed_last_count(
    sim, cluster, monkeypatch, tmp_path, disc, changed, there_again
):
    """Whichever of them is gone on with, and whichever way they meet."""
    cluster.discs = tmp_path if disc else None
    await cluster.start()
    await cluster.settled()
    client = await in_two_copies(sim, cluster)
    if changed == 1:
        # More changes than in the other copy, and earlier ones.
        for topic in ("earlier", "old", "older"):
            await client.subscribe(topic, qos=1)
        await client.unsubscribe("stays")
        client.drop()
        client = await resumed(cluster, 1, "c")
    await client.subscribe("new", qos=1)
    await client.unsubscribe("gone")
    client.drop()
    if disc:
        cluster.crash(changed)
        await cluster.restart(changed)
        await asyncio.sleep(5)
    client = await resumed(cluster, 1, "c")
    client = await meet(cluster, client, monkeypatch, there_again=there_again)
    for number in (1, 2):
        speaker = await cluster.client(number)
        for topic in ("stays", "new", "gone", "older"):
            await speaker.publish(topic, b"%d" % number, qos=1)
    await asyncio.sleep(2)
    wanted = [(topic, payload) for payload in (b"1", b"2") for topic in (b"stays", b"new")]
    assert [(m.topic, m.payload) for m in client.messages] == wanted
    assert not any(
        "gone" in [name for name, *_ in node.broker.router.routes()] for node in cluster.nodes.values()
    )


@nodes(2, seeds=2)
@pytest.mark.parametrize("there_again", [True, False], ids=["back", "stays"])
async def test_what_one_copy_of_a_session_alone_was_subscribed_to_is_delivered(
    sim, cluster, monkeypatch, there_again
):
    """It waits there, and is offered to the copy that is gone on with, or comes while that moves."""
    client = await in_two_copies(sim, cluster)
    await client.subscribe("new", qos=1)
    client.drop()
    flow = Flow(await cluster.client(2), "new", pause=0.01).start()
    await asyncio.sleep(1)
    client = await resumed(cluster, 1, "c")
    sim.shape(cluster.address(1), cluster.address(2), LinkQuality(latency=0.1))
    lives = [client, await meet(cluster, client, monkeypatch, there_again=there_again)]
    await flow.stop()
    await asyncio.sleep(2)
    assert len(flow.acknowledged) > 100
    assert not set(flow.acknowledged) - set(delivered(lives, flow))


@nodes(2, seeds=2, discs=True, sessions={"away_messages": 0})
async def test_what_is_left_in_a_copy_is_queued_once_where_the_disc_is_full(sim, cluster):
    """Nothing is kept for the other node besides, which would come as well."""
    client = await in_two_copies(sim, cluster)
    client.drop()
    sent = await numbered(await cluster.client(2), "stays", 20, qos=1)
    client = await resumed(cluster, 1, "c")
    disc = await fill_disc(cluster, 1)
    cluster.heal()
    await asyncio.sleep(40)
    disc.limit_pages(0)
    await asyncio.sleep(20)
    assert client.payloads() == sent
    assert [n for n, node in cluster.nodes.items() if "c" in node.broker.sessions] == [1]


@nodes(2, seeds=2)
@pytest.mark.parametrize("there_again", [True, False], ids=["back", "stays"])
async def test_what_was_unsubscribed_where_it_was_not_known_does_not_come_back(
    sim, cluster, monkeypatch, there_again
):
    """Nor does anything of a session whose client has unsubscribed all."""
    client = await in_two_copies(sim, cluster)
    await client.subscribe("new", qos=1)
    client.drop()
    client = await resumed(cluster, 1, "c")
    await client.unsubscribe("new")
    if there_again:
        client.drop()
        client = await cluster.client(2, "c", **SESSION)
        await client.unsubscribe("stays", "gone", "new")
        client.drop()
        client = await cluster.client(1, "c", **SESSION)
    client = await meet(cluster, client, monkeypatch, there_again=False)
    subscriptions = cluster.nodes[1].broker.sessions["c"].subscriptions
    assert list(subscriptions) == ([] if there_again else ["stays", "gone"])


@nodes(2)
async def test_a_copy_subscribed_to_more_than_fits_between_nodes_is_not_followed_and_let_go(
    sim, cluster, monkeypatch
):
    monkeypatch.setattr(superseded, "MAX_LISTED", 10)
    client = await in_two_copies(sim, cluster)
    await client.subscribe("new", qos=1)
    client.drop()
    client = await cluster.client(1, "c", **SESSION)
    await meet(cluster, client, monkeypatch, there_again=False)
    assert list(cluster.nodes[1].broker.sessions["c"].subscriptions) == ["stays", "gone"]


@nodes(2)
async def test_a_subscription_that_waits_for_its_suback_is_not_taken_for_one_that_was_left(
    sim, cluster, monkeypatch
):
    """The other copy was changed later than this one's last SUBACK, and is met before the next."""
    client = await in_two_copies(sim, cluster)
    await client.subscribe("new", qos=1)
    client.drop()
    client = await cluster.client(1, "c", **SESSION)
    router = cluster.nodes[1].broker.router
    visible = type(router).visible

    async def late(self, seq):
        await asyncio.sleep(5)
        return await visible(self, seq)

    with monkeypatch.context() as patch:
        patch.setattr(type(router), "is_visible", lambda *_: False)
        patch.setattr(type(router), "visible", late)
        subscribing = asyncio.create_task(client.subscribe("late", qos=1, timeout=60))
        cluster.heal()
        await subscribing
    await meet(cluster, client, monkeypatch, there_again=False)
    assert "late" in cluster.nodes[1].broker.sessions["c"].subscriptions


@nodes(2)
async def test_of_two_copies_that_are_met_at_once_the_one_changed_last_is_followed(sim, cluster, monkeypatch):
    """The earlier one is told while the later one's routes are still on their way."""
    client = await cluster.client(1, "c", **SESSION)
    await client.subscribe("own", qos=1)
    successors = cluster.nodes[1].broker.takeovers.successors
    session = cluster.nodes[1].broker.sessions["c"]
    router = cluster.nodes[1].broker.router
    visible = type(router).visible

    async def late(self, seq):
        await asyncio.sleep(1)
        return await visible(self, seq)

    monkeypatch.setattr(type(router), "visible", late)
    async with asyncio.TaskGroup() as told:
        for later, name in ((2, "later"), (1, "earlier")):
            copy = [["s", list(msgspec.structs.astuple(Subscription(name, qos=1))), None]]
            revised = session.revised + later
            told.create_task(successors.superseded("c", session.born, "", [], [], [], revised, copy))
    assert list(session.subscriptions) == ["later"]


@nodes(2, start=False)
@pytest.mark.parametrize("disc", [True, False])
async def test_what_is_recorded_is_delivered_once_though_its_session_moves(sim, cluster, disc, tmp_path):
    """In flight on one node and acknowledged on the other, or queued on one and delivered by the other."""
    cluster.discs = tmp_path if disc else None
    await cluster.start()
    await cluster.settled()
    recordings = {number: Recording(cluster.nodes[number]) for number in (1, 2)}
    old = await session(cluster, 1, "c", "t", qos=1)
    speaker = await cluster.client(2)
    old.data_received = lambda data: None
    for payload in (b"0", b"1", b"2"):
        await speaker.publish("t", payload, qos=1)
    await asyncio.sleep(1)
    old.drop()
    await asyncio.sleep(1)
    for payload, expiry in ((b"3", None), (b"4", 500), (b"5", None)):
        await speaker.publish("t", payload, qos=1, expiry=expiry)
    await asyncio.sleep(1)
    new = await cluster.client(2, "c", **SESSION)
    await asyncio.sleep(1)
    assert new.payloads() == [b"%d" % number for number in range(6)]
    sent = recordings[2].messages("published")
    assert {number: recording.messages("delivered") for number, recording in recordings.items()} == {
        1: sent[:3],
        2: sent[3:],
    }
    there = [row for row in recordings[2].told("acknowledged") if row["role"] == "subscriber"]
    assert sorted(n for row in there for n in range(row["message"], row["message"] + row["count"])) == sent
    assert [(row["client"], row["peer"]) for row in recordings[2].told("taken_over")] == [
        ("c", cluster.nodes[1].name)
    ]
    assert not any(recording.told("dropped") for recording in recordings.values())


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
    source = {name: way for name, way in router.forwarders().items() if name == cluster.nodes[2].name}
    with monkeypatch.context() as patch:
        patch.setattr(router, "forwarders", lambda: source)
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
    first = await session(cluster, 2, "moves", "t", qos=2)
    first.drop()
    router, giver = cluster.nodes[1].broker.router, cluster.nodes[2]
    taker = {name: way for name, way in router.forwarders().items() if name == cluster.nodes[3].name}
    with monkeypatch.context() as patch:
        # The giver waits for a mark that does not come.
        patch.setattr(router, "forwarders", lambda: taker)
        moving = asyncio.create_task(resumed(cluster, 3, "moves"))
        await asyncio.sleep(1)
        assert not moving.done()
        assert giver.broker.table.kick("moves")
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

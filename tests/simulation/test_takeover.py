"""A client that comes to another node finds its session there, whole."""

import asyncio

import pytest

from gossamer.errors import UnavailableError
from gossamer.mqtt import Message, Properties
from gossamer.mqtt.codec.packets import Subscription, Will
from gossamer.mqtt.messages.message_ids import NO_ID
from gossamer.mqtt.migration.target import Incoming
from gossamer.testing.links import LinkQuality
from gossamer.testing.traffic import Flow

from .clusters import nodes, restart, until
from .flows import SESSION, gone, numbered, resumed, session, stop, subscriber
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


@nodes(4, seeds=2)
@pytest.mark.parametrize("qos", [1, 2])
async def test_a_publisher_that_moves_between_two_marks_is_heard_in_order(sim, cluster, qos):
    """It had published at the node that marked first, and goes on at the one that marks last."""
    await gone(cluster, 3, "mover", "t", qos=qos)
    fast, slow = [await cluster.client(number, f"speaker{number}") for number in (2, 4)]
    await cluster.settled()
    sim.shape(cluster.address(1), cluster.address(4), LinkQuality(latency=0.3))
    moving = asyncio.create_task(cluster.client(1, "mover", **SESSION, timeout=30))
    targets = cluster.nodes[1].broker.takeovers._targets
    await until(
        lambda: targets.get("mover") and cluster.nodes[2].name in targets.get("mover")._machine.marked
    )
    sent = await numbered(fast, "t", 5, qos=qos)
    assert cluster.nodes[4].name not in targets.get("mover")._machine.marked
    sent += await numbered(slow, "t", 1, qos=qos, first=5)
    sent += await numbered(fast, "t", 1, qos=qos, first=6)
    client = await moving
    await asyncio.sleep(2)
    assert client.session_present
    assert client.payloads() == sent


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


@nodes(2, seeds=3, discs=True)
@pytest.mark.parametrize("clean", [False, True])
async def test_what_waits_on_a_node_that_was_down_follows_the_client(sim, cluster, clean):
    """To its new session, if it wants that topic still and did not want a clean one; else it is counted."""
    await gone(cluster, 1, "c", "kept/+", "gone/+", qos=2)
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
    await restart(cluster, 1, pause=10)
    assert sorted(m.topic for m in new.messages) == ([] if clean else [b"kept/0", b"kept/1", b"kept/2"])
    assert cluster.nodes[1].broker.fanout.drops["session_superseded"] == (6 if clean else 3)
    # Each message that was taken from its publisher is told as delivered where the client is, or as lost.
    there = recordings[1]
    names = {row["message"]: row["topic"] for row in sent}
    told = {kind: sorted(names[n] for n in there.messages(kind)) for kind in ("delivered", "dropped")}
    left, kept = [f"gone/{n}" for n in range(3)], [f"kept/{n}" for n in range(3)]
    assert told == {"delivered": [] if clean else kept, "dropped": left + kept if clean else left}
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
    session.unreleased(5, NO_ID)
    session.keep(9, b"\x62\x02\x00\x09")
    now = node.fanout.now()
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
    await gone(cluster, 1, "c", "t", qos=1)
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
    await gone(cluster, 1, "c", "t", qos=1)
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
    client = await resumed(cluster, 3, "c", pause=1)
    assert client.payloads() == [b"x", b"y"]


@nodes(3, seeds=2)
async def test_a_node_that_hears_late_who_has_a_session_does_not_say_that_there_is_none(sim, cluster):
    """The source's claim is gone as soon as it has seen the target's; not so where that is not known yet."""
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
    run, running, most = Incoming.run, [], []

    async def counted(incoming):
        running.append(incoming._home.ownership.node)
        most.append(running.count(incoming._home.ownership.node))
        try:
            return await run(incoming)
        finally:
            running.remove(incoming._home.ownership.node)

    monkeypatch.setattr(Incoming, "run", counted)
    await cluster.start()
    await cluster.settled()
    sim.shape(cluster.address(1), cluster.address(2), LinkQuality(latency=0.1, jitter=0.1))
    await gone(cluster, 1, "c", "t", qos=2)
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


@nodes(2, discs=[True, False])
async def test_what_is_recorded_is_delivered_once_though_its_session_moves(sim, cluster):
    """In flight on one node and acknowledged on the other, or queued on one and delivered by the other."""
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

"""A session goes on at another node while its own is down, with everything that was acknowledged."""

import asyncio

import pytest

from gossamer.basekv import KINDS
from gossamer.mqtt.migration import superseded
from gossamer.testing.traffic import Flow

from .clusters import heal, nodes, restart, until
from .copied import COPIED, formed, having, led
from .flows import SESSION, gone, new_session, numbered, resumed, session, stop, subscriber


@nodes(3, seeds=3, **COPIED)
@pytest.mark.parametrize("qos", [1, 2])
async def test_a_session_goes_on_elsewhere_while_its_node_is_down(sim, cluster, qos):
    """With what was queued before its node died, and what came since; and nothing twice once that is back."""
    await formed(cluster)
    await gone(cluster, 1, "c", "t/#", qos=qos)
    speaker = await cluster.client(2)
    sent = await numbered(speaker, "t/1", 20, qos=qos)
    cluster.crash(1)
    # Before the other nodes know that it is down, and after.
    sent += await numbered(speaker, "t/1", 20, qos=qos, first=20, pause=0.3)
    client = await resumed(cluster, 3, "c", pause=2)
    assert client.payloads() == sent
    sent += await numbered(speaker, "t/1", 5, qos=qos, first=40)
    await asyncio.sleep(1)
    assert client.payloads() == sent
    await restart(cluster, 1, pause=15)
    assert client.payloads() == sent
    assert having(cluster, "c") == [3]


@nodes(3, seeds=4, **COPIED)
@pytest.mark.parametrize("qos", [1, 2])
async def test_its_node_dies_while_messages_flow_and_nothing_is_lost_or_doubled(sim, cluster, qos):
    await formed(cluster)
    flows = [Flow(await cluster.client(n), f"t/{n}", qos=qos, pause=0.01) for n in (2, 3)]
    lives = [await session(cluster, 1, "c", "t/#", qos=qos)]
    for flow in flows:
        flow.start()
    await asyncio.sleep(sim.rng("death").uniform(0.5, 2))
    cluster.crash(1)
    lives.append(await cluster.client(2, "c", **SESSION, timeout=30))
    assert lives[-1].session_present
    await asyncio.sleep(2)
    await stop(flows)
    await restart(cluster, 1, pause=15)
    got = [m for life in lives for m in life.messages]
    for flow in flows:
        assert len(flow.acknowledged) > 50
        mine = [m.payload for m in got if m.topic == flow.topic.encode()]
        assert not set(flow.acknowledged) - set(mine)
        first = [m.payload for m in got if m.topic == flow.topic.encode() and not m.dup]
        if qos == 2:
            assert len(first) == len(set(first))
        order = list(dict.fromkeys(mine))
        assert order == sorted(order, key=flow.sent.index)


@nodes(3, seeds=2, **COPIED)
async def test_a_session_goes_on_from_node_to_node_as_one_after_the_other_dies(sim, cluster):
    await formed(cluster)
    await gone(cluster, 1, "c", "t", qos=2)
    speaker = await cluster.client(3)
    sent = await numbered(speaker, "t", 5, qos=2)
    cluster.crash(1)
    client = await resumed(cluster, 2, "c", pause=2)
    assert client.payloads() == sent
    client.drop()
    await restart(cluster, 1, pause=10)
    later = await numbered(speaker, "t", 5, qos=2, first=5)
    cluster.crash(2)
    client = await cluster.client(1, "c", **SESSION, timeout=30)
    assert client.session_present
    await asyncio.sleep(2)
    assert client.payloads() == later
    await restart(cluster, 2, pause=15)
    assert client.payloads() == later
    assert having(cluster, "c") == [1]


@nodes(3, seeds=2, **COPIED)
async def test_a_message_that_fits_no_value_is_in_the_copy_too(sim, cluster):
    await formed(cluster)
    await gone(cluster, 1, "c", "large/#", qos=1)
    speaker = await cluster.client(2)
    for number in range(3):
        await speaker.publish(f"large/{number}", b"%d" % number * 350_000, qos=1)
    cluster.crash(1)
    client = await cluster.client(3, "c", **SESSION, timeout=30)
    assert client.session_present
    await asyncio.sleep(3)
    assert client.payloads() == [b"%d" % number * 350_000 for number in range(3)]


@nodes(3, seeds=2, **COPIED)
async def test_a_clean_start_elsewhere_ends_what_was_copied(sim, cluster):
    await formed(cluster)
    await gone(cluster, 1, "c", "t", qos=1)
    speaker = await cluster.client(2)
    await numbered(speaker, "t", 5)
    cluster.crash(1)
    await asyncio.sleep(10)
    (await cluster.client(3, "c")).drop()
    await asyncio.sleep(2)
    client = await new_session(cluster, 2, "c", "other", qos=1)
    await asyncio.sleep(2)
    assert client.messages == []


@nodes(3, seeds=2, **COPIED)
async def test_all_die_and_the_node_of_a_session_stays_away(sim, cluster):
    await formed(cluster)
    await gone(cluster, 1, "c", "t", qos=1)
    speaker = await cluster.client(2)
    sent = await numbered(speaker, "t", 5)
    for number in (1, 2, 3):
        cluster.crash(number)
    await asyncio.sleep(5)
    await asyncio.gather(cluster.restart(2), cluster.restart(3))
    await until(lambda: all(node.broker.copies.begun() for node in cluster.nodes.values()), within=60)
    await asyncio.sleep(10)
    client = await cluster.client(3, "c", **SESSION, timeout=30)
    assert client.session_present
    await asyncio.sleep(2)
    assert client.payloads() == sent


@nodes(3, seeds=3, **COPIED)
async def test_a_client_of_the_smaller_side_of_a_cut_goes_on_at_the_larger(sim, cluster):
    """What was acknowledged on either side comes in the end, QoS 2 once."""
    await formed(cluster)
    await gone(cluster, 1, "c", "t/#", qos=2)
    inside, outside = await cluster.client(1), await cluster.client(2)
    await numbered(inside, "t/in", 5, qos=2)
    cluster.partition([1], [2, 3])
    await asyncio.sleep(15)
    await numbered(inside, "t/in", 5, qos=2, first=5)
    await numbered(outside, "t/out", 5, qos=2)
    client = await resumed(cluster, 3, "c", pause=2)
    assert client.payloads() == [b"%d" % n for n in (*range(5), *range(5))]
    await heal(cluster, pause=20)
    assert sorted(client.payloads()) == sorted(b"%d" % n for n in (*range(10), *range(5)))


@nodes(3, seeds=3, **COPIED)
@pytest.mark.parametrize("qos", [1, 2])
async def test_what_was_on_its_way_to_the_node_before_when_it_came_back_arrives(sim, cluster, qos):
    """Its node is back while its session is being adopted, and so gets what is sent until it is; of that,
    some comes after the node knows that its session has gone."""
    await formed(cluster)
    await gone(cluster, 1, "c", "t/#", qos=qos)
    speaker = await cluster.client(2)
    cluster.cut(1, 2)
    cluster.cut(1, 3)
    await until(lambda: cluster.nodes[3].distribution.nodes() == [cluster.nodes[2].name])
    arrival = asyncio.create_task(resumed(cluster, 3, "c"))
    await until(lambda: cluster.nodes[3].broker.takeovers.adoptions.over("c") is not None)
    cluster.heal()
    await until(lambda: len(cluster.nodes[2].distribution.nodes()) == 2)
    await numbered(speaker, "t/1", 5, qos=qos)
    cluster.cut(1, 2)
    sent = asyncio.create_task(numbered(speaker, "t/1", 5, qos=qos, first=5))
    client = await arrival
    await asyncio.sleep(0.3)
    cluster.heal()
    await sent
    await asyncio.sleep(5)
    got = client.payloads()
    assert set(got) == {b"%d" % n for n in range(10)}
    assert qos == 1 or len(got) == 10


@nodes(5, seeds=2, discs=True, sessions={"replication": 5})
async def test_of_five_copies_three_are_enough(sim, cluster):
    await formed(cluster)

    async def voters():
        groups = [
            group for node in cluster.nodes.values() for group in await node.runtime.call("raft", "status")
        ]
        led = [group for group in groups if group["role"] == "leader" and group["kind"] in KINDS]
        return {len([member for member in group["members"] if member["voter"]]) for group in led}

    async with asyncio.timeout(60):
        while await voters() != {5}:  # noqa: ASYNC110
            await asyncio.sleep(0.5)
    await gone(cluster, 1, "c", "t", qos=2)
    speaker = await cluster.client(3)
    sent = await numbered(speaker, "t", 10, qos=2)
    cluster.crash(1)
    cluster.crash(2)
    sent += await numbered(speaker, "t", 10, qos=2, first=10, pause=0.3)
    client = await resumed(cluster, 4, "c", pause=2)
    assert client.payloads() == sent


@nodes(3, seeds=3, **COPIED)
@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("at", [2, 3])
async def test_a_range_that_lost_its_leader_holds_up_none_but_its_own(sim, cluster, at, qos):
    """Whether the publishers are at the node of the sessions, or their messages share a link to it."""
    await formed(cluster)
    stuck = await session(cluster, 2, "n0", "stuck", qos=qos)
    free = await session(cluster, 2, "n5", "free", qos=qos)
    transient = await subscriber(cluster, 2, "transient", qos=qos)
    ranges = [cluster.nodes[2].broker.copies.range_of(name) for name in ("n0", "n5")]
    assert ranges == [3, 0]
    speakers = {topic: await cluster.client(at) for topic in ("stuck", "free", "transient")}
    await led(cluster, {0: 2, 3: 1})
    waits, sent = {topic: [] for topic in speakers}, {topic: [] for topic in speakers}
    until = sim.loop.time() + 5

    async def speak(topic):
        while sim.loop.time() < until:
            payload = b"%d" % len(sent[topic])
            sent[topic].append(payload)
            begun = sim.loop.time()
            await speakers[topic].publish(topic, payload, qos=qos)
            waits[topic].append(sim.loop.time() - begun)
            await asyncio.sleep(0.01)

    speaking = [asyncio.create_task(speak(topic)) for topic in speakers]
    await asyncio.sleep(0.5)
    cluster.crash(1)
    await asyncio.gather(*speaking)
    assert max(waits["stuck"]) > 0.8
    assert max(waits["free"]) < 0.3
    assert max(waits["transient"]) < 0.3
    for topic, client in (("stuck", stuck), ("free", free), ("transient", transient)):
        assert client.payloads() == sent[topic]


@nodes(3, seeds=3, **COPIED)
async def test_messages_of_one_turn_do_not_wait_for_each_others_ranges(sim, cluster):
    await formed(cluster)
    clients = {
        "stuck": await session(cluster, 2, "n0", "stuck", qos=1),
        "free": await session(cluster, 2, "n5", "free", qos=1),
        "transient": await subscriber(cluster, 2, "transient", qos=1),
    }
    await led(cluster, {0: 2, 3: 1})
    cluster.crash(1)
    begun, safe = sim.loop.time(), {}
    for topic in clients:
        cluster.nodes[3].broker.publish(
            topic, b"x", qos=1, on_safe=lambda _, topic=topic: safe.setdefault(topic, sim.loop.time() - begun)
        )
    await until(lambda: len(safe) == 3, within=10)
    assert max(safe["free"], safe["transient"]) < 0.2
    assert safe["stuck"] > 0.8
    await asyncio.sleep(1)
    assert [client.payloads() for client in clients.values()] == [[b"x"]] * 3


@nodes(3, seeds=2, **COPIED)
async def test_an_offer_that_is_answered_once_its_session_is_back_does_not_stop_that_ones_copy(
    sim, cluster, monkeypatch
):
    """QoS 2 would wait for that copy for as long as the session stays."""
    await formed(cluster)
    speaker = await cluster.client(2)
    await gone(cluster, 2, "c", "t", qos=2)
    cluster.partition([1, 3], [2])
    await asyncio.sleep(15)
    sent = await numbered(speaker, "t", 1, qos=2)
    (await resumed(cluster, 1, "c")).drop()
    call, now, answered, told = superseded.remote.call, asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def late(node, function, *args, **options):
        if function == superseded.OFFER and not now.is_set():
            return None
        answer = await call(node, function, *args, **options)
        if function == superseded.OFFER:
            answered.set()
            await told.wait()
        return answer

    monkeypatch.setattr(superseded.remote, "call", late)
    cluster.heal()
    # So long it waits for what others may have kept for it.
    await asyncio.sleep(15)
    now.set()
    await answered.wait()
    client = await resumed(cluster, 2, "c", pause=1)
    told.set()
    await asyncio.sleep(1)
    speaker = await cluster.client(3)
    sent += await numbered(speaker, "t", 3, qos=2, first=1)
    await asyncio.sleep(10)
    assert client.payloads() == sent

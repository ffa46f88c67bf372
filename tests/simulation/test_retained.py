"""Retained messages in a cluster: there for everyone, whoever dies."""

import asyncio

import pytest

from gossamer.mqtt.codec.properties import Properties

from .clusters import heal, nodes, restart, until
from .flows import fill_disc, subscriber

LARGE = bytes(range(256)) * 20


async def retained(cluster, number, topic_filter="#", *, within=5.0):
    """What a new subscriber at a node is sent."""
    client = await subscriber(cluster, number, topic_filter, qos=1)
    await asyncio.sleep(within)
    await client.disconnect()
    assert all(message.retain for message in client.messages)
    return {message.topic: message.payload for message in client.messages}


@nodes(3, seeds=2)
async def test_a_retained_message_is_there_on_every_node_once_it_is_acknowledged(sim, cluster):
    publisher = await cluster.client(1)
    await publisher.publish("small", b"1", qos=1, retain=True)
    await publisher.publish("large", LARGE, qos=1, retain=True)
    for number in (1, 2, 3):
        assert await retained(cluster, number) == {b"small": b"1", b"large": LARGE}
    await publisher.publish("small", b"", qos=1, retain=True)
    await publisher.publish("large", b"", qos=1, retain=True)
    for number in (1, 2, 3):
        assert await retained(cluster, number) == {}
    # Bodies that nobody names any more are let go.
    await asyncio.sleep(60)
    assert not any(node.retained.bodies.held for node in cluster.nodes.values())


@nodes(2)
@pytest.mark.parametrize("qos", [1, 2])
async def test_a_retained_message_is_acknowledged_while_another_client_is_behind(sim, cluster, qos):
    """What it waits for is no link that could be behind as well."""
    broker = cluster.nodes[1].broker
    await subscriber(cluster, 1, "elsewhere", qos=1)
    [slow] = broker.sessions.values()
    broker.fanout.pressure.congest(slow)
    publisher = await cluster.client(1)
    await publisher.publish("large", LARGE, qos=qos, retain=True)
    assert publisher.connected


@nodes(3, seeds=2)
async def test_crossing_the_threshold_never_shows_a_stale_message(sim, cluster):
    writers = [await cluster.client(number) for number in (1, 2, 3)]
    rng = sim.rng("sizes")
    for number in range(12):
        payload = b"%d " % number * rng.choice([1, 1000])
        await writers[number % 3].publish("t", payload, qos=1, retain=True)
        for reader in (1, 2, 3):
            assert await retained(cluster, reader, "t", within=1.0) == {b"t": payload}


@nodes(3, seeds=3)
async def test_concurrent_writers_leave_one_message_everywhere(sim, cluster):
    writers = [await cluster.client(number) for number in (1, 2, 3)]
    await asyncio.gather(
        *(w.publish("t", b"%d" % n * (1, 3000, 1)[n], qos=1, retain=True) for n, w in enumerate(writers))
    )
    await asyncio.sleep(1)
    seen = [await retained(cluster, number, "t") for number in (1, 2, 3)]
    assert seen[0] == seen[1] == seen[2]
    assert len(seen[0]) == 1


@nodes(3, seeds=4)
async def test_writers_at_the_same_time_never_show_a_stale_message(sim, cluster):
    """Whoever subscribes, wherever, gets a message that none had replaced before, small or large."""
    loop = asyncio.get_running_loop()
    writes = {}
    rng = sim.rng("writers")

    async def write(number):
        client = await cluster.client(number)
        for count in range(20):
            payload = b"%d.%d " % (number, count) * rng.choice([1, 1000])
            began = loop.time()
            await client.publish("t", payload, qos=1, retain=True)
            writes[payload] = (began, loop.time())
            await asyncio.sleep(rng.uniform(0, 0.05))

    writing = asyncio.gather(*(write(number) for number in (1, 2, 3)))
    reads = []
    while not writing.done():
        await asyncio.sleep(rng.uniform(0, 0.02))
        client = await cluster.client(rng.choice([1, 2, 3]))
        asked = loop.time()
        await client.subscribe("t", qos=1)
        reads.append((asked, client))
    await writing
    await asyncio.sleep(5)
    kept = [(asked, [m.payload for m in client.messages if m.retain]) for asked, client in reads]
    assert sum(bool(found) for _, found in kept) > 20
    for asked, found in kept:
        assert len(found) <= 1
        # One that is there says that it is the last; none says that nothing was written yet.
        _, shown = writes[found[0]] if found else (0.0, 0.0)
        later = [payload for payload, (began, done) in writes.items() if began > shown and done < asked]
        assert not later, (asked, found, later)


@nodes(4, seeds=2)
async def test_a_large_message_is_held_by_as_many_nodes_as_told_and_fetched_by_the_others(sim, cluster):
    publisher = await cluster.client(1)
    await publisher.publish("large", LARGE, qos=1, retain=True)
    await publisher.publish("small", b"s", qos=1, retain=True)

    def holders():
        return {n for n, node in cluster.nodes.items() if node.retained.bodies.held}

    before = holders()
    assert len(before) == 2
    assert 1 in before
    for number in (1, 2, 3, 4):
        assert await retained(cluster, number) == {b"large": LARGE, b"small": b"s"}
        # Everybody knows that there is one; the small one is the row itself.
        large, small = (cluster.nodes[number].retained._table.read(topic) for topic in ("large", "small"))
        assert large[0] is None
        assert small[0] is not None
    assert holders() == before


@nodes(4, seeds=3)
async def test_the_death_of_its_node_loses_no_acknowledged_retained_message(sim, cluster):
    publisher = await cluster.client(1)
    for number in range(20):
        await publisher.publish(f"t/{number}", LARGE + b"%d" % number, qos=1, retain=True)
        await publisher.publish(f"s/{number}", b"%d" % number, qos=1, retain=True)
    expected = {b"t/%d" % n: LARGE + b"%d" % n for n in range(20)}
    expected |= {b"s/%d" % n: b"%d" % n for n in range(20)}
    cluster.crash(1, sim.rng("how").choice(["kill", "silence"]))
    await cluster.settled(2, 3, 4)
    assert await retained(cluster, 2) == expected
    # Copies are made up for, so that the next death loses nothing either.
    await asyncio.sleep(60)
    cluster.crash(2)
    await cluster.settled(3, 4)
    assert await retained(cluster, 3) == expected
    assert await retained(cluster, 4) == expected


@nodes(2, seeds=2)
async def test_thousands_of_retained_messages_all_arrive(sim, cluster):
    publisher = await cluster.client(1)
    for number in range(3000):
        await publisher.publish(f"t/{number}", b"%d" % number, qos=0, retain=True)
    await publisher.publish("t/end", b"", qos=1)
    await asyncio.sleep(2)
    got = await retained(cluster, 2, "t/#", within=20)
    assert got == {b"t/%d" % n: b"%d" % n for n in range(3000)}


@nodes(2, seeds=2, discs=True)
async def test_retained_messages_survive_the_death_of_all_nodes(sim, cluster):
    """Small and large, once they are acknowledged; one that has expired meanwhile does not."""
    publisher = await cluster.client(1)
    await publisher.publish("small", b"1", qos=1, retain=True)
    await publisher.publish("large", LARGE, qos=1, retain=True)
    await publisher.publish("gone", b"x", qos=1, retain=True)
    await publisher.publish("gone", b"", qos=1, retain=True)
    cluster.crash(1)
    cluster.crash(2)
    await cluster.start()
    await cluster.settled()
    for number in (1, 2):
        assert await retained(cluster, number) == {b"small": b"1", b"large": LARGE}


@nodes(3, seeds=6, start=False)
async def test_no_read_goes_back_behind_what_was_acknowledged_before_all_nodes_died(sim, cluster, tmp_path):
    """Whichever node is back first. Each disc takes its time; what it has not taken dies with its node."""
    rng = sim.rng("discs")
    sim.loop.executor_delay = lambda: rng.expovariate(5)
    cluster.discs = tmp_path
    await cluster.start()
    await cluster.settled()
    publisher = await cluster.client(rng.choice([1, 2, 3]))
    last = rng.randrange(3, 9)
    for number in range(last + 1):
        await publisher.publish("t", b"%d" % number, qos=1, retain=True, timeout=60)
    for number in (1, 2, 3):
        cluster.crash(number)
    for number in rng.sample([1, 2, 3], 3):
        await cluster.restart(number)
        shown = await retained(cluster, number, "t", within=1.0)
        assert shown == {b"t": b"%d" % last}


@nodes(2, discs=True)
async def test_what_a_full_disc_refused_is_retained_before_it_is_acknowledged(sim, cluster):
    publisher = await cluster.client(1)
    disc = await fill_disc(cluster, 1)
    sending = []
    for topic, payload in (("small", b"1" * 900), ("large", LARGE), ("twice", b"a" * 900), ("twice", b"b")):
        sending.append(asyncio.create_task(publisher.publish(topic, payload, qos=1, retain=True, timeout=60)))
        await asyncio.sleep(5)
    assert not any(one.done() for one in sending)
    disc.limit_pages(0)
    await asyncio.gather(*sending)
    cluster.crash(1)
    cluster.crash(2)
    await cluster.restart(1)
    found = await retained(cluster, 1)
    assert found == {b"fill": b"x" * 60_000, b"small": b"1" * 900, b"large": LARGE, b"twice": b"b"}


@nodes(2, discs=True)
async def test_upkeep_of_retained_messages_goes_on_once_there_is_room_on_the_disc(sim, cluster):
    node = cluster.nodes[1]
    publisher = await cluster.client(1)
    await publisher.publish("small", b"1", qos=1, retain=True, expiry=5)
    for payload in (LARGE, LARGE + b"2"):
        await publisher.publish("large", payload, qos=1, retain=True, expiry=5)
    disc = await fill_disc(cluster, 1)
    process = node.runtime.whereis("mqtt_cluster")
    bodies = node.broker.retained.bodies
    await asyncio.sleep(150)
    assert node.runtime.whereis("mqtt_cluster") == process
    assert {topic for topic, _ in bodies.held} == {"large", "fill"}
    disc.limit_pages(0)
    await asyncio.sleep(150)
    assert node.runtime.whereis("mqtt_cluster") == process
    for there in cluster.nodes.values():
        store = there.store
        assert set(store.table("retained")) == {"fill"}
        assert {topic for topic, _ in store.table("retained_copies").rows_of(there.name)} == {"fill"}
        assert {topic for topic, _, _ in store.table("retained_bodies")} == {"fill"}


@nodes(2, discs=True)
@pytest.mark.parametrize("later", [b"new", b""], ids=["replaced", "removed"])
async def test_what_a_full_disc_refused_does_not_replace_what_was_published_elsewhere_since(
    sim, cluster, later
):
    """The publisher has sent it again at another node meanwhile, and gone on there."""
    publisher = await cluster.client(1)
    await publisher.publish("t", b"older", qos=1, retain=True)
    disc = await fill_disc(cluster, 1)
    sending = asyncio.create_task(publisher.publish("t", b"old", qos=1, retain=True, timeout=60))
    await asyncio.sleep(5)
    elsewhere = await cluster.client(2)
    await elsewhere.publish("t", b"old", qos=1, retain=True)
    await elsewhere.publish("t", later, qos=1, retain=True)
    disc.limit_pages(0)
    await sending
    for number in (1, 2):
        assert await retained(cluster, number, "t") == ({b"t": later} if later else {})


@nodes(2)
async def test_removing_an_expired_message_spares_one_that_was_published_elsewhere(sim, cluster):
    """The side that knows only the old one removes it later than the new one was written."""
    publish = cluster.nodes[2].broker.publish
    publish("t", b"old", qos=1, retain=True, properties=Properties(message_expiry=5))
    publish("u", b"old", qos=1, retain=True, properties=Properties(message_expiry=5))
    await asyncio.sleep(2)
    cluster.partition([1], [2])
    await asyncio.sleep(20)
    cluster.nodes[1].broker.publish("t", b"new", qos=1, retain=True)
    await asyncio.sleep(300)
    assert len(cluster.nodes[2].broker.retained) == 0
    await heal(cluster)
    for number in (1, 2):
        assert await retained(cluster, number) == {b"t": b"new"}


@nodes(3, seeds=4, discs=[False, True])
@pytest.mark.parametrize("fate", ["cut", "killed"])
async def test_what_a_node_that_is_gone_told_one_of_the_others_is_soon_shown_by_both(sim, cluster, fate):
    """Its last retained messages reached one node and not the other, and it does not come back yet."""
    publisher = await cluster.client(3)
    for topic in ("changed", "removed"):
        await publisher.publish(topic, b"old", qos=1, retain=True)
    told, other = sim.rng("told").sample([1, 2], 2)
    cluster.cut(3, other)
    for topic, payload in (("changed", b"new"), ("removed", b""), ("made", b"x")):
        await publisher.publish(topic, payload, qos=0, retain=True)
        await asyncio.sleep(0.05)
    shown = {b"changed": b"new", b"made": b"x"}
    assert set(cluster.nodes[told].retained.topics("#")) == {"changed", "made"}
    assert set(cluster.nodes[other].retained.topics("#")) == {"changed", "removed"}
    if fate == "cut":
        cluster.cut(3, told)
    else:
        cluster.crash(3)
    names = [cluster.nodes[number].name for number in (1, 2)]
    for number in (1, 2):
        nodes_there = cluster.nodes[number].distribution.nodes
        await until(lambda: set(nodes_there()) <= set(names))  # noqa: B023
    for number in (1, 2):
        assert await retained(cluster, number, within=0.5) == shown
    if fate == "cut":
        await publisher.publish("changed", b"beyond", qos=0, retain=True)
        await heal(cluster, pause=5.0)
        for number in (1, 2, 3):
            assert await retained(cluster, number) == shown | {b"changed": b"beyond"}


@nodes(3, seeds=4, discs=[False, True])
@pytest.mark.parametrize("down_for", [0, 1, 10])
async def test_who_starts_while_a_node_is_down_shows_what_that_wrote(sim, cluster, down_for):
    """From the first reader on: what it has on its disc is older."""
    publisher = await cluster.client(2)
    for topic in ("changed", "removed"):
        await publisher.publish(topic, b"old", qos=1, retain=True)
    cluster.crash(1)
    await asyncio.sleep(10)
    for topic, payload in (("changed", b"new"), ("removed", b""), ("made", LARGE)):
        await publisher.publish(topic, payload, qos=1, retain=True)
    cluster.crash(2)
    await asyncio.sleep(down_for)
    await cluster.restart(1)
    for number in (1, 3):
        assert await retained(cluster, number) == {b"changed": b"new", b"made": LARGE}
    await restart(cluster, 2)
    assert await retained(cluster, 2) == {b"changed": b"new", b"made": LARGE}


@nodes(3, seeds=4, discs=True)
async def test_what_was_written_behind_a_cut_is_soon_shown_by_all_and_goes_back_at_none(sim, cluster):
    """It comes to one node before the other, so whoever goes from the one to the other may see it go back."""
    writer = await cluster.client(3)
    shown = {1: [0], 2: [0]}

    async def write():
        for number in range(1, 10_000):
            await writer.publish("t", b"%d" % number, qos=1, retain=True, timeout=60)
            await asyncio.sleep(0.1)

    writing = asyncio.create_task(write())
    await asyncio.sleep(1)
    for _ in range(3):
        cluster.partition([1, 2], [3])
        await asyncio.sleep(sim.rng("cut").uniform(0.5, 8))
        cluster.heal()
        for _ in range(2500):
            await asyncio.sleep(0.001)
            for number, values in shown.items():
                values.append(int(cluster.nodes[number].retained.get("t").payload))
    writing.cancel()
    assert all(values == sorted(values) for values in shown.values())
    one, other = (values[-1] for values in shown.values())
    # The last is on its way.
    assert abs(one - other) <= 1
    assert min(one, other) > 20


@nodes(2, mqtt={"retained": {"max_messages": 2}})
async def test_no_more_topics_are_retained_than_configured_whichever_node_they_come_to(sim, cluster):
    publishers = [await cluster.client(number) for number in (1, 2)]
    for number in range(6):
        await publishers[number % 2].publish(f"t{number}", b"1", qos=1, retain=True)
        await asyncio.sleep(1)
    # What is there may be replaced, and makes room once it is cleared.
    await publishers[1].publish("t0", b"2", qos=1, retain=True)
    await publishers[1].publish("t1", b"", qos=1, retain=True)
    await asyncio.sleep(1)
    await publishers[0].publish("t6", b"3", qos=1, retain=True)
    assert await retained(cluster, 1) == await retained(cluster, 2) == {b"t0": b"2", b"t6": b"3"}

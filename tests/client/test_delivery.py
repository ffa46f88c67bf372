"""What a subscription of a Python client gets: what is retained, all a slow one can take, gaps told."""

import asyncio

import pytest

from gossamer.client import Gap
from gossamer.gateway import WINDOW
from gossamer.gateway.subscription import FAR


async def take(subscription, number):
    async with asyncio.timeout(120):
        return [await anext(subscription) for _ in range(number)]


async def nothing_more(subscription):
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(anext(subscription), 5)


async def test_a_subscription_begins_with_what_is_retained(cluster, client_of):
    mqtt, python = await cluster.client(1), await client_of(2)
    await mqtt.publish("r/small", b"1", qos=1, retain=True)
    await mqtt.publish("r/large", b"x" * 5000, qos=1, retain=True)
    await python.publish("r/mine", b"2", qos=1, retain=True)
    for qos in (0, 1):
        subscription = await python.subscribe("r/+", qos=qos)
        got = {m.topic: (len(m.payload), m.qos, m.retain) for m in await take(subscription, 3)}
        assert got == {"r/small": (1, qos, True), "r/large": (5000, qos, True), "r/mine": (1, qos, True)}
        subscription.close()
    never = await python.subscribe("r/+", retain_handling=2)
    shared = await python.subscribe("$share/g/r/+")
    await nothing_more(never)
    await nothing_more(shared)


async def test_many_retained_messages_come_as_fast_as_they_are_taken(cluster, client_of):
    mqtt, python = await cluster.client(1), await client_of(1)
    total = WINDOW * 3
    for number in range(total):
        await mqtt.publish(f"many/{number}", b"%d" % number, retain=True)
    await mqtt.publish("many/last", b"x", qos=1, retain=True)
    subscription = await python.subscribe("many/#")
    await asyncio.sleep(5)
    assert len(subscription._buffer) == WINDOW
    assert len({m.topic for m in await take(subscription, total + 1)}) == total + 1
    assert subscription.dropped == 0


@pytest.mark.parametrize(("handling", "again"), [(0, [b"kept"]), (1, [])])
async def test_a_client_that_moves_is_told_of_the_gap_and_gets_what_is_retained_now(
    cluster, client_of, handling, again
):
    client, other = await client_of(1, 2), await client_of(3)
    await other.publish("g/kept", b"kept", qos=1, retain=True)
    gaps = []
    subscription = await client.subscribe("g/#", qos=1, retain_handling=handling, on_gap=gaps.append)
    careless = await client.subscribe("g/#", qos=0, retain_handling=handling)
    assert [m.payload for m in await take(subscription, 1)] == [b"kept"]
    await other.publish("g/x", b"before", qos=1)
    await asyncio.sleep(1)
    cluster.crash(1)
    await client.publish("elsewhere", b"", qos=1)
    await other.publish("g/x", b"after", qos=1)
    # What the client had already is not lost with the node.
    (before,) = await take(subscription, 1)
    assert (before.payload, before.gap) == (b"before", None)
    rest = await take(subscription, 1 + len(again))
    assert sorted(m.payload for m in rest) == sorted([*again, b"after"])
    assert [m.gap for m in rest] == [Gap(None, "node1@10.0.0.1 is gone"), *[None] * len(again)]
    assert gaps == [rest[0].gap]
    assert (subscription.gaps, careless.gaps) == (1, 0)


async def test_a_slow_consumer_makes_publishers_of_every_node_wait_and_loses_nothing(
    cluster, client_of, monkeypatch
):
    monkeypatch.setattr("gossamer.gateway.subscription.MAX_QUEUED_BYTES", 100_000)
    slow, near, far, mqtt = [await client_of(n) for n in (1, 1, 2)] + [await cluster.client(1)]
    subscription = await slow.subscribe("t", qos=1)
    each = 400

    async def flood(client, name):
        for number in range(each):
            await client.publish("t", b"%s %d " % (name, number) + bytes(1000), qos=1)

    floods = [
        asyncio.ensure_future(flood(client, name))
        for client, name in ((near, b"near"), (far, b"far"), (mqtt, b"mqtt"))
    ]
    got = []
    for _ in range(each * 3):
        got.append((await take(subscription, 1))[0].payload.split(b" ")[:2])
        await asyncio.sleep(0.005)
    await asyncio.gather(*floods)
    for name in (b"near", b"far", b"mqtt"):
        assert [int(number) for who, number in got if who == name] == list(range(each))
    assert (subscription.dropped, subscription.gaps) == (0, 0)


async def test_a_consumer_that_takes_nothing_is_told_how_much_it_lost(cluster, client_of, monkeypatch):
    room = 20_000
    monkeypatch.setattr("gossamer.gateway.subscription.MAX_QUEUED_BYTES", room)
    stuck, other = await client_of(1), await client_of(1)
    gaps = []
    subscription = await stuck.subscribe("t", qos=1, on_gap=gaps.append)
    total = WINDOW + room * FAR // 1000 + 50
    for number in range(total):
        await other.publish("t", b"%d " % number + bytes(996), qos=1)
    got = await take(subscription, WINDOW)
    got += await take(subscription, room * FAR // 1000)
    await asyncio.sleep(1)
    await other.publish("t", b"end", qos=1)
    (end,) = await take(subscription, 1)
    lost = total - len(got)
    assert lost > 0
    assert sum(gap.lost for gap in gaps) == lost
    assert [m.gap for m in got if m.gap] + [end.gap] == [Gap(lost, "not taken in time")]


async def test_a_client_that_publishes_to_itself_is_not_its_own_brake(cluster, client_of):
    client = await client_of(1)
    subscription = await client.subscribe("t", qos=1)
    loop = asyncio.get_running_loop()
    begun = loop.time()
    total = WINDOW + 6000
    for number in range(total):
        await client.publish("t", b"%d" % number, qos=1)
    assert [int(m.payload) for m in await take(subscription, total)] == list(range(total))
    assert loop.time() - begun < 60

"""Traffic through a simulated cluster, and what must be true of it afterwards."""

import asyncio
from collections import Counter

SESSION = {"clean_start": False, "session_expiry": 36_000}
"""What a client with a persistent session asks for."""


async def subscriber(cluster, number, *filters, qos=0, name="", **options):
    """A client that has subscribed at a node."""
    client = await cluster.client(number, name, **options)
    await client.subscribe(*filters, qos=qos)
    return client


async def session(cluster, number, name, *filters, qos, **options):
    """The same with a persistent session, new or not."""
    return await subscriber(cluster, number, *filters, qos=qos, name=name, **SESSION, **options)


async def gone(cluster, number, name, *filters, qos, **options):
    """The same, and its client has just lost its connection."""
    client = await session(cluster, number, name, *filters, qos=qos, **options)
    client.drop()


async def resumed(cluster, number, name, *, pause=0.0, **options):
    """A client that comes to a node and finds its session there, so many seconds later."""
    client = await cluster.client(number, name, **SESSION, **options)
    assert client.session_present
    if pause:
        await asyncio.sleep(pause)
    return client


async def new_session(cluster, number, name, *filters, qos, **options):
    """A client that comes to a node, finds no session and subscribes."""
    client = await cluster.client(number, name, **SESSION, **options)
    assert not client.session_present
    await client.subscribe(*filters, qos=qos)
    return client


async def numbered(speaker, topic, count, *, qos=1, first=0, pause=0.0):
    """Publish so many numbers, one after another; what was sent."""
    sent = [b"%d" % number for number in range(first, first + count)]
    for payload in sent:
        await speaker.publish(topic, payload, qos=qos)
        if pause:
            await asyncio.sleep(pause)
    return sent


async def fill_disc(cluster, number):
    """Publish to a node until its disc is full; the disc, which is not after ``limit_pages(0)``."""
    filler = await cluster.client(number, "filler")
    store = cluster.nodes[number].store
    disc = store._disc.file
    disc.limit_pages(disc.pages())
    while store.queue.failed is None:
        await filler.publish("fill", b"x" * 60_000, retain=True)
        await asyncio.sleep(1)
    return disc


def lost(flow, *subscribers):
    """Acknowledged to the publisher, never delivered to a subscriber."""
    got = {payload for subscriber in subscribers for payload in subscriber.payloads()}
    return [payload for payload in flow.acknowledged if payload not in got]


def delivered(lives, flow):
    """What the connections of a client were sent of a flow."""
    return [m.payload for life in lives for m in life.messages if m.topic == flow.topic.encode()]


async def stop(flows):
    for flow in flows:
        await flow.stop()


def doubled(subscriber):
    """Payloads that were delivered more than once."""
    return [payload for payload, count in Counter(subscriber.payloads()).items() if count > 1]


def in_order(subscriber, topic):
    """Do the first deliveries of a topic come in the order of their numbers?"""
    numbers = [
        int(p.rsplit(b" ", 1)[1]) for p in subscriber.payloads() if p.startswith(topic.encode() + b" ")
    ]
    first = list(dict.fromkeys(numbers))
    return first == sorted(first)


async def listening(cluster):
    """A client at every node, by number, that listens to ``all/#`` and to a topic of its own."""
    listeners = {}
    for number in cluster.nodes:
        listeners[number] = await subscriber(cluster, number, "all/#", f"at/{number}", qos=1)
    await cluster.settled()
    return listeners


async def assert_whole(cluster, listeners):
    """One cluster, equal tables, nobody dropped, and every listener is reached, and got nothing twice."""
    await cluster.settled(timeout=90)
    assert all(listener.connected for listener in listeners.values())
    speaker = await cluster.client(min(cluster.nodes))
    marker = b"after %f" % cluster.sim.loop.time()
    await speaker.publish("all/after", marker, qos=1)
    await asyncio.sleep(3)
    assert [marker in listener.payloads() for listener in listeners.values()] == [True] * len(listeners)
    for listener in listeners.values():
        assert not doubled(listener)


async def reaches(cluster, source, target, *, within=5.0):
    """Does a message published at one node come out at another?"""
    topic = f"probe/{source}/{target}/{cluster.sim.loop.time()}"
    listener = await subscriber(cluster, target, topic, qos=1)
    speaker = await cluster.client(source)
    await speaker.publish(topic, b"?", qos=1)
    await asyncio.sleep(within)
    arrived = bool(listener.messages)
    await listener.disconnect()
    await speaker.disconnect()
    return arrived

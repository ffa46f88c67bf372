"""Python clients in the record of their node: the same events as clients of MQTT have."""

import asyncio
from collections import Counter

import pytest
from simulation.recording import Recording

from gossamer.gateway import WINDOW, BrokerPort
from gossamer.mqtt import Message
from gossamer.supervisor.thespian.messages import Publish, Subscribe


def of(recording, client):
    """What happened to it, in order."""
    return [row["event"] for row in recording.told() if row["client"] == client]


@pytest.fixture
def record():
    made = []

    def begin(node):
        made.append(Recording(node))
        return made[-1]

    yield begin
    for recording in made:
        recording.stop()


def standing(recording):
    """Whoever is here without a session, as a watch tells of them when recording begins."""
    for client in recording.fanout.remote_clients:
        recording.recorder.standing(client)


async def test_the_life_of_a_client_and_of_its_subscriptions_is_recorded(cluster, client_of, record):
    recording = record(cluster.nodes[1])
    python = await client_of(1)
    subscription = await python.subscribe("a/+", qos=1)
    # A client says now and then how far it is.
    for _ in range(WINDOW):
        await python.publish("a/b", b"x", qos=1)
        await asyncio.wait_for(anext(subscription), 60)
    await asyncio.sleep(1)
    subscription.close()
    await asyncio.sleep(1)
    await python.stop()
    await asyncio.sleep(60)
    published = recording.told("published")
    client = published[0]["client"]
    assert client.startswith("<client1@")
    messages = ["published", "acknowledged"] * WINDOW
    assert of(recording, client) == ["connected", *messages, "disconnected", "ended"]
    [subscribed] = recording.told("subscribed")
    assert (subscribed["filter"], subscribed["qos"]) == ("a/+", 1)
    assert subscribed["client"].startswith(f"{client}/")
    life = of(recording, subscribed["client"])
    assert life[:3] == ["connected", "subscribed", "delivered"]
    assert life[-3:] == ["unsubscribed", "disconnected", "ended"]
    taken = [row for row in recording.told("acknowledged") if row["role"] == "subscriber"]
    assert WINDOW // 4 < sum(row["count"] for row in taken) <= WINDOW
    delivered = {row["message"] for row in recording.told("delivered")}
    assert delivered == {row["message"] for row in published}


async def test_each_subscription_of_a_client_is_owed_its_own_copy(cluster, client_of, record):
    recording = record(cluster.nodes[1])
    python, mqtt = await client_of(1), await cluster.client(1)
    wide = await python.subscribe("a/#")
    narrow = await python.subscribe("a/b")
    shared = await python.subscribe("$share/g/a/b")
    await mqtt.publish("a/b", b"x", qos=1)
    for subscription in (wide, narrow, shared):
        await asyncio.wait_for(anext(subscription), 60)
    delivered = recording.told("delivered")
    assert Counter((row["client"], row["message"]) for row in delivered).most_common(1)[0][1] == 1
    assert sorted(str(row["share"]) for row in delivered) == ["None", "None", "g"]


async def test_what_waits_for_a_slow_client_is_delivered_later_or_dropped(cluster, client_of, record):
    python = await client_of(1)
    subscription = await python.subscribe("a", qos=1)
    node = cluster.nodes[1]
    recording = record(node)
    for number in range(WINDOW + 5):
        node.broker.publishing.route(Message(b"a", b"%d" % number, qos=1))
    await asyncio.sleep(1)
    assert sum(row["count"] for row in recording.told("delivered")) == WINDOW
    subscription.close()
    await asyncio.sleep(1)
    assert [row["reason"] for row in recording.told("dropped")] == ["session_ended"] * 5
    told = recording.told("delivered", "dropped")
    numbers = [number for row in told for number in range(row["message"], row["message"] + row["count"])]
    assert sorted(numbers) == sorted(row["message"] for row in recording.told("published"))


async def test_retained_messages_are_told_as_such(cluster, client_of, record):
    recording = record(cluster.nodes[1])
    mqtt, python = await cluster.client(1), await client_of(1)
    await mqtt.publish("r", b"1", qos=1, retain=True)
    subscription = await python.subscribe("r")
    await asyncio.wait_for(anext(subscription), 60)
    [delivered] = recording.told("delivered")
    assert (delivered["reason"], delivered["retain"]) == ("retained", True)


async def test_who_is_there_when_recording_begins_is_told_then(cluster, client_of, record):
    python = await client_of(1)
    await python.subscribe("a/+", qos=1)
    recording = record(cluster.nodes[1])
    standing(recording)
    assert len(recording.told("connected")) == 2
    [subscribed] = recording.told("subscribed")
    assert (subscribed["filter"], subscribed["reason"]) == ("a/+", "standing")


async def test_the_actors_of_a_node_are_clients_too(cluster, record):
    node = cluster.nodes[1]
    recording = record(node)
    port = BrokerPort(node.broker)
    got = []
    cancel = port.subscribe(Subscribe("a/+", 1), got.append)
    port.publish(Publish("a/b", b"x", qos=1))
    await asyncio.sleep(1)
    cancel()
    assert [found.payload for found in got] == [b"x"]
    name = f"{node.name}/thespian"
    assert of(recording, name) == ["connected", "published"]
    life = ["connected", "subscribed", "delivered", "unsubscribed", "disconnected", "ended"]
    assert of(recording, f"{name}/1") == life

"""Wills: fired once, by abnormal ends only, and not before their delay."""

import pytest

from gossamer.mqtt.codec import packets as p
from gossamer.mqtt.codec.properties import Properties


@pytest.fixture
async def watcher(world):
    client = await world.client("watcher", version=p.V5, keep_alive=0)
    await client.subscribe("will/#", qos=1)
    return client


def will(**options):
    return p.Will(topic=b"will/x", payload=b"gone", **options)


async def test_a_will_is_published_when_the_connection_breaks(world, watcher):
    """[MQTT-3.1.2-8]"""
    client = await world.client("c", will=will(qos=1))
    client.transport.close()
    [got] = await watcher.got()
    assert (got.payload, got.qos, got.retain) == (b"gone", 1, False)


async def test_a_goodbye_discards_the_will(world, watcher):
    """[MQTT-3.1.2-10], [MQTT-3.14.4-3]"""
    client = await world.client("c", will=will())
    client.send(p.Disconnect())
    assert await watcher.got() == []


async def test_a_goodbye_may_ask_for_the_will(world, watcher):
    client = await world.client("c", version=p.V5, will=will())
    client.send(p.Disconnect(reason=4))
    assert len(await watcher.got()) == 1


async def test_a_protocol_error_fires_the_will(world, watcher):
    client = await world.client("c", will=will())
    client.raw(b"\xff\0")
    assert len(await watcher.got()) == 1


async def test_keep_alive_fires_the_will(world, watcher):
    await world.client("c", will=will(), keep_alive=10)
    world.later(16)
    assert len(await watcher.got()) == 1


async def test_a_retained_will_is_retained(world, watcher):
    """[MQTT-3.1.2-15]"""
    client = await world.client("c", will=will(retain=True))
    client.transport.close()
    await world.settle()
    assert world.broker.retained.get("will/x").payload == b"gone"


async def test_a_delayed_will_waits_and_fires_once(world, watcher):
    """[MQTT-3.1.2-8]"""
    client = await world.client(
        "c",
        version=p.V5,
        properties=Properties(session_expiry=100),
        will=will(properties=Properties(will_delay=10, content_type="t")),
    )
    client.transport.close()
    await world.settle()
    world.later(9)
    assert await watcher.got() == []
    world.later(2)
    [got] = await watcher.got()
    assert got.properties == Properties(content_type="t")
    world.later(1000)
    assert await watcher.got() == []


async def test_a_client_that_is_back_in_time_has_no_will_published(world, watcher):
    """[MQTT-3.1.3-9]"""
    options = {
        "version": p.V5,
        "properties": Properties(session_expiry=100),
        "will": will(properties=Properties(will_delay=10)),
    }
    client = await world.client("c", **options)
    client.transport.close()
    await world.settle()
    await world.client("c", clean_start=False, **options)
    world.later(20)
    assert await watcher.got() == []


async def test_the_end_of_the_session_fires_a_delayed_will(world, watcher):
    client = await world.client(
        "c",
        version=p.V5,
        properties=Properties(session_expiry=5),
        will=will(properties=Properties(will_delay=100)),
    )
    client.transport.close()
    await world.settle()
    world.later(6)
    assert len(await watcher.got()) == 1
    world.later(1000)
    assert await watcher.got() == []


@pytest.mark.parametrize(("delay", "clean", "fired"), [(0, False, 1), (10, False, 0), (10, True, 1)])
async def test_takeover_fires_the_will_unless_it_is_delayed_and_the_session_goes_on(
    world, watcher, delay, clean, fired
):
    options = {"version": p.V5, "properties": Properties(session_expiry=100)}
    await world.client("c", will=will(properties=Properties(will_delay=delay)), **options)
    await world.client("c", clean_start=clean, **options)
    assert len(await watcher.got()) == fired


async def test_a_killed_channel_fires_the_will(world, watcher):
    client = await world.client("c", will=will())
    world.runtime.exit(client.channel.pid, "kill")
    assert len(await watcher.got()) == 1
    assert client.closed

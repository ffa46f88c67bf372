"""MQTT from actors that run on a node: subscriptions that end with their process, publishes that are safe."""

import asyncio

import pytest

from gossamer import Delivered, Mqtt, Node, receive
from gossamer.config import Config
from gossamer.distribution import StreamTransport
from gossamer.network import SystemNetwork
from gossamer.routes import InvalidTopicFilter, InvalidTopicName
from gossamer.supervisor import NotInProcess


@pytest.fixture
async def node():
    config = Config.model_validate(
        {
            "node": {"name": "solo@127.0.0.1"},
            "cluster": {"port": 0, "discovery": "singleton"},
            "distribution": {"port": 0},
            "mqtt": {"server": {"listeners": []}},
            "api": {"enable": False},
        }
    )
    made = Node(config, creation=1, cookie="secret", transport=StreamTransport(SystemNetwork()))
    await made.start()
    yield made
    await made.stop()


async def within(node, function):
    return await asyncio.wait_for(node.runtime.run(function), 20)


async def test_what_is_published_arrives_and_what_is_retained_comes_first(node):
    mqtt = Mqtt(node)

    async def actor():
        await mqtt.publish("a/kept", "old", qos=1, retain=True)
        await mqtt.subscribe("a/+", qos=1)
        first = await receive(10)
        await mqtt.publish("a/new", b"fresh", qos=2)
        return first, await receive(10)

    kept, fresh = await within(node, actor)
    assert kept == Delivered("a/kept", b"old", 1, True)
    assert fresh == Delivered("a/new", b"fresh", 1, False)


async def test_a_subscription_ends_with_its_actor_and_when_it_is_told(node):
    mqtt = Mqtt(node)
    seen = []

    async def actor():
        cancel = await mqtt.subscribe("a/#")
        await mqtt.subscribe("b/#")
        seen.append({name for name, *_ in node.router.routes()})
        cancel()
        cancel()
        seen.append({name for name, *_ in node.router.routes()})

    await within(node, actor)
    assert seen == [{"a/#", "b/#"}, {"b/#"}]
    assert {name for name, *_ in node.router.routes()} == set()


async def test_mistakes_are_named_at_once(node):
    mqtt = Mqtt(node)

    async def actor():
        with pytest.raises(InvalidTopicName):
            await mqtt.publish("a/#", "x")
        with pytest.raises(InvalidTopicFilter):
            await mqtt.subscribe("a/#/b")

    await within(node, actor)
    with pytest.raises(NotInProcess):
        await mqtt.subscribe("a")

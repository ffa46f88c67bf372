"""Clients of other people, over real sockets, against a broker of one node."""

import asyncio
import threading

import aiomqtt
import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties as PahoProperties

from gossamer.clock import SystemClock
from gossamer.config import ListenerConfig, MqttAuthConfig, MqttConfig, MqttServerConfig
from gossamer.mqtt import Broker, mqtt_spec
from gossamer.network import SystemNetwork
from gossamer.routes import Router
from gossamer.supervisor import Runtime, Supervisor

pytestmark = pytest.mark.real


@pytest.fixture
async def broker():
    runtime = Runtime()
    broker = Broker(
        Router("node1@test"),
        clock=SystemClock(),
        network=SystemNetwork(),
        config=MqttConfig(
            server=MqttServerConfig(listeners=(ListenerConfig(port=0),)),
            auth=MqttAuthConfig(allow_anonymous=True),
        ),
        runtime=runtime,
    )
    await runtime.start(Supervisor, [mqtt_spec(broker)])
    yield broker
    await runtime.stop()


@pytest.mark.parametrize("version", [aiomqtt.ProtocolVersion.V311, aiomqtt.ProtocolVersion.V5])
@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_aiomqtt_publishes_and_subscribes(broker, version, qos):
    port = broker.ports["tcp:0"]
    async with (
        aiomqtt.Client("127.0.0.1", port, identifier="sub", protocol=version) as sub,
        aiomqtt.Client("127.0.0.1", port, identifier="pub", protocol=version) as pub,
    ):
        await sub.subscribe("sensors/+/temperature", qos=qos)
        for n in range(20):
            await pub.publish("sensors/7/temperature", payload=str(n), qos=qos)
        got = []
        async with asyncio.timeout(10):
            async for message in sub.messages:
                got.append((str(message.topic), message.payload, message.qos))
                if len(got) == 20:
                    break
    assert got == [("sensors/7/temperature", str(n).encode(), qos) for n in range(20)]


@pytest.mark.parametrize("version", [MQTTProtocolVersion.MQTTv311, MQTTProtocolVersion.MQTTv5])
async def test_paho_publishes_and_subscribes(broker, version):
    port = broker.ports["tcp:0"]
    done = threading.Event()
    got = []

    def session():
        client = paho.Client(CallbackAPIVersion.VERSION2, client_id="paho", protocol=version)
        client.on_connect = lambda *_: client.subscribe([("a/#", 2), ("b", 1)])
        client.on_subscribe = lambda *_: [
            client.publish("a/b", b"%d" % n, qos=n % 3, retain=n == 0) for n in range(30)
        ]

        def on_message(_client, _userdata, message):
            got.append(int(message.payload))
            if len(got) == 30:
                client.disconnect()

        client.on_message = on_message
        client.connect("127.0.0.1", port)
        client.loop_forever()
        done.set()

    await asyncio.wait_for(asyncio.to_thread(session), 10)
    assert done.is_set()
    assert sorted(got) == list(range(30))
    assert len(broker.retained) == 1


async def test_paho_sees_the_properties_of_version_5(broker):
    port = broker.ports["tcp:0"]
    got = []

    def session():
        client = paho.Client(CallbackAPIVersion.VERSION2, client_id="", protocol=MQTTProtocolVersion.MQTTv5)
        properties = PahoProperties(PacketTypes.PUBLISH)
        properties.UserProperty = [("b", "1"), ("a", "2")]
        properties.ResponseTopic = "answer"
        properties.MessageExpiryInterval = 60
        client.on_connect = lambda *_: client.subscribe("a")
        client.on_subscribe = lambda *_: client.publish("a", b"x", qos=1, properties=properties)

        def on_message(_client, _userdata, message):
            got.append(message.properties)
            client.disconnect()

        client.on_message = on_message
        client.connect("127.0.0.1", port)
        client.loop_forever()

    await asyncio.wait_for(asyncio.to_thread(session), 10)
    [properties] = got
    assert properties.UserProperty == [("b", "1"), ("a", "2")]
    assert properties.ResponseTopic == "answer"
    assert properties.MessageExpiryInterval == 60


async def test_a_killed_listener_comes_back_on_its_real_port(broker):
    port = broker.ports["tcp:0"]
    runtime = broker.runtime

    def acceptors():
        return [pid for pid in runtime.processes() if runtime.find(pid).label == "mqtt_listener"]

    async with asyncio.timeout(20), aiomqtt.Client("127.0.0.1", port, identifier="stays") as stays:
        [acceptor] = acceptors()
        runtime.exit(acceptor, "kill")
        while acceptors() in ([], [acceptor]) or not await reachable(port):  # noqa: ASYNC110 - by design
            await asyncio.sleep(0.005)
        await stays.subscribe("a")
        async with aiomqtt.Client("127.0.0.1", port, identifier="new") as new:
            await new.publish("a", b"1")
            message = await anext(aiter(stays.messages))
            assert message.payload == b"1"


async def reachable(port):
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except ConnectionError:
        return False
    writer.close()
    await writer.wait_closed()
    return True

"""aiomqtt over real sockets, against a broker of one node; paho is in the conformance tests."""

import asyncio

import aiomqtt
import pytest

from mqtt.listening import broker_with

pytestmark = pytest.mark.real


@pytest.fixture
async def broker():
    async with broker_with({"type": "tcp"}) as broker:
        yield broker


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

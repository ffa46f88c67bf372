"""A broker with real listeners, and clients that come in there."""

import asyncio
import contextlib
import ssl

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from gossamer.clock import SystemClock
from gossamer.config import MqttAuthConfig, MqttConfig, MqttLimitsConfig, MqttServerConfig
from gossamer.mqtt import Broker, decode, encode, mqtt_spec
from gossamer.mqtt.codec import packets as p
from gossamer.network import SystemNetwork
from gossamer.routes import Router
from gossamer.supervisor import Runtime, Supervisor


@contextlib.asynccontextmanager
async def broker_with(*listeners, auth=None, limits=None, **mqtt):
    """A broker with these listeners, on ports of the system's choice, that lets everybody in."""
    runtime = Runtime()
    broker = Broker(
        Router("node1@test"),
        clock=SystemClock(),
        network=SystemNetwork(),
        config=MqttConfig(
            server=MqttServerConfig(listeners=tuple({"port": 0} | listener for listener in listeners)),
            auth=MqttAuthConfig(**{"allow_anonymous": True} | (auth or {})),
            limits=MqttLimitsConfig(**limits or {}),
            **mqtt,
        ),
        runtime=runtime,
    )
    await runtime.start(Supervisor, [mqtt_spec(broker)])
    try:
        yield broker
    finally:
        await runtime.stop()


async def until(condition, seconds=20):
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - by design
            await asyncio.sleep(0.005)


async def mqtt(reader, writer, *sent):
    """Write packets, read one."""
    writer.write(b"".join(encode(packet, 4) for packet in sent))
    first = (await reader.readexactly(2))[0:2]
    body = await reader.readexactly(first[1])
    return decode(first[0], body, 4)


async def accepted(port, client_id="c", **options):
    """A client that is let in: its reader and writer; ``options`` are those of the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, **options)
    assert (await mqtt(reader, writer, p.Connect(client_id=client_id))).reason == 0
    return reader, writer


def with_paho(port, *, transport="tcp", tls=None, client_id="paho", path="/mqtt"):
    """Connect, subscribe, publish to oneself; what came."""
    got = []
    version = CallbackAPIVersion.VERSION2
    # One that is not let in, or is hung up on, has failed: it would try again for ever.
    client = paho.Client(version, client_id=client_id, transport=transport, reconnect_on_failure=False)
    if tls is not None:
        client.tls_set_context(tls)
    if transport == "websockets":
        client.ws_set_options(path=path)
    client.on_connect = lambda *_: client.subscribe("a/#", 1)
    client.on_subscribe = lambda *_: [client.publish("a/b", b"%d" % n * 40, qos=n % 2) for n in range(20)]

    def on_message(_client, _userdata, message):
        got.append(message.payload)
        if len(got) == 20:
            client.disconnect()

    client.on_message = on_message
    client.connect("localhost" if tls else "127.0.0.1", port)
    client.loop_forever()
    return sorted(got) == sorted(b"%d" % n * 40 for n in range(20))


def tls_section(ca, name="localhost", **more):
    pem, key = ca.issue(name, name)
    return {"cert_file": str(pem), "key_file": str(key), **more}


async def shown(port, name, ca):
    """The names in the certificate that a server shows."""
    context = ssl.create_default_context(cafile=ca.file)
    context.check_hostname = False
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name)
    certificate = writer.get_extra_info("peercert")
    writer.close()
    return [value for _, value in certificate["subjectAltName"]]

"""A whole broker on an in-memory network, and a client that speaks packets."""

import asyncio

from gossamer.config import (
    ListenerConfig,
    MqttAuthConfig,
    MqttConfig,
    MqttLimitsConfig,
    MqttServerConfig,
    MqttSessionsConfig,
)
from gossamer.mqtt import Broker, Chain, Framer, ReasonCode, Verdict, decode, encode, mqtt_spec
from gossamer.mqtt.codec import packets as p
from gossamer.mqtt.codec.properties import NONE, Properties
from gossamer.routes import Router
from gossamer.supervisor import Runtime, Supervisor


class ManualClock:
    """A clock that moves when told."""

    def __init__(self):
        self.at = 1000.0

    def monotonic(self):
        return self.at

    def wall(self):
        return self.at + 1e9


class MemoryTransport(asyncio.Transport):
    """Both ends of a connection in one object: what the broker writes is kept."""

    def __init__(self):
        super().__init__({"peername": ("192.0.2.1", 5000)})
        self.written = bytearray()
        self.writes = 0
        self.stuck = 0
        self.paused = False
        self.closing = False
        self.protocol = None

    def write(self, data):
        if not self.closing:
            self.writes += 1
            self.written += data

    def is_closing(self):
        return self.closing

    def close(self):
        if not self.closing:
            self.closing = True
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    abort = close

    def pause_reading(self):
        self.paused = True

    def resume_reading(self):
        self.paused = False

    def set_write_buffer_limits(self, high=None, low=None):
        pass

    def get_write_buffer_size(self):
        return self.stuck


class MemoryListener:
    def __init__(self, network, address):
        self.network = network
        self.address = address

    def close(self):
        self.network.listening.pop(self.address[1], None)


class MemoryNetwork:
    """Listeners only; connections are made by :meth:`dial`."""

    def __init__(self):
        self.listening = {}
        self.next_port = 40000

    async def listen(self, factory, address, *, tls=None, backlog=1024, reuse_port=False):
        host, port = address
        if port in self.listening:
            raise OSError(98, "Address already in use")
        if not port:
            self.next_port += 1
            port = self.next_port
        self.listening[port] = factory
        return MemoryListener(self, (host, port))

    def dial(self, port):
        transport = MemoryTransport()
        transport.protocol = self.listening[port]()
        transport.protocol.connection_made(transport)
        return transport


class Client:
    """One connection to the broker under test."""

    def __init__(self, world, transport):
        self.world = world
        self.transport = transport
        self.version = p.V4
        self._framer = Framer()
        self._taken = 0
        self._got = []

    @property
    def channel(self):
        return self.transport.protocol

    @property
    def closed(self):
        return self.transport.closing

    def raw(self, data):
        if not self.transport.closing:
            self.transport.protocol.data_received(bytes(data))

    def send(self, *packets):
        self.raw(b"".join(encode(packet, self.version) for packet in packets))

    async def got(self):
        """Every packet that came since the last call."""
        await self.world.settle()
        data = bytes(self.transport.written[self._taken :])
        self._taken += len(data)
        return [decode(first, body, self.version) for first, body in self._framer.feed(data)]

    async def connect(self, client_id="c", *, version=p.V4, **options):
        """CONNECT; the CONNACK. What came behind that at once is in ``early``."""
        self.version = version
        self.send(p.Connect(client_id=client_id, version=version, **options))
        [connack, *self.early] = await self.got()
        assert isinstance(connack, p.Connack)
        self.connack = connack
        return connack

    async def subscribe(self, *filters, qos=0, identifier=None, **options):
        subscriptions = tuple(p.Subscription(f, qos, **options) for f in filters)
        properties = NONE if identifier is None else Properties(subscription_identifiers=(identifier,))
        self.send(p.Subscribe(packet_id=7, subscriptions=subscriptions, properties=properties))
        got = await self.got()
        assert isinstance(got[0], p.Suback)
        return got

    async def drop(self):
        """The connection breaks."""
        self.transport.close()
        await self.world.settle()

    def publish(self, topic, payload=b"x", **options):
        self.send(p.Publish(topic=topic.encode(), payload=payload, **options))


class Trusting:
    """A source that takes every user name for verified."""

    def ask(self, login):
        return None if login.username is None else Verdict(ReasonCode.SUCCESS, "trusting")


def trusting():
    """Clients are who they say they are, or anonymous."""
    return Chain([Trusting()], allow_anonymous=True)


class World:
    """The broker, its clock and its network."""

    def __init__(
        self,
        *,
        anonymous=True,
        router=None,
        authenticator=None,
        listeners=1,
        listener=None,
        auth=None,
        overflow="drop_oldest",
        mqtt=None,
        queues=None,
        **limits,
    ):
        self.clock = ManualClock()
        self.network = MemoryNetwork()
        self.router = router or Router("node1@test")
        self.runtime = Runtime()
        config = MqttConfig(
            server=MqttServerConfig(
                listeners=tuple(ListenerConfig(**{"port": 0} | (listener or {})) for _ in range(listeners))
            ),
            auth=MqttAuthConfig(allow_anonymous=anonymous, **auth or {}),
            limits=MqttLimitsConfig(**limits),
            sessions=MqttSessionsConfig(overflow=overflow),
            **mqtt or {},
        )
        self.broker = Broker(
            self.router,
            clock=self.clock,
            network=self.network,
            config=config,
            runtime=self.runtime,
            authenticator=authenticator,
            queues=queues,
        )

    async def start(self):
        self.top = await self.runtime.start(Supervisor, [mqtt_spec(self.broker)])

    async def stop(self):
        await self.runtime.stop()

    async def __aenter__(self):
        await self.start()
        return self

    async def __aexit__(self, *exc_info):
        await self.stop()

    async def settle(self):
        for _ in range(6):
            await asyncio.sleep(0)

    def dial(self, version=p.V4):
        """A connection of which nothing has come yet."""
        [port, *_] = self.broker.ports.values()
        client = Client(self, self.network.dial(port))
        client.version = version
        return client

    async def client(self, client_id="c", **options):
        """A connected client."""
        client = self.dial()
        connack = await client.connect(client_id, **options)
        assert connack.reason == 0, connack
        return client

    async def subscriber(self, client_id, *filters, qos=0, identifier=None, **options):
        """A connected client that has subscribed."""
        client = await self.client(client_id, **options)
        await client.subscribe(*filters, qos=qos, identifier=identifier)
        return client

    def later(self, seconds):
        """Move the clock, and let what is due happen."""
        self.clock.at += seconds
        self.broker.tick()


async def connack(client, **options):
    """The answer to a CONNECT of 5.0, however long it is thought about."""
    client.version = p.V5
    client.send(p.Connect(version=p.V5, **{"client_id": "c"} | options))
    async with asyncio.timeout(20):
        while not client.transport.written:  # noqa: ASYNC110 - a thread may be at work
            await asyncio.sleep(0.002)
    [answer] = await client.got()
    return answer

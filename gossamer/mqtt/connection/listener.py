"""Listeners: the processes that hold the listening sockets.

A killed acceptor comes back on the same port, and the connections it accepted live on: they belong to
``channels``. A killed ``channels`` ends its connections, as the rules of links say.
"""

from __future__ import annotations

import asyncio
from functools import partial

import structlog

from gossamer.certificates import Certificates
from gossamer.config import ListenerConfig
from gossamer.errors import TransportError
from gossamer.files import FileError
from gossamer.mqtt.connection.channel import Channel, Service
from gossamer.mqtt.connection.connections import Connections
from gossamer.mqtt.connection.handshake import Door
from gossamer.mqtt.connection.limits import Entrance
from gossamer.mqtt.connection.shared import Shared
from gossamer.mqtt.connection.websocket import WebSocket
from gossamer.mqtt.flow.backpressure import RATE, Bucket
from gossamer.network import Listener, Network
from gossamer.supervisor import (
    ChildSpec,
    DynamicSupervisor,
    GenServer,
    Pid,
    StopInit,
    guarded,
    self_pid,
)

log = structlog.get_logger(__name__)

FRAME = 64 * 1024
"""A WebSocket frame may be so long, or as long as a packet where that is more."""


class ListenError(TransportError):
    """A listener cannot have its address."""

    def __init__(self, *, key: str, address: str, why: str) -> None:
        self.key = key
        self.address = address
        self.why = why
        super().__init__(
            f"cannot listen for MQTT on {address}: {why}; set {key} to a free one, or stop what holds it"
        )


async def _adopted() -> Pid | None:
    return None


# Connections are children that opened themselves; they are never restarted.
CHANNEL_SPEC = ChildSpec("channel", _adopted, restart="temporary", shutdown=2.0)


class MeteredChannel(Channel):
    """Channel with a rate limit: ``rate`` messages a second, with bursts of as many.

    Apart from the channel, so that only those pay who are metered. Whoever sent more is not read from until
    that is paid off; nothing is lost, and TCP tells the client.
    """

    __slots__ = ("_bucket",)

    def __init__(self, shared: Shared, service: Service, listener: Entrance, rate: float) -> None:
        super().__init__(shared, service, listener)
        self._bucket = Bucket(rate)

    def data_received(self, data: bytes) -> None:
        before = self.fanout.received
        super().data_received(data)
        count = self.fanout.received - before
        if count and self.is_up:
            wait = self._bucket.take(count, self.fanout.now())
            if wait:
                self.fanout.slowed += 1
                self.pause_reading(RATE)
                self.runtime.loop.call_later(wait, self.resume_reading, RATE)


class Acceptor(GenServer):
    """Holds one listening socket; see the module."""

    async def init(
        self,
        connections: Connections,
        network: Network,
        config: ListenerConfig,
        name: str,
        entrance: Entrance,
    ) -> None:
        self._connections = connections
        self._network = network
        self._config = config
        self._entrance = entrance
        self._certificates: list[Certificates] = []
        self._channels_name = f"{name}.channels"
        # Connections come in callbacks of the event loop; what they start counts as started by this process.
        entrance.adopt = guarded(self._adopt)
        try:
            listener = await self._listen(name)
        except OSError as error:
            raise StopInit(str(self._unheard(name, error))) from None
        except FileError as error:
            raise StopInit(str(error)) from None
        # Runs however the process ends, kill included.
        entry = self.process.runtime.find(self_pid())
        if entry is not None:
            entry.on_release(lambda _entry: listener.close())
            connections.certificates += self._certificates
            entry.on_release(self._forget_certificates)
        if config.socket is None:
            connections.ports[name] = listener.address[1]
        log.info("listening", listener=name, host=listener.address[0], port=listener.address[1])

    async def _listen(self, name: str) -> Listener:
        config = self._config
        if config.socket is not None:
            return await self._network.listen_unix(self._protocol, str(config.socket))
        if config.tls is not None:
            certificates = await asyncio.to_thread(Certificates, config.tls)
            self._certificates.append(certificates)
        # A restart takes the port that clients know, also where the system chose it.
        port = self._connections.ports.get(name) or config.port
        return await self._network.listen(self._protocol, (config.host, port), reuse_port=config.reuse_port)

    def _forget_certificates(self, _entry: object) -> None:
        for certificates in self._certificates:
            self._connections.certificates.remove(certificates)

    def _protocol(self) -> asyncio.Protocol:
        config, entrance, service = self._config, self._entrance, self._connections
        if config.max_message_rate:
            channel: Channel = MeteredChannel(service.shared, service, entrance, config.max_message_rate)
        else:
            channel = Channel(service.shared, service, entrance)
        inner: asyncio.Protocol = channel
        if config.type in ("ws", "wss"):
            max_frame = max(FRAME, entrance.max_packet)
            inner = WebSocket(channel, path=config.path, origins=config.origins, max_frame=max_frame)
        if not (self._certificates or config.proxy_protocol):
            return inner
        # A handshake ends by itself, and a restart of the listener is no reason to break it off.
        spawn = partial(service.shared.runtime.spawn, label="mqtt_handshake")
        context = self._certificates[0].context if self._certificates else None
        return Door(entrance, channel, inner, proxied=config.proxy_protocol, context=context, spawn=spawn)

    def _unheard(self, name: str, error: OSError) -> ListenError:
        config = self._config
        key = f"mqtt.server.listeners[{name.rpartition(':')[2]}]"
        why = error.strerror or str(error)
        if config.socket is not None:
            return ListenError(key=f"{key}.socket", address=str(config.socket), why=why)
        port = self._connections.ports.get(name) or config.port
        return ListenError(key=f"{key}.port", address=f"{config.host or '*'}:{port}", why=why)

    def _adopt(self, channel: Channel) -> bool:
        # Behind TLS it was counted when it was accepted.
        if not self._certificates and not self._entrance.let_in(channel):
            return False
        runtime = self.process.runtime
        supervisor = runtime.whereis(self._channels_name)
        if supervisor is None:
            self._entrance.leave(channel)
            self._entrance.full("restarting")
            return False
        pid = channel.open(link_to=supervisor, runtime=runtime, label="mqtt_channel")
        DynamicSupervisor.adopt(supervisor, pid, CHANNEL_SPEC)
        return True

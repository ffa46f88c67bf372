"""Listeners: the processes that hold the listening sockets, and the tree in which they and the channels live.

::

    mqtt (one_for_one)
    ├── mqtt_ticker                 keep alive, expiry, delayed wills: once a second
    ├── mqtt_files                  reads password, ACL and certificate files again when they change
    ├── mqtt_sys                    publishes ``$SYS`` topics
    └── mqtt_listeners
        └── tcp:0 (one_for_one)     one a listener
            ├── channels            a DynamicSupervisor; every connection of the listener is its child
            └── acceptor            the listening socket

A killed acceptor comes back on the same port, and the connections it accepted live on: they belong to
``channels``. A killed ``channels`` ends its connections, as the rules of links say.
"""

from __future__ import annotations

import asyncio
import logging
import resource
from collections.abc import Callable
from functools import partial
from typing import Any

import structlog

from gossamer.config import ListenerConfig
from gossamer.errors import TransportError
from gossamer.mqtt.auth.files import FileWatch
from gossamer.mqtt.broker import Broker
from gossamer.mqtt.connection.certificates import Certificates, CertificatesError, user_of
from gossamer.mqtt.connection.channel import Channel
from gossamer.mqtt.connection.handshake import TlsDoor
from gossamer.mqtt.connection.limits import ListenerLimits, Room
from gossamer.mqtt.connection.metered import MeteredChannel
from gossamer.mqtt.connection.proxy import ProxyHeader, ProxyHeaderError, is_within
from gossamer.mqtt.connection.websocket import WebSocket
from gossamer.mqtt.publish.systopics import SysTopics
from gossamer.network import Listener
from gossamer.supervisor import (
    ChildSpec,
    DynamicSupervisor,
    GenServer,
    Pid,
    StopInit,
    Supervisor,
    guarded,
    self_pid,
    send_after,
)

__all__ = ["Acceptor", "ListenError", "Ticker", "mqtt_spec"]

log = structlog.get_logger(__name__)

TICK = 1.0
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


class Ticker(GenServer):
    """Turns the broker's wheel."""

    async def init(self, broker: Broker) -> None:
        self._broker = broker
        self._due = self.process.loop.time() + TICK
        send_after(TICK, self_pid(), "tick")

    async def handle_info(self, message: Any) -> None:
        if message == "tick":
            now = self.process.loop.time()
            late, self._due = now - self._due, now + TICK
            if self._broker.shedding.late(late):
                on = self._broker.shedding.on
                log.log(logging.WARNING if on else logging.INFO, "shedding", on=on, late=round(late, 3))
            send_after(TICK, self_pid(), "tick")
            self._broker.tick()
        else:
            await super().handle_info(message)


class Acceptor(GenServer):
    """Holds one listening socket; see the module."""

    async def init(self, broker: Broker, config: ListenerConfig, name: str, limits: ListenerLimits) -> None:
        self._broker = broker
        self._config = config
        self._name = name
        self.limits = limits
        self.max_packet = config.max_packet_size or broker.max_packet
        self._certificates: list[Certificates] = []
        self._channels_name = f"{name}.channels"
        # Connections come in callbacks of the event loop; what they start counts as started by this process.
        self._as_acceptor = guarded(self._adopt)
        try:
            listener = await self._listen(name)
        except OSError as error:
            raise StopInit(str(self._unheard(name, error))) from None
        except CertificatesError as error:
            raise StopInit(str(error)) from None
        # Runs however the process ends, kill included.
        entry = broker.runtime.find(self_pid())
        if entry is not None:
            entry.on_release(lambda _entry: listener.close())
            broker.certificates += self._certificates
            entry.on_release(self._forget_certificates)
        if config.socket is None:
            broker.ports[name] = listener.address[1]
        log.info("listening", listener=name, host=listener.address[0], port=listener.address[1])

    async def _listen(self, name: str) -> Listener:
        config = self._config
        network = self._broker.network
        if config.socket is not None:
            return await network.listen_unix(self._protocol, str(config.socket))
        if config.tls is not None:
            certificates = await asyncio.to_thread(Certificates, config.tls)
            self._certificates.append(certificates)
        # A restart takes the port that clients know, also where the system chose it.
        port = self._broker.ports.get(name) or config.port
        return await network.listen(self._protocol, (config.host, port), reuse_port=config.reuse_port)

    def _forget_certificates(self, _entry: object) -> None:
        for certificates in self._certificates:
            self._broker.certificates.remove(certificates)

    def _protocol(self) -> asyncio.Protocol:
        config = self._config
        rate = config.max_message_rate
        channel = MeteredChannel(self._broker, self, rate) if rate else Channel(self._broker, self)
        inner: asyncio.Protocol = channel
        if config.type in ("ws", "wss"):
            inner = WebSocket(channel, path=config.path, max_frame=max(FRAME, self.max_packet))
        if self._certificates:
            context = self._certificates[0].context
            return TlsDoor(self, channel, inner, context, proxied=config.proxy_protocol)
        if config.proxy_protocol:
            return ProxyHeader(channel, inner, self)
        return inner

    def trusts(self, transport: asyncio.Transport) -> bool:
        """Whether a PROXY header from there is believed."""
        peer = transport.get_extra_info("peername")
        if self._config.socket is not None or is_within(peer, self._config.proxy_sources):
            return True
        self._full("untrusted_proxy")
        log.debug("untrusted_proxy", peer=str(peer))
        return False

    def no_header(self, error: ProxyHeaderError) -> None:
        """There was none where there must be one."""
        self.refused("no_proxy_header")
        log.info("no_proxy_header", error=str(error))

    def adopt(self, channel: Channel) -> bool:
        """Make ``channel`` a process under this listener; False when there are too many already."""
        return bool(self._as_acceptor(channel))

    def _unheard(self, name: str, error: OSError) -> ListenError:
        config = self._config
        key = f"mqtt.server.listeners[{name.rpartition(':')[2]}]"
        why = error.strerror or str(error)
        if config.socket is not None:
            return ListenError(key=f"{key}.socket", address=str(config.socket), why=why)
        port = self._broker.ports.get(name) or config.port
        return ListenError(key=f"{key}.port", address=f"{config.host or '*'}:{port}", why=why)

    def enter(self) -> bool:
        """Count a connection in; False when there are too many already."""
        refused = self.limits.enter(self._broker.hub.now())
        if refused is not None:
            self._full(refused)
        return refused is None

    def spawn(self, function: Callable[..., Any], *args: Any) -> None:
        """Run a handshake. It ends by itself, and a restart of the listener is no reason to break it off."""
        self._broker.runtime.spawn(function, *args, label="mqtt_handshake")

    def refused(self, why: str) -> None:
        """A connection is not let in; counted by ``why``, which has few values."""
        self._broker.refused[self._name, why] += 1

    def _full(self, why: str) -> None:
        self.refused(why)
        self._broker.access.decisions["accept", why, "deny"] += 1

    def _adopt(self, channel: Channel) -> bool:
        broker = self._broker
        # Behind TLS it was counted when it was accepted.
        if not self._certificates and not self.enter():
            return False
        supervisor = broker.runtime.whereis(self._channels_name)
        if supervisor is None:
            self.limits.leave(admitted=False)
            self._full("restarting")
            return False
        pid = channel.open(link_to=supervisor, runtime=broker.runtime, label="mqtt_channel")
        DynamicSupervisor.adopt(supervisor, pid, CHANNEL_SPEC)
        return True

    def admitted(self, channel: Channel) -> None:
        """The client of ``channel`` is let in."""
        self.limits.admitted()

    def left(self, channel: Channel) -> None:
        """``channel`` is over."""
        self.limits.leave(admitted=channel.session is not None)

    def certificate_of(self, channel: Channel) -> str | None:
        """The user name in the client's certificate, where the listener takes names from there."""
        tls = self._config.tls
        if tls is None or tls.username == "none":
            return None
        return user_of(channel.transport.get_extra_info("peercert"), tls.username)


def mqtt_spec(broker: Broker) -> ChildSpec:
    """The subtree of the MQTT server, as a child of the node's supervisor."""
    children = [
        ChildSpec("ticker", partial(Ticker.start_link, broker, label="mqtt_ticker")),
    ]
    if broker.config.server.enable:
        room = Room(descriptors())
        for at, config in enumerate(broker.config.server.listeners):
            children.append(_listener_spec(broker, config, f"{config.type}:{at}", room))
    children.append(
        ChildSpec(
            "files",
            partial(
                FileWatch.start_link,
                lambda: [*broker.access.reloadable, *broker.certificates],
                broker.config.auth.reload_interval,
                broker.renew_gates,
                broker.access.close,
                name="mqtt_files",
                label="mqtt_files",
            ),
        )
    )
    if broker.config.sys_interval:
        children.append(ChildSpec("sys", partial(SysTopics.start_link, broker, label="mqtt_sys")))
    return ChildSpec(
        "mqtt",
        partial(
            Supervisor.start_link, children, strategy="one_for_one", intensity=10, period=10.0, label="mqtt"
        ),
        type="supervisor",
    )


def descriptors() -> int | None:
    """How many file descriptors this process may have, once it has asked for all that it may ask for."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        except (OSError, ValueError) as error:
            log.info("descriptor_limit_kept", limit=soft, error=str(error))
    return None if soft == resource.RLIM_INFINITY else soft


def _listener_spec(broker: Broker, config: ListenerConfig, name: str, room: Room) -> ChildSpec:
    limits = ListenerLimits(config, room)
    channels = ChildSpec(
        "channels",
        partial(DynamicSupervisor.start_link, name=f"{name}.channels", label="mqtt_channels"),
        type="supervisor",
        shutdown=5.0,
    )
    acceptor = ChildSpec(
        "acceptor", partial(Acceptor.start_link, broker, config, name, limits, label="mqtt_listener")
    )
    return ChildSpec(
        name,
        partial(
            Supervisor.start_link,
            [channels, acceptor],
            strategy="one_for_one",
            intensity=10,
            period=10.0,
            label=f"mqtt_listener {name}",
        ),
        type="supervisor",
    )

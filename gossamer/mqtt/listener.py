"""Listeners: the processes that hold the listening sockets, and the tree in which they and the channels live.

::

    mqtt (one_for_one)
    ├── mqtt_ticker                 keep alive, expiry, delayed wills: once a second
    └── mqtt_listeners
        └── tcp:0 (one_for_one)     one a listener
            ├── channels            a DynamicSupervisor; every connection of the listener is its child
            └── acceptor            the listening socket

A killed acceptor comes back on the same port, and the connections it accepted live on: they belong to
``channels``. A killed ``channels`` ends its connections, as the rules of links say.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import structlog

from gossamer.config import ListenerConfig
from gossamer.errors import TransportError
from gossamer.mqtt.broker import Broker
from gossamer.mqtt.channel import Channel
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


class ListenError(TransportError):
    """A listener cannot have its address."""

    def __init__(self, *, host: str, port: int, why: str) -> None:
        self.host = host
        self.port = port
        self.why = why
        super().__init__(
            f"cannot listen for MQTT on {host or '*'}:{port}: {why}; choose another port or stop its holder"
        )


async def _adopted() -> Pid | None:
    return None


# Connections are children that opened themselves; they are never restarted.
CHANNEL_SPEC = ChildSpec("channel", _adopted, restart="temporary", shutdown=2.0)


class Ticker(GenServer):
    """Turns the broker's wheel."""

    async def init(self, broker: Broker) -> None:
        self._broker = broker
        send_after(TICK, self_pid(), "tick")

    async def handle_info(self, message: Any) -> None:
        if message == "tick":
            send_after(TICK, self_pid(), "tick")
            self._broker.tick()
        else:
            await super().handle_info(message)


class Acceptor(GenServer):
    """Holds one listening socket; see the module."""

    async def init(self, broker: Broker, config: ListenerConfig, name: str) -> None:
        self._broker = broker
        self._limit = config.max_connections
        self._channels_name = f"{name}.channels"
        # Connections come in callbacks of the event loop; what they start counts as started by this process.
        self._as_acceptor = guarded(self._adopt)
        # A restart takes the port that clients know, also where the system chose it.
        port = broker.ports.get(name) or config.port
        try:
            listener = await broker.network.listen(
                self._channel, (config.host, port), reuse_port=config.reuse_port
            )
        except OSError as error:
            raise StopInit(
                str(ListenError(host=config.host, port=port, why=error.strerror or str(error)))
            ) from None
        # Runs however the process ends, kill included.
        entry = broker.runtime.find(self_pid())
        if entry is not None:
            entry.on_release(lambda _entry: listener.close())
        broker.ports[name] = listener.address[1]
        log.info("listening", listener=name, host=listener.address[0], port=listener.address[1])

    def _channel(self) -> Channel:
        return Channel(self._broker, self)

    def adopt(self, channel: Channel) -> bool:
        """Make ``channel`` a process under this listener; False when there are too many already."""
        return bool(self._as_acceptor(channel))

    def _adopt(self, channel: Channel) -> bool:
        broker = self._broker
        supervisor = broker.runtime.whereis(self._channels_name)
        if supervisor is None or len(broker.channels) >= self._limit:
            broker.hub.dropped("connections_refused")
            return False
        pid = channel.open(link_to=supervisor, runtime=broker.runtime, label="mqtt_channel")
        DynamicSupervisor.adopt(supervisor, pid, CHANNEL_SPEC)
        return True


def mqtt_spec(broker: Broker) -> ChildSpec:
    """The subtree of the MQTT server, as a child of the node's supervisor."""
    children = [
        ChildSpec("ticker", partial(Ticker.start_link, broker, label="mqtt_ticker")),
    ]
    if broker.config.server.enable:
        for at, config in enumerate(broker.config.server.listeners):
            children.append(_listener_spec(broker, config, f"{config.type}:{at}"))
    return ChildSpec(
        "mqtt",
        partial(
            Supervisor.start_link, children, strategy="one_for_one", intensity=10, period=10.0, label="mqtt"
        ),
        type="supervisor",
    )


def _listener_spec(broker: Broker, config: ListenerConfig, name: str) -> ChildSpec:
    channels = ChildSpec(
        "channels",
        partial(DynamicSupervisor.start_link, name=f"{name}.channels", label="mqtt_channels"),
        type="supervisor",
        shutdown=5.0,
    )
    acceptor = ChildSpec(
        "acceptor", partial(Acceptor.start_link, broker, config, name, label="mqtt_listener")
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

"""The supervision tree of the MQTT server.

::

    mqtt (one_for_one)
    ├── mqtt_ticker                 keep alive, expiry, delayed wills: once a second
    ├── mqtt_files                  reads password, ACL and certificate files again when they change
    ├── mqtt_sys                    publishes ``$SYS`` topics
    └── mqtt_listeners
        └── tcp:0 (one_for_one)     one a listener
            ├── channels            a DynamicSupervisor; every connection of the listener is its child
            └── acceptor            the listening socket
"""

from __future__ import annotations

import logging
import resource
from collections.abc import Callable, Iterable
from functools import partial

import structlog

from gossamer.config import ListenerConfig
from gossamer.mqtt.auth.files import FileWatch, Reloadable
from gossamer.mqtt.broker import Broker
from gossamer.mqtt.connection.limits import Entrance, Room, Shedding
from gossamer.mqtt.connection.listener import Acceptor
from gossamer.mqtt.systopics import SysTopics
from gossamer.supervisor import ChildSpec, DynamicSupervisor, GenServer, Supervisor, self_pid, send_after

log = structlog.get_logger(__name__)

TICK = 1.0


class Ticker(GenServer):
    """Turns the broker's wheel once a second, and sheds load when the loop is late."""

    async def init(self, tick: Callable[[], object], shedding: Shedding) -> None:
        self._tick = tick
        self._shedding = shedding
        self._due = self.process.loop.time() + TICK
        send_after(TICK, self_pid(), "tick")

    async def handle_info(self, message: object) -> None:
        if message == "tick":
            now = self.process.loop.time()
            late, self._due = now - self._due, now + TICK
            if self._shedding.late(late):
                on = self._shedding.on
                log.log(logging.WARNING if on else logging.INFO, "shedding", on=on, late=round(late, 3))
            send_after(TICK, self_pid(), "tick")
            self._tick()
        else:
            await super().handle_info(message)


def mqtt_spec(broker: Broker, watched: Callable[[], Iterable[Reloadable]] | None = None) -> ChildSpec:
    """Return the subtree of the MQTT server, as a child of the node's supervisor.

    ``watched``: what is read again when its files change, unless given the broker's own.
    """
    children = [
        ChildSpec("ticker", partial(Ticker.start_link, broker.tick, broker.shedding, label="mqtt_ticker")),
    ]
    if broker.config.server.enable:
        room = broker.room = Room(descriptors(), max_early=broker.config.limits.max_connecting_bytes)
        for at, config in enumerate(broker.config.server.listeners):
            children.append(_listener_spec(broker, config, f"{config.type}:{at}", room))
    children.append(
        ChildSpec(
            "files",
            partial(
                FileWatch.start_link,
                watched or (lambda: [*broker.access.reloadable, *broker.certificates]),
                broker.config.auth.reload_interval,
                broker.connections.renew_gates,
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
    """Raise the limit of file descriptors as far as allowed; return it, None for no limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        except (OSError, ValueError) as error:
            log.info("descriptor_limit_kept", limit=soft, error=str(error))
    return None if soft == resource.RLIM_INFINITY else soft


def _listener_spec(broker: Broker, config: ListenerConfig, name: str, room: Room) -> ChildSpec:
    entrance = Entrance(
        config,
        name,
        room,
        max_packet=broker.config.limits.max_packet_size,
        now=broker.fanout.now,
        refusals=broker.refused,
        decisions=broker.access.decisions,
    )
    channels = ChildSpec(
        "channels",
        partial(DynamicSupervisor.start_link, name=f"{name}.channels", label="mqtt_channels"),
        type="supervisor",
        shutdown=5.0,
    )
    acceptor = ChildSpec(
        "acceptor",
        partial(
            Acceptor.start_link,
            broker.connections,
            broker.network,
            config,
            name,
            entrance,
            label="mqtt_listener",
        ),
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

"""Configuration of what a node does for the cluster beside belonging to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from gossamer.config.values import Section
from gossamer.errors import ConfigProblem

if TYPE_CHECKING:
    from gossamer.config.model import Config


INBOX_STORE: Final = "inboxstore"


class ServicesConfig(Section):
    """Services of this node, next to ``mqtt.server.enable`` and ``api.enable``; BifroMQ's names of them
    (``inboxServiceConfig.store.enable``, …) are understood. All are on unless said otherwise."""

    dist_server: bool = True
    """Route what is published. It is part of the MQTT server; off only where that is."""
    dist_worker: bool = True
    """Have the routes. As long as each node has all of them, off only where the MQTT server is."""
    inbox_server: bool = True
    """Serve persistent sessions. It is part of the MQTT server; off only where that is."""
    inbox_store: bool = True
    """Have replicas of sessions, queues and names with one holder. Off: a front end, whose clients' sessions
    are kept by nodes that have it on; it can be stopped for good without any replica to be moved."""
    retain_server: bool = True
    """Answer subscriptions with retained messages. It is part of the MQTT server; off only where that is."""
    retain_store: bool = True
    """Have the retained messages. As long as each node has all of them, off only where the MQTT server is."""
    session_dict_server: bool = True
    """Know which node serves which client. It is part of the MQTT server; off only where that is."""


SERVICES: Final = (
    "mqttserver",
    *(key.replace("_", "") for key in ServicesConfig.model_fields),
    "apiserver",
)
"""All that a node may run, by the names that BifroMQ's guide has for them."""


def services_off(config: Config) -> tuple[str, ...]:
    """Return which of :data:`SERVICES` a node does not run."""
    own = [getattr(config.services, key) for key in ServicesConfig.model_fields]
    switches = (config.mqtt.server.enable, *own, config.api.enable)
    return tuple(name for name, on in zip(SERVICES, switches, strict=True) if not on)


def service_conflicts(config: Config) -> Iterator[ConfigProblem]:
    """Yield the switches that contradict each other."""
    if not config.mqtt.server.enable:
        return
    for key in ServicesConfig.model_fields:
        if key != "inbox_store" and not getattr(config.services, key):
            yield ConfigProblem(
                f"services.{key}",
                "off beside an MQTT server",
                "on, since an MQTT server has its own; or mqtt.server.enable: off",
            )

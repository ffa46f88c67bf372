"""Gateway for Python: MQTT for the actors of a node, and for clients that are hidden nodes."""

from gossamer.gateway.actors import BrokerPort, Mqtt, PublishUnsafeError
from gossamer.gateway.messages import (
    GATEWAY,
    WINDOW,
    Attach,
    Deliveries,
    Find,
    Gone,
    Ping,
    Publish,
    QueueConsume,
    QueueGiven,
    QueuePublish,
    QueueRefused,
    QueueSettle,
    Refused,
    Subscribe,
    Taken,
    Unsubscribe,
    Whereabouts,
)
from gossamer.gateway.server import Gateway, gateway_spec
from gossamer.supervisor.thespian.messages import Delivered

__all__ = [
    "GATEWAY",
    "WINDOW",
    "Attach",
    "BrokerPort",
    "Delivered",
    "Deliveries",
    "Find",
    "Gateway",
    "Gone",
    "Mqtt",
    "Ping",
    "Publish",
    "PublishUnsafeError",
    "QueueConsume",
    "QueueGiven",
    "QueuePublish",
    "QueueRefused",
    "QueueSettle",
    "Refused",
    "Subscribe",
    "Taken",
    "Unsubscribe",
    "Whereabouts",
    "gateway_spec",
]

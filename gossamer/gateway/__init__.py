"""Gateway: MQTT for the actors of a node, for Python clients that are hidden nodes, and for programs by gRPC.

What serves gRPC is imported when it is first used: most nodes do not.
"""

from typing import TYPE_CHECKING

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
from gossamer.lazy import lazy
from gossamer.supervisor.thespian.messages import Delivered

if TYPE_CHECKING:
    from gossamer.gateway.grpc.server import GrpcServer, ServerCertificates

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
    "GrpcServer",
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
    "ServerCertificates",
    "Subscribe",
    "Taken",
    "Unsubscribe",
    "Whereabouts",
    "gateway_spec",
]

__getattr__, __dir__ = lazy(__name__)

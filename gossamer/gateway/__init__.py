"""The way in for Python clients: what a node offers to hidden nodes, and the messages between them."""

from gossamer.gateway.messages import (
    GATEWAY,
    WINDOW,
    Attach,
    Deliveries,
    Find,
    Gone,
    Ping,
    Publish,
    Refused,
    Subscribe,
    Taken,
    Unsubscribe,
    Whereabouts,
)
from gossamer.gateway.port import BrokerPort
from gossamer.gateway.server import Gateway, gateway_spec

__all__ = [
    "GATEWAY",
    "WINDOW",
    "Attach",
    "BrokerPort",
    "Deliveries",
    "Find",
    "Gateway",
    "Gone",
    "Ping",
    "Publish",
    "Refused",
    "Subscribe",
    "Taken",
    "Unsubscribe",
    "Whereabouts",
    "gateway_spec",
]

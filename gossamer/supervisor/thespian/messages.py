"""Messages between a Thespian actor and the broker.

::

    self.send(self.createActor(BRIDGE, globalName=BRIDGE_NAME), Subscribe("plant/+/temperature"))

then ``receiveMessage`` gets a ``Delivered`` for each message. Subscriptions end with the actor.
Payloads are bytes. Thespian pickles what its actors send to each other; between them and the broker it is
msgpack.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

__all__ = ["BRIDGE", "BRIDGE_NAME", "Delivered", "MessagePort", "Publish", "Subscribe", "Unsubscribe"]

BRIDGE = "gossamer.supervisor.thespian.host.Bridge"
"""Class of the actor that represents the broker, as an argument of ``createActor``."""
BRIDGE_NAME = "gossamer bridge"
"""Global name of the bridge: there is one in each actor system."""


class Publish(Struct, frozen=True, tag="publish"):
    """Publish a message."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False


class Subscribe(Struct, frozen=True, tag="subscribe"):
    """Subscribe to ``filter``."""

    filter: str
    qos: int = 0


class Unsubscribe(Struct, frozen=True, tag="unsubscribe"):
    """Unsubscribe from ``filter``."""

    filter: str


class Delivered(Struct, frozen=True):
    """Published message."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False


class MessagePort(Protocol):
    """Interface to a broker, passed to a ``ThespianSystem`` by its starter; called on the event loop."""

    def publish(self, message: Publish) -> None:
        """Publish; an exception is logged and the message dropped."""

    def subscribe(self, request: Subscribe, deliver: Callable[[Delivered], None]) -> Callable[[], None]:
        """Call ``deliver`` for each message, until the returned function is called."""

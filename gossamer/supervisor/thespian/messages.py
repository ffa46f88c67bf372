"""What a Thespian actor says to the broker, and hears from it.

::

    self.send(self.createActor(BRIDGE, globalName=BRIDGE_NAME), Subscribe("plant/+/temperature"))

after which ``receiveMessage`` gets a ``Delivered`` for each message. Subscriptions end with the actor.
Payloads are bytes. Thespian pickles what its actors send to each other; between them and the broker it is
msgpack.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

__all__ = ["BRIDGE", "BRIDGE_NAME", "Delivered", "MessagePort", "Publish", "Subscribe", "Unsubscribe"]

BRIDGE = "gossamer.supervisor.thespian.host.Bridge"
"""The class of the actor that stands for the broker, as ``createActor`` takes it."""
BRIDGE_NAME = "gossamer bridge"
"""Its global name: there is one in each actor system."""


class Publish(Struct, frozen=True, tag="publish"):
    """Publish a message."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False


class Subscribe(Struct, frozen=True, tag="subscribe"):
    """Get what is published to ``filter`` from now on."""

    filter: str
    qos: int = 0


class Unsubscribe(Struct, frozen=True, tag="unsubscribe"):
    """Get no more of it."""

    filter: str


class Delivered(Struct, frozen=True):
    """A message that somebody published."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False


class MessagePort(Protocol):
    """The way to a broker, given to a ``ThespianSystem`` by whoever starts it; called on the event loop."""

    def publish(self, message: Publish) -> None:
        """Publish; an exception is logged and the message dropped."""

    def subscribe(self, request: Subscribe, deliver: Callable[[Delivered], None]) -> Callable[[], None]:
        """Call ``deliver`` for what arrives, until the function that this gives back is called."""

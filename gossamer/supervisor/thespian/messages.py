"""What a Thespian actor says to the broker, and hears from it.

::

    self.send(self.createActor(BRIDGE, globalName=BRIDGE_NAME), Subscribe("plant/+/temperature"))

after which ``receiveMessage`` gets a ``Delivered`` for each message. Subscriptions end with the actor.
Payloads are bytes. These are dataclasses, because Thespian pickles what its actors send to each other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

__all__ = ["BRIDGE", "BRIDGE_NAME", "Delivered", "MessagePort", "Publish", "Subscribe", "Unsubscribe"]

BRIDGE = "gossamer.supervisor.thespian.bridge.Bridge"
"""The class of the actor that stands for the broker, as ``createActor`` takes it."""
BRIDGE_NAME = "gossamer bridge"
"""Its global name: there is one in each actor system."""


@dataclass(frozen=True, slots=True)
class Publish:
    """Publish a message."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False


@dataclass(frozen=True, slots=True)
class Subscribe:
    """Get what is published to ``filter`` from now on."""

    filter: str
    qos: int = 0


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """Get no more of it."""

    filter: str


@dataclass(frozen=True, slots=True)
class Delivered:
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

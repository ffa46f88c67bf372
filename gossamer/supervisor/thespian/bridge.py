"""The actor that stands for the broker inside a Thespian system; runs there, never in the broker.

It writes what actors ask for to the socket that every process of the system inherited, and gives what the
host tells it to the actor that subscribed.
"""

from __future__ import annotations

from typing import Any

from thespian.actors import Actor, ActorExitRequest

from gossamer.supervisor.thespian import host
from gossamer.supervisor.thespian.messages import Delivered, Publish, Subscribe, Unsubscribe
from gossamer.supervisor.thespian.wire import Deliver, Forget, Published, Subscribed, Unsubscribed

__all__ = ["Bridge"]


class Bridge(Actor):  # type: ignore[misc]
    """Actor that relays between the broker's socket and the actors of a Thespian system."""

    def __init__(self) -> None:
        super().__init__()
        self._subscribers: dict[str, Any] = {}

    def receiveMessage(self, msg: Any, sender: Any) -> None:  # noqa: N802 - Thespian's name
        if isinstance(msg, Publish):
            host.report(Published(msg.topic, msg.payload, msg.qos, msg.retain))
        elif isinstance(msg, Subscribe):
            self._subscribers[str(sender)] = sender
            host.report(Subscribed(str(sender), msg.filter, msg.qos))
        elif isinstance(msg, Unsubscribe):
            host.report(Unsubscribed(str(sender), msg.filter))
        elif isinstance(msg, Deliver):
            subscriber = self._subscribers.get(msg.address)
            if subscriber is not None:
                self.send(subscriber, Delivered(msg.topic, msg.payload, msg.qos, msg.retain))
        elif isinstance(msg, Forget):
            self._subscribers.pop(msg.address, None)
        elif not isinstance(msg, ActorExitRequest):
            raise TypeError(f"the bridge takes Publish, Subscribe and Unsubscribe, got {type(msg).__name__}")

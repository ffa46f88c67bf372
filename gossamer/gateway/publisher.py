"""A client as a publisher: it hears that a message is safe only once nobody that gets it is behind.

The broker slows MQTT clients down by not reading from them; a Python client waits for its answer instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gossamer.mqtt import Broker, compile_plan

__all__ = ["Publisher"]


class Publisher:
    """What the broker's back-pressure sees of one client, as publisher and as owner of its subscriptions."""

    unwritten = 0
    """Nothing waits in a socket."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._why = 0
        self._waiting: list[Callable[[], object]] = []

    def pause_reading(self, why: int) -> None:
        """The broker says: wait."""
        self._why |= why

    def resume_reading(self, why: int) -> None:
        """The broker says: go on."""
        self._why &= ~why
        if not self._why:
            waiting, self._waiting = self._waiting, []
            for then in waiting:
                then()

    def published(self, topic: str, then: Callable[[], object]) -> None:
        """Something went out on ``topic``: call ``then``, now or once the client may go on."""
        pressure = self._broker.hub.pressure
        if pressure and not self._why:
            name = topic.encode()
            route: Any = self._broker.publishing.cache_get(name) or self._broker.publishing.resolve(name)
            plan = compile_plan(route)
            # One that is behind on its own messages is not made to wait: only it can help itself.
            pressure.hold_up(self, plan.sessions, plan.peers)
        if self._why:
            self._waiting.append(then)
        else:
            then()

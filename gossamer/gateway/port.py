"""The broker as the ``MessagePort`` of a Thespian system that runs on the node itself.

``node.applications`` names a function that is given the node; it starts the system with
``broker=BrokerPort(node.broker)``. What arrives in one turn of the loop goes on together, bounded like the
queue of a client; what finds no room is dropped and counted, since an actor cannot make publishers wait.

Retained messages come first, as for a client that subscribes.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from gossamer.errors import GossamerError
from gossamer.gateway.guest import Guest, publish
from gossamer.gateway.outlet import Outlet
from gossamer.gateway.retained import send_retained, wants_retained
from gossamer.mqtt import Broker
from gossamer.routes import SubscriptionOptions
from gossamer.supervisor.thespian.messages import Delivered, Publish, Subscribe

__all__ = ["BrokerPort"]

MAX_QUEUED_BYTES = 16 * 1024 * 1024
ENDLESS = 1 << 62
"""The window of who takes what it is given."""


class BrokerPort:
    """``ThespianSystem.start_link(broker=BrokerPort(node.broker))``."""

    def __init__(self, broker: Broker, *, name: str = "thespian") -> None:
        self._broker = broker
        self._numbers = count(1)
        self._name = f"{broker.runtime.node}/{name}"
        self._guest: Guest | None = None

    def publish(self, message: Publish, *, on_safe: Callable[[bool], None] | None = None) -> None:
        """Publish to all nodes. Raises UsageError where the topic is none."""
        qos = min(max(message.qos, 0), 2)
        if self._guest is None:
            self._guest = Guest(self._broker.hub, self._name)
        publish(
            *(self._broker, self._guest, message.topic, message.payload),
            qos=qos,
            retain=message.retain,
            on_safe=on_safe,
        )

    def subscribe(self, request: Subscribe, deliver: Callable[[Delivered], None]) -> Callable[[], None]:
        """Call ``deliver`` for what arrives, from all nodes. Raises UsageError where the filter is none."""
        return self.begin(request, deliver)[0]

    def begin(
        self, request: Subscribe, deliver: Callable[[Delivered], object]
    ) -> tuple[Callable[[], None], int | None]:
        """As ``subscribe``; returns the function that ends it, and what ``Router.confirmed`` takes."""
        broker = self._broker

        def emit(messages: list[list[object]], dropped: int, lost: int) -> None:
            for topic, payload, qos, retain in messages:
                deliver(Delivered(topic, payload, qos, retain))  # type: ignore[arg-type]

        guest = Guest(broker.hub, f"{self._name}/{next(self._numbers)}")
        outlet = Outlet(
            emit=emit,
            soon=broker.runtime.loop.call_soon,
            now=broker.hub.now,
            pressure=broker.hub.pressure,
            owner=None,
            guest=guest,
            acknowledges=False,
            window=ENDLESS,
            max_queued=max(1, broker.config.limits.max_queued),
            max_bytes=MAX_QUEUED_BYTES,
        )
        qos = min(max(request.qos, 0), 2)
        options = SubscriptionOptions(qos=qos, retain_as_published=True)
        try:
            done = broker.router.subscribe(request.filter, outlet, options)
        except GossamerError:
            guest.close("refused")
            raise
        guest.subscribed(request.filter, qos)
        if wants_retained(request.filter, 0, again=False):
            broker.runtime.spawn(send_retained, broker, request.filter, qos, outlet, label="port_retained")

        def cancel() -> None:
            if outlet.closed:
                return
            outlet.close()
            broker.router.unsubscribe_all(outlet)
            guest.close("unsubscribed")

        return cancel, done.seq

"""MQTT for the actors that run on a node: publish and subscribe from a ``GenServer``, without a connection.

``node.applications`` names a function that is called with the node; it passes ``Mqtt(node)`` to the actors
that need it. Messages that an actor subscribes to arrive in its mailbox as :class:`Delivered`, in
``handle_info``.

For a Thespian system on the node: ``ThespianSystem.start_link(broker=BrokerPort(node.broker))``.

Rules: 1. A subscription belongs to the process that made it and ends with it, so an actor subscribes in its
``init`` and a restarted one subscribes again.  2. ``publish`` with QoS 1 or 2 returns once every node that
must deliver the message has it, and waits while a receiver is behind.  3. A mailbox is bounded; a message
that finds it full is dropped and logged, since an actor cannot slow a publisher down.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Protocol

from gossamer.errors import UnavailableError
from gossamer.gateway.remote_client import Publisher, RemoteClient, publish
from gossamer.gateway.subscription import RemoteSubscription
from gossamer.mqtt import Broker
from gossamer.routes import parse_name
from gossamer.supervisor import NotInProcess, Runtime, self_pid
from gossamer.supervisor.thespian.messages import Delivered, Publish, Subscribe

ENDLESS = 1 << 62
"""Window of a subscriber without flow control."""
TURNS = 10
"""Turns of the loop in which a node without peers logs a row."""


class HasBroker(Protocol):
    """Node with a broker."""

    @property
    def broker(self) -> Broker:
        """The node's broker."""


class PublishUnsafeError(UnavailableError):
    """A node that must deliver a message may not have it."""

    def __init__(self, *, topic: str) -> None:
        self.topic = topic
        super().__init__(
            f"publish to {topic!r}: the link to a node that needs it overflowed; publish again, "
            "it may then come twice"
        )


class BrokerPort:
    """``MessagePort`` of a Thespian system; ``name`` is its client identifier on the node."""

    def __init__(self, broker: Broker, *, name: str = "thespian") -> None:
        self._broker = broker
        self._numbers = count(1)
        self._name = f"{broker.runtime.node}/{name}"
        self._remote: RemoteClient | None = None

    def publish(self, message: Publish, *, on_safe: Callable[[bool], None] | None = None) -> None:
        """Publish to all nodes. Raises UsageError: the topic name is invalid."""
        if self._remote is None:
            self._remote = RemoteClient(self._broker.fanout, self._name)
        publish(self._broker, self._remote, message, on_safe)

    def subscribe(self, request: Subscribe, deliver: Callable[[Delivered], None]) -> Callable[[], None]:
        """Call ``deliver`` with messages of all nodes. Raises UsageError: the topic filter is invalid."""
        return self.begin(request, deliver)[0]

    def begin(
        self, request: Subscribe, deliver: Callable[[Delivered], object]
    ) -> tuple[Callable[[], None], int | None]:
        """Subscribe; return the function that ends it, and the number that ``Router.visible`` takes."""

        def emit(messages: list[list[object]], dropped: int, lost: int) -> None:
            for topic, payload, qos, retain in messages:
                deliver(Delivered(topic, payload, qos, retain))  # type: ignore[arg-type]

        subscription = RemoteSubscription(
            *(self._broker, f"{self._name}/{next(self._numbers)}", request.filter, request.qos),
            emit=emit,
            owner=None,
            window=ENDLESS,
            acknowledges=False,
        )
        number = subscription.open()
        subscription.begin()
        return partial(subscription.close, "unsubscribed"), number


class Mqtt:
    """Broker of a node, for the actors that run on it, without a connection; one object serves all."""

    def __init__(self, node: HasBroker) -> None:
        self._broker = node.broker
        self._port = BrokerPort(node.broker, name="actors")
        self._publisher = Publisher(node.broker)

    async def publish(self, topic: str, payload: bytes | str, qos: int = 0, *, retain: bool = False) -> None:
        """Publish to all nodes; with QoS 1 or 2, return once every node that must deliver it has it.

        Raises:
            InvalidTopicName: ``topic`` is no topic name.
            PublishUnsafeError: a node that must deliver it may not have it.
        """
        parse_name(topic)
        data = payload.encode() if isinstance(payload, str) else bytes(payload)
        done: asyncio.Future[bool] = self._broker.runtime.loop.create_future()

        def settle(safe: bool) -> None:
            self._publisher.published(topic, lambda: None if done.done() else done.set_result(safe))

        self._port.publish(Publish(topic, data, qos, retain), on_safe=settle if qos else None)
        if qos and not await done:
            raise PublishUnsafeError(topic=topic)

    async def subscribe(self, topic_filter: str, qos: int = 0) -> Callable[[], None]:
        """Send matching messages to the running process as ``Delivered``; return a function that ends that.

        Returns once every live node has the route, at the latest after ``mqtt.limits.subscribe_wait``.
        Retained messages come first. Of ``$share/…`` each message goes to one member of the group, MQTT
        clients among them.

        Raises:
            InvalidTopicFilter: it is no topic filter.
            NotInProcess: no process runs here.
        """
        runtime, pid = Runtime.current(), self_pid()
        entry = runtime.table.get(pid)
        if entry is None:
            raise NotInProcess("Mqtt.subscribe")
        cancel, number = self._port.begin(
            Subscribe(topic_filter, qos), lambda message: runtime.send(pid, message)
        )
        entry.on_release(lambda _entry: cancel())
        # The row is logged in one of the next turns; a node without peers has no event for that.
        for _ in range(TURNS):
            if self._broker.router.is_visible(number):
                return cancel
            await asyncio.sleep(0)
        await self._broker.router.visible(number)
        return cancel

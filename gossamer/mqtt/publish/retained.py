"""Retained messages: the last one of each topic that asked for it, and how a new subscriber gets them.

:class:`Retained` is what the broker asks of a store; :class:`LocalRetained` is one node's own, and
``retained_cluster`` has the one that all nodes share.

Rules: 1. Thousands of retained messages are sent in steps, :data:`STEP` a turn of the loop, and no faster
than the client takes them.  2. A step looks a topic up when its turn has come: what is sent is what is
retained *then*, never what was retained when the walk began.  3. What another node must be asked for is
sent when it comes; nothing else waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from gossamer.mqtt.messages.message import Message
from gossamer.mqtt.messages.ports import ForwarderLike
from gossamer.mqtt.publish.topic_tree import TopicTree

if TYPE_CHECKING:
    from gossamer.mqtt.connection.channel import Channel

__all__ = ["Fetch", "LocalRetained", "Retained", "RetainedDelivery"]

STEP = 200
"""Messages a turn."""
PATIENCE = 0.05
"""Seconds between looks at a client that does not take what it is sent."""
FETCHES = 16
"""How many are fetched from other nodes at the same time, for one subscriber."""

Fetch = Callable[[], Awaitable[Message | None]]
"""Brings a message that is on another node."""

Wanted = list[tuple[str, int, tuple[int, ...]]]
"""Filter, QoS and subscription identifiers."""


class Retained(Protocol):
    """What the broker asks of a store of retained messages."""

    def put(self, message: Message) -> ForwarderLike | None:
        """Replace the message of its topic; an empty payload removes it ([MQTT-3.3.1-6]).

        Returns whoever must have it too before a message of QoS 1 or 2 is acknowledged.
        """

    def topics(self, topic_filter: str) -> Iterator[str]:
        """The topics that match, in no order; the store may change meanwhile."""

    def get(self, topic: str) -> Message | Fetch | None:
        """The message of a topic, or where it is elsewhere, what brings it."""

    def __len__(self) -> int: ...


class LocalRetained:
    """Retained messages of this node, in memory; topics beyond ``limit`` are refused and counted."""

    def __init__(self, *, limit: int = 1_000_000) -> None:
        self._tree = TopicTree()
        self._messages: dict[str, Message] = {}
        self._limit = limit
        self.refused = 0

    def __len__(self) -> int:
        return len(self._messages)

    def put(self, message: Message) -> None:
        topic = message.topic.decode()
        if not message.payload:
            if self._messages.pop(topic, None) is not None:
                self._tree.discard(topic)
            return
        if topic not in self._messages:
            if len(self._messages) >= self._limit:
                self.refused += 1
                return
            self._tree.add(topic)
        self._messages[topic] = message

    def topics(self, topic_filter: str) -> Iterator[str]:
        return self._tree.match(topic_filter)

    def get(self, topic: str) -> Message | None:
        return self._messages.get(topic)


class RetainedDelivery:
    """Sends one SUBSCRIBE's retained messages; see the module."""

    __slots__ = ("_channel", "_far", "_items", "_store")

    def __init__(self, channel: Channel, store: Retained, wanted: Wanted) -> None:
        self._channel = channel
        self._store = store
        self._items = (
            (topic, qos, identifiers)
            for topic_filter, qos, identifiers in wanted
            for topic in store.topics(topic_filter)
        )
        self._far: list[tuple[str, int, tuple[int, ...]]] = []

    def step(self) -> None:
        """Send some, and see to it that the rest is sent."""
        channel = self._channel
        if not channel.is_up:
            return
        try:
            self._step()
        except Exception as error:  # noqa: BLE001 - the loop's own handler would only print it
            channel.crash(error)

    def _step(self) -> None:
        channel = self._channel
        session = channel.session
        loop = channel.broker.runtime.loop
        behind = session.queued_bytes > channel.hub.pressure.congested_at
        if channel.write_full or behind or len(session.queue) * 4 > session.max_queued:
            loop.call_later(PATIENCE, self.step)
            return
        count = 0
        for topic, qos, identifiers in islice(self._items, STEP):
            count += 1
            found = self._store.get(topic)
            if isinstance(found, Message):
                session.take(
                    found, qos=min(qos, found.qos), retain=True, identifiers=identifiers, stored=True
                )
            elif found is not None:
                self._far.append((topic, qos, identifiers))
        if count == STEP:
            loop.call_soon(self.step)
        elif self._far:
            channel.broker.runtime.spawn(self._fetch_all, label="mqtt_retained", link_to=channel.pid)

    async def _fetch_all(self) -> None:
        waiting = iter(self._far)

        async def fetch() -> None:
            for topic, qos, identifiers in waiting:
                message = self._store.get(topic)
                if message is not None and not isinstance(message, Message):
                    message = await message()
                channel = self._channel
                if not channel.is_up:
                    return
                if message is not None:
                    channel.session.take(
                        message,
                        qos=min(qos, message.qos),
                        retain=True,
                        identifiers=identifiers,
                        stored=True,
                    )

        await asyncio.gather(*(fetch() for _ in range(min(FETCHES, len(self._far)))))

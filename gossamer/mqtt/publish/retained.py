"""Retained messages: what a store of them is, and the one of a single node."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Protocol

from gossamer.mqtt.messages.message import Message
from gossamer.mqtt.messages.ports import ForwarderLike
from gossamer.mqtt.publish.topic_tree import TopicTree

__all__ = ["Fetch", "LocalRetained", "Retained"]

Fetch = Callable[[], Awaitable[Message | None]]
"""Brings a message that is on another node."""


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

"""Retained messages: interface of a store, the store of a single node, and look-up of topics by filter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from typing import Protocol

from gossamer.mqtt.messages.message import Message
from gossamer.mqtt.messages.ports import ForwarderLike
from gossamer.tenants import tenant_of

Fetch = Callable[[], Awaitable[Message | None]]
"""Fetches a message from another node; None: it is not to be had."""


class Retained(Protocol):
    """Store of retained messages, as the broker uses it."""

    def put(self, message: Message) -> ForwarderLike | None:
        """Replace the message of its topic; an empty payload removes it ([MQTT-3.3.1-6]).

        Returns the peer that must have it before a message of QoS 1 or 2 is acknowledged; None: none.
        """

    def topics(self, topic_filter: str) -> Iterator[str]:
        """Yield the topics that match, in no order; the store may change meanwhile."""

    def get(self, topic: str) -> Message | Fetch | None:
        """Return the message of a topic, or a function that fetches it from another node."""

    def count(self, tenant: str) -> int:
        """Return how many topics of a tenant, which is not the default one, have a message."""

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

    def count(self, tenant: str) -> int:
        return self._tree.counts[tenant]

    def topics(self, topic_filter: str) -> Iterator[str]:
        return self._tree.match(topic_filter)

    def get(self, topic: str) -> Message | None:
        return self._messages.get(topic)


class _Level:
    __slots__ = ("below", "topic")

    def __init__(self) -> None:
        self.below: dict[str, _Level] = {}
        self.topic: str | None = None


class TopicTree:
    """Set of topic names, by levels: a filter is one path, ``+`` all children of a level, ``#`` a branch.

    Topics whose first level starts with ``$`` do not match a wildcard at that level ([MQTT-4.7.2-1]). The
    tree may change during a :meth:`match`, which yields no topic twice, and each that was there throughout.
    """

    def __init__(self) -> None:
        self._root = _Level()
        self._count = 0
        self.counts: Counter[str] = Counter()
        """Topics of each tenant but the default one."""

    def __len__(self) -> int:
        return self._count

    def add(self, topic: str) -> bool:
        """Add a topic; False: it was there."""
        level = self._root
        for word in topic.split("/"):
            below = level.below.get(word)
            if below is None:
                below = level.below[word] = _Level()
            level = below
        if level.topic is not None:
            return False
        level.topic = topic
        self._count += 1
        if tenant := tenant_of(topic):
            self.counts[tenant] += 1
        return True

    def discard(self, topic: str) -> bool:
        """Remove a topic; False: it was not there."""
        path: list[tuple[_Level, str]] = []
        level = self._root
        for word in topic.split("/"):
            below = level.below.get(word)
            if below is None:
                return False
            path.append((level, word))
            level = below
        if level.topic is None:
            return False
        level.topic = None
        self._count -= 1
        if tenant := tenant_of(topic):
            self.counts[tenant] -= 1
        for above, word in reversed(path):
            below = above.below[word]
            if below.below or below.topic is not None:
                break
            del above.below[word]
        return True

    def match(self, topic_filter: str) -> Iterator[str]:
        """Yield the topics that match, in no order."""
        if not self._count:
            return iter(())
        return self._walk(self._root, topic_filter.split("/"), 0)

    def _walk(self, level: _Level, words: list[str], at: int) -> Iterator[str]:
        if at == len(words):
            if level.topic is not None:
                yield level.topic
            return
        word = words[at]
        if word == "#":
            if at and level.topic is not None:
                yield level.topic
            # Lists, because the tree may change before the next step.
            for name, below in list(level.below.items()):
                if at or not name.startswith("$"):
                    yield from self._branch(below)
        elif word == "+":
            for name, below in list(level.below.items()):
                if at or not name.startswith("$"):
                    yield from self._walk(below, words, at + 1)
        else:
            found = level.below.get(word)
            if found is not None:
                yield from self._walk(found, words, at + 1)

    def _branch(self, level: _Level) -> Iterator[str]:
        stack = [level]
        while stack:
            level = stack.pop()
            if level.topic is not None:
                yield level.topic
            stack.extend(level.below.values())

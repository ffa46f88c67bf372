"""Retained messages: the last one of each topic that asked for it, found by filter.

A tree of topic levels, walked with the filter: a filter without wildcards is one path, ``+`` all children
of one level, ``#`` a whole branch. Topics whose first level starts with ``$`` are not met by a wildcard in
the first place ([MQTT-4.7.2-1]).

This store is the node's own. :class:`Retained` is what the broker asks of it, so that one that replicates
can take its place.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from gossamer.mqtt.message import Message

__all__ = ["LocalRetained", "Retained"]


class Retained(Protocol):
    """What the broker asks of a store of retained messages."""

    def put(self, message: Message) -> None:
        """Replace the message of its topic; an empty payload removes it ([MQTT-3.3.1-6])."""

    def match(self, topic_filter: str) -> list[Message]:
        """The messages whose topic matches, in no order."""

    def __len__(self) -> int: ...


class _Level:
    __slots__ = ("below", "message")

    def __init__(self) -> None:
        self.below: dict[str, _Level] = {}
        self.message: Message | None = None


class LocalRetained:
    """Retained messages of this node, in memory; topics beyond ``limit`` are refused and counted."""

    def __init__(self, *, limit: int = 1_000_000) -> None:
        self._root = _Level()
        self._count = 0
        self._limit = limit
        self.refused = 0

    def __len__(self) -> int:
        return self._count

    def put(self, message: Message) -> None:
        words = message.topic.decode().split("/")
        if not message.payload:
            self._remove(words)
            return
        level = self._root
        for word in words:
            below = level.below.get(word)
            if below is None:
                if self._count >= self._limit:
                    self.refused += 1
                    return
                below = level.below[word] = _Level()
            level = below
        if level.message is None:
            self._count += 1
        level.message = message

    def match(self, topic_filter: str) -> list[Message]:
        words = topic_filter.split("/")
        return list(self._walk(self._root, words, 0))

    def _walk(self, level: _Level, words: list[str], at: int) -> Iterator[Message]:
        if at == len(words):
            if level.message is not None:
                yield level.message
            return
        word = words[at]
        if word == "#":
            if at and level.message is not None:
                yield level.message
            for name, below in level.below.items():
                if at or not name.startswith("$"):
                    yield from self._branch(below)
        elif word == "+":
            for name, below in level.below.items():
                if at or not name.startswith("$"):
                    yield from self._walk(below, words, at + 1)
        else:
            found = level.below.get(word)
            if found is not None:
                yield from self._walk(found, words, at + 1)

    def _branch(self, level: _Level) -> Iterator[Message]:
        stack = [level]
        while stack:
            level = stack.pop()
            if level.message is not None:
                yield level.message
            stack.extend(level.below.values())

    def _remove(self, words: list[str]) -> None:
        path: list[tuple[_Level, str]] = []
        level = self._root
        for word in words:
            below = level.below.get(word)
            if below is None:
                return
            path.append((level, word))
            level = below
        if level.message is not None:
            self._count -= 1
            level.message = None
        for above, word in reversed(path):
            below = above.below[word]
            if below.below or below.message is not None:
                break
            del above.below[word]

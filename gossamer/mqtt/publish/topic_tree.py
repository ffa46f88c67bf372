"""Topics found by filter: a tree of topic levels.

A filter without wildcards is one path, ``+`` all children of one level, ``#`` a whole branch. Topics whose
first level starts with ``$`` are not met by a wildcard in the first place ([MQTT-4.7.2-1]).

Rule: a walk may be left and continued while the tree changes. It yields no topic twice, and every topic
that was there all the time.
"""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["TopicTree"]


class _Level:
    __slots__ = ("below", "topic")

    def __init__(self) -> None:
        self.below: dict[str, _Level] = {}
        self.topic: str | None = None


class TopicTree:
    """A set of topic names; see the module."""

    def __init__(self) -> None:
        self._root = _Level()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, topic: str) -> bool:
        """False where it was there."""
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
        return True

    def discard(self, topic: str) -> bool:
        """False where it was not there."""
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
        for above, word in reversed(path):
            below = above.below[word]
            if below.below or below.topic is not None:
                break
            del above.below[word]
        return True

    def match(self, topic_filter: str) -> Iterator[str]:
        """The topics that match, in no order."""
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

"""A trie of filter levels: the index for filters of rare shapes.

Its cost grows with the levels of a topic and the wildcards met on the way, and not with the number of shapes,
so it takes over where :mod:`gossamer.routes.index.filters` has met more shapes than it is worth probing for.

Nodes are plain dictionaries from level to node; the value sits under the key None, which no level is. A class
for nodes was rejected: it doubles their size and adds an attribute lookup to every step.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, TypeVar, cast

V = TypeVar("V")

_Node = dict[str | None, Any]


class FilterTrie(Generic[V]):
    """Maps split filters to values."""

    __slots__ = ("_root", "_size")

    def __init__(self) -> None:
        self._root: _Node = {}
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def get(self, words: list[str]) -> V | None:
        """The value of exactly this filter."""
        node = self._root
        for word in words:
            child = node.get(word)
            if child is None:
                return None
            node = child
        return cast("V | None", node.get(None))

    def put(self, words: list[str], value: V) -> None:
        """Set the value of this filter."""
        node = self._root
        for word in words:
            child = node.get(word)
            if child is None:
                child = node[word] = {}
            node = child
        if None not in node:
            self._size += 1
        node[None] = value

    def remove(self, words: list[str]) -> bool:
        """Take this filter out, and every node that only it needed."""
        path = [self._root]
        for word in words:
            child = path[-1].get(word)
            if child is None:
                return False
            path.append(child)
        if path.pop().pop(None, self) is self:
            return False
        self._size -= 1
        for parent, word in zip(reversed(path), reversed(words), strict=True):
            if parent[word]:
                break
            del parent[word]
        return True

    def match(self, words: list[str], dollar: bool, found: list[V]) -> None:
        """Append the value of every filter that matches these levels of a name."""
        nodes = [self._root]
        wild = not dollar
        for word in words:
            below: list[_Node] = []
            for node in nodes:
                if wild:
                    if (child := node.get("#")) is not None:
                        found.append(child[None])
                    if (child := node.get("+")) is not None:
                        below.append(child)
                if (child := node.get(word)) is not None:
                    below.append(child)
            if not below:
                return
            nodes = below
            wild = True
        for node in nodes:
            if None in node:
                found.append(node[None])
            if (child := node.get("#")) is not None:
                found.append(child[None])

    def items(self) -> Iterator[tuple[str, V]]:
        """Every filter with its value."""
        stack: list[tuple[tuple[str, ...], _Node]] = [((), self._root)]
        while stack:
            path, node = stack.pop()
            for word, child in node.items():
                if word is None:
                    yield "/".join(path), cast("V", child)
                else:
                    stack.append(((*path, word), child))

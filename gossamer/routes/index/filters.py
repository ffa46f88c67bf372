"""The filter index: finds the values of the filters that match a topic.

It has three parts. Filters without wildcards are in one dictionary. Wildcard filters are in one dictionary a
:class:`Shape`, of which a topic probes only those that can fit its number of levels. Filters of a shape that
came after :data:`SHAPE_LIMIT` others of its kind are in a trie, so that no client can make a match slow by
inventing shapes: a match costs one lookup, one more for each of at most twice the limit of shapes, and a walk
through a trie that is almost always empty.

Filters of one shape differ only in their constant levels, so all that a topic can match among them is found
by one dictionary lookup: take the topic's levels at the constant places, as a tuple, and look that up.
Subscribers use few shapes however many filters they have, which is what makes this (tuple space search, known
from packet classifiers: Srinivasan, Suri, Varghese, 1999) cheaper than walking a trie of dictionaries, whose
every level costs a lookup in cold memory.

Rules: 1. Filters are valid and not shared (``$share/…`` is split before).  2. Values are not None.
3. Matches come in a fixed order: the literal, then shapes by age, then the trie.

Rejected: one trie for all (a third of the matches a second at a million filters, and thrice the memory);
EMQX's ordered set with seeks (needs a sorted structure that Python lacks); joined text instead of a tuple
as the key of a shape (saves 60 bytes a wildcard filter, costs a third of the matches a second).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from sys import intern
from typing import Any, Generic, TypeVar, cast

V = TypeVar("V")

SHAPE_LIMIT = 16
"""Shapes of one length, and shapes ending in ``#``, that get a dictionary of their own."""

Key = Any
"""Constant levels of a filter: a tuple of text, the text itself if there is one, "" if none."""
_Identity = tuple[int, tuple[int, ...], bool]
_Node = dict[str | None, Any]
_Probes = list[tuple[Any, Any]]


class Shape:
    """One shape; ``key`` returns the constant levels of a split topic."""

    __slots__ = ("constants", "key", "leading", "levels", "open", "plus")

    def __init__(self, levels: int, plus: tuple[int, ...], is_open: bool) -> None:
        self.levels = levels
        """Number of levels, without ``#``."""
        self.plus = plus
        """Places of ``+``."""
        self.open = is_open
        """Whether it ends in ``#``."""
        self.constants = tuple(place for place in range(levels) if place not in plus)
        self.leading = 0 in plus or levels == 0
        """Whether a wildcard comes first, so that names starting with ``$`` do not match."""
        self.key: Callable[[Sequence[str]], Key] = lambda _words: ""
        if self.constants:
            self.key = itemgetter(*self.constants)

    def fits(self, levels: int, dollar: bool) -> bool:
        """Return whether a name of so many levels can match this shape; ``dollar``: it starts with ``$``."""
        if dollar and self.leading:
            return False
        return levels >= self.levels if self.open else levels == self.levels

    def render(self, key: Key) -> str:
        """Return the filter of this shape with these constant levels."""
        constants = iter((key,) if len(self.constants) == 1 else key)
        words = ["+" if place in self.plus else next(constants) for place in range(self.levels)]
        if self.open:
            words.append("#")
        return "/".join(words)


def parse_shape(topic_filter: str) -> tuple[_Identity, list[str]]:
    """Return the identity of a valid filter's shape, and its levels without ``#``, for ``key``."""
    # Levels recur over millions of filters and are kept once.
    words = [intern(word) for word in topic_filter.split("/")]
    is_open = words[-1] == "#"
    if is_open:
        words.pop()
    if "+" not in words:
        return (len(words), (), is_open), words
    return (len(words), tuple([at for at, word in enumerate(words) if word == "+"]), is_open), words


class FilterTrie(Generic[V]):
    """Map of split filters to values, for shapes that are too many to probe: its cost grows with the levels
    of a topic and the wildcards on its way.

    Nodes are plain dictionaries from level to node; the value has the key None, which no level is. A class
    for nodes was rejected: it doubles their size and adds an attribute lookup to every step.
    """

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
        """Remove this filter, and every node that only it needed."""
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


class FilterIndex(Generic[V]):
    """Map of filters to values that finds all values whose filter matches a name."""

    __slots__ = ("_dollar_probes", "_literals", "_probes", "_shape_limit", "_tables", "_trie")

    def __init__(self, *, shape_limit: int = SHAPE_LIMIT) -> None:
        self._shape_limit = shape_limit
        self._literals: dict[str, V] = {}
        self._tables: dict[_Identity, tuple[Shape, dict[object, V]]] = {}
        self._trie: FilterTrie[V] = FilterTrie()
        # Number of levels -> what to probe; made when first asked for, dropped when a shape comes or goes.
        self._probes: dict[int, _Probes] = {}
        self._dollar_probes: dict[int, _Probes] = {}

    def __len__(self) -> int:
        return len(self._literals) + sum(len(table) for _, table in self._tables.values()) + len(self._trie)

    def get(self, topic_filter: str) -> V | None:
        """The value of exactly this filter."""
        if "+" not in topic_filter and "#" not in topic_filter:
            return self._literals.get(topic_filter)
        identity, words = parse_shape(topic_filter)
        found = self._tables.get(identity)
        if found is not None:
            shape, table = found
            value = table.get(shape.key(words))
            if value is not None:
                return value
        return self._trie.get(_whole(identity, words)) if self._trie else None

    def put(self, topic_filter: str, value: V) -> None:
        """Set the value of this filter."""
        if "+" not in topic_filter and "#" not in topic_filter:
            self._literals[topic_filter] = value
            return
        identity, words = parse_shape(topic_filter)
        if self._trie:
            # It may have come while its shape had no table; a filter lives in one place.
            whole = _whole(identity, words)
            if self._trie.get(whole) is not None:
                self._trie.put(whole, value)
                return
        found = self._tables.get(identity)
        if found is None:
            if self._crowded(identity):
                self._trie.put(_whole(identity, words), value)
                return
            found = self._tables[identity] = (Shape(*identity), {})
            self._forget_probes()
        shape, table = found
        table[shape.key(words)] = value

    def remove(self, topic_filter: str) -> bool:
        """Remove this filter; False: it was not there."""
        if "+" not in topic_filter and "#" not in topic_filter:
            return self._literals.pop(topic_filter, None) is not None
        identity, words = parse_shape(topic_filter)
        found = self._tables.get(identity)
        if found is not None:
            shape, table = found
            if table.pop(shape.key(words), None) is not None:
                if not table:
                    del self._tables[identity]
                    self._forget_probes()
                return True
        return bool(self._trie) and self._trie.remove(_whole(identity, words))

    def match(self, name: str) -> list[V]:
        """Return the values of all filters that match a valid topic name."""
        found: list[V] = []
        literals = self._literals
        if name in literals:
            found.append(literals[name])
        words = name.split("/")
        try:
            probes = (self._dollar_probes if name[0] == "$" else self._probes)[len(words)]
        except KeyError:
            probes = self._learn_probes(len(words), name[0] == "$")
        for key_of, table in probes:
            key = key_of(words)
            if key in table:
                found.append(table[key])
        if self._trie:
            self._trie.match(words, name[0] == "$", found)
        return found

    def match_raw(self, topic: bytes, max_bytes: int, max_levels: int, /) -> list[V] | None:
        """Do the same for a name in bytes, if it is a plain one within limits; None: parse it, then match.

        Only the compiled kernel does it, which reads bytes at less cost than a call.
        """
        return None

    def items(self) -> Iterator[tuple[str, V]]:
        """Every filter with its value."""
        yield from self._literals.items()
        for shape, table in self._tables.values():
            for key, value in table.items():
                yield shape.render(key), value
        yield from self._trie.items()

    def filters(self) -> Iterator[str]:
        """Yield every filter; the index may change meanwhile, and some changes are seen and some are not."""
        yield from list(self._literals)
        for shape, table in list(self._tables.values()):
            for key in list(table):
                yield shape.render(key)
        for topic_filter, _ in list(self._trie.items()):
            yield topic_filter

    def stats(self) -> dict[str, int]:
        """Return how many filters each part holds, and how many shapes there are."""
        return {
            "literal": len(self._literals),
            "wildcard": sum(len(table) for _, table in self._tables.values()),
            "shapes": len(self._tables),
            "trie": len(self._trie),
        }

    def _crowded(self, identity: _Identity) -> bool:
        levels, _, is_open = identity
        alike = sum(1 for other in self._tables if other[2] == is_open and (is_open or other[0] == levels))
        return alike >= self._shape_limit

    def _learn_probes(self, levels: int, dollar: bool) -> _Probes:
        probes = [(shape.key, table) for shape, table in self._tables.values() if shape.fits(levels, dollar)]
        (self._dollar_probes if dollar else self._probes)[levels] = probes
        return probes

    def _forget_probes(self) -> None:
        self._probes.clear()
        self._dollar_probes.clear()


def _whole(identity: _Identity, words: list[str]) -> list[str]:
    return [*words, "#"] if identity[2] else words

"""Shapes of wildcard filters: how many levels, where ``+`` stands, and whether ``#`` ends it.

Filters of one shape differ only in their constant levels, so all that a topic can match among them is found
by one dictionary lookup: take the topic's levels at the constant places, as a tuple, and look that up.
Subscribers use few shapes however many filters they have, which is what makes this (tuple space search, known
from packet classifiers: Srinivasan, Suri, Varghese, 1999) cheaper than walking a trie of dictionaries, whose
every level costs a lookup in cold memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from sys import intern
from typing import Any

Key = Any
"""The constant levels: a tuple of text, the text itself where there is one, "" where there is none."""


class Shape:
    """One shape. Equal shapes are equal values; ``key`` takes the constant levels out of a split topic."""

    __slots__ = ("constants", "key", "leading", "levels", "open", "plus")

    def __init__(self, levels: int, plus: tuple[int, ...], is_open: bool) -> None:
        self.levels = levels
        """Levels in front of ``#``, or all of them."""
        self.plus = plus
        """Where ``+`` stands."""
        self.open = is_open
        """Whether it ends in ``#``."""
        self.constants = tuple(place for place in range(levels) if place not in plus)
        self.leading = 0 in plus or levels == 0
        """Whether a wildcard comes first, so that names starting with ``$`` do not match."""
        self.key: Callable[[Sequence[str]], Key] = itemgetter(*self.constants) if self.constants else _nothing

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Shape) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def __repr__(self) -> str:
        return f"Shape({self.render(('…',) * len(self.constants) if len(self.constants) != 1 else '…')})"

    def fits(self, levels: int, dollar: bool) -> bool:
        """Whether a name of so many levels, starting with ``$`` or not, can match this shape at all."""
        if dollar and self.leading:
            return False
        return levels >= self.levels if self.open else levels == self.levels

    def render(self, key: Key) -> str:
        """The filter of this shape that has these constant levels."""
        constants = iter((key,) if len(self.constants) == 1 else key)
        words = ["+" if place in self.plus else next(constants) for place in range(self.levels)]
        if self.open:
            words.append("#")
        return "/".join(words)

    def _identity(self) -> tuple[int, tuple[int, ...], bool]:
        return self.levels, self.plus, self.open


def parse_shape(topic_filter: str) -> tuple[tuple[int, tuple[int, ...], bool], list[str]]:
    """The identity of a valid filter's shape, and its levels without the ``#``, ready for ``key``."""
    # Levels recur over millions of filters and are kept once.
    words = [intern(word) for word in topic_filter.split("/")]
    is_open = words[-1] == "#"
    if is_open:
        words.pop()
    if "+" not in words:
        return (len(words), (), is_open), words
    return (len(words), tuple([at for at, word in enumerate(words) if word == "+"]), is_open), words


def _nothing(_words: Sequence[str]) -> Key:
    return ""

"""The topic book: finds the cached topics that a change of a wildcard filter concerns.

They are the topics with the filter's constant levels in their places. So for every shape of filter that ever
changed, topics are filed by their levels at the shape's constant places: a change looks up one bucket. Filing
is lazy: the first change of a shape after new topics came files those, once each.

``seen`` is the caller's list of topics, which only grows; a new list begins with :meth:`TopicBook.reset`. The
compiled kernel has a twin of this that does the same, except that it may, once in four thousand million
times, name one topic too many.
"""

from __future__ import annotations

from itertools import islice

from gossamer.routes.index.filters import Shape, parse_shape


class _Buckets:
    """Topics of one shape, by their levels at its constant places."""

    __slots__ = ("filed", "shape", "topics")

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.filed = 0
        self.topics: dict[object, bytes | list[bytes]] = {}

    def file(self, seen: list[bytes]) -> int:
        """File the topics that came since the last call; return how many fit the shape."""
        shape, topics = self.shape, self.topics
        count = 0
        for topic in islice(seen, self.filed, None):
            words = topic.decode().split("/")
            if not shape.fits(len(words), topic[0] == 0x24):
                continue
            count += 1
            key = shape.key(words)
            known = topics.get(key)
            if known is None:
                topics[key] = topic
            elif type(known) is list:
                known.append(topic)
            else:
                topics[key] = [known, topic]  # type: ignore[list-item]
        self.filed = len(seen)
        return count


class TopicBook:
    """Book of at most ``shape_limit`` shapes and ``filed_limit`` filed topics."""

    __slots__ = ("_buckets", "_filed", "_filed_limit", "_shape_limit")

    def __init__(self, shape_limit: int, filed_limit: int) -> None:
        self._shape_limit = shape_limit
        self._filed_limit = filed_limit
        self._filed = 0
        self._buckets: dict[tuple[int, tuple[int, ...], bool], _Buckets] = {}

    def take(self, topic_filter: str, seen: list[bytes], /) -> list[bytes] | None:
        """Return the topics of ``seen`` that a wildcard filter concerns, each only once; None: a limit is
        reached, call :meth:`clear`."""
        identity, words = parse_shape(topic_filter)
        buckets = self._buckets.get(identity)
        if buckets is None:
            if len(self._buckets) >= self._shape_limit:
                return None
            buckets = self._buckets[identity] = _Buckets(Shape(*identity))
        if buckets.filed < len(seen):
            self._filed += buckets.file(seen)
            if self._filed > self._filed_limit:
                return None
        found = buckets.topics.pop(buckets.shape.key(words), None)
        if found is None:
            return []
        if type(found) is not list:
            found = [found]  # type: ignore[list-item]
        self._filed -= len(found)
        return found

    def reset(self) -> None:
        """Forget the filed topics, but not the shapes, for a new list."""
        self._filed = 0
        for buckets in self._buckets.values():
            buckets.filed = 0
            buckets.topics = {}

    def clear(self) -> None:
        """Forget the shapes too, so that those of filters long gone do not count."""
        self._filed = 0
        self._buckets = {}

    def stats(self) -> dict[str, int]:
        """Return how many shapes are kept, and how many topics are filed."""
        return {"shapes": len(self._buckets), "filed": self._filed}

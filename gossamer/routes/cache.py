"""The route cache: topic to route, and which cached topics a change of one filter concerns.

The hot path reads the ``routes`` dictionary and nothing else; so a route that is no longer right must be
out of it before the change returns. A literal filter concerns one topic. A wildcard filter concerns the
topics that have its constant levels where it has them, so for every shape of filter that ever changed,
cached topics are kept in buckets by their levels at the shape's constant places: a change empties one
bucket.

Both sides stay cheap: a miss only appends to a list; the first change of a shape after it files the topics
that came since, once each. Buckets may name topics that left the cache, which does no harm; they are made
anew when the list has grown to twice the cache.

Rules: 1. ``routes`` is the same dictionary for ever.  2. At most ``limit`` topics; the oldest eighth goes
when it is full. No order of use is kept, since that would cost the hit.  3. Buckets are bounded: a shape
beyond :data:`SHAPE_LIMIT`, or more than :data:`FILED_LIMIT` places for each topic, empties the whole cache.

Rejected: testing every cached topic on every change (100,000 subscriptions would each scan the cache);
version stamps checked on every hit (cost the hit); a trie of topics (a ``+`` above a selective level visits
every child).
"""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import Any

from gossamer.routes.shapes import Shape, parse_shape

__all__ = ["FILED_LIMIT", "SHAPE_LIMIT", "RouteCache"]

SHAPE_LIMIT = 64
FILED_LIMIT = 8


class _Buckets:
    """Cached topics by their levels at the constant places of one shape."""

    __slots__ = ("filed", "shape", "topics")

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.filed = 0
        self.topics: dict[Any, bytes | list[bytes]] = {}

    def file(self, seen: list[bytes]) -> int:
        """File the topics that came since the last time; how many fit the shape."""
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


class RouteCache:
    """Routes by topic, bounded, and exact at every moment. ``limit`` counts topics."""

    __slots__ = ("_buckets", "_filed", "_limit", "_seen", "counts", "routes")

    def __init__(self, *, limit: int = 131_072) -> None:
        self.routes: dict[bytes, Any] = {}
        self.counts: Counter[str] = Counter()
        """``invalidated`` and ``evicted`` topics, and how often everything was ``cleared``."""
        self._limit = max(8, limit)
        self._seen: list[bytes] = []
        self._filed = 0
        self._buckets: dict[tuple[int, tuple[int, ...], bool], _Buckets] = {}

    def put(self, topic: bytes, route: Any) -> None:
        """Keep the route of a topic that is not in the cache."""
        routes = self.routes
        if len(routes) >= self._limit:
            for old in list(islice(routes, self._limit // 8)):
                del routes[old]
            self.counts["evicted"] += self._limit // 8
        routes[topic] = route
        seen = self._seen
        seen.append(topic)
        if len(seen) > 2 * len(routes) + 1024:
            self._seen = list(routes)
            self._filed = 0
            for buckets in self._buckets.values():
                buckets.filed = 0
                buckets.topics = {}

    def changed(self, topic_filter: str) -> None:
        """Forget the routes of all topics that ``topic_filter`` matches."""
        routes = self.routes
        if not routes:
            return
        if "+" not in topic_filter and "#" not in topic_filter:
            if routes.pop(topic_filter.encode(), None) is not None:
                self.counts["invalidated"] += 1
            return
        identity, words = parse_shape(topic_filter)
        buckets = self._buckets.get(identity)
        if buckets is None:
            if len(self._buckets) >= SHAPE_LIMIT:
                self.clear()
                return
            buckets = self._buckets[identity] = _Buckets(Shape(*identity))
        if buckets.filed < len(self._seen):
            self._filed += buckets.file(self._seen)
            if self._filed > FILED_LIMIT * self._limit:
                self.clear()
                return
        found = buckets.topics.pop(buckets.shape.key(words), None)
        if found is None:
            return
        self._filed -= len(found) if type(found) is list else 1
        before = len(routes)
        for topic in found if type(found) is list else (found,):
            routes.pop(topic, None)  # type: ignore[arg-type]
        self.counts["invalidated"] += before - len(routes)

    def forget(self, topics: list[bytes]) -> None:
        """Forget these topics."""
        for topic in topics:
            del self.routes[topic]
        self.counts["invalidated"] += len(topics)

    def clear(self) -> None:
        """Forget everything."""
        if self.routes:
            self.counts["cleared"] += 1
        self.routes.clear()
        self._seen = []
        self._filed = 0
        # Shapes too: those of filters long gone shall not count for ever.
        self._buckets = {}

"""The route cache: topic to route, exact at every moment.

The hot path reads the ``routes`` dictionary and nothing else; so a route that is no longer right must be
out of it before the change returns. A literal filter concerns one topic; :mod:`gossamer.routes.index.book`
finds the topics that a wildcard filter concerns. Both sides stay cheap: a miss only appends to a list, and a
change looks up one bucket. The book may return topics that left the cache, which does no harm; it is rebuilt
when the list has grown to twice the cache.

Rules: 1. ``routes`` is always the same dictionary.  2. At most ``limit`` topics; the oldest eighth is evicted
when it is full. No order of use is kept, since that would cost the hit.  3. The book is bounded: a shape
beyond :data:`SHAPE_LIMIT`, or more than :data:`FILED_LIMIT` places for each topic, clears the whole cache.

Rejected: testing every cached topic on every change (100,000 subscriptions would each scan the cache);
version stamps checked on every hit (cost the hit); a trie of topics (a ``+`` above a selective level visits
every child).
"""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import Any

from gossamer.routes.kernel import topic_book

SHAPE_LIMIT = 64
FILED_LIMIT = 8


class RouteCache:
    """Routes by topic, bounded, and exact at every moment. ``limit`` counts topics."""

    __slots__ = ("_book", "_limit", "_seen", "counts", "routes")

    def __init__(self, *, limit: int = 131_072) -> None:
        self.routes: dict[bytes, Any] = {}
        self.counts: Counter[str] = Counter(invalidated=0)
        """``invalidated`` and ``evicted`` topics, and times that everything was ``cleared``."""
        self._limit = max(8, limit)
        self._seen: list[bytes] = []
        self._book = topic_book(SHAPE_LIMIT, FILED_LIMIT * self._limit)

    def put(self, topic: bytes, route: object) -> None:
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
            self._book.reset()

    def changed(self, topic_filter: str) -> None:
        """Forget the routes of all topics that ``topic_filter`` matches."""
        routes = self.routes
        if not routes:
            return
        if "+" not in topic_filter and "#" not in topic_filter:
            if routes.pop(topic_filter.encode(), None) is not None:
                self.counts["invalidated"] += 1
            return
        topics = self._book.take(topic_filter, self._seen)
        if topics is None:
            self.clear()
        elif topics:
            before = len(routes)
            for topic in topics:
                routes.pop(topic, None)
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
        self._book.clear()

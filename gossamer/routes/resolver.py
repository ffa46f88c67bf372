"""From a topic to its route: one match, merged into who gets it and by which way.

Here are the parts a route is made of (index, share groups, nodes) and the cache that keeps it. A match takes
well under a microsecond, so what is around it is kept as short: names that are plainly names are not decoded,
routes to other nodes alone are shared by topics, and nothing is merged that need not be.

Rules: 1. A route in the cache is right; who changes a part tells :meth:`Resolver.changed` before it returns.
2. A node that is down is not forwarded to.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import msgspec

from gossamer.routes.cache import RouteCache
from gossamer.routes.delivery import Delivery, merge
from gossamer.routes.forwarder import Forwarder
from gossamer.routes.index import Entry, RouteIndex
from gossamer.routes.nodes import NodeTable
from gossamer.routes.shared import Group, SharedIndex, Strategy
from gossamer.routes.topics import TopicLimits, parse_name

__all__ = ["Resolver", "Route"]


class Route(msgspec.Struct, eq=False):
    """Who gets one topic. Replaced, never changed; ``plan`` is for whoever delivers.

    Of each of ``groups``, one member gets it, chosen for each message: :meth:`Router.pick`. ``mask`` is every
    node that wants it, also those that are down.
    """

    deliveries: tuple[Delivery, ...]
    peers: tuple[Forwarder, ...]
    mask: int
    groups: tuple[Group, ...] = ()
    plan: Any = None


class Resolver:
    """See the module."""

    __slots__ = ("_limits", "_remote", "cache", "index", "nodes", "resolved", "shared")

    def __init__(
        self,
        *,
        limits: TopicLimits,
        cache_limit: int,
        nodes: NodeTable,
        strategy: Strategy,
        rng: random.Random,
        up: Callable[[str], bool],
    ) -> None:
        self._limits = limits
        self.nodes = nodes
        self.index = RouteIndex()
        self.shared = SharedIndex(strategy, rng, up)
        self.cache = RouteCache(limit=cache_limit)
        self.resolved = 0
        # Routes without deliveries here differ by their nodes alone.
        self._remote: dict[int, Route] = {}

    def resolve(self, topic: bytes) -> Route:
        """The route of a topic that is not in the cache, from now on it is.

        Raises:
            InvalidTopicName: it is no topic name.
        """
        found = self.index.match_raw(topic, self._limits.max_bytes, self._limits.max_levels)
        if found is None:
            found = self.index.match(parse_name(topic, self._limits))
        mask = 0
        deliveries: list[Delivery] = []
        sources = 0
        for value in found:
            if type(value) is int:
                mask |= value
            elif type(value) is Delivery:
                deliveries.append(value)
                sources += 1
            elif type(value) is Entry:
                mask |= value.mask
                deliveries.extend(value.local.values())
                sources += 1
        groups = self.shared.match(topic.decode()) if self.shared else ()
        if deliveries or groups:
            # One filter has each subscriber once.
            merged = tuple(deliveries) if sources < 2 else merge(deliveries)
            route = Route(merged, self.nodes.forwarders(mask) if mask else (), mask, groups)
        else:
            route = self._remote.get(mask) or self._to_nodes(mask)
        self.cache.put(topic, route)
        self.resolved += 1
        return route

    def changed(self, topic_filter: str) -> None:
        """Forget the routes of all topics that a filter matches."""
        self.cache.changed(topic_filter)

    def forget_node(self, bit: int) -> None:
        """A node came or went: forget the routes that lead to it."""
        self._remote.clear()
        self.cache.forget([topic for topic, route in self.cache.routes.items() if route.mask & bit])

    def _to_nodes(self, mask: int) -> Route:
        if len(self._remote) >= 4096:
            self._remote.clear()
        route = self._remote[mask] = Route((), self.nodes.forwarders(mask), mask)
        return route

"""From a topic to its route: one match, merged into the receivers.

It has the parts that a route is made of (index, share groups, nodes) and the cache that keeps it. A match
takes well under a microsecond, so the code around it is as short: plain names are not decoded, topics with
the same receivers share a route, and merging is skipped where it can be. Two hundred thousand filters of a
hundred subscribers are a hundred routes, and as many plans.

Rules: 1. A route in the cache is right; a change of a part removes it before the change returns.  2. A node
that is down is not forwarded to.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from gossamer.config import SharedStrategy
from gossamer.routes.delivery import Delivery, merge
from gossamer.routes.forwarding.forwarder import Forwarder
from gossamer.routes.forwarding.nodes import NodeTable
from gossamer.routes.index.cache import RouteCache
from gossamer.routes.index.index import Entry, RouteIndex
from gossamer.routes.shared import Group, SharedIndex
from gossamer.routes.topics import TopicLimits, parse_name


class Route(msgspec.Struct, eq=False, weakref=True):
    """Receivers of one topic. Replaced, never changed; ``plan`` is for the fan-out.

    Of each of ``groups``, one member gets it, chosen for each message: :meth:`Router.pick`. ``mask`` has
    every node with a subscriber, also those that are down. ``captured``: queues that get it besides.
    """

    deliveries: tuple[Delivery, ...]
    peers: tuple[Forwarder, ...]
    mask: int
    groups: tuple[Group, ...] = ()
    plan: Any = None
    captured: tuple[str, ...] = ()


class Resolver:
    """Route cache of one node, of at most ``cache_limit`` topics, and the matching that fills it."""

    __slots__ = ("_limits", "_local", "_remote", "cache", "index", "nodes", "resolved", "shared")

    def __init__(
        self,
        *,
        limits: TopicLimits,
        cache_limit: int,
        nodes: NodeTable,
        strategy: SharedStrategy,
        rng: random.Random,
        up: Callable[[str], bool],
    ) -> None:
        self._limits = limits
        self.nodes = nodes
        self.index = RouteIndex()
        self.cache = RouteCache(limit=cache_limit)
        self.shared = SharedIndex(strategy, rng, up, self.cache.changed)
        self.resolved = 0
        # Routes without deliveries here differ by their nodes alone.
        self._remote: dict[int, Route] = {}
        # Routes by deliveries here and nodes; weakly, so that they are gone with the last topic that has
        # them, and a walk over the cache sees all of them. One delivery alone is its own key.
        self._local: WeakValueDictionary[Delivery | tuple[tuple[Delivery, ...], int], Route]
        self._local = WeakValueDictionary()

    def resolve(self, topic: bytes) -> Route:
        """Return the route of a topic that is not in the cache, and put it there.

        Raises:
            InvalidTopicName: it is no topic name.
        """
        limits = self._limits
        found = self.index.match_raw(topic, limits.max_bytes, limits.max_levels)
        if found is None:
            found = self.index.match(parse_name(topic, limits))
        self.resolved += 1
        if len(found) == 1 and type(found[0]) is Delivery and not self.shared.groups:
            # Most topics that anybody wants: one filter, one subscriber.
            one = self._local.get(found[0])
            if one is None:
                one = self._local[found[0]] = Route((found[0],), (), 0)
            self.cache.put(topic, one)
            return one
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
        groups = self.shared.match(topic.decode()) if self.shared.groups else ()
        if groups or sources > 1:
            merged = merge(deliveries)
            route = Route(merged, self.nodes.forwarders(mask) if mask else (), mask, groups)
        elif deliveries:
            # One filter has each subscriber once.
            key = (tuple(deliveries), mask)
            shared = self._local.get(key)
            if shared is None:
                shared = Route(key[0], self.nodes.forwarders(mask) if mask else (), mask)
                self._local[key] = shared
            route = shared
        else:
            route = self._remote.get(mask) or self._to_nodes(mask)
        self.cache.put(topic, route)
        return route

    def forget_node(self, bit: int) -> None:
        """Forget the routes that lead to a node that went up or down."""
        self._remote.clear()
        self._local.clear()
        self.cache.forget([topic for topic, route in self.cache.routes.items() if route.mask & bit])

    def _to_nodes(self, mask: int) -> Route:
        if len(self._remote) >= 4096:
            self._remote.clear()
        route = self._remote[mask] = Route((), self.nodes.forwarders(mask), mask)
        return route

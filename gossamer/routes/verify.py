"""Verification: the router's parts held against each other, and put right.

Three sources are true: what subscribers here asked for, the rows that other nodes own, and nothing else.
Derived from them are the index, this node's own rows, and the cache. Every difference is counted, and
unless only a report was asked for it is repaired from the true side.

It runs in steps, because a million routes take seconds and the node has other things to do. What is looked
at is looked at as it is in that moment, in all sources, so changes between steps are no differences.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from gossamer.routes.cache import RouteCache
from gossamer.routes.delivery import Delivery
from gossamer.routes.index import RouteIndex, local_of, mask_of
from gossamer.routes.nodes import NodeTable
from gossamer.routes.ports import RouteTable

__all__ = ["Findings", "Verifier"]

_STEP = 500


@dataclass(slots=True)
class Findings:
    """What a verification looked at and what was wrong."""

    checked: int = 0
    unindexed: int = 0
    """Subscriptions here that the index lacked."""
    orphans: int = 0
    """Deliveries in the index whose subscriber does not want the filter."""
    missing_rows: int = 0
    """Filters subscribed here without a row of this node."""
    stale_rows: int = 0
    """Rows of this node without a subscriber here."""
    missing_routes: int = 0
    """Rows of other nodes that the index lacked."""
    stale_routes: int = 0
    """Nodes in the index that own no such row."""
    stale_cache: int = 0
    """Cached routes that were not what the index says."""

    @property
    def wrong(self) -> int:
        """All differences."""
        differences: list[int] = [count for what, count in asdict(self).items() if what != "checked"]
        return sum(differences)


class Verifier:
    """One verification of one router."""

    def __init__(
        self,
        findings: Findings,
        *,
        node: str,
        index: RouteIndex,
        cache: RouteCache,
        nodes: NodeTable,
        subscriptions: dict[Any, dict[str, Delivery]],
        table: RouteTable | None,
        repair: bool,
    ) -> None:
        self._findings = findings
        self._node = node
        self._index = index
        self._cache = cache
        self._nodes = nodes
        self._subscriptions = subscriptions
        self._table = table
        self._repair = repair

    def steps(self) -> Iterator[None]:
        """Run; gives way after every few hundred checks."""
        yield from self._subscribers()
        yield from self._filters()
        if self._table is not None:
            yield from self._own_rows(self._table)
            yield from self._other_rows(self._table)
        yield from self._cached()

    def _paced(self, items: Any) -> Iterator[Any]:
        # None in between says: a step is over.
        for number, item in enumerate(items, 1):
            self._findings.checked += 1
            yield item
            if number % _STEP == 0:
                yield None

    def _subscribers(self) -> Iterator[None]:
        for subscriber in list(self._subscriptions):
            for topic_filter in self._paced(list(self._subscriptions.get(subscriber, ()))):
                if topic_filter is None:
                    yield
                    continue
                delivery = self._subscriptions.get(subscriber, {}).get(topic_filter)
                if delivery is None or delivery in local_of(self._index.get(topic_filter)):
                    continue
                self._findings.unindexed += 1
                if self._repair:
                    self._index.add(topic_filter, delivery)
                    self._cache.changed(topic_filter)
        yield

    def _filters(self) -> Iterator[None]:
        for topic_filter in self._paced(self._index.filters()):
            if topic_filter is None:
                yield
                continue
            value = self._index.get(topic_filter)
            for delivery in tuple(local_of(value)):
                if self._subscriptions.get(delivery.subscriber, {}).get(topic_filter) is not delivery:
                    self._findings.orphans += 1
                    if self._repair:
                        self._index.discard(topic_filter, delivery.subscriber)
                        self._cache.changed(topic_filter)
            self._own(topic_filter)
            mask = mask_of(value)
            for slot in self._nodes if mask and self._table is not None else ():
                if slot.bit & mask and topic_filter not in self._rows(slot.name):
                    self._findings.stale_routes += 1
                    if self._repair and self._index.set_node(topic_filter, slot.bit, False):
                        slot.routes -= 1
                        self._cache.changed(topic_filter)
        yield

    def _own_rows(self, table: RouteTable) -> Iterator[None]:
        for topic_filter in self._paced(list(table.rows_of(self._node))):
            if topic_filter is None:
                yield
            else:
                self._own(topic_filter)
        yield

    def _own(self, topic_filter: Any) -> None:
        """This node's row of a filter is there exactly if it has a subscriber."""
        table = self._table
        if table is None:
            return
        wanted = type(topic_filter) is str and any(True for _ in local_of(self._index.get(topic_filter)))
        if wanted is (topic_filter in table.rows_of(self._node)):
            return
        if wanted:
            self._findings.missing_rows += 1
            if self._repair:
                table.write(topic_filter, 1)
        else:
            self._findings.stale_rows += 1
            if self._repair:
                table.delete(topic_filter)

    def _other_rows(self, table: RouteTable) -> Iterator[None]:
        for owner in table.owners():
            if owner == self._node:
                continue
            for topic_filter in self._paced(list(table.rows_of(owner))):
                if topic_filter is None:
                    yield
                    continue
                if topic_filter not in self._rows(owner) or type(topic_filter) is not str or not topic_filter:
                    continue
                slot = self._nodes.get(owner)
                if slot is not None and mask_of(self._index.get(topic_filter)) & slot.bit:
                    continue
                self._findings.missing_routes += 1
                if self._repair:
                    slot = self._nodes.slot(owner)
                    self._index.set_node(topic_filter, slot.bit, True)
                    slot.routes += 1
                    self._cache.changed(topic_filter)
        yield

    def _cached(self) -> Iterator[None]:
        for topic in self._paced(list(self._cache.routes)):
            if topic is None:
                yield
                continue
            route = self._cache.routes.get(topic)
            if route is None:
                continue
            mask = 0
            subscribers: set[Any] = set()
            for value in self._index.match(topic.decode()):
                mask |= mask_of(value)
                subscribers.update(delivery.subscriber for delivery in local_of(value))
            same = mask == route.mask and subscribers == {d.subscriber for d in route.deliveries}
            if not same or route.peers != self._nodes.forwarders(mask):
                self._findings.stale_cache += 1
                if self._repair:
                    self._cache.forget([topic])
        yield

    def _rows(self, owner: str) -> Mapping[Any, Any]:
        return {} if self._table is None else self._table.rows_of(owner)

"""Verification: the router's parts are compared with each other, and repaired.

Two sources are authoritative: the subscriptions here, and the rows that other nodes own. The index, this
node's own rows, and the cache are derived from them. Every difference is counted, and repaired from its
source unless only a report was requested.

It runs in steps, because a million routes take seconds and the loop must run meanwhile. Each step reads the
current state of all parts, so changes between steps are no differences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from gossamer.routes.delivery import Delivery
from gossamer.routes.exclusive import is_exclusive
from gossamer.routes.index.index import local_of, mask_of
from gossamer.routes.resolver import Resolver
from gossamer.routes.shared import Count, Group, is_shared
from gossamer.routes.subscriptions import PERSISTENT, SubscriptionTable
from gossamer.routes.topics import InvalidTopicFilter, split_shared

_STEP = 500


@dataclass(slots=True)
class Findings:
    """Result of a verification: the number of items checked, and of differences by kind."""

    checked: int = 0
    unindexed: int = 0
    """Subscriptions here that the index lacked."""
    orphans: int = 0
    """Deliveries in the index whose subscriber is not subscribed to the filter."""
    missing_rows: int = 0
    """Filters subscribed here without a row of this node."""
    stale_rows: int = 0
    """Rows of this node without a subscriber here."""
    missing_routes: int = 0
    """Rows of other nodes that the index lacked."""
    stale_routes: int = 0
    """Nodes in the index that own no such row."""
    stale_cache: int = 0
    """Cached routes that differed from the index."""
    peers: int = 0
    """Peers that this node was compared with."""
    silent: int = 0
    """Peers that did not answer."""
    unheard: int = 0
    """Filters with subscribers at a peer that did not lead there."""
    unwanted: int = 0
    """Filters without subscribers at a peer that led there."""

    @property
    def differences(self) -> dict[str, int]:
        """Return the numbers of differences, by kind."""
        looked_at = ("checked", "peers", "silent")
        return {what: count for what, count in asdict(self).items() if count and what not in looked_at}

    @property
    def wrong(self) -> int:
        """Return the number of all differences."""
        return sum(self.differences.values())


class Verifier:
    """One verification of one router."""

    def __init__(
        self,
        findings: Findings,
        *,
        node: str,
        resolver: Resolver,
        local: SubscriptionTable,
        repair: bool,
    ) -> None:
        self._findings = findings
        self._node = node
        self._index = resolver.index
        self._shared = resolver.shared
        self._cache = resolver.cache
        self._nodes = resolver.nodes
        self._subscriptions: Mapping[object, Mapping[str, Delivery]] = local.subscribers
        self._exclusive = local.exclusive
        self._row = local.row
        self._table = local.table
        self._repair = repair

    def steps(self) -> Iterator[None]:
        """Run; yield after every few hundred checks."""
        for check, items in self._checks():
            for item in items:
                self._findings.checked += 1
                check(item)
                if self._findings.checked % _STEP == 0:
                    yield

    def _checks(self) -> Iterator[tuple[Callable[[Any], None], Iterable[Any]]]:
        # One after another, so that each sees the current state.
        for subscriber in list(self._subscriptions):
            filters = list(self._subscriptions.get(subscriber, ()))
            yield partial(self._subscription, subscriber), filters
        yield self._filter, self._index.filters()
        yield self._group, list(self._shared)
        if self._table is not None:
            yield self._own, [*self._table.rows_of(self._node), *self._exclusive.keys()]
            for owner in self._table.owners():
                if owner != self._node:
                    yield partial(self._other_row, owner), list(self._table.rows_of(owner))
        yield self._cached, list(self._cache.routes)

    def _subscription(self, subscriber: object, topic_filter: str) -> None:
        delivery = self._subscriptions.get(subscriber, {}).get(topic_filter)
        if delivery is None or delivery in self._local(topic_filter):
            return
        self._findings.unindexed += 1
        if self._repair:
            if is_shared(topic_filter):
                self._shared.join(topic_filter, delivery)
            else:
                self._index.add(topic_filter, delivery)
                self._cache.changed(topic_filter)

    def _filter(self, topic_filter: str) -> None:
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
            row = self._rows(slot.name).get(topic_filter, 0)
            wanted = slot.bit if row else 0
            if row == PERSISTENT or topic_filter in slot.expected:
                wanted |= slot.persistent_bit
            bits = slot.bit | slot.persistent_bit
            if mask & bits & ~wanted:
                self._findings.stale_routes += 1
                before = mask & slot.bit
                if self._repair and self._index.set_bits(topic_filter, bits, mask & wanted) is not None:
                    slot.routes -= bool(before & ~wanted)
                    self._cache.changed(topic_filter)

    def _group(self, group: Group) -> None:
        for subscriber, delivery in list(group.members.items()):
            if self._subscriptions.get(subscriber, {}).get(group.name) is not delivery:
                self._findings.orphans += 1
                if self._repair:
                    self._shared.leave(group.name, subscriber)
        self._own(group.name)
        for node, count in list(group.others.items()) if self._table is not None else ():
            if self._rows(node).get(group.name) != count:
                self._findings.stale_routes += 1
                if self._repair:
                    self._set_group(node, group.name, self._rows(node).get(group.name, 0))

    def _own(self, topic_filter: object) -> None:
        """Check that this node has a row of a filter exactly if it has a subscriber."""
        table = self._table
        if table is None:
            return
        wanted: object = None
        if type(topic_filter) is str and is_exclusive(topic_filter):
            wanted = self._exclusive.row(topic_filter)
        elif type(topic_filter) is str:
            here = len(tuple(self._local(topic_filter)))
            if here:
                wanted = (
                    self._shared_row(topic_filter) if is_shared(topic_filter) else self._row(topic_filter)
                )
        row = table.rows_of(self._node).get(topic_filter)
        if row == wanted:
            return
        if wanted is not None:
            self._findings.missing_rows += 1
            if self._repair:
                table.write(topic_filter, wanted)
        else:
            self._findings.stale_rows += 1
            if self._repair:
                table.delete(topic_filter)

    def _other_row(self, owner: str, topic_filter: object) -> None:
        if topic_filter not in self._rows(owner) or type(topic_filter) is not str or not topic_filter:
            return
        if is_exclusive(topic_filter):
            return
        if is_shared(topic_filter):
            self._other_group(owner, topic_filter)
            return
        slot = self._nodes.get(owner)
        mask = mask_of(self._index.get(topic_filter))
        lasts = self._rows(owner).get(topic_filter) == PERSISTENT
        if slot is not None and mask & slot.bit and (not lasts or mask & slot.persistent_bit):
            return
        self._findings.missing_routes += 1
        if self._repair:
            slot = self._nodes.slot(owner)
            bits = slot.bit | (self._nodes.persistent_bit(slot) if lasts else 0)
            self._index.set_bits(topic_filter, bits, bits)
            slot.routes += not mask & slot.bit
            self._cache.changed(topic_filter)

    def _cached(self, topic: bytes) -> None:
        route = self._cache.routes.get(topic)
        if route is None:
            return
        mask = 0
        subscribers: set[object] = set()
        for value in self._index.match(topic.decode()):
            mask |= mask_of(value)
            subscribers.update(delivery.subscriber for delivery in local_of(value))
        same = (
            mask == route.mask
            and route.groups == self._shared.match(topic.decode())
            and subscribers == {d.subscriber for d in route.deliveries}
        )
        if not same or route.peers != self._nodes.forwarders(mask):
            self._findings.stale_cache += 1
            if self._repair:
                self._cache.forget([topic])

    def _other_group(self, owner: str, name: str) -> None:
        group = self._shared.get(name)
        count = self._rows(owner)[name]
        if type(count) is not int or count <= 0 or (group is not None and group.others.get(owner) == count):
            return
        try:
            split_shared(name)
        except InvalidTopicFilter:
            return
        self._findings.missing_routes += 1
        if self._repair:
            self._set_group(owner, name, count)

    def _set_group(self, owner: str, name: str, count: int) -> None:
        before = self._shared.set_node(name, owner, count)
        self._nodes.slot(owner).routes += bool(count) - bool(before)

    def _shared_row(self, name: str) -> int:
        group = self._shared.groups[name]
        # How its members are is looked at by others; here it is whether they are.
        if Count.of(group.row).members != len(group.members):
            group.row = group.count().row()
        return group.row

    def _local(self, topic_filter: str) -> Iterable[Delivery]:
        if not is_shared(topic_filter):
            return local_of(self._index.get(topic_filter))
        group = self._shared.get(topic_filter)
        return () if group is None else group.members.values()

    def _rows(self, owner: str) -> Mapping[object, Any]:
        return {} if self._table is None else self._table.rows_of(owner)

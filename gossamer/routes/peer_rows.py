"""Routes of other nodes: their rows of the ``routes`` table, and those expected of nodes that are away.

Rules: 1. A row that no node of this version would write is counted and ignored.  2. The filters of persistent
sessions of a node that is away outlive its rows, until all its hints have been replayed to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from gossamer.mnesia_like import Change
from gossamer.routes.exclusive import is_exclusive
from gossamer.routes.forwarding.forwarding import Forwarding
from gossamer.routes.forwarding.nodes import NodeSlot
from gossamer.routes.index.index import mask_of
from gossamer.routes.resolver import Resolver
from gossamer.routes.shared import Count, is_shared
from gossamer.routes.subscriptions import PERSISTENT, SubscriptionTable
from gossamer.routes.topics import EXCLUSIVE, MAX_BYTES, InvalidTopicFilter

LONGEST_FILTER = MAX_BYTES + len(EXCLUSIVE)
"""Bytes; a longer filter matches nothing, and only a peer without limits could send it."""


class PeerRows:
    """Applies the rows of other nodes, and keeps the filters expected of those that are away."""

    def __init__(
        self,
        node: str,
        *,
        forwarding: Forwarding,
        resolver: Resolver,
        local: SubscriptionTable,
        counts: Counter[str],
    ) -> None:
        self._node = node
        self._forwarding = forwarding
        self._nodes = forwarding.nodes
        self._resolver = resolver
        self._shared, self._index, self._routes = resolver.shared, resolver.index, resolver.cache
        self._local = local
        self._counts = counts

    def apply(self, change: Change) -> None:
        """Apply a change of another node's rows of the ``routes`` table."""
        owner = change.owner
        if owner == self._node:
            return
        slot = self._nodes.slot(owner)
        if self._forwarding.links is None and not slot.up:
            # A router without links has only the rows to tell which nodes are up.
            self._forwarding.node_up(owner)
        changed: list[str] = []
        claims = False
        for rows, wants in ((change.written, True), (change.deleted, False)):
            for key in rows:
                if type(key) is not str or not key or len(key) > LONGEST_FILTER:
                    self._counts["bad_rows"] += 1
                elif key[0] == "$" and is_exclusive(key):
                    claims = True
                elif is_shared(key):
                    self._apply_shared(slot, key, change.written[key] if wants else 0)
                elif self._set(slot, key, change.written[key] if wants else 0):
                    changed.append(key)
        if claims:
            self._local.losers(owner, change.written)
        routes = self._routes
        # For a change larger than the cache it is cheaper to clear that.
        if len(changed) > len(routes.routes):
            routes.clear()
        else:
            for key in changed:
                routes.changed(key)
        self._nodes.release(slot)

    # Nodes that are away.

    def awaits(self, peer: str, topic: bytes) -> bool:
        """Return whether a persistent session of ``peer`` has a filter for a topic."""
        slot = self._nodes.get(peer)
        if slot is None or not slot.persistent_bit:
            return False
        return any(mask_of(value) & slot.persistent_bit for value in self._index.match(topic.decode()))

    def expect(self, peer: str, filters: Iterable[str]) -> None:
        """Expect these filters of persistent sessions of ``peer``, which is away: hints are kept for them."""
        slot = self._forwarding.away(peer)
        bit = self._nodes.persistent_bit(slot)
        for topic_filter in filters:
            # With a row of it there is nothing to expect, and nothing to forget once it is back.
            if is_shared(topic_filter):
                group = self._shared.get(topic_filter)
                if group is None or not Count.of(group.others.get(peer, 0)).persistent:
                    slot.expected.add(topic_filter)
                    self._shared.expect(topic_filter, peer)
            elif not mask_of(self._index.get(topic_filter)) & bit:
                slot.expected.add(topic_filter)
                if self._index.set_bits(topic_filter, bit, bit) is not None:
                    self._routes.changed(topic_filter)

    def persistent_filters(self, peer: str) -> Iterator[str]:
        """Yield the filters of persistent sessions of ``peer``, which is away, as far as they are known."""
        slot = self._nodes.get(peer)
        if slot is None or self._local.table is None:
            return
        yield from list(slot.expected)
        for key, value in list(self._local.table.rows_of(peer).items()):
            if type(key) is not str or type(value) is not int or is_exclusive(key):
                continue
            if Count.of(value).persistent if is_shared(key) else value == PERSISTENT:
                yield key

    def live(self, peer: str) -> set[str]:
        """Forward to ``peer`` directly again, as it has all its hints; forget the filters expected of it, and
        return them: its persistent sessions had them when it went, and have them no more."""
        expected = set(self._nodes.slot(peer).expected)
        slot = self._forwarding.live(peer)
        self._resolver.forget_node(slot.bit | slot.persistent_bit)
        return expected

    def forgotten(self, slot: NodeSlot) -> None:
        """Remove the filters expected of a node."""
        expected, slot.expected = slot.expected, set()
        for topic_filter in expected:
            if is_shared(topic_filter):
                self._shared.forget(topic_filter, slot.name)
                self._report_wanted(slot, topic_filter, persistent=False)
            elif self._index.set_bits(topic_filter, slot.persistent_bit, 0) is not None:
                self._routes.changed(topic_filter)
                self._report_wanted(slot, topic_filter, persistent=False)

    # Inside.

    def _set(self, slot: NodeSlot, topic_filter: str, value: object) -> bool:
        """Set the row of another node, 0 for none; return whether routes change."""
        bit = wanted = slot.bit
        if value == PERSISTENT:
            bit = wanted = bit | self._nodes.persistent_bit(slot)
        elif slot.persistent_bit:
            bit |= slot.persistent_bit
        if not value:
            wanted = 0
        if slot.away:
            if value:
                slot.expected.discard(topic_filter)
            elif slot.persistent_bit and mask_of(self._index.get(topic_filter)) & slot.persistent_bit:
                # Its rows are purged, as it is away for long or restarts; its sessions may still be there.
                slot.expected.add(topic_filter)
                wanted = slot.persistent_bit
        before = self._index.set_bits(topic_filter, bit, wanted)
        if before is None:
            return False
        slot.routes += bool(wanted & slot.bit) - bool(before & slot.bit)
        if (before ^ wanted) & slot.persistent_bit:
            self._report_wanted(slot, topic_filter, persistent=bool(wanted & slot.persistent_bit))
        return True

    def _report_wanted(self, slot: NodeSlot, topic_filter: str, *, persistent: bool) -> None:
        if self._forwarding.keeper is not None:
            self._forwarding.keeper.wanted(slot.name, topic_filter, persistent)

    def _apply_shared(self, slot: NodeSlot, name: str, value: object) -> None:
        count = value if type(value) is int and value > 0 else 0
        group = self._shared.get(name)
        before = 0 if group is None else group.others.get(slot.name, 0)
        persistent = bool(Count.of(before).persistent)
        try:
            if slot.away and persistent and not count:
                # As in ``_set``.
                slot.expected.add(name)
                self._shared.expect(name, slot.name)
            before = self._shared.set_node(name, slot.name, count)
        except InvalidTopicFilter:
            self._counts["bad_rows"] += 1
            return
        slot.routes += bool(count) - bool(before)
        if count:
            slot.expected.discard(name)
        if persistent is not bool(Count.of(count).persistent) and name not in slot.expected:
            self._report_wanted(slot, name, persistent=not persistent)

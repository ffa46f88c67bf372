"""The router of a node: the receivers of a topic in one look-up, and the changes that keep it right.

The publish path reads ``router.cache.get(topic)``; on a miss, ``router.resolve(topic)`` matches once and
fills the cache. While a :class:`Route` is in the cache it equals the brute-force result over all
subscriptions; a change removes it before the change returns.

::

    subscribe → index (here) + cache ─┐  first subscriber of a filter here: row in the ``routes`` table
    rows of other nodes → index ──────┤
    node up, node down ───────────────┴→ concerned routes leave the cache

Rules: 1. Methods are synchronous, run in the caller's turn and never block; the router is the table that
:class:`gossamer.routes.owner.RouteOwner` owns, and survives a restart of that process.  2. A row exists
exactly while this node has a subscriber of its filter.  3. A node that is down is not forwarded to.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator

import structlog

from gossamer.config import MqttConfig
from gossamer.distribution import Distribution
from gossamer.mnesia_like import OwnedTable
from gossamer.routes.audit.peers import Ask, PeerAudit
from gossamer.routes.audit.verify import Findings, Verifier
from gossamer.routes.delivery import Delivery
from gossamer.routes.exclusive import ExclusiveClaims
from gossamer.routes.forwarding.forwarder import Forwarder
from gossamer.routes.forwarding.forwarding import Forwarding, Held
from gossamer.routes.peer_rows import PeerRows
from gossamer.routes.resolver import Resolver, Route
from gossamer.routes.shared import Group
from gossamer.routes.subscriptions import SubscriptionTable
from gossamer.routes.topics import (
    TopicLimits,
    filters_matching,
)

log = structlog.get_logger(__name__)


class Router:
    """Routing of one node. ``schedule`` runs a function at the end of the turn.

    ``cache_limit`` in topics, ``high_water`` in bytes a peer.
    """

    def __init__(
        self,
        node: str,
        *,
        config: MqttConfig | None = None,
        schedule: Callable[[Callable[[], None]], object] | None = None,
        cache_limit: int = 131_072,
        high_water: int = 8 * 1024 * 1024,
        wall: Callable[[], float] = time.time,
        rng: random.Random | None = None,
    ) -> None:
        config = config or MqttConfig()
        limits = TopicLimits(
            max_levels=config.limits.max_topic_levels, max_bytes=config.limits.max_topic_bytes, inside=True
        )
        self.node = node
        self.counts: Counter[str] = Counter()
        """``visible_timeouts``, ``bad_rows``, ``frames_in``, ``bytes_in``."""
        self._visible_timeout = config.limits.subscribe_wait
        self._forwarding = Forwarding(
            schedule=schedule,
            changed=lambda bit: self._resolver.forget_node(bit),
            forgotten=lambda slot: self._rows.forgotten(slot),
            counts=self.counts,
            high_water=high_water,
            sync=config.forwarding == "sync",
        )
        forwarding = self._forwarding
        self._nodes = forwarding.nodes
        self._resolver = Resolver(
            limits=limits,
            cache_limit=cache_limit,
            nodes=self._nodes,
            strategy=config.shared_subscription_strategy,
            rng=rng or random.Random(),
            up=self._forwarding.is_up,
        )
        self._shared = self._resolver.shared
        self._index = self._resolver.index
        self._routes = self._resolver.cache
        self.cache: dict[bytes, Route] = self._routes.routes
        """Route by topic; always the same dictionary."""
        self.resolve = self._resolver.resolve
        """:meth:`Resolver.resolve`."""
        self.forget_routes = self._routes.clear
        """Have every topic resolved anew."""
        exclusive = ExclusiveClaims(node, limit=config.limits.max_exclusive, wall=wall)
        self._local = local = SubscriptionTable(self._resolver, exclusive, limits=limits, counts=self.counts)
        self._rows = rows = PeerRows(
            node, forwarding=forwarding, resolver=self._resolver, local=local, counts=self.counts
        )
        self._table: OwnedTable | None = None
        self._offer(forwarding, local, rows)

    def _offer(self, forwarding: Forwarding, local: SubscriptionTable, rows: PeerRows) -> None:
        """Offer the methods of the parts under their own names, without a call in between."""
        # Other nodes, as :class:`Forwarding` explains it.
        self.node_up, self.node_down = forwarding.node_up, forwarding.node_down
        self.on_forward = forwarding.on_forward
        self.on_group_lost = forwarding.on_group_lost
        self.on_congestion = forwarding.on_congestion
        self.on_dropped = forwarding.on_dropped
        self.refresh_with = forwarding.refresh_with
        self.keep_with, self.gone = forwarding.keep_with, forwarding.gone
        self.on_kept, self.to_kept = forwarding.on_kept, forwarding.to_kept
        self.arrived = forwarding.last_frames
        # Subscribing, as :class:`SubscriptionTable` explains it.
        self.subscribe = local.subscribe
        self.unsubscribe = local.unsubscribe
        self.unsubscribe_all = local.unsubscribe_all
        self.subscriptions = local.subscriptions
        self.on_evicted, self.on_stuck = local.on_evicted, local.on_stuck
        self.refresh_groups = local.refresh_groups
        # Routes of other nodes, as :class:`PeerRows` explains it.
        self.apply, self.live = rows.apply, rows.live
        self.awaits, self.expect, self.persistent_filters = rows.awaits, rows.expect, rows.persistent_filters

    # The publish path.

    def filters_of(self, topic: str) -> list[str]:
        """Return the filters of this node's subscribers that match a topic; for recorders, once a plan."""
        return [text for text in filters_matching(topic) if self._index.local_count(text)]

    def pick(
        self, group: Group, publisher: str, topic: str, *, online: bool = False, besides: str | None = None
    ) -> Delivery | Forwarder | None:
        """Choose the receiver of a message for a share group: a member here, a forwarder to another node, or
        None. ``online``: only members that are connected; ``besides``: not those of that node.
        """
        chosen = group.pick(publisher, topic, online=online, besides=besides)
        return self._forwarding.to_group(chosen, group.name) if isinstance(chosen, str) else chosen

    def is_visible(self, seq: int | None) -> bool:
        """Return whether every live node has applied the write ``seq``; True for None."""
        return seq is None or self._table is None or self._table.is_visible(seq)

    def when_visible(self, seq: int | None, then: Callable[[bool], object], *, bounded: bool = True) -> None:
        """Call ``then(True)`` once :meth:`is_visible`, perhaps at once; after ``subscribe_wait``, counted and
        logged, ``then(False)``. Not ``bounded``: without limit, as a node that is silent is declared down.
        """
        if seq is None or self._table is None or self._table.is_visible(seq):
            then(True)
            return
        number = seq
        seen = self._table.when_visible(number, self._visible_timeout if bounded else None)
        seen.add_done_callback(lambda seen: then(self._confirmed(number, seen.result())))

    async def visible(self, seq: int | None) -> bool:
        """Wait for :meth:`is_visible`, at most ``subscribe_wait``; False, counted and logged: in vain."""
        if seq is None or self._table is None:
            return True
        return self._confirmed(seq, await self._table.visible(seq, self._visible_timeout))

    def _confirmed(self, seq: int, visible: bool) -> bool:
        if not visible:
            self.counts["visible_timeouts"] += 1
            missing, waited = self.unconfirmed(seq), self._visible_timeout
            log.warning("route_not_visible", seq=seq, waited=waited, unconfirmed=missing)
        return visible

    @property
    def latest(self) -> int:
        """Sequence number of this node's latest write."""
        return self._local.latest

    def unconfirmed(self, seq: int) -> list[str]:
        """Return the live nodes that have not applied the write ``seq``."""
        return [] if self._table is None else self._table.behind(seq)

    # Other nodes.

    def attach(self, table: OwnedTable, links: Distribution | None = None) -> None:
        """Write rows to ``table``, whose events go to :meth:`apply`, and forward over ``links``; called
        whenever the route owner starts."""
        self._table = self._local.table = table
        if links is not None:
            self._forwarding.attach(links)

    def on_group_forward(self, callback: Callable[[str, Group, bytes], Held | None]) -> None:
        """Call ``callback(peer, group, records)`` with forwards of other nodes for a share group here.

        Each record is for one member: ``group.pick_here(publisher, topic)``; if none is left, :meth:`pick`
        with ``besides`` the peer, which may have an outdated row.
        """

        def take(peer: str, name: str, records: bytes) -> Held | None:
            group = self._shared.get(name)
            if group is None:
                self.counts["group_frames_dropped"] += 1
                return None
            return callback(peer, group, records)

        self._forwarding.on_group_forward(take)

    def group(self, name: str) -> Group | None:
        """Return the share group of ``$share/group/filter``, if it has a member on any node."""
        return self._shared.get(name)

    def expects(self, name: str) -> bool:
        """Return whether a share group has persistent members on nodes that are away."""
        group = self._shared.get(name)
        return group is not None and group.expects()

    # Introspection and verification.

    def verify(self, *, repair: bool = True) -> Findings:
        """Compare index, cache, rows and subscriptions with each other; see
        :mod:`gossamer.routes.audit.verify`."""
        findings = Findings()
        for _ in self.verify_steps(findings, repair=repair):
            pass
        return findings

    def verify_steps(self, findings: Findings, *, repair: bool = True) -> Iterator[None]:
        """Do the same in steps of about a millisecond; anything may change between them."""
        for owner in () if self._table is None else self._table.owners():
            if self._table is not None and owner != self.node:
                self._local.losers(owner, self._table.rows_of(owner))
        return Verifier(
            findings, node=self.node, resolver=self._resolver, local=self._local, repair=repair
        ).steps()

    def peer_audit(self, table: OwnedTable, ask: Ask) -> PeerAudit:
        """Return the comparison of this node's routes with its peers'; see
        :mod:`gossamer.routes.audit.peers`."""
        return PeerAudit(self.node, resolver=self._resolver, row=self._local.row, table=table, ask=ask)

    def routes(self) -> Iterator[tuple[str, list[str], int]]:
        """Yield every filter, the other nodes with a route for it, and the number of its subscribers here."""
        slots = list(self._nodes)
        # A filter that is only expected of a node that is away is no route.
        plain = sum(slot.bit for slot in slots)
        for topic_filter, mask, deliveries in self._index.items():
            if not (mask & plain or deliveries):
                continue
            yield topic_filter, [slot.name for slot in slots if slot.bit & mask], len(deliveries)

    def forwarders(self) -> dict[str, Forwarder]:
        """Return the forwarder of every known node, by name."""
        return {slot.name: slot.forwarder for slot in self._nodes}

    def stats(self) -> dict[str, int]:
        """Return sizes and counts, by metric."""
        return {
            "filters": len(self._index),
            "groups": len(self._shared),
            "exclusive": len(self._local.exclusive),
            "subscribers": len(self._local.subscribers),
            "subscriptions": sum(map(len, self._local.subscribers.values())),
            "nodes": len(self._nodes),
            "cached_topics": len(self.cache),
            **{f"index_{part}": size for part, size in self._index.stats().items()},
            **{f"cache_{what}": count for what, count in self._routes.counts.items()},
            **{f"forward_{what}": count for what, count in self._nodes.counts().items()},
            "resolved": self._resolver.resolved,
            **self.counts,
        }

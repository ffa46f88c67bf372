"""The router of a node: who gets a topic, in one look-up; and the changes that make it so.

The publish path reads ``router.cache.get(topic)``; on a miss, ``router.resolve(topic)`` matches once and
fills the cache. A :class:`Route` is a promise: it is what the brute-force reading of all subscriptions
would give, for as long as it is in the cache; whatever changes takes it out before the change returns.

::

    subscribe → index (here) + cache ─┐  first subscriber of a filter here: row in the ``routes`` table
    rows of other nodes → index ──────┤
    node up, node down ───────────────┴→ concerned routes leave the cache

Rules: 1. Methods are synchronous, run in the caller's turn and never block; the router is the table that
:class:`gossamer.routes.owner.RouteOwner` owns, and lives on when that process is restarted.  2. A row
exists exactly while this node has a subscriber of its filter.  3. A node that is down is not forwarded to.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import structlog

from gossamer.distribution import Gap, NodeDown, NodeUp, PeerGoneError
from gossamer.routes.cache import RouteCache
from gossamer.routes.delivery import Delivery, Options, Subscriber, delivery_of, merge
from gossamer.routes.forwarder import Forwarder
from gossamer.routes.index import Entry, RouteIndex
from gossamer.routes.nodes import NodeTable
from gossamer.routes.ports import DataLinks, RouteTable
from gossamer.routes.topics import DEFAULT_LIMITS, TopicLimits, parse_filter, parse_name
from gossamer.routes.verify import Findings, Verifier

__all__ = ["Route", "Router", "Subscribed"]

log = structlog.get_logger(__name__)

DATA = "data"
_PRESENT = 1


class Route:
    """Who gets one topic. Replaced, never changed; ``plan`` is for whoever delivers."""

    __slots__ = ("deliveries", "mask", "peers", "plan")

    def __init__(self, deliveries: tuple[Delivery, ...], peers: tuple[Forwarder, ...], mask: int) -> None:
        self.deliveries = deliveries
        self.peers = peers
        self.mask = mask
        """Every node that wants it, also those that are down."""
        self.plan: Any = None


class Subscribed(msgspec.Struct, frozen=True):
    """``existing``: the subscription was there and has these options now. ``seq``: what to wait for with
    :meth:`Router.visible`; None where every node knows already. Later numbers are larger."""

    existing: bool
    seq: int | None


class Router:
    """See the module. ``node`` is this node's name, ``schedule`` runs a function at the end of the turn."""

    def __init__(
        self,
        node: str,
        *,
        schedule: Callable[[Callable[[], None]], object] | None = None,
        limits: TopicLimits = DEFAULT_LIMITS,
        cache_limit: int = 131_072,
        visible_timeout: float = 2.0,
        frame_bytes: int = 256 * 1024,
        high_water: int = 8 * 1024 * 1024,
        lost_is_safe: bool = True,
    ) -> None:
        self.node = node
        self.counts: Counter[str] = Counter()
        """``resolved`` topics, ``visible_timeouts``, ``bad_rows``, ``frames_in``, ``bytes_in``."""
        self._schedule = schedule or _end_of_turn
        self._limits = limits
        self._visible_timeout = visible_timeout
        self._forwarding = {
            "frame_bytes": frame_bytes,
            "high_water": high_water,
            "lost_is_safe": lost_is_safe,
        }
        self._index = RouteIndex()
        self._routes = RouteCache(limit=cache_limit)
        self.cache: dict[bytes, Route] = self._routes.routes
        """Topic to route; the same dictionary for the life of the router."""
        self._subscriptions: dict[Any, dict[str, Delivery]] = {}
        self._nodes = NodeTable(self._make_forwarder)
        # Routes without deliveries here differ by their nodes alone and are shared by topics.
        self._remote_routes: dict[int, Route] = {}
        self._table: RouteTable | None = None
        self._links: DataLinks | None = None
        self._seq = 0
        self._forward: Callable[[str, bytes], Any] | None = None
        self._congestion: list[Callable[[str, bool], Any]] = []

    # The publish path.

    def resolve(self, topic: bytes) -> Route:
        """The route of a topic that is not in the cache, from now on it is.

        Raises:
            InvalidTopicName: it is no topic name.
        """
        name = parse_name(topic, self._limits)
        mask = 0
        deliveries: list[Delivery] = []
        for value in self._index.match(name):
            if type(value) is int:
                mask |= value
            elif type(value) is Delivery:
                deliveries.append(value)
            elif type(value) is Entry:
                mask |= value.mask
                deliveries.extend(value.local.values())
        if not deliveries:
            route = self._remote_routes.get(mask)
            if route is None:
                if len(self._remote_routes) >= 4096:
                    self._remote_routes.clear()
                route = self._remote_routes[mask] = Route((), self._nodes.forwarders(mask), mask)
        else:
            merged = tuple(deliveries) if len(deliveries) == 1 else merge(deliveries)
            route = Route(merged, self._nodes.forwarders(mask), mask)
        self._routes.put(topic, route)
        self.counts["resolved"] += 1
        return route

    # Subscriptions of this node.

    def subscribe(self, topic_filter: str, subscriber: Subscriber, options: Options) -> Subscribed:
        """Subscribe, or change the options of a subscription.

        Raises:
            InvalidTopicFilter: it is no topic filter; nothing changed.
        """
        text = parse_filter(topic_filter, self._limits)
        mine = self._subscriptions.get(subscriber)
        if mine is None:
            mine = self._subscriptions[subscriber] = {}
        known = mine.get(text)
        if known is not None and known.asks(options):
            return Subscribed(True, self._unseen())
        # A subscriber's filters mostly have the same options and then share one delivery.
        latest = next(reversed(mine.values())) if mine else None
        delivery = latest if latest is not None and latest.asks(options) else delivery_of(subscriber, options)
        first = self._index.add(text, delivery)
        if first and self._table is not None:
            try:
                self._seq = self._table.write(text, _PRESENT)
            except BaseException:
                self._index.discard(text, subscriber)
                if not mine:
                    del self._subscriptions[subscriber]
                raise
        mine[text] = delivery
        self._routes.changed(text)
        return Subscribed(known is not None, self._unseen())

    def unsubscribe(self, topic_filter: str, subscriber: Subscriber) -> bool:
        """End a subscription; False if there was none."""
        mine = self._subscriptions.get(subscriber)
        if mine is None or mine.pop(topic_filter, None) is None:
            return False
        if not mine:
            del self._subscriptions[subscriber]
        self._leave(topic_filter, subscriber)
        return True

    def unsubscribe_all(self, subscriber: Subscriber) -> int:
        """End all subscriptions of a subscriber; how many there were."""
        mine = self._subscriptions.pop(subscriber, None)
        if mine is None:
            return 0
        for topic_filter in mine:
            self._leave(topic_filter, subscriber)
        return len(mine)

    def subscriptions(self, subscriber: Subscriber) -> dict[str, Delivery]:
        """The filters of a subscriber and how it wants them."""
        return dict(self._subscriptions.get(subscriber, {}))

    def is_visible(self, seq: int | None) -> bool:
        """Whether every live node has applied what ``seq`` stands for."""
        return seq is None or self._table is None or self._table.is_visible(seq)

    async def visible(self, seq: int | None) -> bool:
        """Wait for :meth:`is_visible`, a bounded time; False, counted and logged, where it took longer."""
        if seq is None or self._table is None or self._table.is_visible(seq):
            return True
        if await self._table.visible(seq, timeout=self._visible_timeout):
            return True
        self.counts["visible_timeouts"] += 1
        log.warning("route_not_visible", seq=seq, waited=self._visible_timeout)
        return False

    # Other nodes.

    def attach(self, table: RouteTable, links: DataLinks | None = None) -> None:
        """Write rows to ``table``, whose events are given to :meth:`apply`, and forward over ``links``.

        The route owner calls this whenever it starts; the second time nothing is left to do.
        """
        self._table = table
        if links is None or self._links is links:
            return
        self._links = links
        links.on_ack(DATA, self._acked)
        links.on_gap(DATA, self._gap)
        links.subscribe(self._node_event)
        if self._forward is not None:
            links.on_frame(DATA, self._receive)

    def on_forward(self, callback: Callable[[str, bytes], Any]) -> None:
        """Call ``callback(peer, records)`` with what other nodes forward: their records, joined, in order."""
        first = self._forward is None
        self._forward = callback
        if first and self._links is not None:
            self._links.on_frame(DATA, self._receive)

    def on_congestion(self, callback: Callable[[str, bool], Any]) -> None:
        """Call ``callback(peer, congested)`` when a peer falls behind and when it has caught up."""
        self._congestion.append(callback)

    def apply(self, change: Any) -> None:
        """Rows of the ``routes`` table changed."""
        owner: str = change.owner
        if owner == self.node:
            return
        slot = self._nodes.slot(owner)
        if self._links is None and not slot.up:
            # A router without links takes the rows for all there is to know.
            self.node_up(owner)
        index, bit = self._index, slot.bit
        changed: list[str] = []
        for keys, wants in ((change.written, True), (change.deleted, False)):
            before = len(changed)
            for key in keys:
                if type(key) is not str or not key:
                    self.counts["bad_rows"] += 1
                elif index.set_node(key, bit, wants):
                    changed.append(key)
            slot.routes += len(changed) - before if wants else before - len(changed)
        routes = self._routes
        # A change larger than the cache is cheaper to forget everything for.
        if len(changed) > len(routes.routes):
            routes.clear()
        else:
            for key in changed:
                routes.changed(key)
        self._nodes.release(slot)

    def node_up(self, name: str) -> None:
        """Forward to ``name``."""
        slot = self._nodes.set_up(name, True)
        if slot is not None:
            self._forget_bit(slot.bit)

    def node_down(self, name: str) -> None:
        """``name`` is declared down: forward nothing to it, and answer for what was."""
        slot = self._nodes.set_up(name, False)
        if slot is not None:
            self._forget_bit(slot.bit)

    # Looking in, and after.

    def verify(self, *, repair: bool = True) -> Findings:
        """Hold index, cache, rows and subscriptions against each other; see :mod:`gossamer.routes.verify`."""
        findings = Findings()
        for _ in self.verify_steps(findings, repair=repair):
            pass
        return findings

    def verify_steps(self, findings: Findings, *, repair: bool = True) -> Iterator[None]:
        """The same in steps of about a millisecond; anything may change between them."""
        verifier = Verifier(
            findings,
            node=self.node,
            index=self._index,
            cache=self._routes,
            nodes=self._nodes,
            subscriptions=self._subscriptions,
            table=self._table,
            repair=repair,
        )
        return verifier.steps()

    def routes(self) -> Iterator[tuple[str, list[str], int]]:
        """Every filter, the other nodes that want it, and the number of its subscribers here."""
        slots = list(self._nodes)
        for topic_filter, mask, deliveries in self._index.items():
            yield topic_filter, [slot.name for slot in slots if slot.bit & mask], len(deliveries)

    def forwarders(self) -> dict[str, Forwarder]:
        """The forwarder of every node that is known."""
        return {slot.name: slot.forwarder for slot in self._nodes}

    def stats(self) -> dict[str, int]:
        """Sizes and counts."""
        return {
            "filters": len(self._index),
            "subscribers": len(self._subscriptions),
            "subscriptions": sum(map(len, self._subscriptions.values())),
            "nodes": len(self._nodes),
            "cached_topics": len(self.cache),
            **{f"index_{part}": size for part, size in self._index.stats().items()},
            **{f"cache_{what}": count for what, count in self._routes.counts.items()},
            **self.counts,
        }

    # Inside.

    def _leave(self, topic_filter: str, subscriber: Any) -> None:
        last = self._index.discard(topic_filter, subscriber)
        self._routes.changed(topic_filter)
        if last and self._table is not None:
            self._seq = self._table.delete(topic_filter)

    def _unseen(self) -> int | None:
        if self._table is None or self._table.is_visible(self._seq):
            return None
        return self._seq

    def _make_forwarder(self, name: str) -> Forwarder:
        def send(frame: bytes, reliable: bool) -> int:
            if self._links is None:
                raise PeerGoneError(name)
            return self._links.send(name, DATA, frame, reliable)

        options: dict[str, Any] = self._forwarding
        forwarder = Forwarder(name, send=send, schedule=self._schedule, congestion=self._congested, **options)
        # Rows may come before the link is up.
        forwarder.up = False
        return forwarder

    def _forget_bit(self, bit: int) -> None:
        """A node came or went: forget the routes that lead to it."""
        self._remote_routes.clear()
        self._routes.forget([topic for topic, route in self.cache.items() if route.mask & bit])

    def _congested(self, forwarder: Forwarder, congested: bool) -> None:
        log.info("forward_congestion", peer=forwarder.peer, congested=congested)
        for callback in self._congestion:
            callback(forwarder.peer, congested)

    def _node_event(self, event: NodeUp | NodeDown) -> None:
        if isinstance(event, NodeUp):
            self.node_up(event.name)
        else:
            self.node_down(event.name)

    def _acked(self, peer: str, number: int) -> None:
        slot = self._nodes.get(peer)
        if slot is not None:
            slot.forwarder.acked(number)

    def _gap(self, gap: Gap) -> None:
        if gap.side == "receive":
            self.counts["gaps_in"] += 1
            return
        slot = self._nodes.get(gap.peer)
        if slot is not None:
            slot.forwarder.lost(gap.last)

    def _receive(self, frame: Any) -> None:
        self.counts["frames_in"] += 1
        self.counts["bytes_in"] += len(frame.payload)
        if self._forward is not None:
            self._forward(frame.peer, frame.payload)
        if self._links is not None:
            self._links.done(frame)


def _end_of_turn(function: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_soon(function)

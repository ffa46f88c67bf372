"""A plan: one route compiled for the wire.

It has the sessions by protocol version and QoS, and the receivers that need a message of their own. A route
is replaced when anything about it changes, and its plan with it.
"""

from __future__ import annotations

from gossamer.mqtt.codec.packets import V4, V5
from gossamer.mqtt.flow.wide_fanout import SLICE
from gossamer.mqtt.messages.ports import ForwarderLike
from gossamer.mqtt.session.session import Session
from gossamer.routes import Delivery, Route


class Audience:
    """Sessions of one protocol version that take packets encoded for all of them."""

    __slots__ = ("alone", "everyone", "pure", "qos0", "qos1", "sole")

    def __init__(self, qos0: list[Session], qos1: list[Session]) -> None:
        self.qos0 = tuple(qos0)
        self.qos1 = tuple(qos1)
        self.everyone = self.qos0 + self.qos1
        self.alone = False
        """There are no other receivers: the publisher's packet of QoS 0 serves all."""
        self.pure = False
        """There are no other receivers, and all take QoS 1: the publisher's packet serves them."""
        self.sole: Session | None = None
        """The session, if it is the only receiver, as for most topics of most devices."""


class Plan:
    """One route compiled for the wire; see the module.

    It has no reference to its route: without a cycle a route is freed at once when its last topic leaves the
    cache, so that a void plan is never found.
    """

    __slots__ = (
        *("_local", "breadth", "deliveries", "facts", "groups", "is_wide", "nobody", "peers", "sessions"),
        *("special", "v4", "v5", "waits"),
    )

    def __init__(
        self, deliveries: tuple[Delivery, ...], peers: tuple[ForwarderLike, ...], groups: tuple[object, ...]
    ) -> None:
        lists: dict[tuple[int, bool], list[Session]] = {(v, q): [] for v in (V4, V5) for q in (False, True)}
        special: list[Delivery] = []
        durable: list[Session] = []
        for delivery in deliveries:
            session = delivery.subscriber
            known = isinstance(session, Session)
            if known and delivery.qos and session.store is not None:
                durable.append(session)
            if known and session.plain and not (delivery.no_local or delivery.identifiers or delivery.own):
                lists[session.version, delivery.qos > 0].append(session)
            else:
                special.append(delivery)
        self.deliveries = deliveries
        self.nobody = False
        """No subscription in the cluster matches, as far as this node knows."""
        self.v4 = Audience(lists[V4, False], lists[V4, True])
        self.v5 = Audience(lists[V5, False], lists[V5, True])
        self.special = tuple(special)
        """Deliveries that need a message of their own."""
        everyone = self.v4.everyone + self.v5.everyone
        # Not every subscriber can be behind: some are plain functions.
        others = tuple(d.subscriber for d in special if hasattr(d.subscriber, "behind"))
        self.sessions = everyone + others
        self.breadth = len(everyone) + len(special)
        self.peers = peers
        stores = {session.store for session in durable}
        self.waits: tuple[ForwarderLike, ...] = (*peers, *[one.of(durable) for one in stores if one])
        """Peers that must have a message of QoS 1 before it is acknowledged: other nodes, and the disc."""
        # One that is out only after some turns is waited for as well.
        widest = max((self.v4.qos1, self.v5.qos1, everyone if len(special) > SLICE else ()), key=len)
        self.is_wide = len(widest) > SLICE
        if self.is_wide:
            self.waits += (widest[0].fanout.wide,)
        # Share groups: another member for each message, so such topics have no fast path.
        self.groups = groups
        for mine, other in ((self.v4, self.v5), (self.v5, self.v4)):
            alone = not (special or other.everyone)
            mine.pure = alone and bool(mine.qos1) and not (mine.qos0 or self.waits)
            mine.alone = alone and not peers
            if mine.alone and len(mine.everyone) == 1:
                mine.sole = mine.everyone[0]
        self._local: Plan | None = None
        self.facts: object = None
        """The recorder's data for it."""

    def local(self) -> Plan:
        """Return the plan without peers and groups, for messages that a peer sent."""
        if self._local is None:
            self._local = Plan(self.deliveries, (), ())
        return self._local


def compile_plan(route: Route) -> Plan:
    """Return the plan of a route; make it if there is none."""
    plan = route.plan
    if plan is None:
        # A topic that queues capture has no fast path either.
        plan = route.plan = Plan(route.deliveries, tuple(route.peers), route.groups or route.captured)
        # A node that is down, and has a subscriber, is among no peers.
        plan.nobody = not (plan.deliveries or plan.peers or plan.groups or route.mask)
    return plan  # type: ignore[no-any-return]

"""Delivery of a message to one subscriber, and the merging of overlapping subscriptions.

Rules (MQTT 5.0 section 3.3.4): a subscriber whose filters overlap gets one copy, at the highest quality of
service of all that match and with the identifiers of all of them; RETAIN is kept as published if any
subscription has that option. One with no local ([MQTT-3.8.3-3]) does not match messages of its own client:
these come by the other subscriptions alone, and without any the client does not get them.

Many filters of one subscriber share one :class:`Delivery`, which does not name its filter: 200,000
subscriptions of 100 clients need 100 of them.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Protocol

import msgspec


class Subscriber(Protocol):
    """Receiver of messages, compared by identity. Share groups choose by its properties."""

    @property
    def online(self) -> bool:
        """Return whether it is connected."""

    @property
    def ready(self) -> bool:
        """Return whether it would take a message at once."""

    @property
    def queue(self) -> Collection[object]:
        """Messages that wait for it."""

    @property
    def delivered(self) -> int:
        """Count of its progress: it stays while the subscriber takes nothing of what it was given."""

    def deliver(self, message: Any, delivery: Any, /) -> object:
        """Take a message. Must not block, raise or change subscriptions."""


class SubscriptionOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a subscription."""

    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    identifier: int | None = None
    persistent: bool = False
    """The subscriber outlives its connection and its node: messages are kept for it while that is away."""

    @property
    def identifiers(self) -> tuple[int, ...]:
        """Subscription identifier as a tuple of none or one, as in :class:`Delivery`."""
        return () if self.identifier is None else (self.identifier,)


class Delivery(msgspec.Struct, frozen=True, eq=False, gc=False):
    """Options by which ``subscriber`` takes a message. Compared by identity."""

    # Not tracked by the garbage collector: there are as many as subscribers, and they own nothing.
    subscriber: Any
    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    identifiers: tuple[int, ...] = ()
    persistent: bool = False
    own: Delivery | None = None
    """Delivery of its own messages, if some but not all of the subscriptions have no local."""

    def asks(self, options: SubscriptionOptions) -> bool:
        """Return whether this delivery has these options."""
        return (
            self.qos == options.qos
            and self.no_local == options.no_local
            and self.retain_as_published == options.retain_as_published
            and self.persistent == options.persistent
            and self.identifiers == options.identifiers
        )


def delivery_of(subscriber: Subscriber, options: SubscriptionOptions) -> Delivery:
    """Return the delivery of one subscription."""
    return Delivery(
        subscriber,
        options.qos,
        options.no_local,
        options.retain_as_published,
        options.identifiers,
        options.persistent,
    )


def merge(deliveries: list[Delivery]) -> tuple[Delivery, ...]:
    """Return one delivery for each subscriber, in the order in which subscribers first come."""
    merged: dict[object, Delivery] = {delivery.subscriber: delivery for delivery in deliveries}
    if len(merged) == len(deliveries):
        return tuple(deliveries)
    parts: dict[object, dict[Delivery, None]] = {}
    for delivery in deliveries:
        parts.setdefault(delivery.subscriber, {})[delivery] = None
    return tuple(_together(list(several)) for several in parts.values())


def _together(several: list[Delivery]) -> Delivery:
    first = several[0]
    if len(several) == 1:
        return first
    own = [delivery for delivery in several if not delivery.no_local]
    return Delivery(
        first.subscriber,
        max(delivery.qos for delivery in several),
        not own,
        any(delivery.retain_as_published for delivery in several),
        tuple(dict.fromkeys(number for delivery in several for number in delivery.identifiers)),
        any(delivery.persistent for delivery in several),
        _together(own) if 0 < len(own) < len(several) else None,
    )

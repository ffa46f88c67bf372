"""How one subscriber takes a message, and how overlapping subscriptions become one.

Rules (MQTT 5.0 section 3.3.4): a subscriber whose filters overlap gets one copy, at the highest quality of
service of all that match and with the identifiers of all of them. Its own messages are kept from it only
where every matching subscription says so; RETAIN is kept as published where any does.

Many filters of one subscriber share one :class:`Delivery`, which does not name its filter: 200,000
subscriptions of 100 clients need 100 of them.
"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

__all__ = ["Delivery", "Options", "Subscriber", "SubscriptionOptions", "delivery_of", "merge"]


class Subscriber(Protocol):
    """Whoever takes messages; known by identity."""

    def deliver(self, message: Any, delivery: Any, /) -> Any:
        """Take a message. Must not block, raise or change subscriptions."""


class Options(Protocol):
    """What a subscription asks for."""

    @property
    def qos(self) -> int: ...

    @property
    def no_local(self) -> bool: ...

    @property
    def retain_as_published(self) -> bool: ...

    @property
    def identifier(self) -> int | None: ...
    @property
    def lasting(self) -> bool: ...


class SubscriptionOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a subscription asks for; anything with these attributes will do."""

    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    identifier: int | None = None
    lasting: bool = False
    """The subscriber outlives its connection and its node: what comes while that is away is kept for it."""


class Delivery(msgspec.Struct, frozen=True, eq=False, gc=False):
    """How ``subscriber`` takes a message. Compared by identity."""

    # Not tracked by the garbage collector: there are as many as subscribers, and they own nothing.
    subscriber: Any
    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    identifiers: tuple[int, ...] = ()
    lasting: bool = False

    def asks(self, options: Options) -> bool:
        """Whether these options are what this delivery stands for."""
        return (
            self.qos == options.qos
            and self.no_local == options.no_local
            and self.retain_as_published == options.retain_as_published
            and self.lasting == options.lasting
            and self.identifiers == (() if options.identifier is None else (options.identifier,))
        )


def delivery_of(subscriber: Subscriber, options: Options) -> Delivery:
    """The delivery of one subscription."""
    return Delivery(
        subscriber,
        options.qos,
        options.no_local,
        options.retain_as_published,
        _identifiers(options),
        options.lasting,
    )


def merge(deliveries: list[Delivery]) -> tuple[Delivery, ...]:
    """One delivery a subscriber, in the order in which subscribers first come."""
    merged: dict[Any, Delivery] = {delivery.subscriber: delivery for delivery in deliveries}
    if len(merged) == len(deliveries):
        return tuple(deliveries)
    merged = {}
    for delivery in deliveries:
        subscriber = delivery.subscriber
        known = merged.get(subscriber)
        if known is None:
            merged[subscriber] = delivery
        elif known is not delivery:
            merged[subscriber] = Delivery(
                subscriber,
                max(known.qos, delivery.qos),
                known.no_local and delivery.no_local,
                known.retain_as_published or delivery.retain_as_published,
                known.identifiers
                + tuple(number for number in delivery.identifiers if number not in known.identifiers),
                known.lasting or delivery.lasting,
            )
    return tuple(merged.values())


def _identifiers(options: Options) -> tuple[int, ...]:
    return () if options.identifier is None else (options.identifier,)

"""What happens to the store as a whole: Mnesia's system events, as values.

Rules: 1. A subscriber is called in the turn of the event, after it is in effect, and must not block. One that
was made in a process dies with it; of any other an exception is logged and ends the subscription.  2. Nobody
subscribed: an event costs one look.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import structlog

__all__ = [
    "CopyAdded",
    "CopyDropped",
    "InconsistentDatabase",
    "Overload",
    "SchemaConflict",
    "StoreDown",
    "StoreUp",
    "SystemEvent",
    "SystemEvents",
    "SystemSubscription",
    "TableCreated",
    "TableDeleted",
]

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class TableCreated:
    """The schema has a new table; or this node has made one for itself."""

    table: str


@dataclass(frozen=True, slots=True)
class TableDeleted:
    """The table is gone from the schema; or this node has dropped what it had made for itself."""

    table: str


@dataclass(frozen=True, slots=True)
class CopyAdded:
    """``node`` has a copy of ``table`` now."""

    table: str
    node: str


@dataclass(frozen=True, slots=True)
class CopyDropped:
    """``node`` has no copy of ``table`` any more."""

    table: str
    node: str


@dataclass(frozen=True, slots=True)
class StoreUp:
    """The store of ``node`` can be reached (``mnesia_up``)."""

    node: str
    creation: int


@dataclass(frozen=True, slots=True)
class StoreDown:
    """The store of ``node`` cannot be reached (``mnesia_down``); ``left``: and it will not come back."""

    node: str
    left: bool


@dataclass(frozen=True, slots=True)
class SchemaConflict:
    """This node's table is not the schema's of that name: their rows are kept apart."""

    table: str
    differences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class InconsistentDatabase:
    """This node and ``node`` held each other for dead and meet again; told by who watches for splits."""

    context: str
    node: str


@dataclass(frozen=True, slots=True)
class Overload:
    """``what`` cannot keep up: ``disc`` (rows wait for it), or ``peer`` (one needs a snapshot)."""

    what: str
    detail: str


SystemEvent = (
    TableCreated
    | TableDeleted
    | CopyAdded
    | CopyDropped
    | StoreUp
    | StoreDown
    | SchemaConflict
    | InconsistentDatabase
    | Overload
)

Guard = Callable[[Callable[[SystemEvent], None]], tuple[Callable[[SystemEvent], None], Callable[[], bool]]]


class SystemSubscription:
    """A callback on the store; ``cancel`` ends it."""

    __slots__ = ("_events", "alive", "callback")

    def __init__(
        self, events: SystemEvents, callback: Callable[[SystemEvent], None], alive: Callable[[], bool]
    ) -> None:
        self._events = events
        self.callback = callback
        self.alive = alive

    def cancel(self) -> None:
        """Call no more."""
        if self in self._events.subscriptions:
            self._events.subscriptions.remove(self)


class SystemEvents:
    """Who wants to know."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self.subscriptions: list[SystemSubscription] = []

    def subscribe(self, callback: Callable[[SystemEvent], None]) -> SystemSubscription:
        """Call with every event from now on."""
        guarded, alive = self._guard(callback)
        subscription = SystemSubscription(self, guarded, alive)
        self.subscriptions.append(subscription)
        return subscription

    def tell(self, event: SystemEvent) -> None:
        """It happened."""
        for subscription in tuple(self.subscriptions):
            if not subscription.alive():
                subscription.cancel()
                continue
            try:
                subscription.callback(event)
            except Exception:
                log.exception("system_subscriber_failed", happened=str(event))
                subscription.cancel()

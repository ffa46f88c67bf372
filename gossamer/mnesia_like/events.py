"""Subscriptions, and the events of the store as a whole: Mnesia's system events, as values.

Rule: a subscriber is called in the turn of the event, after it is in effect, and must not block.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import structlog

from gossamer.supervisor import NotInProcess, Runtime, guarded, self_pid

T = TypeVar("T")

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class TableCreated:
    """The schema has a new table, or this node created a table of its own."""

    table: str


@dataclass(frozen=True, slots=True)
class TableDeleted:
    """The table was deleted from the schema, or this node dropped a table of its own."""

    table: str


@dataclass(frozen=True, slots=True)
class CopyAdded:
    """``node`` now has a copy of ``table``."""

    table: str
    node: str


@dataclass(frozen=True, slots=True)
class CopyDropped:
    """``node`` no longer has a copy of ``table``."""

    table: str
    node: str


@dataclass(frozen=True, slots=True)
class StoreUp:
    """The store of ``node`` is reachable (``mnesia_up``)."""

    node: str
    creation: int


@dataclass(frozen=True, slots=True)
class StoreDown:
    """The store of ``node`` is unreachable (``mnesia_down``); ``left``: permanently."""

    node: str
    left: bool


@dataclass(frozen=True, slots=True)
class SchemaConflict:
    """This node's table differs from the schema's table of that name; their rows are kept apart."""

    table: str
    differences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class InconsistentDatabase:
    """This node and ``node`` considered each other down and are reconnected; sent by the split detector."""

    context: str
    node: str


@dataclass(frozen=True, slots=True)
class Overload:
    """``what`` cannot keep up: ``disc`` (rows are queued), or ``peer`` (it needs a snapshot)."""

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


class Subscription(Generic[T]):
    """Callback for every event from now on; ``cancel`` ends it.

    A subscription made in a process ends with it, and an exception crashes that process; elsewhere an
    exception is logged and ends the subscription. ``of`` is for the log.
    """

    __slots__ = ("_of", "_subscribers", "alive", "callback")

    def __init__(self, subscribers: list[Any], callback: Callable[[T], None], *, of: str) -> None:
        self.callback, self.alive = _guard(callback)
        self._subscribers = subscribers
        self._of = of
        subscribers.append(self)

    def cancel(self) -> None:
        """End the subscription."""
        if self in self._subscribers:
            self._subscribers.remove(self)

    def notify(self, event: T) -> None:
        """Call back with ``event``, unless the subscribing process is gone."""
        if not self.alive():
            self.cancel()
            return
        try:
            self.callback(event)
        except Exception:
            log.exception("subscriber_failed", of=self._of)
            self.cancel()


def _guard(callback: Callable[[T], None]) -> tuple[Callable[[T], None], Callable[[], bool]]:
    """Return a subscriber's guarded callback, and a check whether its process is alive."""
    try:
        pid, runtime = self_pid(), Runtime.current()
    except NotInProcess:
        return callback, lambda: True
    return guarded(callback), lambda: runtime.alive(pid)

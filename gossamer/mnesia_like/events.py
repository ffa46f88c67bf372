"""Subscriptions, and what happens to the store as a whole: Mnesia's system events, as values.

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


class Subscription(Generic[T]):
    """A callback for every event from now on; ``cancel`` ends it.

    One that was made in a process ends with it, and its exception crashes that process; of any other, an
    exception is logged and ends the subscription. ``among`` are those that are told; ``of`` is for the log.
    """

    __slots__ = ("_among", "_of", "alive", "callback")

    def __init__(self, among: list[Any], callback: Callable[[T], None], *, of: str) -> None:
        self.callback, self.alive = _guard(callback)
        self._among = among
        self._of = of
        among.append(self)

    def cancel(self) -> None:
        """Call no more."""
        if self in self._among:
            self._among.remove(self)

    def tell(self, event: T) -> None:
        """Call, unless the process that subscribed is gone."""
        if not self.alive():
            self.cancel()
            return
        try:
            self.callback(event)
        except Exception:
            log.exception("subscriber_failed", of=self._of)
            self.cancel()


def _guard(callback: Callable[[T], None]) -> tuple[Callable[[T], None], Callable[[], bool]]:
    """A subscriber's callback as it is to be called, and whether it still is."""
    try:
        pid, runtime = self_pid(), Runtime.current()
    except NotInProcess:
        return callback, lambda: True
    return guarded(callback), lambda: runtime.alive(pid)

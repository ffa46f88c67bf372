"""Wills as rows of the table ``wills``, and the wills that this node has or knows to be over.

A row is ``[record, delay, stamp, time of day when due or None]``, then a list of former stamps if the session
moved; or :data:`DONE`. The key is the client while its session has the will, ``(stamp, client)`` once it is
*held*. A stamp is ``node/creation/number``; its number is one of the message numbers of that origin, and
gives the will's message its id: :func:`will_message_id`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from gossamer.mqtt.messages.message_ids import NO_ID, UNRECORDED, base_of
from gossamer.mqtt.session.will_nodes import NodeCreations, origin_name

Key = tuple[str, str]
"""Key of a held will: its stamp, and the client."""
DONE = 0
"""Row of a will that is published, or void."""


class WillsTable(Protocol):
    """The owned table ``wills``. Writes return their sequence numbers."""

    def write(self, key: object, value: object, /) -> int: ...
    def delete(self, key: object, /) -> int: ...
    def rows_of(self, owner: str, /) -> Mapping[object, Any]: ...
    def seen_of(self, owner: str, /) -> int: ...
    def are_visible(self) -> bool: ...


@dataclass(slots=True)
class Held:
    """A will whose connection has ended: when that was seen, and when it is due, on the monotonic clock."""

    row: list[Any]
    since: float
    ready: float

    @property
    def delayed(self) -> bool:
        return bool(self.row[1])


@dataclass(kw_only=True, eq=False)
class WillRows:
    """Wills that this node has, under current and former stamps, and those that it knows to be over.

    ``connected(client)``: whether it is connected here; ``wall()`` is the time of day; ``grace`` in seconds.
    """

    node: str
    creation: int
    grace: float
    connected: Callable[[str], bool]
    wall: Callable[[], float]
    table: WillsTable | None = None
    nodes: NodeCreations = field(default_factory=NodeCreations)
    own: dict[str, str] = field(default_factory=dict)
    """By client with a session here, the stamp of its will."""
    offered: set[Key] = field(default_factory=set)
    """Those whose session began to move to another node, which may have the will too."""
    copies: dict[Key, Key] = field(default_factory=dict)
    """By former key at another node, the key of a will here; also of some that are over."""
    held: dict[Key, Held] = field(default_factory=dict)
    orphans: dict[Key, Held] = field(default_factory=dict)
    """Wills of nodes that are down, not held by any node yet."""
    done: dict[Key, float] = field(default_factory=dict)
    """Wills with a row :data:`DONE` of this node, and since when."""

    def __post_init__(self) -> None:
        self.origin = origin_name(self.node, self.creation)
        self.born = self.creation
        """Creation in which the disc began."""

    def row(self, client_id: str) -> list[Any] | None:
        if client_id not in self.own or self.table is None:
            return None
        row: list[object] = self.table.rows_of(self.node)[client_id]
        return row

    def hold_for(self, key: Key, row: list[object], since: float, ready: float) -> None:
        assert self.table is not None  # noqa: S101 - the row is of it
        self.table.write(key, row)
        self.held[key] = Held(row, since, ready)
        for one in former_of(row, key[1]):
            self.copies[one] = key

    def finish(self, key: Key, now: float) -> None:
        """Note that a will is over, with a row :data:`DONE` for other nodes and later creations. One of this
        creation needs no such row unless other nodes may hold it."""
        self.held.pop(key, None)
        self.orphans.pop(key, None)
        if self.table is None:
            return
        offered = key in self.offered
        self.offered.discard(key)
        if origin_of(key) == self.origin and not (self.nodes.missing or offered):
            self.table.delete(key)
        else:
            self.done[key] = now
            self.table.write(key, DONE)

    def drop(self, key: Key) -> None:
        self.orphans.pop(key, None)
        if self.held.pop(key, None) is not None and self.table is not None:
            self.offered.discard(key)
            self.table.delete(key)

    def copy_of(self, key: Key) -> bool:
        """Return whether this node has a will that came from another node, under another stamp."""
        copy = self.copies.get(key)
        return copy is not None and (copy in self.held or self.own.get(copy[1]) == copy[0])

    def is_mine(self, key: Key) -> bool:
        """Return whether this node has a will, perhaps under another stamp, or it is done."""
        own = self.own.get(key[1]) == key[0] or key in self.held
        return own or self.copy_of(key) or self.is_done(key)

    def is_done(self, key: Key) -> bool:
        if key in self.done:
            return True
        table = self.table
        return table is not None and any(table.rows_of(name).get(key) == DONE for name in self.nodes.known)

    def left(self, row: list[Any]) -> float:
        """Return the seconds of its delay that are left."""
        return float(row[1]) if row[3] is None else float(row[3] - self.wall())


def comes_first(one: str, other: str, key: Key) -> bool:
    """Return whether node ``one`` comes before ``other`` for a will: its own node first, then by name."""
    name = node_of(key)
    return (one != name, one) < (other != name, other)


def key_of(value: Any) -> Key:
    stamp, client_id = value
    return stamp, client_id


def former_of(row: list[Any], client_id: str) -> list[Key]:
    """Return the keys that a will had at other nodes before its session moved."""
    return [(stamp, client_id) for stamp in row[4]] if len(row) > 4 else []


def node_of(key: Key) -> str:
    return origin_of(key).rpartition("/")[0]


def origin_of(key: Key) -> str:
    """Return the origin of a will: ``node/creation`` of its stamp."""
    return key[0].rpartition("/")[0]


def number_of(key: Key) -> int:
    """Return the number of a will's stamp; it grows in one creation."""
    return int(key[0].rpartition("/")[2])


def will_message_id(row: list[Any], client_id: str) -> int:
    """Return the id of its message, the same at every node, so that no session takes it twice (``qos2``).

    Raises:
        MqttProtocolError: the table of creations is full; see :func:`~.message_ids.base_of`.
    """
    first, *_ = (*former_of(row, client_id), (row[2], client_id))
    number = number_of(first)
    if not number & UNRECORDED:
        # A release before this one counted its wills by themselves: it may name another message.
        return NO_ID
    name, _, creation = origin_of(first).rpartition("/")
    return base_of(name, int(creation)) + number

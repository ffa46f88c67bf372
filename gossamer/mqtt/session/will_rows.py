"""Wills as rows: what stands in a node's rows of the table ``wills``, and what this node knows of them.

A row is ``[record, delay, stamp, time of day when due or None]``, and the stamps that the will had before if
its session moved; or :data:`DONE`. That of a connected client stands under its client, a *held* one under
stamp and client. A stamp is node, creation, number; the number is one of those that name the messages of that
life, so it names the will's own message, too: :func:`will_message_id`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from gossamer.mqtt.messages.message_ids import NO_ID, UNRECORDED, base_of
from gossamer.mqtt.session.will_nodes import NodeLives, origin

Key = tuple[str, str]
"""Of a held will: its stamp, and the client."""
DONE = 0
"""The row of a will that is published, or void."""


class WillsTable(Protocol):
    """The owned table ``wills``."""

    def write(self, key: object, value: object, /) -> int: ...
    def delete(self, key: object, /) -> int: ...
    def rows_of(self, owner: str, /) -> Mapping[object, Any]: ...
    def seen_of(self, owner: str, /) -> int: ...


@dataclass(slots=True)
class Held:
    """A will whose connection has ended. Times are intervals."""

    row: list[Any]
    since: float
    ready: float

    @property
    def delayed(self) -> bool:
        return bool(self.row[1])


@dataclass(kw_only=True, eq=False)
class WillRows:
    """The wills that this node has, under whichever stamp, and those that it knows to be over.

    ``connected`` says whether a client is connected here; ``wall`` is the time of day; ``grace`` in seconds.
    """

    node: str
    creation: int
    grace: float
    connected: Callable[[str], bool]
    wall: Callable[[], float]
    table: WillsTable | None = None
    nodes: NodeLives = field(default_factory=NodeLives)
    own: dict[str, str] = field(default_factory=dict)
    """By connected client, the stamp of its will."""
    offered: set[Key] = field(default_factory=set)
    """Of these, those whose session was on its way to another node, which may have it."""
    copies: dict[Key, Key] = field(default_factory=dict)
    """By what they were at other nodes, those that came from there; also some that are over."""
    held: dict[Key, Held] = field(default_factory=dict)
    orphans: dict[Key, Held] = field(default_factory=dict)
    """Of nodes that are down, and not held by anybody yet."""
    done: dict[Key, float] = field(default_factory=dict)
    """This node's rows that say so."""

    def __post_init__(self) -> None:
        self.life = origin(self.node, self.creation)
        self.born = self.creation
        """The life that the disc began in."""

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
        """It is published: let everybody know, also in a later life. One that began in this life needs that
        only where others may hold it."""
        self.held.pop(key, None)
        self.orphans.pop(key, None)
        if self.table is None:
            return
        offered = key in self.offered
        self.offered.discard(key)
        if life_of(key) == self.life and not (self.nodes.missing or offered):
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
        """Return whether a will is this node's, perhaps under another stamp, or is done."""
        own = self.own.get(key[1]) == key[0] or key in self.held
        return own or self.copy_of(key) or self.is_done(key)

    def is_done(self, key: Key) -> bool:
        if key in self.done:
            return True
        table = self.table
        return table is not None and any(table.rows_of(name).get(key) == DONE for name in self.nodes.known)

    def left(self, row: list[Any]) -> float:
        """Seconds of its delay that are left."""
        return float(row[1]) if row[3] is None else float(row[3] - self.wall())


def comes_first(one: str, other: str, key: Key) -> bool:
    """Return whether ``one`` comes before ``other`` where both hold a will."""
    name = node_of(key)
    return (one != name, one) < (other != name, other)


def key_of(value: Any) -> Key:
    stamp, client_id = value
    return stamp, client_id


def former_of(row: list[Any], client_id: str) -> list[Key]:
    """Return the keys of a will at other nodes, before its session moved."""
    return [(stamp, client_id) for stamp in row[4]] if len(row) > 4 else []


def node_of(key: Key) -> str:
    return life_of(key).rpartition("/")[0]


def life_of(key: Key) -> str:
    """The life that a will began in."""
    return key[0].rpartition("/")[0]


def number_of(key: Key) -> int:
    """The higher, the later in its life it began."""
    return int(key[0].rpartition("/")[2])


def will_message_id(row: list[Any], client_id: str) -> int:
    """The identifier of its message, the same whichever node publishes it, and in whichever life: a session
    that has taken the will does not take it again (``qos2``).

    Raises:
        MqttProtocolError: identifiers of too many lives are known.
    """
    first, *_ = (*former_of(row, client_id), (row[2], client_id))
    number = number_of(first)
    if not number & UNRECORDED:
        # A release before this one counted its wills by themselves: it may name another message.
        return NO_ID
    name, _, creation = life_of(first).rpartition("/")
    return base_of(name, int(creation)) + number

"""Sessions on disc: their rows, the commits that wait for them, and how they are read again.

A row is one fact of one session, under ``(client, kind, key)``: the session itself, a subscription, a queued
message, a packet in flight, a packet identifier of QoS 2 that its publisher has not released. ``durable``
notes each change at once; a row that is written and deleted within one commit never reaches the disc.

Rule: times are kept as times of day, so that expiry goes on while the node is down. The expiry of a session
that was connected when the node died counts from the restart: when the connection ended is not known, and a
session must not end early.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import structlog

from gossamer.mnesia_like import Journal
from gossamer.mqtt.codec.packets import Subscription, Will
from gossamer.mqtt.flow.commits import JournalWriter, Soon, encode
from gossamer.mqtt.flow.ranges import CopiedWriter
from gossamer.mqtt.messages.message_ids import NO_ID, Tracked, read_mark
from gossamer.mqtt.messages.records import read_record, record_of
from gossamer.mqtt.session.expiry import Expiring
from gossamer.mqtt.session.qos2 import Block
from gossamer.mqtt.session.state import Item, SessionState

log = structlog.get_logger(__name__)

SESSION, SUBSCRIPTION, QUEUED, INFLIGHT, INCOMING = range(5)
"""The kinds of rows."""

_NODES = ""
"""Client identifier of rows about nodes; a client's own is never blank."""
_TAKEN, _GENERATION, _OWED = 5, 6, 8
"""Kinds of these rows."""
ONCE = 9
"""Kind of a session's rows of QoS 2 messages that it has taken."""

PUBREL = 0x62
COPIED = "copied/"
"""Beginning of the token of a move that was none: the other node began with a copy. See ``succession``."""

decode_will = msgspec.msgpack.Decoder(Will).decode


class Facts(msgspec.Struct, array_like=True):
    """Row of the session itself; times are of day."""

    version: int
    username: str | None
    expiry: int
    expires: float | None
    """When it ends; None: it is connected, or never ends."""
    epoch: int
    will: None
    will_due: None
    """Not used any more: see ``wills``."""
    clean: bool
    """It began with a clean start."""
    born: int
    given: int | None
    """Number of the first queued message that was not given in a move; None: no move has begun."""
    move: str = ""
    """Token of that move."""
    moves: Sequence[str] = ()
    """Tokens of the latest moves that brought the session here."""
    revised: int = 0
    """When its client changed its subscriptions last, in microseconds of the day."""
    succeeded: bool = False
    """Another node has all of it but what is queued here."""
    series: tuple[int, int] = (0, 0)
    """Of the numbers of messages in the queue and in flight, which begin anew where there is none."""


class Stored:
    """One session as read from disc."""

    __slots__ = (
        "client_id",
        "facts",
        "incoming",
        "inflight",
        "message_ids",
        "once",
        "queue",
        "subscriptions",
    )

    def __init__(self, client_id: str) -> None:
        self.client_id = client_id
        self.facts: Facts | None = None
        self.subscriptions: list[tuple[Subscription, int | None]] = []
        self.queue: list[tuple[int, Item]] = []
        self.inflight: list[tuple[int, int, bytes]] = []
        """Number in the order of sending, packet identifier, packet."""
        self.incoming: list[int] = []
        self.message_ids: dict[int, int] = {}
        """Ids of messages in flight by packet identifier; of the client's publishes by its negative."""
        self.once: list[Block] = []

    @property
    def left(self) -> bool:
        """Return whether it has a message that was not given in a move, and its client may not have."""
        given = None if self.facts is None else self.facts.given
        if given is not None:
            return any(number >= given for number, _ in self.queue)
        return bool(self.queue) or any(packet[0] != PUBREL for _, _, packet in self.inflight)


class SessionStore(CopiedWriter):
    """Journal of durable sessions: notes each change, and completes what waits for its commit."""

    def __init__(
        self, journal: Journal, *, wall: Callable[[], float], monotonic: Callable[[], float], soon: Soon
    ) -> None:
        super().__init__(journal, soon=soon)
        self.disc = JournalWriter(journal, soon=soon)
        """To wait for this node's disc alone, wherever else sessions are copied to."""
        self.wall = wall
        self._monotonic = monotonic
        self._series = 0
        self._until_level: dict[str, list[Callable[[], object]]] = {}

    def put(self, client_id: str, kind: int, key: object, value: object, *, new: bool = False) -> int:
        """Write a row, None to delete it; return the ticket of its commit. ``new``: there was none."""
        self.notes += 1
        data = None if value is None else encode(value)
        ticket = self._journal.put(encode((client_id, kind, key)), data)
        if self.copies is not None:
            self.wrote(self.copies.note(client_id, kind, key, data, ticket, new=new))
        return ticket

    def leave(self, client_id: str) -> None:
        """Note that a session goes on at another node, whose the copy is; what waits for it is done there."""
        if self.copies is not None:
            self.copies.leave(client_id)
        self.call(self._until_level.pop(client_id, ()))

    def is_behind(self, client_id: str) -> bool:
        """Return whether a quorum lacks something of a session that is acknowledged all the same."""
        return self.copies is not None and self.copies.is_behind(client_id)

    def is_usurped(self, session: SessionState) -> bool:
        """Return whether another node goes on with a session that may lack what was written last here."""
        if session.departed or (session.given is not None and session.move.startswith(COPIED)):
            return True
        return self.copies is not None and self.copies.is_usurped(session.client_id)

    def when_level(self, client_id: str, callback: Callable[[], object]) -> None:
        """Call ``callback`` once a session is not :meth:`is_behind`; now, if it is not."""
        if self.is_behind(client_id):
            self._until_level.setdefault(client_id, []).append(callback)
        else:
            callback()

    def released(self) -> None:
        """Call back who waits for a quorum that has it now."""
        for client_id in [one for one in self._until_level if not self.is_behind(one)]:
            self.call(self._until_level.pop(client_id))
        self._release()

    def new_series(self) -> int:
        """Return a number that no series of this node ever had."""
        self._series = max(self._series + 1, int(self.wall() * 1e6))
        return self._series

    # Rows.

    def time_of_day(self, monotonic: float | None) -> float | None:
        """Return the time of day of a moment on the node's monotonic clock."""
        return None if monotonic is None else monotonic - self._monotonic() + self.wall()

    def moment(self, time_of_day: float) -> float:
        """Return the moment on the node's monotonic clock of a time of day."""
        return time_of_day - self.wall() + self._monotonic()

    def pack(self, item: Item) -> list[object]:
        """Return a queued message as a row."""
        head, tail, message = item
        # The encoder takes plain bytes, not a subclass.
        plain = bytes(tail)
        if message is None:
            return [head, plain, tail.tag] if isinstance(tail, Tracked) else [head, plain]
        return [head, plain, record_of(message, self._monotonic()), self.time_of_day(message.expires_at)]

    def unpack(self, row: list[Any]) -> Item:
        """Return the queued message of a :meth:`pack` row."""
        head, tail, *rest = row
        if not rest:
            return head, tail, None
        if len(rest) == 1:
            return head, Tracked.tagged(tail, rest[0]), None
        record, expires = rest
        message, _ = read_record(record, 0, len(record), self._monotonic())
        message.expires_at = self.moment(expires)
        return head, tail if message.id == NO_ID else Tracked.of(tail, message.id), message

    def read(self, rows: Mapping[Any, Any]) -> Iterator[Stored]:
        """Yield the sessions in these rows; rows that belong to none are deleted."""
        for stored in self._found(rows):
            if stored.facts is None:
                self.discard(stored)
            else:
                yield stored

    def one(self, rows: Mapping[Any, Any]) -> Stored | None:
        """Return the session in these rows, which are of one client; None: there is none."""
        return next((stored for stored in self._found(rows) if stored.facts is not None), None)

    def _found(self, rows: Mapping[Any, Any]) -> Iterable[Stored]:
        found: dict[str, Stored] = {}
        for (client_id, kind, key), value in rows.items():
            if client_id == _NODES:
                continue
            stored = found.get(client_id)
            if stored is None:
                stored = found[client_id] = Stored(client_id)
            if kind == SESSION:
                stored.facts = _facts(value)
            elif kind == SUBSCRIPTION:
                item, identifier = value
                stored.subscriptions.append((Subscription(*item), identifier))
            elif kind == QUEUED:
                stored.queue.append((key, self.unpack(value)))
            elif kind == INFLIGHT:
                number, packet, *rest = value
                tag, expires = (*rest, None)[:2] if rest else (b"", None)
                expires_at = None if expires is None else self.moment(expires)
                stored.inflight.append((number, key, Expiring.of(packet, expires_at)))
                if tag:
                    stored.message_ids[key] = read_mark(tag, 0)[0].message_id
            elif kind == ONCE:
                stored.once.append(_block(key, value))
            else:
                stored.incoming.append(key)
                if isinstance(value, bytes):
                    stored.message_ids[-key] = read_mark(value, 0)[0].message_id
        for stored in found.values():
            stored.queue.sort(key=lambda entry: entry[0])
            stored.inflight.sort()
        return found.values()

    def discard(self, stored: Stored) -> None:
        """Delete all rows of a session that was read."""
        client_id = stored.client_id
        self.put(client_id, SESSION, 0, None)
        for wanted, _ in stored.subscriptions:
            self.put(client_id, SUBSCRIPTION, wanted.filter, None)
        for number, _ in stored.queue:
            self.put(client_id, QUEUED, number, None)
        for _, packet_id, _ in stored.inflight:
            self.put(client_id, INFLIGHT, packet_id, None)
        for packet_id in stored.incoming:
            self.put(client_id, INCOMING, packet_id, None)
        for origin, creation, place, _ in stored.once:
            self.put(client_id, ONCE, once_key(origin, creation, place), None)

    # Progress with other nodes; see ``replay``.

    def note_taken(self, peer: str, taken: tuple[str, int, list[tuple[int, int]]]) -> None:
        """Note a node's keeper identity, the last hint taken from it, and by link session the last frame."""
        self.put(_NODES, _TAKEN, peer, taken)

    @staticmethod
    def taken_of(rows: Mapping[Any, Any]) -> dict[str, tuple[str, int, list[tuple[int, int]]]]:
        """Return by node what :meth:`note_taken` noted last."""
        return {key[2]: value for key, value in rows.items() if key[:2] == (_NODES, _TAKEN)}

    # Messages that no member of a share group has taken; see ``owed``.

    def note_owed(self, number: int, owed: tuple[str, float, bytes] | None) -> None:
        """Note a message for a share group; None: it is settled."""
        self.put(_NODES, _OWED, number, owed)

    @staticmethod
    def owed_of(rows: Mapping[Any, Any]) -> dict[int, tuple[str, float, bytes]]:
        """Return by number what :meth:`note_owed` noted."""
        return {key[2]: tuple(value) for key, value in rows.items() if key[:2] == (_NODES, _OWED)}

    def remember_generation(self, generation: str, born: int) -> None:
        """Note the generation of these sessions, and the creation of the node in which they began."""
        self.put(_NODES, _GENERATION, 0, (generation, born))

    @staticmethod
    def generation_of(rows: Mapping[object, Any]) -> tuple[str, int] | None:
        """Return what :meth:`remember_generation` noted; None: nothing yet."""
        found = rows.get((_NODES, _GENERATION, 0))
        return None if found is None else (found[0], found[1])


def once_key(origin: str, creation: int, place: int) -> str:
    """Return the key of a block of a session's QoS 2 memory."""
    return f"{creation}/{place}/{origin}"


def _block(key: str, bits: bytes) -> Block:
    creation, place, origin = key.split("/", 2)
    return origin, int(creation), int(place), bits


def _facts(row: list[Any]) -> Facts:
    # Fields that a later release added behind the known ones are skipped.
    version, username, expiry, expires, epoch, _, _, *rest = row[: len(Facts.__struct_fields__)]
    facts = Facts(version, username, expiry, expires, epoch, None, None, *rest)
    facts.series = facts.series[0], facts.series[1]
    return facts

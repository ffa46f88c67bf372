"""Message ids: one integer names a message from the node that took it to its last acknowledgement.

The id of a message that is recorded (see ``gossamer.audit``) is the node that took it from its publisher, its
creation, and a number. In memory that is one ``int``: the low 48 bits are the number, those above the place
of node and creation in a table. So consecutive messages have consecutive ids, and a session remembers
thousands for the price of a dict. A message that is not recorded has :data:`NO_ID`; one of QoS 2 has an id
all the same, with :data:`UNRECORDED` in its number.

On the way to another node and to the disc an id is a *mark* before the record: its first byte begins no
packet and no other mark. A mark has the node and creation, the first id, for how many messages, and how many
of the messages behind it come before these (a run is sampled in part). It carries the sender's hybrid clock,
so that what happens there comes after what happened here. A message without an id has no mark.

The table belongs to the process, not to the node: it grows by one entry for each creation of a node that was
seen, to a bound, and two nodes in one process learn nothing of each other by it.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from gossamer.mqtt.codec.errors import malformed

NO_ID = -1
ASIDE = 1 << 47
"""Bit in the number of a message outside the recorder's sample, whose publisher requests a trace."""
UNRECORDED = 1 << 46
"""Bit in the number of a message of QoS 2 that is not recorded, and has an id for ``qos2`` alone."""
MARK = b"\x07"
"""The first byte of a mark."""

_BITS = 48
_NUMBER = (1 << _BITS) - 1
_FIELDS = struct.Struct("<QQIIQ")
_CREATIONS = 1 << 15
"""Most creations in the table: an id stays a signed integer of 64 bits."""

_creations: list[tuple[str, int, bytes]] = []
_places: dict[tuple[str, int], int] = {}


class Mark(NamedTuple):
    """Ids of the messages behind it: after ``skip`` without one, ``many`` from ``message_id`` on."""

    skip: int
    message_id: int
    many: int
    hlc: int
    """The sender's hybrid clock; 0: none."""


class Tracked(bytes):
    """Tail of a queued PUBLISH that has an id."""

    message_id: int = NO_ID
    share: str | None = None
    """Share group that it is for; None: no group."""
    stored = False
    """Whether it is a retained message that answers a subscription."""

    @classmethod
    def of(cls, tail: bytes, message_id: int, share: str | None = None, *, stored: bool = False) -> Tracked:
        made = cls(tail)
        made.message_id = message_id
        made.share = share
        made.stored = stored
        return made

    @property
    def tag(self) -> bytes:
        """Mark and share group, for :meth:`tagged` after it was stored or sent."""
        return mark_of(self.message_id) + (self.share or "").encode()

    @classmethod
    def tagged(cls, tail: bytes, tag: bytes) -> Tracked:
        """Return ``tail`` with the id and share group of ``tag``.

        Raises:
            MqttProtocolError: the tag is malformed.
        """
        mark, stop = read_mark(tag, 0)
        return cls.of(tail, mark.message_id, tag[stop:].decode(errors="replace") or None)


def message_id_in(tail: bytes) -> int:
    """Return the id of a queued message; :data:`NO_ID`: it has none."""
    return tail.message_id if isinstance(tail, Tracked) else NO_ID


def base_of(origin: str, creation: int) -> int:
    """Return the id with number 0 of a node and creation; add a number for that message's.

    Raises:
        MqttProtocolError: the table is full.
    """
    place = _places.get((origin, creation))
    if place is None:
        if len(_creations) >= _CREATIONS:
            raise malformed("MQTT 2.1.4", f"identifiers of more than {_CREATIONS} creations of nodes")
        name = origin.encode()[:255]
        place = _places[origin, creation] = len(_creations)
        _creations.append((origin, creation, MARK + bytes((len(name),)) + name))
    return place << _BITS


def is_recorded(message_id: int) -> bool:
    """Return whether the message is recorded; False for :data:`NO_ID`, in which every bit is set."""
    return not message_id & UNRECORDED


def base_in(message_id: int) -> int:
    """Return :func:`base_of` of the node and creation in an id."""
    return message_id >> _BITS << _BITS


def origin_of(message_id: int) -> tuple[str, int]:
    """Return the node that took the message, and its creation."""
    origin, creation, _ = _creations[message_id >> _BITS]
    return origin, creation


def number_of(message_id: int) -> int:
    """Return the message's number at its origin."""
    return message_id & _NUMBER


def mark_of(message_id: int, many: int = 1, *, skip: int = 0, hlc: int = 0) -> bytes:
    """Return the mark to put before ``many`` records, after ``skip`` of them without an id."""
    _, creation, head = _creations[message_id >> _BITS]
    return head + _FIELDS.pack(creation, message_id & _NUMBER, skip, many, hlc)


def read_mark(data: bytes, pos: int) -> tuple[Mark, int]:
    """Return the mark at ``pos``, and where it ends.

    Raises:
        MqttProtocolError: it is cut off, names no node, or its numbers are out of range.
    """
    at = pos + 2 + (data[pos + 1] if pos + 1 < len(data) else 0)
    stop = at + _FIELDS.size
    if stop > len(data):
        raise malformed("MQTT 2.1.4", "a mark is cut off")
    creation, number, skip, many, hlc = _FIELDS.unpack_from(data, at)
    try:
        origin = data[pos + 2 : at].decode()
    except UnicodeDecodeError:
        raise malformed("MQTT-1.5.4-1", "a mark names a node that is no text") from None
    if number + many > _NUMBER:
        raise malformed("MQTT 2.1.4", f"a mark says that a message has the number {number + many}")
    return Mark(skip, base_of(origin, creation) + number, many, hlc), stop

"""Message ids: one integer names a message from the node that took it to its last acknowledgement.

A message that is recorded (see ``gossamer.audit``) has an identifier: the node that took it from its
publisher, which life of that node, and a number. In memory that is one ``int``: the number, above it the
place of the node's life in a table. So identifiers of messages that follow one another follow one another,
and a session remembers thousands for the price of a dict. :data:`NO_ID` is the identifier of a message
that is not recorded; one of QoS 2 has one all the same, with :data:`UNRECORDED` in its number.

On the way to another node and to the disc an identifier is a *mark* before the record: its first byte begins
no packet and no other mark. A mark says whose identifiers they are, the first of them, for how many messages,
and how many of those that follow it come before (a run is sampled in part). It carries the sender's hybrid
clock, so that what happens there comes after what happened here. A message that is not recorded has none.

The table is of the process, not of the node: it grows by one entry for each life of a node that was seen, to
a bound, and shows two nodes in one process nothing of each other.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from gossamer.mqtt.codec.errors import malformed

NO_ID = -1
ASIDE = 1 << 47
"""In the number of a message that is not of the recorder's sample: its publisher wants it traced."""
UNRECORDED = 1 << 46
"""In the number of a message of QoS 2 that is not recorded: only so that none is taken twice (``qos2``)."""
MARK = b"\x07"
"""The first byte of a mark."""

_BITS = 48
_NUMBER = (1 << _BITS) - 1
_FIELDS = struct.Struct("<QQIIQ")
_LIVES = 1 << 15
"""Lives in the table at most: an identifier stays a signed integer of 64 bits."""

_lives: list[tuple[str, int, bytes]] = []
_places: dict[tuple[str, int], int] = {}


class Mark(NamedTuple):
    """Of the messages that follow, ``many`` from ``skip`` on are ``message_id`` and what comes after it."""

    skip: int
    message_id: int
    many: int
    hlc: int
    """The sender's hybrid clock; 0: not said."""


class Tracked(bytes):
    """The tail of a queued PUBLISH that is recorded."""

    message_id: int = NO_ID
    share: str | None = None
    """The share group that it is for."""
    stored = False
    """It answers a subscription with what was retained."""

    @classmethod
    def of(cls, tail: bytes, message_id: int, share: str | None = None, *, stored: bool = False) -> Tracked:
        made = cls(tail)
        made.message_id = message_id
        made.share = share
        made.stored = stored
        return made

    @property
    def tag(self) -> bytes:
        """Bytes that go with it where it is stored or sent."""
        return mark_of(self.message_id) + (self.share or "").encode()

    @classmethod
    def tagged(cls, tail: bytes, tag: bytes) -> Tracked:
        """Return a tail with what ``tag`` says.

        Raises:
            MqttProtocolError: it is no tag.
        """
        mark, stop = read_mark(tag, 0)
        return cls.of(tail, mark.message_id, tag[stop:].decode(errors="replace") or None)


def message_id_in(tail: bytes) -> int:
    """The identifier of a queued message."""
    return tail.message_id if isinstance(tail, Tracked) else NO_ID


def base_of(origin: str, creation: int) -> int:
    """Return what makes a number an identifier of this life of this node, when added to it.

    Raises:
        MqttProtocolError: the table is full.
    """
    place = _places.get((origin, creation))
    if place is None:
        if len(_lives) >= _LIVES:
            raise malformed("MQTT 2.1.4", f"identifiers of more than {_LIVES} lives of nodes")
        name = origin.encode()[:255]
        place = _places[origin, creation] = len(_lives)
        _lives.append((origin, creation, MARK + bytes((len(name),)) + name))
    return place << _BITS


def is_recorded(message_id: int) -> bool:
    """Return whether the message is recorded; never true of :data:`NO_ID`, in which every bit is set."""
    return not message_id & UNRECORDED


def life_of(message_id: int) -> int:
    """Return the :func:`base_of` the life of the node that took the message."""
    return message_id >> _BITS << _BITS


def origin_of(message_id: int) -> tuple[str, int]:
    """The node that took the message, and which life of it."""
    origin, creation, _ = _lives[message_id >> _BITS]
    return origin, creation


def number_of(message_id: int) -> int:
    """The message's number at its origin."""
    return message_id & _NUMBER


def mark_of(message_id: int, many: int = 1, *, skip: int = 0, hlc: int = 0) -> bytes:
    """The mark before a record, or several."""
    _, creation, head = _lives[message_id >> _BITS]
    return head + _FIELDS.pack(creation, message_id & _NUMBER, skip, many, hlc)


def read_mark(data: bytes, pos: int) -> tuple[Mark, int]:
    """The mark at ``pos``, and where it ends.

    Raises:
        MqttProtocolError: it is cut off, or names no node.
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

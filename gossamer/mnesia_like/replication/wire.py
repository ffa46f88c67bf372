"""The frames of table replication: one msgpack array a frame, many messages in it.

``[version, creation of the sender, creation of the receiver, [message, ...]]``. The sender of a frame is the
owner of the rows in it; there is no field in which a peer could claim rows of somebody else. Both creations
fence: what an old incarnation sent, or what was meant for an old incarnation of the receiver, is dropped.
The one exception is ``Relayed``: what an owner that is gone told the sender, passed on under its number.

A transaction's *attempt* is named by a number of its coordinator's, and the coordinator is whoever sent the
message: no peer can speak of another's transactions but to ask how one ended.

Rules: 1. A frame is at most 256 KiB.  2. Rows and keys travel as maps of key to value, never one object a
row, so that both ends handle them in C; and because msgpack gives back a tuple as a tuple only where it is a
map's key.  3. A delta is encoded once, for all peers and for the log.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import msgspec

from gossamer.mnesia_like.errors import BadFrameError
from gossamer.mnesia_like.values import KEY_TYPES, Key, Value, encode, is_key

MAX_FRAME = 256 * 1024
_VERSION = 4
_FRAME_OVERHEAD = 40


class Roster(msgspec.Struct, frozen=True, array_like=True, tag="t"):
    """The owned tables that the sender has. What it does not have, it never waits to see."""

    tables: list[str]


class Follow(msgspec.Struct, frozen=True, array_like=True, tag="f"):
    """Send me your rows of ``table``: I hold them up to ``position``. ``snapshot``: send all of them."""

    table: str
    pact: str
    position: int
    snapshot: bool


class Refused(msgspec.Struct, frozen=True, array_like=True, tag="r"):
    """Answer to a Follow. An empty ``pact``: no such table here; else: mine is of this one."""

    table: str
    pact: str


class Head(msgspec.Struct, frozen=True, array_like=True, tag="h"):
    """The newest number of the sender's rows: the answer to Follow, before what follows."""

    table: str
    number: int


class Delta(msgspec.Struct, frozen=True, array_like=True, tag="d"):
    """The sender's change number ``number``: keys written, keys deleted, no key in both.

    ``deleted`` is a map to nil, because msgpack gives back a tuple as a tuple only where it is a map's key.
    """

    table: str
    number: int
    written: dict[Key, Value]
    deleted: dict[Key, None]


class Chunk(msgspec.Struct, frozen=True, array_like=True, tag="c"):
    """A part of a snapshot. The last part has ``base`` ≥ 0: its position."""

    table: str
    base: int
    rows: dict[Key, Value]


class Ack(msgspec.Struct, frozen=True, array_like=True, tag="a"):
    """Of your deltas and parts since ``Head`` so many have taken effect here."""

    table: str
    taken: int


class Mark(msgspec.Struct, frozen=True, array_like=True, tag="m"):
    """Now, at ``number``, take a digest of my rows."""

    table: str
    number: int


class Digest(msgspec.Struct, frozen=True, array_like=True, tag="g"):
    """What the sender's digest of its rows was at ``number``."""

    table: str
    number: int
    rows: int
    total: int


class Seen(msgspec.Struct, frozen=True, array_like=True, tag="s"):
    """Of a shared table: your rows up to ``number`` are here for good; mine stood at ``mine`` then."""

    table: str
    number: int
    mine: int


class Members(msgspec.Struct, frozen=True, array_like=True, tag="e"):
    """Of a shared table: who must have seen a deletion before it is forgotten; see ``tombstones.Epoch``."""

    table: str
    epoch: list[Value]


class Reached(msgspec.Struct, frozen=True, array_like=True, tag="n"):
    """Of a shared table: ``origin``, in its life ``creation``, is gone; I have its rows up to ``number``."""

    table: str
    origin: str
    creation: int
    number: int


class Relayed(msgspec.Struct, frozen=True, array_like=True, tag="y"):
    """Of a shared table: a delta of ``origin``, in its life ``creation``, as it came to the sender."""

    table: str
    origin: str
    creation: int
    delta: Delta


class Lock(msgspec.Struct, frozen=True, array_like=True, tag="L"):
    """Lock a row of ``table`` for my attempt (no key: the whole table). ``age``: when it first began."""

    number: int
    request: int
    age: int
    table: str
    key: dict[Key, None]
    write: bool


class Granted(msgspec.Struct, frozen=True, array_like=True, tag="G"):
    """Your attempt has the lock. ``version`` is that of the row here; empty where there is none."""

    number: int
    request: int
    version: list[Value]


class Died(msgspec.Struct, frozen=True, array_like=True, tag="D"):
    """Your attempt cannot have the lock: something older has it. End it and begin again."""

    number: int


class Stage(msgspec.Struct, frozen=True, array_like=True, tag="S"):
    """Rows that my attempt will write (``[]`` deletes, ``[value]`` sets), and versions that it has read."""

    number: int
    table: str
    rows: dict[Key, list[Value]]
    reads: dict[Key, list[Value]]


class Prepare(msgspec.Struct, frozen=True, array_like=True, tag="P"):
    """Can you write what was staged, under this version? ``peers``: who else is asked."""

    number: int
    stamp: int
    peers: list[str]


class Vote(msgspec.Struct, frozen=True, array_like=True, tag="V"):
    """Answer to Prepare; ``problem`` is empty for yes. ``again``: a new attempt may go better."""

    number: int
    problem: str
    again: bool


class Commit(msgspec.Struct, frozen=True, array_like=True, tag="C"):
    """Write what was staged (``stamp`` 0: forget it), then let go of the attempt's locks."""

    number: int
    stamp: int


class Query(msgspec.Struct, frozen=True, array_like=True, tag="Q"):
    """``node`` is gone and I voted yes to its attempt: what do you know of it?"""

    node: str
    number: int


class Know(msgspec.Struct, frozen=True, array_like=True, tag="K"):
    """Answer to Query: ``prepared``, ``committed`` or ``unknown``."""

    node: str
    number: int
    state: str


TransactionMessage = Lock | Granted | Died | Stage | Prepare | Vote | Commit | Query | Know

RowMessage = Refused | Head | Delta | Chunk | Mark | Digest | Reached | Relayed
TableMessage = Seen | Members | Roster | Follow | Ack | RowMessage
Message = TableMessage | TransactionMessage

_decode = msgspec.msgpack.Decoder(tuple[int, int, int, list[Message]]).decode


def encode_delta(table: str, number: int, written: Collection[bytes], deleted: Collection[bytes]) -> bytes:
    """A :class:`Delta` out of rows, and of keys each with nil, that are encoded already."""
    head = (b"\x95\xa1d", encode(table), encode(number), _header(len(written), 0x80, 0xDE))
    tail = (_header(len(deleted), 0x80, 0xDE), *deleted) if deleted else (b"\x80",)
    return b"".join((*head, *written, *tail))


def encode_chunk(table: str, base: int, pairs: Sequence[bytes]) -> bytes:
    """A :class:`Chunk` out of rows that are encoded already."""
    head = (b"\x94\xa1c", encode(table), encode(base), _header(len(pairs), 0x80, 0xDE))
    return b"".join((*head, *pairs))


def encode_creations(mine: int, theirs: int) -> bytes:
    """What each frame to a peer begins with."""
    return b"\x94" + encode(_VERSION) + encode(mine) + encode(theirs)


def encode_frames(prefix: bytes, messages: Iterable[bytes]) -> list[bytes]:
    """Encoded messages as frames, each as full as the limit lets it be."""
    batches: list[list[bytes]] = []
    size = MAX_FRAME
    for message in messages:
        size += len(message)
        if size > MAX_FRAME:
            batches.append([])
            size = _FRAME_OVERHEAD + len(message)
        batches[-1].append(message)
    return [b"".join((prefix, _header(len(batch), 0x90, 0xDC), *batch)) for batch in batches]


def decode_frame(peer: str, payload: bytes) -> tuple[int, int, list[Message]]:
    """The sender's creation, the receiver's, and the messages.

    Raises:
        BadFrameError: too large, not of this format, or with keys that no table can have.
    """
    if len(payload) > MAX_FRAME:
        raise BadFrameError(peer, f"{len(payload)} bytes, expected at most {MAX_FRAME}")
    try:
        version, mine, theirs, messages = _decode(payload)
    except (msgspec.DecodeError, ValueError, RecursionError, TypeError) as error:
        # ValueError: a word of the format that is no UTF-8.
        raise BadFrameError(peer, str(error)) from error
    if version != _VERSION:
        raise BadFrameError(
            peer, f"format {version}, expected {_VERSION}; run the same release on both nodes"
        )
    for message in messages:
        maps: tuple[dict[Key, Value], ...]
        match message:
            case Delta(written=written, deleted=deleted) | Relayed(delta=Delta(_, _, written, deleted)):
                maps = written, deleted
            case Chunk(rows=rows):
                maps = (rows,)
            case Lock(key=key):
                maps = (key,)
            case Stage(rows=rows, reads=reads):
                maps = rows, reads
            case _:
                continue
        if not all(_good_keys(rows) for rows in maps if rows):
            raise BadFrameError(peer, "a key that is not str, bytes, int or a tuple of these")
    return mine, theirs, messages


def _good_keys(rows: dict[Key, Value]) -> bool:
    """Whether a table can have these keys; parts of tuples are looked at, where there are tuples at all."""
    kinds = set(map(type, rows))
    if not kinds <= KEY_TYPES:
        return False
    return tuple not in kinds or all(is_key(key) for key in rows if type(key) is tuple)


def _header(count: int, fix: int, wide: int) -> bytes:
    """The msgpack header of a map (0x80, 0xde) or an array (0x90, 0xdc)."""
    if count < 16:
        return bytes((fix | count,))
    if count < 65536:
        return bytes((wide,)) + count.to_bytes(2, "big")
    return bytes((wide + 1,)) + count.to_bytes(4, "big")

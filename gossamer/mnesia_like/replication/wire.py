"""Frames of table replication: one msgpack array per frame, many messages in it.

``[version, creation of the sender, creation of the receiver, [message, ...]]``. The sender of a frame is the
owner of the rows in it; there is no field in which a peer could claim another's rows. Both creations fence: a
frame from an old incarnation of the sender, or for an old incarnation of the receiver, is dropped. The one
exception is ``Relayed``: a delta that an owner now down sent to the sender, relayed under its number.

A transaction's *attempt* is identified by its coordinator's number, and the coordinator is the sender of the
message: a peer can mention another's transactions only to ask how one ended.

Rules: 1. A frame is at most 256 KiB.  2. Rows and keys travel as maps of key to value, never one object per
row, so that both ends handle them in C; and because msgpack restores a tuple as a tuple only as a map's key.
3. A delta is encoded once, for all peers and for the log.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import msgspec

from gossamer.mnesia_like.errors import BadFrameError
from gossamer.mnesia_like.values import KEY_TYPES, Key, Value, encode, is_key

MAX_FRAME = 256 * 1024
_VERSION = 4
_FRAME_OVERHEAD = 40


class TableList(msgspec.Struct, frozen=True, array_like=True, tag="t"):
    """Replicated tables of the sender. It never waits to see rows of others."""

    tables: list[str]


class Follow(msgspec.Struct, frozen=True, array_like=True, tag="f"):
    """Request for the receiver's rows of ``table`` after ``position``; ``snapshot``: all of them."""

    table: str
    fingerprint: str
    position: int
    snapshot: bool


class Refused(msgspec.Struct, frozen=True, array_like=True, tag="r"):
    """Refusal of a Follow. An empty ``fingerprint``: no such table; else the sender's own."""

    table: str
    fingerprint: str


class Head(msgspec.Struct, frozen=True, array_like=True, tag="h"):
    """Newest number of the sender's rows: the answer to Follow, before any rows."""

    table: str
    number: int


class Delta(msgspec.Struct, frozen=True, array_like=True, tag="d"):
    """The sender's change number ``number``: keys written, keys deleted, no key in both.

    ``deleted`` is a map to nil, because msgpack restores a tuple as a tuple only as a map's key.
    """

    table: str
    number: int
    written: dict[Key, Value]
    deleted: dict[Key, None]


class Chunk(msgspec.Struct, frozen=True, array_like=True, tag="c"):
    """Part of a snapshot. The last part has ``base`` ≥ 0: its position."""

    table: str
    base: int
    rows: dict[Key, Value]


class Ack(msgspec.Struct, frozen=True, array_like=True, tag="a"):
    """Number of the receiver's deltas and parts since ``Head`` that the sender has applied."""

    table: str
    applied: int


class DigestRequest(msgspec.Struct, frozen=True, array_like=True, tag="m"):
    """Request to take a digest of the sender's rows now, at ``number``."""

    table: str
    number: int


class Digest(msgspec.Struct, frozen=True, array_like=True, tag="g"):
    """The sender's digest of its rows at ``number``."""

    table: str
    number: int
    rows: int
    total: int


class AppliedReport(msgspec.Struct, frozen=True, array_like=True, tag="s"):
    """Shared table: the receiver's rows up to ``number`` are safe; the sender's were at ``mine`` then."""

    table: str
    number: int
    mine: int


class Members(msgspec.Struct, frozen=True, array_like=True, tag="e"):
    """Shared table: members that must see a deletion before it is collected; see ``tombstones.Epoch``."""

    table: str
    epoch: list[Value]


class Reached(msgspec.Struct, frozen=True, array_like=True, tag="n"):
    """Shared table: the sender has the rows of ``origin``, which is down, up to ``number``."""

    table: str
    origin: str
    creation: int
    number: int


class Relayed(msgspec.Struct, frozen=True, array_like=True, tag="y"):
    """Shared table: a delta of ``origin`` in its ``creation``, as the sender received it."""

    table: str
    origin: str
    creation: int
    delta: Delta


class Lock(msgspec.Struct, frozen=True, array_like=True, tag="L"):
    """Request to lock a row of ``table`` (no key: the whole table). ``age``: when the transaction began."""

    number: int
    request: int
    age: int
    table: str
    key: dict[Key, None]
    write: bool


class Granted(msgspec.Struct, frozen=True, array_like=True, tag="G"):
    """Grant of a lock. ``version`` is the row's at the sender; empty if there is none."""

    number: int
    request: int
    version: list[Value]


class Died(msgspec.Struct, frozen=True, array_like=True, tag="D"):
    """Denial of a lock that an older transaction holds: the attempt must restart."""

    number: int


class Stage(msgspec.Struct, frozen=True, array_like=True, tag="S"):
    """Rows that the attempt will write (``[]`` deletes, ``[value]`` sets), and versions that it read."""

    number: int
    table: str
    rows: dict[Key, list[Value]]
    reads: dict[Key, list[Value]]


class Prepare(msgspec.Struct, frozen=True, array_like=True, tag="P"):
    """Call for a vote on writing what was staged, under this version. ``peers``: all voters."""

    number: int
    stamp: int
    peers: list[str]


class Vote(msgspec.Struct, frozen=True, array_like=True, tag="V"):
    """Answer to Prepare; an empty ``problem`` is a yes. ``retry``: a new attempt may succeed."""

    number: int
    problem: str
    retry: bool


class Commit(msgspec.Struct, frozen=True, array_like=True, tag="C"):
    """Decision: write what was staged (``stamp`` 0: discard it), then release the attempt's locks."""

    number: int
    stamp: int


class Query(msgspec.Struct, frozen=True, array_like=True, tag="Q"):
    """Question of a participant that voted yes, after the coordinator ``node`` went down: how did it end?"""

    node: str
    number: int


class Outcome(msgspec.Struct, frozen=True, array_like=True, tag="K"):
    """Answer to Query: ``prepared``, ``committed`` or ``unknown``."""

    node: str
    number: int
    state: str


TransactionMessage = Lock | Granted | Died | Stage | Prepare | Vote | Commit | Query | Outcome

RowMessage = Refused | Head | Delta | Chunk | DigestRequest | Digest | Reached | Relayed
TableMessage = AppliedReport | Members | TableList | Follow | Ack | RowMessage
Message = TableMessage | TransactionMessage

_decode = msgspec.msgpack.Decoder(tuple[int, int, int, list[Message]]).decode


def encode_delta(table: str, number: int, written: Collection[bytes], deleted: Collection[bytes]) -> bytes:
    """Encode a :class:`Delta` from encoded rows, and encoded deleted keys each with nil."""
    head = (b"\x95\xa1d", encode(table), encode(number), _header(len(written), 0x80, 0xDE))
    tail = (_header(len(deleted), 0x80, 0xDE), *deleted) if deleted else (b"\x80",)
    return b"".join((*head, *written, *tail))


def encode_chunk(table: str, base: int, pairs: Sequence[bytes]) -> bytes:
    """Encode a :class:`Chunk` from encoded rows."""
    head = (b"\x94\xa1c", encode(table), encode(base), _header(len(pairs), 0x80, 0xDE))
    return b"".join((*head, *pairs))


def encode_creations(mine: int, theirs: int) -> bytes:
    """Encode the start of each frame to a peer."""
    return b"\x94" + encode(_VERSION) + encode(mine) + encode(theirs)


def encode_frames(prefix: bytes, messages: Iterable[bytes]) -> list[bytes]:
    """Pack encoded messages into frames, each as full as the limit allows."""
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
    """Decode a frame into the sender's creation, the receiver's, and the messages.

    Raises:
        BadFrameError: it is too large, of another format, or has keys that no table can have.
    """
    if len(payload) > MAX_FRAME:
        raise BadFrameError(peer, f"{len(payload)} bytes, expected at most {MAX_FRAME}")
    try:
        version, mine, theirs, messages = _decode(payload)
    except (msgspec.DecodeError, ValueError, RecursionError, TypeError) as error:
        # ValueError: a string that is not UTF-8.
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
    """Return whether all keys are valid; parts of tuples are checked only if there are tuples."""
    kinds = set(map(type, rows))
    if not kinds <= KEY_TYPES:
        return False
    return tuple not in kinds or all(is_key(key) for key in rows if type(key) is tuple)


def _header(count: int, fix: int, wide: int) -> bytes:
    """Encode the msgpack header of a map (0x80, 0xde) or an array (0x90, 0xdc)."""
    if count < 16:
        return bytes((fix | count,))
    if count < 65536:
        return bytes((wide,)) + count.to_bytes(2, "big")
    return bytes((wide + 1,)) + count.to_bytes(4, "big")

"""Messages between the replicas of one group.

Each names its receiver and its sender, and the term in which it was sent. Requests of clients that are
forwarded to a leader promise nothing and belong to no term: theirs is 0.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from gossamer.raft.values import Entry, Snapshot


class Message(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Any message."""

    to: int
    sender: int
    term: int


class VoteRequest(Message, frozen=True, array_like=True, tag=1):
    """Request of a candidate whose log ends with this entry.

    ``trial``: it asks before it begins the term, and changes nothing (PreVote). ``transfer``: the leader
    itself asked it to, so a follower that still knows that leader votes all the same.
    """

    last_index: int
    last_term: int
    trial: bool = False
    transfer: bool = False


class VoteReply(Message, frozen=True, array_like=True, tag=2):
    """Answer to a vote; where a trial is granted, in the term that the candidate would begin."""

    granted: bool
    trial: bool = False


class Append(Message, frozen=True, array_like=True, tag=3):
    """Entries that follow the one at ``prev_index``, and how far the leader has committed."""

    prev_index: int
    prev_term: int
    entries: list[Entry]
    commit: int
    quiet: bool = False
    """It brings ``commit`` alone: nothing is answered, unless the logs differ. A release before answers."""


class Appended(Message, frozen=True, array_like=True, tag=4):
    """The sender's log is the leader's up to ``index``, on disc."""

    index: int


class Rejected(Message, frozen=True, array_like=True, tag=5):
    """The sender has not the entry at ``prev_index``; it may have the one of the hint."""

    prev_index: int
    hint_index: int
    hint_term: int


class Heartbeat(Message, frozen=True, array_like=True, tag=6):
    """The sender leads; ``commit`` is never beyond what the receiver acknowledged; ``round`` numbers
    what it asks to be confirmed. When it had the receiver's stamp ``as_of``, and led, nothing beyond
    ``confirmed`` was committed; see ``freshness``."""

    commit: int
    round: int
    as_of: int = 0
    confirmed: int = 0


class HeartbeatReply(Message, frozen=True, array_like=True, tag=7):
    """The sender followed when it got that round's heartbeat, at the time of its ``stamp``."""

    round: int
    stamp: int = 0


class Chunk(Message, frozen=True, array_like=True, tag=8):
    """Part of the snapshot at a position, from ``offset`` on; ``last``: it ends with this."""

    snapshot: Snapshot
    offset: int
    data: bytes
    last: bool


class ChunkReply(Message, frozen=True, array_like=True, tag=9):
    """Number of bytes that the sender has of the snapshot at that position."""

    index: int
    received: int


class TimeoutNow(Message, frozen=True, array_like=True, tag=10):
    """The leader asks the receiver to take over."""


class Forward(Message, frozen=True, array_like=True, tag=11):
    """Proposals for the leader."""

    proposals: list[bytes]


class ReadRequest(Message, frozen=True, array_like=True, tag=12):
    """Read of a follower; ``context`` is the sender's own number for it."""

    context: int


class ReadReply(Message, frozen=True, array_like=True, tag=13):
    """Index that the sender of a read must have applied."""

    context: int
    index: int


_AnyMessage = (
    VoteRequest
    | VoteReply
    | Append
    | Appended
    | Rejected
    | Heartbeat
    | HeartbeatReply
    | Chunk
    | ChunkReply
    | TimeoutNow
    | Forward
    | ReadRequest
    | ReadReply
)

_encode = msgspec.msgpack.Encoder().encode
_decode: Callable[[bytes], Message] = msgspec.msgpack.Decoder(_AnyMessage).decode


def encode(message: Message) -> bytes:
    """Return a message as it travels."""
    return _encode(message)


def decode(data: bytes) -> Message:
    """Return the message that was sent.

    Raises:
        msgspec.MsgspecError: it is none.
    """
    return _decode(data)

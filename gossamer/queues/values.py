"""What the queues of a replication group are asked: as msgpack, in entries of the group's log and in
questions to its leader.
 Times in requests are for people (``at``, milliseconds of the day) and for nothing else: what expires, and
when a claim is over, goes by the group's own time, which its leader's :class:`Tick` moves.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from gossamer.queues.moving.values import MoveIn, MoveOut, MoveOver, MovePart


class Outcome(enum.IntEnum):
    """What a consumer says of a message."""

    ACK = 0
    """Done."""
    NACK = 1
    """Not now: it comes again later."""
    REJECT = 2
    """Never: it is a dead letter."""


class Why(enum.IntEnum):
    """Why an operation was refused; nothing was done."""

    UNKNOWN_QUEUE = 1
    FULL = 2
    TOO_LARGE = 3
    NOT_HELD = 4
    """The message is not, or no more, with this consumer."""
    NOT_JOINED = 5
    """The consumer has not joined the consumer group, or was taken out of it."""
    BAD_START = 6
    TOO_MANY_GROUPS = 7
    IN_USE = 8
    """The consumer group has consumers."""
    STALE = 9
    """The consumer group has a later checkpoint than the one that the new one comes from."""
    MOVING = 20
    """The queue goes to another replication group: ask again where it is then."""
    SHARED = 21
    """Another queue has the same dead letters, or these are what is to be moved."""
    EXISTS = 22
    """There is a queue of this name already."""
    RELEASED = 23
    """No queue was in the replication group, and it ends."""
    FEW_REPLICAS = 10
    """Fewer replicas are in sync than must have a message."""


QUEUES = "queues"
"""Registered name of the server."""

# -- operations


MAX_CHECKPOINT = 65_536
"""Bytes of a checkpoint."""


class Append(msgspec.Struct, frozen=True, array_like=True, tag=1, gc=False):
    """Put a message into a queue. Result: its offset."""

    queue: str
    key: str
    payload: bytes
    properties: bytes
    """Its user's, as they are."""
    at: int
    expiry: int | None = None
    """Milliseconds after which it goes."""


class Settle(msgspec.Struct, frozen=True, array_like=True, tag=2, gc=False):
    """Say what became of messages. Result: 0, or which of them it was refused for; it is done for the
    others."""

    queue: str
    group: str
    consumer: str
    offsets: list[int] | int
    """One number: a log of before has one message in each."""
    outcome: Outcome
    reason: str = ""
    delay: int | None = None
    """Milliseconds after which it comes again, instead of the queue's back-off."""
    checkpoint: bytes | None = None
    """With an ``ACK`` of one message: what the consumer group keeps from now on, in place of its checkpoint
    number ``based_on``; 0: of none."""
    based_on: int = 0


class Join(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """Take part in a consumer group, which begins with it at ``start`` if there is none. Result: 0.

    ``consumer`` is new for each connection; ``client`` and ``node`` are where it is. ``limit``: messages that
    it takes at once. ``replica``: its node has the group's log, and reads from that.
    """

    queue: str
    group: str
    consumer: str
    client: str
    node: str
    limit: int
    replica: bool
    start: str = ""
    single: bool = False
    """Of the group only the consumer that joined first is given messages, while it is there."""


def is_start(text: str) -> bool:
    """Return whether this may be the ``start`` of a :class:`Join`: blank, ``first``, ``last``, ``next``, a
    number, or ``timestamp:`` and milliseconds of the day."""
    number = text.removeprefix("timestamp:")
    return text in ("", "first", "last", "next") or (
        number.isascii() and number.isdecimal() and len(number) < 19
    )


class Leave(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """Leave a consumer group, with all that it has. Result: 0."""

    queue: str
    group: str
    consumer: str


class NodeGone(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """Take the consumers of a node out of all groups, but for those ``kept``. Result: how many."""

    node: str
    kept: list[str] = []


class Define(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """Make or change a queue. Result: 0. ``settings``: a ``QueueConfig`` as JSON."""

    queue: str
    settings: bytes


class Remove(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """Delete a queue with all that is in it. Result: 0."""

    queue: str


class Purge(msgspec.Struct, frozen=True, array_like=True, tag=8):
    """Delete all messages of a queue. Result: how many."""

    queue: str


class DropGroup(msgspec.Struct, frozen=True, array_like=True, tag=9):
    """Delete a consumer group that nobody is in: its messages wait for it no more. Result: 0."""

    queue: str
    group: str


class Replay(msgspec.Struct, frozen=True, array_like=True, tag=20):
    """Give dead letters back to the queue that they come from: the one at ``offset`` of its dead-letter
    queue, or the oldest, ``limit`` at most. Result: how many; those for which there is no room stay."""

    queue: str
    offset: int | None = None
    limit: int | None = None


Change: TypeAlias = Define | Remove | Purge | DropGroup | Replay | MoveOut | MoveIn | MoveOver
Operation: TypeAlias = Append | Settle | Join | Leave | NodeGone | Change


class Refused(msgspec.Struct, frozen=True, array_like=True):
    """Result of an operation that was not done; of a :class:`Settle`, for these ``offsets``."""

    why: Why
    offsets: list[int] = []


Result: TypeAlias = int | Refused


class Batch(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """Operations in order. ``number`` counts the batches of a ``writer``, who has one on its way at a
    time."""

    writer: bytes
    number: int
    operations: list[Operation]


class Tick(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """So many milliseconds have passed at the leader."""

    elapsed: int


class InSync(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """So many replicas keep up with the leader, and so many must have a message: with fewer none is taken."""

    replicas: int
    wanted: int


class Release(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """End the replication group, unless a queue is in it, or on its way there."""


class Results(msgspec.Struct, frozen=True, array_like=True):
    """Answer to a batch. ``late``: it came behind a later batch of its writer."""

    results: list[Result]
    late: bool = False


# -- questions


class ListQueues(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """All queues. Answer: list of :class:`QueueStats`."""


class Show(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """One queue. Answer: :class:`QueueDetails`, or None."""

    queue: str


class Peek(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """Messages from ``offset`` on, ``limit`` at most. Answer: list of :class:`Message`, or None: no queue."""

    queue: str
    offset: int
    limit: int


class Held(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """What the consumers of a node have. Answer: :class:`HeldAnswer`."""

    node: str


class Has(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """Whether there is a queue of a name. Answer: :class:`Presence`."""

    queue: str


class Saved(msgspec.Struct, frozen=True, array_like=True, tag=8):
    """The checkpoint of a consumer group. Answer: :class:`Checkpoint`, or None: no queue."""

    queue: str
    group: str


class Topics(msgspec.Struct, frozen=True, array_like=True, tag=30):
    """The topic filters that each queue captures. Answer: a dict by the names of all queues."""


class Buries(msgspec.Struct, frozen=True, array_like=True, tag=31):
    """A queue whose dead letters go to the one of this name. Answer: its name, blank where there is none."""

    queue: str


class Checkpoint(msgspec.Struct, frozen=True, array_like=True):
    """What a consumer group keeps beside its cursor, as an ``ack`` wrote it. ``number``: how many were
    written, with this; 0: none."""

    number: int
    data: bytes
    offset: int = -1
    """Of the message that it was written with; -1: of a log of before."""
    client: str = ""
    """Consumer that wrote it."""


class Lags(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """How far consumer groups are behind, ``limit`` at most. Answer: list of :class:`GroupLag`."""

    limit: int


class Watch(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """What is wrong with queues. Answer: list of :class:`Trouble`."""


Question: TypeAlias = (
    ListQueues | Show | Peek | Held | Has | Lags | Watch | Saved | MovePart | Topics | Buries
)


class Message(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A message as it is in a queue."""

    offset: int
    key: str
    payload: bytes
    properties: bytes
    at: int
    note: str = ""
    """Of a dead letter: where it comes from, and why."""


class Assigned(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A message that a consumer was given. ``attempt``: how often it was given to one, with this."""

    queue: str
    group: str
    consumer: str
    node: str
    replica: bool
    """Whether that node has the group's log, and so sees this by itself."""
    attempt: int
    message: Message


class Job(msgspec.Struct, frozen=True):
    """To a process that consumes: a message that it has, until it says what became of it, or has ended."""

    queue: str
    group: str
    consumer: str
    offset: int
    attempt: int
    key: str
    payload: bytes
    note: str = ""
    """Of a dead letter: where it comes from, and why."""


class Claim(msgspec.Struct, frozen=True, array_like=True):
    """A message that a consumer has, without what is in it."""

    queue: str
    consumer: str
    offset: int
    attempt: int


class HeldAnswer(msgspec.Struct, frozen=True, array_like=True):
    """Answer to :class:`Held`: the node's consumers with their queue and consumer group, and what they have,
    as of the entry ``index``; and all nodes that have consumers."""

    index: int
    consumers: list[tuple[str, str, str]]
    claims: list[Claim]
    nodes: list[str]
    moves: list[tuple[str, str, str]] = []
    """Moves of queues to other groups: the move, the queue, the group."""


encode = msgspec.msgpack.Encoder().encode
Request: TypeAlias = Batch | Tick | InSync | Release
decode_request: Callable[[bytes], Request] = msgspec.msgpack.Decoder(Request).decode
decode_question: Callable[[bytes], Question] = msgspec.msgpack.Decoder(Question).decode
decode_assigned: Callable[[bytes], list[Assigned]] = msgspec.msgpack.Decoder(list[Assigned]).decode
decode_results: Callable[[bytes], Results] = msgspec.msgpack.Decoder(Results).decode


def batch(writer: bytes, number: int, operations: list[Operation]) -> bytes:
    """Return the request of a batch."""
    return encode(Batch(writer, number, operations))


def decoder_of(kind: Any) -> Callable[[bytes], Any]:
    """Return what decodes an answer of a kind."""
    return msgspec.msgpack.Decoder(kind).decode

"""What operators see of queues, and what they have to know, as a replication group answers it."""

from __future__ import annotations

import msgspec


class ConsumerStats(msgspec.Struct, frozen=True):
    """A consumer. ``stuck``: it let a message's time pass, and has settled none since."""

    client: str
    node: str
    held: int
    limit: int
    stuck: bool


class CheckpointStats(msgspec.Struct, frozen=True):
    """The checkpoint of a consumer group: the ``number`` of those that were written, with this; bytes; the
    offset of the message that it was written with, and the consumer that wrote it."""

    number: int
    size: int
    offset: int
    client: str


class GroupStats(msgspec.Struct, frozen=True):
    """A consumer group: the next offset that it has not given out, the first that is not settled; messages
    that wait, that consumers have, and that wait for their back-off."""

    name: str
    cursor: int
    committed: int
    waiting: int
    held: int
    delayed: int
    consumers: list[ConsumerStats]
    checkpoint: CheckpointStats | None = None


class QueueStats(msgspec.Struct, frozen=True):
    """A queue. ``next``: the offset that the next message gets; counts are since the queue was made."""

    name: str
    type: str
    depth: int
    size: int
    first: int
    next: int
    oldest: int
    """Milliseconds that its oldest message is in it."""
    consumers: int
    held: int
    appended: int
    settled: int
    redelivered: int
    dead: int
    dropped: int
    refused: int
    """Messages for which there was no room, or that were too large."""
    topics: tuple[str, ...] = ()
    dead_letters: str = ""
    """Queue that its dead letters go to; blank: they are dropped."""
    moving_to: str = ""
    """Group that it goes to; blank: it stays."""


class QueueDetails(msgspec.Struct, frozen=True):
    """A queue, its settings as JSON, and its consumer groups."""

    stats: QueueStats
    settings: str
    groups: list[GroupStats]


class GroupLag(msgspec.Struct, frozen=True, array_like=True):
    """How far a consumer group is behind: offsets that it was not given, or has not settled; milliseconds
    that the oldest of these is in the queue."""

    queue: str
    group: str
    lag: int
    oldest: int


class Trouble(msgspec.Struct, frozen=True, array_like=True):
    """Something that an operator has to know of a queue, under the name of its alarm."""

    alarm: str
    queue: str
    subject: str
    """What of the queue it is about: a consumer group, a client; blank: all of it."""
    lasts: int | None
    """Milliseconds, if the queue knows."""
    text: str

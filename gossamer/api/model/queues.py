"""Queues, their consumer groups and messages, as the API shows and takes them."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Annotated, Literal, Self

import msgspec
from pydantic import Field

from gossamer.api.model.base import Value
from gossamer.api.model.forms import QUEUE_KEY, QUEUE_NAME
from gossamer.mqtt import Properties
from gossamer.queues import Message, QueueDetails, QueueStats

MAX_PAYLOAD = 48 * 1024
_properties = msgspec.msgpack.Decoder(Properties).decode


class QueueInfo(Value):
    """A queue; counts are since it was made."""

    name: str
    type: str
    replication_group: str
    """Its messages are in the log of this group: `queues/…` of `/raft`."""
    depth: int
    """Messages in it."""
    bytes: int
    """Size of these, with what they cost beside their payload."""
    first: int
    """Offset of its oldest message, or `next`."""
    next: int
    """Offset that the next message gets."""
    oldest: float
    """Seconds that its oldest message is in it; 0: it is empty."""
    consumers: int
    held: int
    """Messages that consumers have and have not settled."""
    appended: int
    settled: int
    """How often a consumer group was done with a message."""
    redelivered: int
    dead: int
    """Messages that became dead letters."""
    dropped: int
    """Messages that went by age or limits, or that nobody could do where no dead letters are kept."""
    refused: int
    """Messages for which there was no room, or that were too large: their publishers were told."""
    topics: tuple[str, ...]
    """Topic filters that it captures."""
    dead_letters: str
    """The queue that its dead letters go to; blank: they are dropped."""
    moving_to: str
    """The replication group that it goes to, and stands still until then; blank: it stays."""

    @classmethod
    def of(cls, group: str, stats: QueueStats, **more: object) -> Self:
        """Return the queue of a replication group."""
        values = msgspec.structs.asdict(stats)
        size, oldest = values.pop("size"), values.pop("oldest") / 1000
        return cls.model_validate(
            {**values, "replication_group": group, "bytes": size, "oldest": oldest, **more}
        )


class QueueConsumerInfo(Value):
    """A consumer."""

    client: str
    node: str
    """The node that it is connected to."""
    held: int
    limit: int
    """Messages that it has at once, at most."""
    stuck: bool
    """It let a message's time pass, and is given nothing until it settles one."""


class CheckpointInfo(Value):
    """What a consumer group keeps beside its place: the state of a persistent actor."""

    number: int
    """How many were written, with this."""
    size: int
    """Bytes."""
    offset: int
    """Of the message that it was written with."""
    client: str
    """The consumer that wrote it."""


class ConsumerGroupInfo(Value):
    """A consumer group."""

    name: str
    cursor: int
    """The first offset that was not given to it yet."""
    committed: int
    """The first offset that it has not settled."""
    waiting: int
    """Messages that wait for a consumer with room: its lag."""
    held: int
    delayed: int
    """Messages that come again later, after a `nack`."""
    consumers: tuple[QueueConsumerInfo, ...] = ()
    checkpoint: CheckpointInfo | None = None


class QueueDetailsInfo(QueueInfo):
    """A queue with its settings and its consumer groups."""

    settings: Mapping[str, object]
    """As below `queues` in the configuration."""
    groups: tuple[ConsumerGroupInfo, ...] = ()

    @classmethod
    def shown(cls, group: str, found: QueueDetails) -> Self:
        """Return all of a queue."""
        settings = msgspec.json.decode(found.settings)
        groups = [ConsumerGroupInfo.model_validate(one) for one in found.groups]
        return cls.of(group, found.stats, settings=settings, groups=groups)


class QueuedMessage(Value):
    """A message in a queue."""

    offset: int
    key: str
    payload: str
    encoding: Literal["text", "base64"]
    """The encoding of `payload`: text where it is UTF-8."""
    at: float
    """When it was published; seconds since 1970."""
    note: str = ""
    """Of a dead letter: the queue and consumer group that it comes from, and why."""
    content_type: str | None = None
    user: tuple[tuple[str, str], ...] = ()
    """User properties of its PUBLISH."""

    @classmethod
    def of(cls, message: Message) -> Self:
        """Return a message as it is shown."""
        encoding: Literal["text", "base64"] = "text"
        try:
            payload = message.payload.decode()
        except UnicodeDecodeError:
            payload, encoding = base64.b64encode(message.payload).decode(), "base64"
        properties = _properties(message.properties) if message.properties else Properties()
        return cls(
            offset=message.offset,
            key=message.key,
            payload=payload,
            encoding=encoding,
            at=message.at / 1000,
            note=message.note,
            content_type=properties.content_type,
            user=properties.user,
        )


class AppendRequest(Value):
    """A message to put into a queue."""

    key: Annotated[str, Field(max_length=16_000, pattern=QUEUE_KEY)] = ""
    """Consumers get it with the topic `$queue/NAME/KEY`."""
    payload: Annotated[str, Field(max_length=MAX_PAYLOAD)] = ""
    encoding: Literal["text", "base64"] = "text"
    """The encoding of `payload`; consumers get the bytes."""


class Appended(Value):
    """A message that a quorum has."""

    queue: str
    offset: int


class MoveRequest(Value):
    """Where a queue is to go."""

    group: Annotated[str, Field(pattern=QUEUE_NAME)]
    """A replication group."""


class ReplayRequest(Value):
    """Dead letters to give back; all of a queue's where nothing is said."""

    offset: Annotated[int | None, Field(ge=0, lt=2**63)] = None
    """The one at this offset alone."""
    limit: Annotated[int | None, Field(ge=1, lt=2**31)] = None
    """The oldest, so many at most."""


class Replayed(Value):
    """Dead letters that were given back to their queue."""

    queue: str
    dead_letters: str
    """The queue that they were in."""
    replayed: int
    """How many."""


class Purged(Value):
    """A queue that is empty."""

    queue: str
    removed: int
    """Messages that were in it."""

"""Configuration of queues: what each keeps, for how long, and who has copies of it.

The keys are FluxMQ's where it has them. A section :class:`QueueConfig` is also what a queue made at run time
is made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from gossamer.config.units import Duration, OptionalDuration, PositiveDuration, PositiveSize
from gossamer.config.values import Blank, Form, Positive, Section

DEFAULT_GROUP = "default"
_NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}"

_FILTER = r"(?!\$)(?=.)(#|(\+|[^+#/\0]*)(/(\+|[^+#/\0]*))*(/#)?)"

TopicFilter = Annotated[
    str, Form(_FILTER, "a topic filter such as shop/+/orders, which does not begin with $")
]
QueueName = Annotated[str, Form(_NAME, "a name of letters, digits, '_', '.' and '-', 63 at most")]


class QueueLimits(Section):
    """What a queue holds at most."""

    max_depth: Positive = 100_000
    """Messages."""
    max_bytes: PositiveSize = 64 * 1024**2
    """Bytes of these."""
    max_message_size: Annotated[PositiveSize, Field(le=4 * 1024**2)] = 256 * 1024
    """Bytes of one message, key and properties included: it is an entry of a log, and crosses links whole."""
    message_ttl: OptionalDuration = 168 * 3600.0
    """A message that waits longer goes; off: never. One with a shorter message expiry goes sooner."""
    max_groups: Positive = 100
    """Consumer groups. In a classic queue a message waits for all of them."""
    overflow: Literal["reject", "drop_oldest"] = "reject"
    """What becomes of a message for which there is no room. reject: its publisher is told (PUBACK 0x97).
    drop_oldest: it is taken, and the oldest goes."""


class QueueRetry(Section):
    """When a message that a consumer could not do comes again."""

    max_deliveries: Positive = 10
    """After so many it is a dead letter."""
    initial_backoff: Duration = 5.0
    """Wait after the first ``nack``."""
    max_backoff: Duration = 300.0
    """Longest such wait."""
    multiplier: Annotated[float, Field(ge=1)] = 2.0
    """Factor from each wait to the next."""


class QueueDeadLetters(Section):
    """Where messages go that no consumer could do."""

    enabled: bool = True
    """off: they are dropped, and counted."""
    queue: QueueName | None = None
    """Queue of the same group; nothing: the queue's own name with ``.dlq`` behind it. It is made when it is
    needed."""

    def queue_of(self, queue: str) -> str:
        """Return the queue that the dead letters of a queue go to."""
        return self.queue or f"{queue}.dlq"


class QueueReplication(Section):
    """Which nodes have a queue."""

    group: QueueName = DEFAULT_GROUP
    """Replication group: queues of one group have one leader and one log."""


class QueueConfig(Section):
    """A queue."""

    type: Literal["classic", "stream", "ephemeral", "last_value"] = "classic"
    """classic: a message goes once every consumer group has done it. stream: messages stay until a limit or
    ``max_age`` is reached, and groups may begin anywhere. ephemeral: as classic, and the queue itself goes
    when it has had no consumer for ``expires_after``. last_value: the latest message of each key stays."""
    topics: tuple[TopicFilter, ...] = ()
    """Topic filters: what is published to a topic that matches is in the queue, too."""
    ordering: Literal["none", "key"] = "none"
    """key: while a message is with a consumer, no other with its key goes to the same consumer group."""
    visibility_timeout: PositiveDuration = 30.0
    """A message that its consumer has not settled in this time goes to another one."""
    max_inflight: Annotated[int, Field(gt=0, le=65_535)] = 100
    """Messages that one consumer has at once, at most."""
    max_age: OptionalDuration = None
    """Age at which a stream's messages go; off: never."""
    expires_after: PositiveDuration = 60.0
    """Time without consumers after which an ephemeral queue goes."""
    unattended_after: OptionalDuration = 600.0
    """A consumer group without consumers, for which messages have waited so long, is an alarm; off: never."""
    limits: Annotated[QueueLimits, Blank] = QueueLimits()
    retry: Annotated[QueueRetry, Blank] = QueueRetry()
    dlq: Annotated[QueueDeadLetters, Blank] = QueueDeadLetters()
    replication: Annotated[QueueReplication, Blank] = QueueReplication()

    @model_validator(mode="after")
    def _fits(self) -> QueueConfig:
        if self.limits.max_bytes < self.limits.max_message_size:
            raise PydanticCustomError("wanted", "limits.max_bytes of limits.max_message_size or more")
        if self.max_age is not None and self.type != "stream":
            raise PydanticCustomError("wanted", "max_age where type is stream; elsewhere limits.message_ttl")
        return self


class QueueDeclaration(QueueConfig):
    """A queue that the configuration declares."""

    name: QueueName
    """Clients publish to ``$queue/NAME/KEY`` and subscribe to ``$queue/NAME/#``."""


def check_dead_letters(queues: Sequence[QueueDeclaration]) -> None:
    """Raise PydanticCustomError where a queue and the one that its dead letters go to are in two groups."""
    groups = {queue.name: queue.replication.group for queue in queues}
    for queue in queues:
        letters, group = queue.dlq.queue_of(queue.name), queue.replication.group
        if queue.dlq.enabled and (other := groups.get(letters, group)) != group:
            raise PydanticCustomError(
                "wanted",
                "queue {queue} and {letters}, which its dead letters go to, in one replication.group, not "
                "{group} and {other}",
                {"queue": queue.name, "letters": letters, "group": group, "other": other},
            )

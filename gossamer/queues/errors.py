"""Errors of queues.

::

    UsageError        UnknownQueueError TooLargeError NotHeldError NotConsumingError BadStartError
                      GroupChangeError GroupInUseError DeadLettersElsewhereError NoDeadLetterError
                      StaleCheckpointError CheckpointTooLargeError SharedLettersError QueueExistsError
                      TypeChangeError
    UnavailableError  QueueFullError TooManyGroupsError FewReplicasError NotLeaderError NotDoneError
"""

from __future__ import annotations

from collections.abc import Iterable

from gossamer.errors import GossamerError, NotFoundError, UnavailableError, UsageError
from gossamer.queues.values import MAX_CHECKPOINT, Why


class UnknownQueueError(NotFoundError):
    """No queue has this name."""

    def __init__(self, queue: str) -> None:
        self.queue = queue
        super().__init__(f"queue {queue[:100]!r}: there is none; make it with: gossamer queues create NAME")


class TooLargeError(UsageError):
    """A message that is larger than its queue takes."""

    def __init__(self, queue: str) -> None:
        self.queue = queue
        super().__init__(
            f"queue {queue}: the message is larger than limits.max_message_size; send less, or raise it"
        )


class NotHeldError(UsageError):
    """Messages that a consumer settles and does not have, at these ``offsets`` of those that it named."""

    def __init__(self, queue: str, offsets: Iterable[int] = ()) -> None:
        self.queue = queue
        self.offsets = frozenset(offsets)
        super().__init__(
            f"queue {queue}: the message is not with this consumer: it was settled, or its "
            "visibility_timeout is over and it comes again"
        )


class StaleCheckpointError(UsageError):
    """A checkpoint that does not come from the latest one: somebody else has written one since."""

    def __init__(self, queue: str) -> None:
        self.queue = queue
        super().__init__(
            f"queue {queue}: the consumer group has a later checkpoint; nothing was done: read that one, and "
            "do the message again"
        )


class CheckpointTooLargeError(UsageError):
    """A checkpoint that is larger than consumer groups keep."""

    def __init__(self, queue: str, *, size: int) -> None:
        self.queue = queue
        self.size = size
        super().__init__(
            f"queue {queue}: a checkpoint of {size} bytes; expected {MAX_CHECKPOINT} at most: keep what is "
            "large elsewhere, and its name here"
        )


class NotConsumingError(UsageError):
    """A message that a connection settles in a consumer group in which it is not; ``group``: None where it
    names none."""

    def __init__(self, queue: str, group: str | None) -> None:
        self.queue = queue
        self.group = group
        where = "" if group is None else f" in consumer group {group[:64]!r}"
        super().__init__(
            f"queue {queue[:100]!r}: this connection does not consume it{where}; subscribe first, and settle "
            "what came with the group-id that came with it"
        )


class BadStartError(UsageError):
    """A consumer group that is to begin where nothing can."""

    def __init__(self, queue: str) -> None:
        self.queue = queue
        super().__init__(
            f"queue {queue}: expected offset first, last, next, a number up to its next one, which gossamer "
            f"queues show {queue} says, or timestamp: and milliseconds"
        )


class GroupChangeError(UsageError):
    """A queue that is to be in another replication group than it is."""

    def __init__(self, queue: str, *, has: str, wanted: str) -> None:
        self.queue = queue
        self.has = has
        self.wanted = wanted
        super().__init__(
            f"queue {queue}: replication.group is {wanted}, and the queue is in {has} with its messages; "
            f"move it with: gossamer queues move {queue} --group {wanted}"
        )


class TypeChangeError(UsageError):
    """A queue with ``depth`` messages that is to become one of another type."""

    def __init__(self, queue: str, *, has: str, wanted: str, depth: int) -> None:
        self.queue = queue
        self.has = has
        self.wanted = wanted
        self.depth = depth
        super().__init__(
            f"queue {queue}: type is {wanted}, and the queue is {has} with {depth} messages, which another "
            f"type would keep otherwise; consume them, or delete them with: gossamer queues purge {queue}"
        )


class DeadLettersElsewhereError(UsageError):
    """A queue whose dead letters are, or would be, in another replication group: ``has`` and ``dead``."""

    def __init__(self, queue: str, letters: str, *, has: str, dead: str) -> None:
        self.queue = queue
        self.letters = letters
        self.has = has
        self.dead = dead
        super().__init__(
            f"queue {queue} is in replication group {has}, and its dead letters {letters} in {dead}; "
            f"they have to be in one: give {queue} another dlq.queue, or make {letters} in {has}, once it is "
            f"empty and deleted in {dead}"
        )


class SharedLettersError(UsageError):
    """A queue that cannot be moved, since its dead letters are also those of another one, or it is these."""

    def __init__(self, queue: str) -> None:
        self.queue = queue
        super().__init__(
            f"queue {queue} moves with its dead letters, and another queue of its group has the same, or "
            f"{queue} is its dead letters: give the other one a dlq.queue of its own, or move that instead"
        )


class QueueExistsError(UsageError):
    """A queue that comes to a group where there is one of its name."""

    def __init__(self, queue: str) -> None:
        self.queue = queue
        super().__init__(f"queue {queue} is in both groups; delete the one that is not wanted")


class NoDeadLetterError(NotFoundError):
    """A dead letter that is to be given back and is not there."""

    def __init__(self, queue: str, letters: str, offset: int) -> None:
        self.queue = queue
        self.letters = letters
        self.offset = offset
        super().__init__(
            f"queue {letters}: no dead letter of {queue} at offset {offset}, or a consumer has it; see: "
            f"gossamer queues peek {letters}"
        )


class QueueFullError(UnavailableError):
    """A queue without room that refuses what comes."""

    def __init__(self, queue: str) -> None:
        self.queue = queue
        super().__init__(
            f"queue {queue} is full: limits.max_depth or limits.max_bytes is reached; try again once "
            "consumers have settled some, or raise them"
        )


class GroupInUseError(UsageError):
    """A consumer group that is to be deleted and has consumers."""

    def __init__(self, queue: str) -> None:
        self.queue = queue
        super().__init__(f"queue {queue}: the consumer group has consumers; disconnect them first")


class TooManyGroupsError(UnavailableError):
    """A consumer group more than a queue may have."""

    def __init__(self, queue: str) -> None:
        self.queue = queue
        super().__init__(
            f"queue {queue} has limits.max_groups consumer groups; use one of these, or remove one with: "
            f"gossamer queues drop-group {queue} GROUP"
        )


class FewReplicasError(UnavailableError):
    """A message that too few replicas would have."""

    def __init__(self, queue: str) -> None:
        self.queue = queue
        super().__init__(
            f"queue {queue}: fewer replicas are in sync than min_in_sync_replicas of its replication group; "
            "nothing was done; send it again once the nodes are back that gossamer raft status shows behind"
        )


class NotLeaderError(UnavailableError):
    """A message at a node that does not lead its queue, and is to refuse it; ``leader`` is blank where it is
    not known."""

    def __init__(self, queue: str, leader: str) -> None:
        self.queue = queue
        self.leader = leader
        where = f"{leader} leads it: publish there" if leader else "no leader of it is known: try again"
        super().__init__(f"queue {queue}: write_policy is reject, and this node does not lead it; {where}")


class NotDoneError(UnavailableError):
    """A request that is not known to be done; ``unknown``: it may be, else it is not."""

    def __init__(self, why: str, *, unknown: bool) -> None:
        self.why = why
        self.unknown = unknown
        outcome = "it may be done or not" if unknown else "nothing was done"
        super().__init__(f"queues: {why}; {outcome}; try again")


def why_of(error: GossamerError) -> Why | None:
    """Return as what an error was refused, so that :func:`error_of` makes it again elsewhere; None: it is of
    another kind."""
    return next((why for why in Why if type(error_of(why, "")) is type(error)), None)


def error_of(why: Why, queue: str, offsets: Iterable[int] = ()) -> GossamerError:
    """Return the error of an operation that was refused, for these messages if it was about some."""
    match why:
        case Why.UNKNOWN_QUEUE:
            return UnknownQueueError(queue)
        case Why.FULL:
            return QueueFullError(queue)
        case Why.TOO_LARGE:
            return TooLargeError(queue)
        case Why.NOT_HELD | Why.NOT_JOINED:
            return NotHeldError(queue, offsets)
        case Why.BAD_START:
            return BadStartError(queue)
        case Why.TOO_MANY_GROUPS:
            return TooManyGroupsError(queue)
        case Why.IN_USE:
            return GroupInUseError(queue)
        case Why.STALE:
            return StaleCheckpointError(queue)
        case Why.MOVING:
            return NotDoneError(f"queue {queue} is on its way to another replication group", unknown=False)
        case Why.RELEASED:
            return NotDoneError("no queue was in the replication group, and it just ended", unknown=False)
        case Why.SHARED:
            return SharedLettersError(queue)
        case Why.EXISTS:
            return QueueExistsError(queue)
        case Why.FEW_REPLICAS:
            return FewReplicasError(queue)

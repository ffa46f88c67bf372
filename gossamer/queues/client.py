"""Queues for any process of a node. What was answered is at a quorum of the queue's replication group."""

from __future__ import annotations

import asyncio
import time
from typing import Any
from uuid import uuid4

from gossamer.config import DEFAULT_GROUP, QueueConfig, QueueDeclaration
from gossamer.errors import GossamerError, UsageError
from gossamer.queues import places, questions
from gossamer.queues.declaring import settings_of
from gossamer.queues.errors import (
    CheckpointTooLargeError,
    NoDeadLetterError,
    NotDoneError,
    QueueExistsError,
    TypeChangeError,
    UnknownQueueError,
)
from gossamer.queues.moving.carry import carry
from gossamer.queues.moving.values import MoveIn, MoveOut, MoveOver
from gossamer.queues.replicated.state import Move
from gossamer.queues.server import Ask, Conclude, Consume, ask
from gossamer.queues.stats import QueueDetails, QueueStats
from gossamer.queues.values import (
    MAX_CHECKPOINT,
    QUEUES,
    Append,
    Checkpoint,
    Define,
    DropGroup,
    Job,
    Message,
    Operation,
    Outcome,
    Purge,
    Remove,
    Replay,
)
from gossamer.raft import PATIENCE
from gossamer.supervisor import CallFailed, CallTimeout, call, self_pid

_LOOK = 0.1
"""Seconds between two looks at a queue that moves."""


async def append(queue: str, payload: bytes, *, key: str = "", properties: bytes = b"") -> int:
    """Put a message into a queue; return its offset.

    Raises:
        UnknownQueueError, TooLargeError, QueueFullError: nothing was done.
        NotDoneError: no quorum could be reached in time; it says what may have become of the message.
    """
    return await _ask(Append(queue, key, payload, properties, int(time.time() * 1000)))


async def consume(
    queue: str, *, group: str = "default", limit: int = 10, offset: str = "", single: bool = False
) -> str:
    """Have the calling process sent :class:`Job` messages, ``limit`` at once at most, as one of a consumer
    group; return the name of this consumer. It ends with the process, and what that has then goes to others;
    it goes on where the server of the node's queues is restarted.

    ``offset``: where a new consumer group begins: ``first``, ``last``, ``next``, a number, or ``timestamp:``
    and milliseconds of the day. ``single``: of this group only the consumer that joined first is sent jobs,
    and the next one when it is gone, or lets the time of a job pass.

    Raises:
        UnknownQueueError, BadStartError: nothing was done.
        NotDoneError: no quorum could be reached in time.
    """
    return str(await _call(Consume(self_pid(), queue, group, limit, offset, single)))


async def ack(job: Job, *, checkpoint: bytes | None = None, based_on: int = 0) -> None:
    """Say that a job is done; its consumer group keeps ``checkpoint`` from the same step on, in place of the
    one of number ``based_on``: one more is that of this one.

    Raises:
        NotHeldError: somebody else has it by now, or it is done.
        StaleCheckpointError: the group's checkpoint has another number; the job is still here.
        CheckpointTooLargeError: it is larger than 64 KiB.
        NotDoneError: no quorum could be reached in time.
    """
    if checkpoint is not None and len(checkpoint) > MAX_CHECKPOINT:
        raise CheckpointTooLargeError(job.queue, size=len(checkpoint))
    await _conclude(job, Outcome.ACK, checkpoint=checkpoint, based_on=based_on)


async def saved(queue: str, *, group: str = "default") -> Checkpoint:
    """Return the checkpoint of a consumer group, as a quorum has it. Raises UnknownQueueError,
    NotReadyError."""
    replicas = await questions.group_of(queue)
    found = None if replicas is None else await questions.checkpoint_in(replicas, queue, group)
    if found is None:
        raise UnknownQueueError(queue)
    return found


async def nack(job: Job, reason: str = "", *, delay: float | None = None) -> None:
    """Have a job come again after ``delay`` seconds, or the queue's back-off, to whoever has room then.
    Raises as :func:`ack`."""
    await _conclude(job, Outcome.NACK, reason=reason, delay=delay)


async def reject(job: Job, reason: str = "") -> None:
    """Make a job a dead letter. Raises as :func:`ack`."""
    await _conclude(job, Outcome.REJECT, reason=reason)


async def create(queue: str, config: QueueConfig) -> None:
    """Make a queue, or change what it keeps; its replication group too, unless ``auto_provision_groups`` is
    off.

    Raises:
        GroupChangeError, DeadLettersElsewhereError: it, or what its dead letters go to, is in another
            replication group.
        WrongValueError: there is no such replication group.
        NotDoneError, NotReadyError: no quorum could be reached in time.
    """
    group = config.replication.group
    await places.check(queue, config)
    await places.provide("replication.group", group)
    await _ask(Define(queue, settings_of(config)), group)


async def redeclare(queue: QueueDeclaration) -> str:
    """Have a queue as a configuration that was read again declares it; return what was done: ``added``,
    ``changed``, or nothing.

    Raises:
        TypeChangeError: it is of another type, with messages.
        GroupChangeError, DeadLettersElsewhereError, WrongValueError, NotDoneError, NotReadyError: as
            :func:`create`.
    """
    try:
        _, found = await show(queue.name)
    except UnknownQueueError:
        await create(queue.name, queue)
        return "added"
    if found.settings.encode() == settings_of(queue):
        return ""
    if found.stats.depth and found.stats.type != queue.type:
        raise TypeChangeError(queue.name, has=found.stats.type, wanted=queue.type, depth=found.stats.depth)
    await create(queue.name, queue)
    return "changed"


async def delete(queue: str) -> None:
    """Delete a queue with all that is in it. Raises UnknownQueueError, NotDoneError."""
    await _ask(Remove(queue))


async def purge(queue: str) -> int:
    """Delete all messages of a queue; return how many. Raises UnknownQueueError, NotDoneError."""
    return await _ask(Purge(queue))


async def replay(queue: str, *, offset: int | None = None, limit: int | None = None) -> tuple[str, int]:
    """Give the dead letters of a queue back to it, all, the one at ``offset``, or the oldest, ``limit`` at
    most: their attempts count anew, and the consumer group that could not do one gets it, if it is there, and
    no other. Those for which the queue has no room stay. Return the queue that they were in, and how many.

    Raises:
        UnknownQueueError, NoDeadLetterError, DeadLettersElsewhereError, QueueFullError: nothing was done.
        NotDoneError, NotReadyError: no quorum could be reached in time.
    """
    group, found = await show(queue)
    config = QueueConfig.model_validate_json(found.settings)
    letters = config.dlq.queue_of(queue)
    await places.check_dead_letters(queue, group, config)
    count = await _ask(Replay(queue, offset, limit))
    if offset is not None and not count:
        raise NoDeadLetterError(queue, letters, offset)
    return letters, count


async def move(queue: str, group: str) -> str:
    """Have a queue go to another replication group, with its dead letters, messages, consumer groups and what
    consumers have; return the group that it is in, which is the other one unless that takes long: it goes on
    then. Who publishes meanwhile waits.

    Raises:
        UnknownQueueError, SharedLettersError, QueueExistsError: nothing was done.
        WrongValueError: there is no such replication group.
        NotDoneError, NotReadyError: no quorum could be reached in time.
    """
    has, found = await show(queue)
    if has == group:
        return group
    await places.provide("group", group)
    if not found.stats.moving_to:
        going = Move(uuid4().hex, queue, group)
        # So there is a place for it: a group in which nothing is, and to which nothing goes, may end.
        await ask(MoveIn(queue, going.id, 0, b"", last=False), group)
        try:
            await ask(MoveOut(queue, going.id, group), has)
        except UsageError:
            await ask(MoveOver(queue, going.id, moved=False), group)
            raise
        # The leader goes on with it where this ends.
        await carry(has, going, ask)
    loop = asyncio.get_running_loop()
    until = loop.time() + PATIENCE
    while loop.time() < until:
        has, found = await show(queue)
        if has == group:
            break
        if not found.stats.moving_to:
            raise QueueExistsError(queue)
        await asyncio.sleep(_LOOK)
    return has


async def drop_group(queue: str, group: str) -> None:
    """Delete a consumer group: messages wait for it no more. Raises UnknownQueueError, GroupInUseError: it
    has consumers; NotDoneError."""
    await _ask(DropGroup(queue, group))


async def list_queues() -> list[tuple[str, QueueStats]]:
    """Return all queues with their replication group, by name. Raises NotReadyError."""
    found = [
        (group, stats) for group in await questions.groups() for stats in await questions.queues_in(group)
    ]
    # One that has just moved may be in both.
    once = {
        stats.name: (group, stats) for group, stats in sorted(found, key=lambda one: not one[1].moving_to)
    }
    return sorted(once.values(), key=lambda one: one[1].name)


async def show(queue: str) -> tuple[str, QueueDetails]:
    """Return a queue with its replication group. Raises UnknownQueueError, NotReadyError."""
    for group in await questions.groups():
        found = await questions.show_in(group, queue)
        if found is not None:
            return group, found
    raise UnknownQueueError(queue)


async def peek(queue: str, offset: int, limit: int) -> list[Message]:
    """Return messages from an offset on, without taking them. Raises UnknownQueueError, NotReadyError."""
    group = await questions.group_of(queue)
    found = None if group is None else await questions.peek_in(group, queue, offset, limit)
    if found is None:
        raise UnknownQueueError(queue)
    return found


async def _conclude(job: Job, outcome: Outcome, **more: Any) -> None:
    await _call(Conclude(job.consumer, job.offset, outcome, more))


async def _ask(operation: Operation, group: str = DEFAULT_GROUP) -> int:
    known = isinstance(operation, Define)
    return int(await _call(Ask(operation, group if known else "")))


async def _call(asked: Ask | Consume | Conclude) -> int | str:
    try:
        answer: int | str | GossamerError = await call(QUEUES, asked, 2 * PATIENCE)
    except CallTimeout:
        raise NotDoneError("no quorum has answered", unknown=True) from None
    except CallFailed as error:
        raise NotDoneError(f"the server of this node was restarted ({error.reason})", unknown=True) from None
    if isinstance(answer, GossamerError):
        raise answer
    return answer

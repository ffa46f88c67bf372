"""``/queues``: queues that hold messages for MQTT clients, their consumer groups, and what is in them.

Any node may be asked: an answer comes from the leader of the queue's replication group, but for the list,
which may be a second old. A change is answered once a quorum has it.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError

from gossamer.api.http.access import needs
from gossamer.api.http.tokens import Role
from gossamer.api.model.base import Problem
from gossamer.api.model.cluster import Done
from gossamer.api.model.forms import QUEUE_NAME
from gossamer.api.model.queues import (
    Appended,
    AppendRequest,
    MoveRequest,
    Purged,
    QueueDetailsInfo,
    QueuedMessage,
    QueueInfo,
    Replayed,
    ReplayRequest,
)
from gossamer.api.resources.mqtt import payload_of
from gossamer.api.view import NodeView, QueuesView
from gossamer.config import QueueConfig
from gossamer.errors import NotFoundError, mismatch

MAX_PEEK = 100

Name = Annotated[str, Path(max_length=100, description="A queue.")]
NewName = Annotated[str, Path(pattern=QUEUE_NAME, description="A queue, which need not be there.")]
GroupName = Annotated[str, Path(description="A consumer group.")]
Offset = Annotated[int, Query(ge=0, lt=2**63, description="The first offset that is wanted.")]
Most = Annotated[int, Query(ge=1, le=MAX_PEEK, description="How many at most.")]


def queues_router(view: NodeView) -> APIRouter:
    """``/queues``."""
    router = APIRouter(prefix="/queues", tags=["queues"], responses={404: {"model": Problem}})
    queues = view.queues

    @router.get("")
    async def listed() -> tuple[QueueInfo, ...]:
        """All queues, by name."""
        return tuple(QueueInfo.of(group, stats) for group, stats in await queues.listed())

    @router.get("/{name}")
    async def shown(name: Name) -> QueueDetailsInfo:
        """A queue with its settings, consumer groups and consumers."""
        return QueueDetailsInfo.shown(*await queues.show(name))

    @router.put("/{name}")
    async def create(name: NewName, settings: dict[str, object]) -> QueueDetailsInfo:
        """Make a queue, or change it, with settings as below `queues` in the configuration.

        Those that are left out have their defaults, as in a new queue. Its messages stay.
        """
        await queues.create(name, _config_of(settings))
        return QueueDetailsInfo.shown(*await queues.show(name))

    @router.delete("/{name}")
    async def delete(name: Name) -> Done:
        """Delete a queue with all that is in it."""
        await queues.delete(name)
        return Done(done=f"queue {name} deleted")

    @router.post("/{name}/move")
    async def move(name: Name, where: MoveRequest) -> QueueDetailsInfo:
        """Have a queue go to another replication group, with its dead letters and all that consumers have.

        Who publishes meanwhile waits, and consumers go on in the new group. It is answered when the queue is
        there, or with `moving_to` where that takes longer than some seconds.
        """
        await queues.move(name, where.group)
        return QueueDetailsInfo.shown(*await queues.show(name))

    @router.delete("/{name}/groups/{group:path}")
    async def drop_group(name: Name, group: GroupName) -> Done:
        """Delete a consumer group: messages wait for it no more. A connected consumer makes it again."""
        _, found = await queues.show(name)
        if group not in [one.name for one in found.groups]:
            known = ", ".join(one.name[:100] for one in found.groups) or "none; the queue has no groups"
            raise mismatch(NotFoundError, "consumer group", repr(group[:100]), known)
        await queues.drop_group(name, group)
        return Done(done=f"consumer group {group} of queue {name} deleted")

    _add_messages(router, queues)
    return router


def _add_messages(router: APIRouter, queues: QueuesView) -> None:
    """What is done with the messages of a queue."""

    @router.post("/{name}/purge")
    async def purge(name: Name) -> Purged:
        """Delete all messages of a queue."""
        return Purged(queue=name, removed=await queues.purge(name))

    @router.post("/{name}/replay")
    async def replay(name: Name, which: ReplayRequest) -> Replayed:
        """Give the dead letters of a queue back to it.

        In one step, so that none is in both queues or in neither; their attempts count anew. The consumer
        group that could not do a message gets it, if it is there, and no other. Those for which the queue has
        no room stay, as do those that a consumer of the dead letters has.
        """
        letters, count = await queues.replay(name, which.offset, which.limit)
        return Replayed(queue=name, dead_letters=letters, replayed=count)

    # Who reads messages here is asked for no ACL.
    @router.get("/{name}/messages", dependencies=[needs(Role.ADMIN)])
    async def peek(name: Name, offset: Offset = 0, limit: Most = 10) -> tuple[QueuedMessage, ...]:
        """Messages of a queue with what is in them, oldest first; none is taken, and no consumer sees it."""
        return tuple(map(QueuedMessage.of, await queues.peek(name, offset, limit)))

    @router.post("/{name}/messages")
    async def append(name: Name, order: AppendRequest) -> Appended:
        """Put a message into a queue, and wait until a quorum has it."""
        payload = payload_of(order.payload, order.encoding)
        return Appended(queue=name, offset=await queues.append(name, payload, key=order.key))


def _config_of(settings: dict[str, object]) -> QueueConfig:
    """Return the settings of a queue. Raises RequestValidationError.

    A schema of these would promise less than the configuration takes: durations and sizes in any spelling.
    """
    try:
        return QueueConfig.model_validate(settings)
    except ValidationError as error:
        raise RequestValidationError(
            [{**one, "loc": ("body", *one["loc"])} for one in error.errors()]
        ) from None

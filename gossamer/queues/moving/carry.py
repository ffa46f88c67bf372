"""What the leader of a group does about queues that leave it: it has the other group take their parts, until
all are there, and then its own forget them. Who leads next goes on with it: each step may be done twice.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog

from gossamer.errors import GossamerError
from gossamer.queues import questions
from gossamer.queues.errors import QueueExistsError
from gossamer.queues.moving.values import MoveIn, MoveOver
from gossamer.queues.replicated.state import Move
from gossamer.queues.values import (
    Operation,
)

log = structlog.get_logger(__name__)

AskGroup = Callable[[Operation, str], Awaitable[int]]
"""``ask(operation, group)``: have an operation done; raises GossamerError."""


async def carry(group: str, move: Move, ask: AskGroup) -> None:
    """Bring a queue from its group to the other one, as far as it goes now; raise nothing."""
    queue, to = move.queue, move.to
    try:
        # It says how much has come: another leader may have begun.
        position = await ask(MoveIn(queue, move.id, 0, b"", last=False), to)
        while position >= 0:
            part = await questions.move_part(group, move.id, position)
            if part is None:
                return
            position = await ask(MoveIn(queue, move.id, position, part.data, part.last), to)
        await ask(MoveOver(queue, move.id, moved=True), group)
        log.info("queue_moved", queue=queue, group=group, to=to)
    except QueueExistsError as error:
        log.error("queue_not_moved", queue=queue, group=group, to=to, error=str(error))
        await _stay(group, move, ask)
    except GossamerError as error:
        log.debug("queue_move_waits", queue=queue, group=group, to=to, error=str(error))


async def _stay(group: str, move: Move, ask: AskGroup) -> None:
    try:
        await ask(MoveOver(move.queue, move.id, moved=False), group)
    except GossamerError as error:
        log.debug("queue_move_waits", queue=move.queue, group=group, to=move.to, error=str(error))

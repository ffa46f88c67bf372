"""Queues that the configuration declares: each is made or changed once its group is there, as the
configuration has it then, which may be read again meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from gossamer.config import QueueConfig, QueueDeclaration
from gossamer.errors import GossamerError
from gossamer.queues import places, questions
from gossamer.queues.errors import DeadLettersElsewhereError, GroupChangeError
from gossamer.queues.moving.carry import AskGroup
from gossamer.queues.values import Define

log = structlog.get_logger(__name__)

Elsewhere = Callable[[str, str], object]
RETRY = 1.0
ELSEWHERE = 10.0
"""Seconds after which it is looked again whether a queue is in the group that the configuration says."""


def settings_of(config: QueueConfig) -> bytes:
    """Return the settings of a queue, as its group keeps them."""
    return config.model_dump_json(exclude={"name"}).encode()


async def declare(
    name: str, current: Callable[[str], QueueDeclaration | None], ask: AskGroup, elsewhere: Elsewhere
) -> None:
    """Have a queue as the configuration has it, however long it takes until its group is there and it is in
    that; ``elsewhere(name, group)`` is told in which one it is. ``current`` None: it is declared no more."""
    told = False
    while (declared := current(name)) is not None:
        group, settings = declared.replication.group, settings_of(declared)
        try:
            # All nodes declare the same, and each again when it starts: then it is there, and right.
            shown = await questions.show_in(group, name)
            if shown is not None and shown.settings.encode() == settings:
                return
            await places.check(name, declared)
            await ask(Define(name, settings), group)
        except (GroupChangeError, DeadLettersElsewhereError) as error:
            if not told:
                log.error("queue_in_another_group", queue=name, error=str(error))
            told = True
            if isinstance(error, GroupChangeError):
                elsewhere(name, error.has)
            await asyncio.sleep(ELSEWHERE)
        except GossamerError as error:
            log.debug("queue_not_declared_yet", queue=name, error=str(error))
        await asyncio.sleep(RETRY)

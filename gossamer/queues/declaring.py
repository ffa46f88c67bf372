"""Queues that the configuration declares: each is made or changed once its group is there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from gossamer.config import QueueConfig
from gossamer.errors import GossamerError
from gossamer.queues import places, questions
from gossamer.queues.errors import DeadLettersElsewhereError, GroupChangeError
from gossamer.queues.moving.carry import AskGroup
from gossamer.queues.values import Define

log = structlog.get_logger(__name__)

RETRY = 1.0
ELSEWHERE = 10.0
"""Seconds after which it is looked again whether a queue is in the group that the configuration says."""


async def declare(group: str, define: Define, ask: AskGroup, elsewhere: Callable[[str], object]) -> None:
    """Have a queue as the configuration has it, however long it takes until its group is there and it is in
    that; ``elsewhere`` is told in which one it is."""
    told = False
    while True:
        try:
            # All nodes declare the same, and each again when it starts: then it is there, and right.
            shown = await questions.show_in(group, define.queue)
            if shown is not None and shown.settings.encode() == define.settings:
                return
            await places.check(define.queue, QueueConfig.model_validate_json(define.settings))
            await ask(define, group)
        except (GroupChangeError, DeadLettersElsewhereError) as error:
            if not told:
                log.error("queue_in_another_group", queue=define.queue, error=str(error))
            told = True
            if isinstance(error, GroupChangeError):
                elsewhere(error.has)
            await asyncio.sleep(ELSEWHERE)
        except GossamerError as error:
            log.debug("queue_not_declared_yet", queue=define.queue, error=str(error))
        await asyncio.sleep(RETRY)

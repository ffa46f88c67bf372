"""A look at a replication group, for what this node's consumers have there and were not told of."""

from __future__ import annotations

import msgspec

from gossamer.queues import questions
from gossamer.queues.port import Queues
from gossamer.queues.values import HeldAnswer, Message


class Look(msgspec.Struct, frozen=True):
    """What was seen."""

    answer: HeldAnswer
    missing: list[tuple[str, str, int, Message]]
    """Consumer, consumer group, attempt and message of what this node's consumers lack."""
    moved: dict[str, str]
    """Group of each queue of these consumers that is in another one by now."""


async def look(group: str, queues: Queues) -> Look:
    """Ask a group. Raises NotReadyError."""
    # Who only looks for consumers of nodes that are down asks nobody.
    answer = await questions.held(group, queues.node, stale=group not in queues.local_groups())
    missing: list[tuple[str, str, int, Message]] = []
    for claim in answer.claims:
        consumer = queues.consumers.get(claim.consumer)
        if consumer is None or not consumer.lacks(claim.offset, claim.attempt):
            continue
        found = await questions.peek_in(group, claim.queue, claim.offset, 1)
        if found and found[0].offset == claim.offset:
            missing.append((claim.consumer, consumer.group, claim.attempt, found[0]))
    there, moved = {name for _, _, name in answer.consumers}, {}
    mine = queues.local_groups().get(group, [])
    for queue in sorted({one.queue for one in mine if one.joined and one.name not in there}):
        has = await questions.group_of(queue)
        if has not in (None, group):
            moved[queue] = str(has)
    return Look(answer, missing, moved)

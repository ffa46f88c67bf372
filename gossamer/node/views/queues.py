"""The API's view of queues, which every node has through its own server of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from gossamer import queues
from gossamer.config import QueueConfig
from gossamer.node.parts import NodeParts
from gossamer.queues import (
    DEAD_LETTERS,
    QUEUE_FULL,
    STUCK,
    UNATTENDED,
    Message,
    QueueDetails,
    QueueStats,
    Trouble,
)


class QueuesOfCluster:
    """Implements :class:`gossamer.api.QueuesView`."""

    def __init__(self, node: NodeParts) -> None:
        self._run = node.runtime.run

    async def listed(self) -> Sequence[tuple[str, QueueStats]]:
        """Return all queues with their replication group, by name."""
        return await self._run(queues.list_queues)

    async def show(self, queue: str) -> tuple[str, QueueDetails]:
        """Return a queue with its replication group."""
        return await self._run(queues.show, queue)

    async def peek(self, queue: str, offset: int, limit: int) -> Sequence[Message]:
        """Return messages from an offset on, without taking them."""
        return await self._run(queues.peek, queue, offset, limit)

    async def create(self, queue: str, config: QueueConfig) -> None:
        """Make or change a queue."""
        await self._run(queues.create, queue, config)

    async def delete(self, queue: str) -> None:
        """Delete a queue."""
        await self._run(queues.delete, queue)

    async def purge(self, queue: str) -> int:
        """Delete all messages of a queue; return how many."""
        return await self._run(queues.purge, queue)

    async def replay(self, queue: str, offset: int | None, limit: int | None) -> tuple[str, int]:
        """Give dead letters back to their queue; return where they were, and how many."""
        return await self._run(partial(queues.replay, queue, offset=offset, limit=limit))

    async def move(self, queue: str, group: str) -> str:
        """Have a queue go to another replication group; return the one that it is in."""
        return await self._run(queues.move, queue, group)

    async def drop_group(self, queue: str, group: str) -> None:
        """Delete a consumer group."""
        await self._run(queues.drop_group, queue, group)

    async def append(self, queue: str, payload: bytes, *, key: str) -> int:
        """Put a message into a queue; return its offset."""
        return await self._run(queues.append, queue, payload, key=key)


_WORDS = {
    QUEUE_FULL: "{}; then publishers are refused (0x97): see gossamer queues",
    DEAD_LETTERS: "dead letters: {}; consume or purge them: see gossamer queues peek",
    STUCK: "stuck consumers: {}; they get nothing until they settle a message, or connect again",
    UNATTENDED: "nobody consumes for {}; start consumers, or gossamer queues drop-group",
}
_NAMED = 3


def queue_alarms(troubles: Iterable[tuple[float, Trouble]], epoch: float) -> Iterator[tuple[str, float, str]]:
    """Yield the alarms of queues that this node leads, one of a name: the name, since when, and the text.

    ``troubles`` with the time since when they last; ``epoch``: the wall clock at its beginning.
    """
    by_alarm: dict[str, list[tuple[float, Trouble]]] = {}
    for since, one in troubles:
        by_alarm.setdefault(one.alarm, []).append((since, one))
    for name, found in by_alarm.items():
        found.sort(key=lambda one: (one[0], one[1].queue, one[1].subject))
        named = "; ".join(one.text for _, one in found[:_NAMED])
        more = f"; and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        yield name, epoch + found[0][0], _WORDS[name].format(f"{named}{more}")

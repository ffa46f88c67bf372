"""What operators see of a queue, and what they have to know: it is full, its messages are dead, or nobody
does them.

Rules: 1. A queue that refuses what it has no room for is in trouble before it does: at :data:`FULL` of a
limit, until it is below :data:`ROOM` (``watch`` holds that).  2. Dead letters are trouble until somebody has
consumed or purged them.  3. So is a consumer that let a message's time pass, until it settles something or
goes.  4. A consumer group is unattended when it has no consumer, and something has waited for it since then,
for as long as the queue says.

Pure, as ``queue``; all but its walk over a consumer group that is unattended costs a few steps a group.
"""

from __future__ import annotations

from collections.abc import Iterator

from gossamer.queues.replicated.consumers import ConsumerGroup
from gossamer.queues.replicated.queue import Queue
from gossamer.queues.stats import GroupLag, QueueDetails, QueueStats, Trouble

FULL, ROOM = 0.9, 0.8
MOST_TROUBLES = 100
"""Troubles of a replication group that are told."""
QUEUE_FULL = "queue_full"
DEAD_LETTERS = "queue_dead_letters"
STUCK = "queue_consumer_stuck"
UNATTENDED = "queue_unattended"


def stats_of(queue: Queue, now: int) -> QueueStats:
    """Return what operators see first."""
    state, groups = queue.state, queue.state.groups.values()
    oldest = now - state.entries[queue.state.first].since if state.entries else 0
    return QueueStats(
        name=state.name,
        type=queue.config.type,
        depth=len(state.entries),
        size=state.size,
        first=state.first,
        next=state.end,
        oldest=oldest,
        consumers=sum(len(group.consumers) for group in groups),
        held=sum(len(group.held) for group in groups),
        appended=state.end,
        settled=state.counts.settled,
        redelivered=state.counts.redelivered,
        dead=state.counts.dead,
        dropped=state.counts.dropped,
        refused=state.counts.refused,
        topics=queue.config.topics,
        dead_letters=queue.dead_letters,
        moving_to=state.move.to if state.move else "",
    )


def details_of(queue: Queue, now: int) -> QueueDetails:
    """Return all that operators see."""
    waiting = [
        sum(1 for o, one in queue.state.entries.items() if o >= group.cursor and one.is_for(group.name))
        for group in queue.state.groups.values()
    ]
    groups = [group.stats(count) for group, count in zip(queue.state.groups.values(), waiting, strict=True)]
    return QueueDetails(stats_of(queue, now), queue.state.defined.decode(), groups)


def lag_of(queue: Queue, group: ConsumerGroup, now: int) -> GroupLag:
    """Return how far a consumer group is behind. An offset whose message has left the queue since counts as
    long as the group was not given one behind it."""
    state = queue.state
    ahead = state.end - max(group.cursor, state.first)
    return GroupLag(
        state.name, group.name, max(ahead, 0) + len(group.attempts), _oldest_for(queue, group, now)
    )


def _oldest_for(queue: Queue, group: ConsumerGroup, now: int) -> int:
    """Return for how long the oldest message that is open for a consumer group is in the queue; 0: none."""
    entries = queue.state.entries
    first = max(group.committed(), queue.state.first)
    entry = entries.get(first)
    if entry is None:
        entry = next((one for offset, one in entries.items() if offset >= first), None)
    return 0 if entry is None else now - entry.since


def troubles_of(queue: Queue, now: int) -> Iterator[Trouble]:
    """Yield what is wrong with a queue."""
    state, config = queue.state, queue.config
    limits = config.limits
    fill = max(len(state.entries) / limits.max_depth, state.size / limits.max_bytes)
    if limits.overflow == "reject" and fill >= ROOM:
        text = f"{state.name} is {fill:.0%} full, and has refused {state.counts.refused} messages"
        yield Trouble(QUEUE_FULL, state.name, "" if fill < FULL else "full", None, text)
    first = state.entries.get(state.first)
    if first is not None and first.note:
        text = f"{len(state.entries)} in {state.name}, the oldest of {first.note}"
        yield Trouble(DEAD_LETTERS, state.name, "", now - first.since, text)
    for group in state.groups.values():
        for consumer in group.consumers.values():
            if consumer.stuck:
                text = f"{consumer.client} at {consumer.node}, consumer group {group.name} of {state.name}"
                yield Trouble(STUCK, state.name, f"{group.name}/{consumer.client}", None, text)
        yield from _unattended(queue, group, now)


def _unattended(queue: Queue, group: ConsumerGroup, now: int) -> Iterator[Trouble]:
    bound = queue.config.unattended_after
    if bound is None or group.consumers or now - group.idle_since < bound * 1000:
        return
    found = lag_of(queue, group, now)
    lasts = min(now - group.idle_since, found.oldest)
    if lasts >= bound * 1000:
        text = f"consumer group {group.name} of {queue.state.name}, which is {found.lag} messages behind"
        yield Trouble(UNATTENDED, queue.state.name, group.name, lasts, text)

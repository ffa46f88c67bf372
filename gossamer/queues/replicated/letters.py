"""Dead letters that go back to their queue, in one step: none is in both queues, or in neither.

A message goes back to the consumer group that could not do it, if it is still there: the others may have done
it. It is a new message there, and its attempts count anew. What a consumer of the dead letters has stays, as
it may be doing it; so does what its queue has no room for.
"""

from __future__ import annotations

from msgspec.structs import replace

from gossamer.queues.replicated.queue import Queue
from gossamer.queues.replicated.state import Entry
from gossamer.queues.values import Replay, Why


def give_back(queue: Queue, dead: Queue, asked: Replay, now: int) -> int | Why:
    """Give dead letters of a queue back to it; return how many, or why none."""
    letters = [one for one in _letters(queue.state.name, dead) if asked.offset in (None, one)][: asked.limit]
    for count, offset in enumerate(letters):
        if not queue.put_back(_fresh(queue, dead.state.entries[offset], now)):
            return count or Why.FULL
        dead.take_out(offset)
    return len(letters)


def _letters(queue: str, dead: Queue) -> list[int]:
    """Return the offsets of dead letters of a queue that no consumer has, oldest first."""
    held = {offset for group in dead.state.groups.values() for offset in group.held}
    entries = dead.state.entries.items()
    return [at for at, one in entries if one.origin is not None and one.origin[0] == queue and at not in held]


def _fresh(queue: Queue, letter: Entry, now: int) -> Entry:
    ttl = queue.config.limits.message_ttl
    expires = 0 if ttl is None else now + int(ttl * 1000)
    group = "" if letter.origin is None else letter.origin[1]
    only = group if group in queue.state.groups else ""
    return replace(letter, since=now, expires=expires, note="", origin=None, only=only)

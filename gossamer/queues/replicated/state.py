"""State of a queue, as it goes to snapshots of its replication group."""

from __future__ import annotations

import msgspec

from gossamer.queues.replicated.consumers import ConsumerGroup

OVERHEAD = 64
"""Bytes that a message counts beside what is in it."""


class Entry(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A message in a queue: ``since`` and ``expires`` in the group's time; 0: never.

    It is in no cycle, so the collector need not look at the million that there may be.
    """

    key: str
    payload: bytes
    properties: bytes
    at: int
    since: int
    expires: int
    note: str = ""
    """Of a dead letter: where it comes from, and why."""
    origin: tuple[str, str] | None = None
    """Of a dead letter: the queue that it comes from, and the consumer group that could not do it."""
    only: str = ""
    """Of one that was given back: the consumer group that could not do it. Others have it behind them."""

    def is_for(self, group: str) -> bool:
        """Return whether a consumer group gets it."""
        return self.only in ("", group)

    @property
    def size(self) -> int:
        """Bytes that it counts."""
        return len(self.key) + len(self.payload) + len(self.properties) + OVERHEAD


class Counts(msgspec.Struct, array_like=True):
    """What became of messages since the queue was made."""

    settled: int = 0
    redelivered: int = 0
    dead: int = 0
    dropped: int = 0
    refused: int = 0


class Move(msgspec.Struct, array_like=True, frozen=True):
    """A queue, with its dead letters, that goes to another replication group: it stands still until then."""

    id: str
    queue: str
    to: str
    at: int = 0
    """Since when, in the time of the group that it leaves."""


class QueueState(msgspec.Struct, array_like=True):
    """All that a queue has, as it goes to snapshots."""

    name: str
    defined: bytes
    """Its settings as JSON."""
    first: int = 0
    """Offset of the oldest message, or ``end``."""
    end: int = 0
    """Offset of the next message."""
    size: int = 0
    """Bytes of all messages."""
    entries: dict[int, Entry] = msgspec.field(default_factory=dict)
    groups: dict[str, ConsumerGroup] = msgspec.field(default_factory=dict)
    latest: dict[str, int] = msgspec.field(default_factory=dict)
    """Offset of the message of each key, where only the latest stays."""
    counts: Counts = msgspec.field(default_factory=Counts)
    idle_since: int = 0
    """When its last consumer left."""
    move: Move | None = None


class DeadLetter(msgspec.Struct, frozen=True):
    """A message that goes to another queue."""

    queue: str
    entry: Entry

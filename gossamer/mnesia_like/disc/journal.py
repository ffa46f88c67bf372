"""Rows that live on disc alone: read once, when their user starts, and after that only written.

For users that keep what they need in a form of their own (the sessions of MQTT clients), for whom a table's
copy in memory would be a second one. Rows go through the same queue as those of tables, so one commit, and
one ``fsync``, serves both.

Rules: 1. Keys and values are msgpack, encoded by the user.  2. A write never blocks and never fails: while
the disc does, rows wait, and whoever waits for a commit waits on.  3. Writes become durable in their order.
"""

from __future__ import annotations

from collections.abc import Callable

from gossamer.mnesia_like.disc.queue import DiscQueue

__all__ = ["Journal"]


class Journal:
    """Named set of rows that exist on disc alone, made by ``Store.create_journal``."""

    __slots__ = ("_queue", "_ring", "name")

    def __init__(self, name: str, *, queue: DiscQueue, ring: Callable[[], None]) -> None:
        self.name = name
        self._queue = queue
        self._ring = ring

    def put(self, key: bytes, value: bytes | None) -> int:
        """Write a row, or (None) delete it; the ticket under which it travels."""
        self._queue.put(self.name, key, value)
        self._ring()
        return self._queue.ticket

    @property
    def ticket(self) -> int:
        """The ticket of the newest write of anybody."""
        return self._queue.ticket

    @property
    def committed(self) -> int:
        """Every write up to this ticket is on disc."""
        return self._queue.committed

    def on_commit(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` after every commit. It must not raise: it runs in the disc process."""
        self._queue.listeners.append(callback)

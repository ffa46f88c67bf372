"""Group-commit queue between the tables and the disc process.

Writes gather while the previous commit is under way; of one key the last write counts.
The queue belongs to the store, not to the process, so a restart of the process loses nothing: a batch leaves
the queue only when it is on disc. A :class:`Journal` is a table without a copy in memory, for users that keep
their rows in a form of their own; its rows go through the same queue, so one commit serves both.

Rules: 1. Tickets number the batches; a write belongs to batch ``ticket``.  2. While the last commit failed,
or too many rows wait, ``check`` refuses further writes; waiting rows are retried.  3. No I/O here.
"""

from __future__ import annotations

from collections.abc import Callable

from gossamer.histogram import Histogram
from gossamer.mnesia_like.disc.disc import Batch
from gossamer.mnesia_like.errors import DiscBehindError, DiscError
from gossamer.mnesia_like.watermark import Watermark


class DiscQueue:
    """Rows on their way to disc, in numbered batches; ``bound`` in rows."""

    def __init__(self, *, bound: int = 500_000) -> None:
        self.failed: DiscError | None = None
        self.failed_at = 0.0
        """The time of the loop at which it began to fail, while it does."""
        self.committed = 0
        self.waiting = 0
        self.latency = Histogram()
        """Commit times in seconds."""
        self.listeners: list[Callable[[], None]] = []
        """Called after every commit."""
        self.bound = bound
        self._sealed = 0
        self._open: dict[str, dict[bytes, bytes | None]] = {}
        self._flight: dict[str, dict[bytes, bytes | None]] = {}
        self._on_disc = Watermark(lambda: self.committed)

    @property
    def ticket(self) -> int:
        """Number of the batch that holds the newest write."""
        return self._sealed + 1 if self._open else self._sealed

    def check(self) -> None:
        """Raise DiscError or DiscBehindError if no more may be written now."""
        if self.failed is not None:
            raise self.failed
        if self.waiting >= self.bound:
            raise DiscBehindError(self.waiting, self.bound)

    def put(self, table: str, key: bytes, value: bytes | None) -> None:
        """Queue a row to write, or (None) to delete."""
        rows = self._open.get(table)
        if rows is None:
            rows = self._open[table] = {}
        if key not in rows:
            self.waiting += 1
        rows[key] = value

    def take(self) -> Batch | None:
        """Return the next batch to commit, or None; ``succeed`` or ``fail`` must follow."""
        if self._flight:
            # The last commit failed: retry it together with what was queued since.
            for table, rows in self._open.items():
                self._flight.setdefault(table, {}).update(rows)
        else:
            self._flight = self._open
        if self._open:
            self._sealed += 1
        self._open = {}
        return self._flight or None

    def succeed(self) -> None:
        """Record that the batch taken is on disc."""
        self.failed = None
        self._flight = {}
        self.committed = self._sealed
        self.waiting = sum(map(len, self._open.values()))
        self._on_disc.moved()
        for listener in self.listeners:
            listener()

    def fail(self, error: DiscError, now: float) -> None:
        """Record that the batch taken is not on disc; ``take`` returns it again."""
        if self.failed is None:
            self.failed_at = now
        self.failed = error
        self._on_disc.fail(error)

    async def durable(self, ticket: int, timeout: float | None) -> None:
        """Wait until batch ``ticket`` is on disc.

        Raises:
            DiscError: it could not be written; it is still retried.
            TimeoutError: it was not on disc within ``timeout`` seconds.
        """
        if ticket > self.committed and self.failed is not None:
            raise self.failed
        if not await self._on_disc.reached(ticket, timeout):
            raise TimeoutError


class Journal:
    """Named set of rows that exist on disc only, created by ``Store.create_journal``."""

    __slots__ = ("_notify", "_queue", "name")

    def __init__(self, name: str, *, queue: DiscQueue, notify: Callable[[], None]) -> None:
        self.name = name
        self._queue = queue
        self._notify = notify

    def put(self, key: bytes, value: bytes | None) -> int:
        """Write a row, or (None) delete it; return its ticket."""
        self._queue.put(self.name, key, value)
        self._notify()
        return self._queue.ticket

    @property
    def ticket(self) -> int:
        """Ticket of the newest write to the disc queue."""
        return self._queue.ticket

    @property
    def committed(self) -> int:
        """Ticket up to which every write is on disc."""
        return self._queue.committed

    def on_commit(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` after every commit. It must not raise: it runs in the disc process."""
        self._queue.listeners.append(callback)

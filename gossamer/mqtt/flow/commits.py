"""Commits: rows of a journal, and callbacks once they are on disc.

A :class:`JournalWriter` is one of the *peers* of a message (see ``ForwarderLike``): PUBACK, PUBREC and the
report to the node that forwarded it wait for the commit, as they wait for other nodes. That of sessions waits
for quorums too (``ranges``).

Rules: 1. Nothing waits on the loop; a commit calls back, in a later turn, in the order of the calls.
2. While the disc fails, rows and their callbacks wait: nothing is acknowledged as safe.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress

import msgspec
import structlog

from gossamer.mnesia_like import Journal

log = structlog.get_logger(__name__)

Soon = Callable[[Callable[[], None]], object]
"""Runs a function in a later turn of the loop."""
SETTLE_TIMEOUT = 2.0
"""Seconds that a node waits for its disc before it takes what another will offer again."""

encode = msgspec.msgpack.Encoder().encode


class Until:
    """Condition among the peers of a message, for which its acknowledgement waits: ``peer`` is its name,
    ``append_acked(record, on_safe)`` calls ``on_safe`` once it is met."""

    def __init__(self, peer: str, append_acked: Callable[[bytes, Callable[[bool], None]], object]) -> None:
        self.peer = peer
        self.append_acked = append_acked

    def append(self, record: bytes) -> None:
        """Do nothing: QoS 0 waits for nothing."""


class JournalWriter:
    """Writes to ``journal``, and calls back once the writes are committed."""

    peer = "disc"

    def __init__(self, journal: Journal, *, soon: Soon) -> None:
        self._journal = journal
        self._waiting: deque[tuple[int, Callable[[], object]]] = deque()
        self.on_commit: Callable[[], object] = lambda: None
        """Called after each commit, before those that wait for it."""

        def committed() -> None:
            # Reported in the disc process, which must not run the callbacks.
            soon(self._release)

        journal.on_commit(committed)

    @property
    def ticket(self) -> int:
        """Ticket of the latest write."""
        return self._journal.ticket

    @property
    def committed(self) -> int:
        """Ticket up to which all writes are on disc."""
        return self._journal.committed

    def write(self, key: object, value: object) -> int:
        """Write a row, None to delete it; return the ticket of its commit."""
        return self._journal.put(encode(key), None if value is None else encode(value))

    def after(self, ticket: int, callback: Callable[[], object]) -> None:
        """Call ``callback`` once ``ticket`` is committed; now, if it is."""
        if ticket <= self.committed:
            callback()
        else:
            self._waiting.append((ticket, callback))

    async def settled(self, within: float | None = None, peer: Until | JournalWriter | None = None) -> bool:
        """Wait until all that was written so far is on disc; False: not ``within`` so many seconds. ``peer``:
        wait for that instead, which is of this writer."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        (peer or self).append_acked(b"", lambda _: None if done.done() else done.set_result(None))
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await done
                return True
        return False

    def append(self, record: bytes) -> None:
        """Do nothing: QoS 0 does not wait for the disc."""

    def append_acked(self, record: bytes, on_safe: Callable[[bool], object]) -> None:
        """Call ``on_safe`` once all that was written so far is on disc."""
        self.after(self._journal.ticket, lambda: on_safe(True))

    def _release(self) -> None:
        self.on_commit()
        waiting = self._waiting
        while waiting and waiting[0][0] <= self.committed:
            try:
                waiting.popleft()[1]()
            except Exception:
                # The others still have to be called, and in order.
                log.exception("commit_callback_failed")

"""One subscription of a client: a subscriber of the router that hands on over the link, within a window.

Rules: 1. At most ``window`` messages are with the client and not taken; the rest waits here.  2. What waits
is bounded in messages and bytes; the newest that finds no room is dropped and counted, whatever its QoS,
since a client that does not take must not fill the node.  3. Everything of one turn of the loop leaves
together.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

__all__ = ["Outlet"]

BATCH_BYTES = 1024 * 1024


class Outlet:
    """Implements the router's ``Subscriber``. ``emit(messages, dropped)`` sends; ``soon`` defers."""

    def __init__(
        self,
        *,
        emit: Callable[[list[list[object]], int], None],
        soon: Callable[[Callable[[], None]], object],
        window: int,
        max_queued: int,
        max_bytes: int,
    ) -> None:
        self._emit = emit
        self._soon = soon
        self._window = window
        self._max_queued = max_queued
        self._max_bytes = max_bytes
        self._queue: deque[list[object]] = deque()
        self._bytes = 0
        self._sent = 0
        self._taken = 0
        self._scheduled = False
        self.dropped = 0
        self.closed = False

    def deliver(self, message: Any, delivery: Any) -> None:
        """Take a message from the router."""
        retain = message.retain and delivery.retain_as_published
        self.put(message.topic, message.payload, min(message.qos, delivery.qos), retain)

    def put(self, topic: bytes, payload: bytes, qos: int, retain: bool) -> None:
        """Queue a message for the client, or drop it."""
        if self.closed:
            return
        size = len(payload)
        if len(self._queue) >= self._max_queued or self._bytes + size > self._max_bytes:
            self.dropped += 1
            return
        self._bytes += size
        self._queue.append([topic.decode(), bytes(payload), qos, retain])
        if not self._scheduled and self._sent - self._taken < self._window:
            self._scheduled = True
            self._soon(self.flush)

    def taken(self, count: int) -> None:
        """The client is done with ``count`` in all."""
        # A count that is not true would let it in for more than the window, or for nothing ever again.
        self._taken = max(self._taken, min(count, self._sent))
        self.flush()

    def flush(self) -> None:
        """Send what the window allows."""
        self._scheduled = False
        while self._queue and not self.closed:
            batch: list[list[object]] = []
            size = 0
            while self._queue and size < BATCH_BYTES and self._sent - self._taken < self._window:
                item = self._queue.popleft()
                size += len(item[1])  # type: ignore[arg-type]
                batch.append(item)
                self._sent += 1
            if not batch:
                return
            self._bytes -= size
            self._emit(batch, self.dropped)

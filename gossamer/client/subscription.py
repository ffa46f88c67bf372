"""The client's end of one subscription: an async iterator over a bounded buffer.

The node sends at most a window of messages beyond what was taken, so the buffer is bounded by the protocol;
a consumer that is slow makes the node hold, and at last drop and count, what it does not take. A message is
taken when the iterator is asked for the next one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Self

from gossamer.gateway import WINDOW

__all__ = ["Delivered", "Subscription"]


class Delivered(NamedTuple):
    """A message as a subscriber gets it."""

    topic: str
    payload: bytes
    qos: int
    retain: bool


class Subscription:
    """Made by ``Client.subscribe``; lives on when the client moves to another node."""

    def __init__(
        self,
        number: int,
        topic_filter: str,
        qos: int,
        *,
        taken: Callable[[int, int], None],
        close: Callable[[int], None],
    ) -> None:
        self.number = number
        self.filter = topic_filter
        self.qos = qos
        self._tell_taken = taken
        self._tell_close = close
        self._buffer: deque[Delivered] = deque()
        self._waiter: asyncio.Event = asyncio.Event()
        self._closed = False
        self._stale = 0
        self._taken = 0
        self._told = 0
        self._dropped_before = 0
        self._dropped_here = 0

    @property
    def dropped(self) -> int:
        """Messages that the nodes dropped because this subscription did not take them."""
        return self._dropped_before + self._dropped_here

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Delivered:
        while not self._buffer:
            if self._closed:
                raise StopAsyncIteration
            self._waiter.clear()
            await self._waiter.wait()
        message = self._buffer.popleft()
        if self._stale:
            # Of a node that is gone: nobody waits to hear that it was taken.
            self._stale -= 1
        else:
            self._taken += 1
            if self._taken - self._told >= WINDOW // 4:
                self._told = self._taken
                self._tell_taken(self.number, self._taken)
        return message

    def close(self) -> None:
        """End it; what is buffered can still be taken."""
        if not self._closed:
            self._closed = True
            self._waiter.set()
            self._tell_close(self.number)

    # For the client.

    def feed(self, messages: list[list[object]], dropped: int) -> None:
        """Messages came."""
        self._dropped_here = dropped
        self._buffer.extend(Delivered(*message) for message in messages)  # type: ignore[arg-type]
        self._waiter.set()

    def moved(self) -> None:
        """It begins anew at another node."""
        self._stale = len(self._buffer)
        self._taken = self._told = 0
        self._dropped_before += self._dropped_here
        self._dropped_here = 0

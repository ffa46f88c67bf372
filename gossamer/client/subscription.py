"""The client's end of one subscription: an async iterator over a bounded buffer.

The node sends at most a window of messages beyond what was taken, so the buffer is bounded by the protocol;
a consumer that is slow makes the node hold what it does not take, and then makes publishers wait. A message
is taken when the iterator hands it out; what was not is still here when the node dies.

What may be missing is said, never passed over. QoS 0 that found no room is counted (``dropped``). Of QoS 1
and 2 a :class:`Gap` tells: with the next message, in its place, and to ``on_gap`` at once. There are two
kinds: the node gave up so many because nobody took them; or the node is gone, and what it held or others
sent to it meanwhile went with it, which nobody can count.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Self

import structlog

from gossamer.gateway import WINDOW

log = structlog.get_logger(__name__)


class Gap(NamedTuple):
    """Messages of QoS 1 or 2 are missing here: ``lost`` of them, None if the number is unknown."""

    lost: int | None
    reason: str


class Delivered(NamedTuple):
    """Message for a subscriber; ``gap`` describes missing ones before it."""

    topic: str
    payload: bytes
    qos: int
    retain: bool
    gap: Gap | None = None


OnGap = Callable[[Gap], object]


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
        retain: int = 0,
        on_gap: OnGap | None = None,
    ) -> None:
        self.number = number
        self.filter = topic_filter
        self.qos = qos
        self.retain = retain
        self.gaps = 0
        """Times that something of QoS 1 or 2 was, or may have been, lost."""
        self._on_gap = on_gap
        self._gap: Gap | None = None
        self.live = False
        """True once it has begun at the node of the attachment."""
        self.began = False
        """True once it has begun at any node."""
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

    def feed(self, messages: list[list[object]], dropped: int, lost: int = 0) -> None:
        """Messages came, and ``lost`` before them did not."""
        self._dropped_here = dropped
        if lost:
            self._missing(Gap(lost, "not taken in time"))
        for message in messages:
            self._buffer.append(Delivered._make([*message, self._gap]))
            self._gap = None
        self._waiter.set()

    def lives(self) -> None:
        """A node has it."""
        self.live = self.began = True

    def moved(self, node: str) -> None:
        """Restart after a move; ``node`` had the subscription before, if any."""
        self._stale = len(self._buffer)
        self._taken = self._told = 0
        self._dropped_before += self._dropped_here
        self._dropped_here = 0
        if self.live and self.qos:
            self._missing(Gap(None, f"{node} is gone"))
        self.live = False

    def _missing(self, gap: Gap) -> None:
        self.gaps += 1
        before = self._gap
        if before is not None:
            # Nothing came in between: one gap to who reads on.
            known = before.lost is not None and gap.lost is not None
            self._gap = Gap((before.lost or 0) + (gap.lost or 0) if known else None, gap.reason)
        else:
            self._gap = gap
        log.warning("subscription_gap", filter=self.filter, lost=gap.lost, reason=gap.reason)
        if self._on_gap is not None:
            try:
                self._on_gap(gap)
            except Exception:
                # It is the user's, and the other subscriptions have to be served.
                log.exception("on_gap_failed", filter=self.filter)

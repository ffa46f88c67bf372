"""The fence: a node that was paused reads from its clients only once it is up to date with its peers.

A process that was paused, or whose machine slept, resumes as if no time had passed: what its clients sent
meanwhile is read at once, with routes that may be seconds old. The other nodes may have taken it for down and
sent SUBACKs without it, so what it takes now would be acknowledged and reach no subscriber.

So where more than :data:`STALL` seconds passed between two beats of the loop (or ``suspicion_floor`` where
that is less), input of clients is held back until every peer that was up has answered and its routes and
sessions are level here; at most :data:`LIMIT` seconds, since one of them may have died meanwhile.

Rules: 1. The first read after a pause is fenced too, though it comes before any timer.  2. Frames of peers
are read all the while: the fence waits for them.  3. A node without peers has nothing to wait for.

Rejected: refusing to serve until gossip has an answer (it takes a round, and has none about tables).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Protocol

import structlog

from gossamer.mqtt.flow.backpressure import FENCED, Publisher

log = structlog.get_logger(__name__)

STALL = 1.5
"""Seconds; less than it takes any node to declare another one down, by default (``suspicion_floor``)."""
LIMIT = 5.0
RETRY_INTERVAL = 0.05


class Reader(Publisher, Protocol):
    """Channel whose input is held back."""

    def data_received(self, data: bytes, /) -> None: ...


class Fence:
    """Detector of pauses of this process, which holds back its clients' input after one.

    ``peers()`` returns those that are up, ``level(peer)`` whether one answers and all its rows are here;
    ``spawn`` runs a function as a process. ``suspicion_floor``: seconds in which no peer declares this node
    down.
    """

    def __init__(
        self,
        *,
        now: Callable[[], float],
        spawn: Callable[[Callable[[], Awaitable[None]]], object],
        peers: Callable[[], list[str]],
        level: Callable[[str], Awaitable[bool]],
        suspicion_floor: float = STALL,
    ) -> None:
        self.count = 0
        """Number of pauses after which it was closed."""
        self._now = now
        self._spawn = spawn
        self._peers = peers
        self._level = level
        self._stall = min(STALL, suspicion_floor)
        self._aside: dict[Reader, None] | None = None
        self._last = now()
        self.fine_until = self._last + self._stall
        """Time before which a read need not call :meth:`stops`."""

    def stops(self, channel: Reader) -> bool:
        """Return whether to hold back what ``channel`` has read; if so, pause it, and resume it later."""
        self.beat()
        if self._aside is None:
            return False
        self._aside[channel] = None
        channel.pause_reading(FENCED)
        return True

    def beat(self) -> None:
        """Note that the loop runs, and close the fence after a pause; called every quarter of a second."""
        now = self._now()
        late, self._last = now - self._last, now
        if late > self._stall and self._aside is None and (peers := self._peers()):
            self._aside = {}
            self.count += 1
            log.warning("stopped_for_a_while", seconds=round(late, 3), waits_for=peers)
            self._spawn(lambda: self._wait(set(peers), now + LIMIT))
        self.fine_until = now + self._stall if self._aside is None else -math.inf

    async def _wait(self, peers: set[str], until: float) -> None:
        try:
            while peers and self._now() < until:
                for peer in list(peers):
                    if await self._level(peer):
                        peers.discard(peer)
                await asyncio.sleep(RETRY_INTERVAL)
        finally:
            self._open()
            log.info("goes_on", without=sorted(peers))

    def _open(self) -> None:
        aside, self._aside = self._aside, None
        self.fine_until = self._last + self._stall
        for channel in aside or ():
            channel.resume_reading(FENCED)
            channel.data_received(b"")

"""The fence: a node that was stopped for a while does not serve before it knows what became of its peers.

A process that was paused, or whose machine slept, goes on as if nothing had been: what its clients sent
meanwhile is read at once, by routes that may be seconds old. The others have held it for down by then and
told new subscribers that all is well, so what it takes now would be acknowledged and come to nobody.

So where the loop finds that more than :data:`STALL` seconds passed between two of its beats (or
``suspicion_floor`` where that is less), what clients send is put aside until every peer that was up has
answered and its routes and sessions are level here; at most :data:`LIMIT` seconds, for one of them may have
died meanwhile.

Rules: 1. The first read after a pause is fenced too, though it comes before any timer.  2. Peers' frames are
taken all the while: they are what is waited for.  3. A node without peers has nothing to wait for.

Rejected: refusing to serve until gossip says something (it takes a round, and says nothing of tables).
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
"""Less than it takes any node to declare another one down, by the default of ``suspicion_floor``."""
LIMIT = 5.0
RETRY_INTERVAL = 0.05


class Reader(Publisher, Protocol):
    """Whose input is held back; a channel."""

    def data_received(self, data: bytes, /) -> None: ...


class Fence:
    """Detector of pauses of this process, which holds back its clients' input after one.

    ``peers()`` are those that are up; ``level(peer)`` says whether one has answered since, and everything it
    had to say is here; ``spawn`` runs a function as a process. ``suspicion_floor``: seconds in which no peer
    declares this node down.
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
        """How often it was closed."""
        self._now = now
        self._spawn = spawn
        self._peers = peers
        self._level = level
        self._stall = min(STALL, suspicion_floor)
        self._aside: dict[Reader, None] | None = None
        self._last = now()
        self.fine_until = self._last + self._stall
        """Until then there is nothing to ask; see :meth:`stops`."""

    def stops(self, channel: Reader) -> bool:
        """Return whether what ``channel`` has read is to be put aside; if so, it is resumed later."""
        self.beat()
        if self._aside is None:
            return False
        self._aside[channel] = None
        channel.pause_reading(FENCED)
        return True

    def beat(self) -> None:
        """Be called every quarter of a second, while all is well."""
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

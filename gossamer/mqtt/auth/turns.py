"""Turns at something scarce, such as threads that check passwords: fair between the addresses of callers.

Addresses take turns, and of one address whoever came last is first: callers do not wait for ever, and where
a crowd is too many for the time there is, it is those who have just come who can be served within theirs. So
a right password waits for one check of each address that waits, also after a thousand wrong ones of its own.

Rules: 1. So many of one address wait, so many in all, and no more: the oldest of an address beyond its own
bound is refused; beyond that of all, the oldest of the address with most of them.  2. A turn is given back
once; a caller that goes away while it waits gives up its place.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque

from gossamer.places import source_of


class Turns:
    """``places`` at once; at most ``total`` callers wait, ``each`` of one address."""

    def __init__(self, places: int, *, total: int, each: int) -> None:
        self._free = places
        self._total = total
        self._each = each
        self._queues: OrderedDict[str, deque[asyncio.Future[bool]]] = OrderedDict()
        self.waiting = 0

    async def take(self, host: str) -> bool:
        """Wait for a turn, which ends with :meth:`give`; False: too many wait."""
        if self._free:
            self._free -= 1
            return True
        turn: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        source, _ = source_of(host)
        queue = self._queues.setdefault(source, deque())
        queue.append(turn)
        self.waiting += 1
        if len(queue) > self._each:
            self._refuse(source)
        elif self.waiting > self._total:
            self._refuse(max(self._queues, key=lambda one: len(self._queues[one])))
        try:
            return await turn
        except asyncio.CancelledError:
            if turn in queue:
                queue.remove(turn)
                self.waiting -= 1
                if not queue:
                    del self._queues[source]
            elif not turn.cancelled() and turn.result():
                self.give()
            raise

    def give(self) -> None:
        """Hand a turn on to the next address."""
        while self._queues:
            host, queue = self._queues.popitem(last=False)
            turn = queue.pop()
            self.waiting -= 1
            if queue:
                self._queues[host] = queue
            # Whoever is going away just now has no use for it.
            if not turn.done():
                turn.set_result(True)
                return
        self._free += 1

    def _refuse(self, network: str) -> None:
        queue = self._queues[network]
        oldest = queue.popleft()
        self.waiting -= 1
        if not queue:
            del self._queues[network]
        if not oldest.done():
            oldest.set_result(False)

"""Turns at something scarce, such as threads that check passwords: fair between the addresses of callers.

Addresses take turns, and so do callers of one address, in the order in which they came. A caller that
sends a thousand wrong passwords waits for its own thousand, and one of another address for one check of each
address that waits.

Rules: 1. So many of one address wait, so many in all, and no more: beyond its own bound a caller is refused;
beyond that of all, the newest of the address with most of them.  2. A turn is given back once; a
caller that goes away while it waits gives up its place.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections import OrderedDict, deque


class Turns:
    """``places`` at once; at most ``total`` callers wait, ``each`` of one address."""

    def __init__(self, places: int, *, total: int, each: int) -> None:
        self._free = places
        self._total = total
        self._each = each
        self._queues: OrderedDict[str, deque[asyncio.Future[bool]]] = OrderedDict()
        self.waiting = 0

    def is_full_for(self, host: str) -> bool:
        """Return whether a caller at ``host`` would be refused now."""
        mine = len(self._queues.get(_network(host), ()))
        return mine >= self._each or (self.waiting >= self._total and mine >= len(self._longest()))

    async def take(self, host: str) -> bool:
        """Wait for a turn, which ends with :meth:`give`; False: too many wait."""
        if self._free:
            self._free -= 1
            return True
        if self.is_full_for(host):
            return False
        if self.waiting >= self._total:
            newest = self._longest().pop()
            self.waiting -= 1
            if not newest.done():
                newest.set_result(False)
        turn: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        queue = self._queues.setdefault(_network(host), deque())
        queue.append(turn)
        self.waiting += 1
        try:
            return await turn
        except asyncio.CancelledError:
            if turn in queue:
                queue.remove(turn)
                self.waiting -= 1
                if not queue:
                    del self._queues[_network(host)]
            elif not turn.cancelled() and turn.result():
                self.give()
            raise

    def give(self) -> None:
        """Hand a turn on to the next address."""
        while self._queues:
            host, queue = self._queues.popitem(last=False)
            turn = queue.popleft()
            self.waiting -= 1
            if queue:
                self._queues[host] = queue
            # Whoever is going away just now has no use for it.
            if not turn.done():
                turn.set_result(True)
                return
        self._free += 1

    def _longest(self) -> deque[asyncio.Future[bool]]:
        return max(self._queues.values(), key=len)


def _network(host: str) -> str:
    """``host`` as it counts: of IPv6 one caller has a whole /64."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is None:
        return str(ipaddress.ip_network((address, 64), strict=False))
    return host

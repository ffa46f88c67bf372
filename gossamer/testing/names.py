"""Simulated names: a zone that every node of a simulated cluster asks, as late and as stale as DNS is.

A change takes ``lag`` seconds to be served, as where an orchestrator publishes endpoints, and whoever asked
before keeps the old answer for ``ttl`` seconds more. Rules: 1. A zone that is ``down`` answers nobody: a
look-up fails after ``timeout``.  2. A name that was never set does not exist; one whose records were all
taken away exists and has none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from gossamer.config.discovery import DnsConfig
from gossamer.discovery import Answer, DiscoveryFailedError, Dns
from gossamer.network import Address


class SimZone:
    """Names and the addresses they have; ``down`` True: no answer to anybody."""

    def __init__(self, *, ttl: float = 5.0, lag: float = 1.0, timeout: float = 3.0) -> None:
        self.ttl = ttl
        self.lag = lag
        self.timeout = timeout
        self.down = False
        self.asked = 0
        self._served: dict[str, dict[Address, None]] = {}

    def add(self, name: str, *addresses: Address) -> None:
        """Serve these besides the others, after the lag."""
        asyncio.get_running_loop().call_later(self.lag, self._add, name, addresses)

    def remove(self, name: str, *addresses: Address) -> None:
        """Serve these no more, after the lag."""
        asyncio.get_running_loop().call_later(self.lag, self._remove, name, addresses)

    def strategy(self, name: str) -> Dns:
        """The ``dns`` strategy of one node, asking this zone: SRV-like, each address with its port."""
        return Dns(DnsConfig(name=name, record_type="srv"), lookup=self._lookup)

    def _add(self, name: str, addresses: Iterable[Address]) -> None:
        self._served.setdefault(name, {}).update(dict.fromkeys(addresses))

    def _remove(self, name: str, addresses: Iterable[Address]) -> None:
        served = self._served.setdefault(name, {})
        for address in addresses:
            served.pop(address, None)

    async def _lookup(self, name: str, record_type: str) -> Answer:
        self.asked += 1
        if self.down:
            await asyncio.sleep(self.timeout)
            raise DiscoveryFailedError(name, f"no DNS server answered within {self.timeout:g} s")
        served = self._served.get(name)
        if not served:
            problem = "no such name" if served is None else f"has no {record_type.upper()} records"
            raise DiscoveryFailedError(name, problem)
        return Answer(tuple(served), self.ttl)

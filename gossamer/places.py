"""Places for callers that have not proved yet who they are: so many in all, so many for one address.

Where all are taken, a caller gets the place of the oldest one of the address that holds most, unless its own
would then hold as many. So a few addresses that hold all places keep nobody else out, and those that come and
go from one address do not drive others out. Where no address holds more than the caller's would, networks are
held against each other in the same way (24 bits of IPv4, 48 of IPv6), since its tenant controls all of it.

The addresses of one IPv6 network of 64 bits count as one, since one machine may use them all.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Generic, TypeVar

C = TypeVar("C")


class Places(Generic[C]):
    """``total`` places, ``each`` for one host. ``evict`` ends a caller whose place another one gets."""

    def __init__(self, total: int, each: int, evict: Callable[[C], object]) -> None:
        self.total = total
        self.each = each
        self._evict = evict
        self._hosts: dict[C, tuple[str, str]] = {}
        """Address and network of each caller, the oldest first."""
        self._held: Counter[str] = Counter()
        self._held_in: Counter[str] = Counter()
        """Places by network."""

    def __len__(self) -> int:
        return len(self._hosts)

    def __iter__(self) -> Iterator[C]:
        return iter(self._hosts)

    def __contains__(self, caller: object) -> bool:
        return caller in self._hosts

    def take(self, caller: C, host: str) -> str:
        """Give a place to ``caller``, or return which bound has been reached, for people."""
        source, network = source_of(host)
        if self._held[source] >= self.each:
            return f"{self.each} callers of one address"
        if len(self._hosts) >= self.total:
            largest = _larger(self._held, self._held[source]) or _larger(
                self._held_in, self._held_in[network]
            )
            if not largest:
                return f"{self.total} callers"
            oldest = next(one for one, of in self._hosts.items() if largest in of)
            self.free(oldest)
            self._evict(oldest)
        self._hosts[caller] = source, network
        self._held[source] += 1
        self._held_in[network] += 1
        return ""

    def free(self, caller: C) -> None:
        """Take the place back from ``caller``, if it has one."""
        of = self._hosts.pop(caller, None)
        for held, one in zip((self._held, self._held_in), of or (), strict=False):
            held[one] -= 1
            if not held[one]:
                del held[one]


def _larger(held: Counter[str], own: int) -> str:
    """Return who holds most, if that is more than a caller with ``own`` places would; else a blank."""
    largest, most = max(held.items(), key=lambda item: item[1])
    return largest if most > own + 1 else ""


@lru_cache(maxsize=4096)
def source_of(host: str) -> tuple[str, str]:
    """Return what counts as one address, and as one network. One that is written otherwise is by itself."""
    with suppress(ValueError):
        address = ipaddress.ip_address(host.strip("[]").partition("%")[0])
        if isinstance(address, ipaddress.IPv6Address):
            if address.ipv4_mapped is None:
                return _network(address, 64), _network(address, 48)
            address = address.ipv4_mapped
        text = str(address)
        # By hand: the half of what a connection costs here.
        return text, f"{text.rpartition('.')[0]}.0/24"
    return host, f"network of {host}"


def _network(address: ipaddress.IPv6Address, bits: int) -> str:
    return str(ipaddress.ip_network((address, bits), strict=False))

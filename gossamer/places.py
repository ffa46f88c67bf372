"""Places for callers that have not proved yet who they are: so many in all, so many for one address.

Where all are taken, a caller gets the place of the oldest one of the address that holds most, unless its own
would then hold as many. So a few addresses that hold all places keep nobody else out, and those that come and
go from one address do not drive others out.

The addresses of one IPv6 network of 64 bits count as one: whoever has one of them has all.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Generic, TypeVar

C = TypeVar("C")


class Places(Generic[C]):
    """``total`` places, ``each`` for one host. ``evict`` ends a caller whose place another one gets."""

    def __init__(self, total: int, each: int, evict: Callable[[C], object]) -> None:
        self.total = total
        self.each = each
        self._evict = evict
        self._hosts: dict[C, str] = {}
        self._held: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._hosts)

    def __iter__(self) -> Iterator[C]:
        return iter(self._hosts)

    def __contains__(self, caller: object) -> bool:
        return caller in self._hosts

    def take(self, caller: C, host: str) -> str:
        """Give a place to ``caller``, or return which bound has been reached, for people."""
        source = _source(host)
        held = self._held[source]
        if held >= self.each:
            return f"{self.each} callers of one address"
        if len(self._hosts) >= self.total:
            largest, most = max(self._held.items(), key=lambda item: item[1])
            if most <= held + 1:
                return f"{self.total} callers"
            oldest = next(one for one, of in self._hosts.items() if of == largest)
            self.free(oldest)
            self._evict(oldest)
        self._hosts[caller] = source
        self._held[source] += 1
        return ""

    def free(self, caller: C) -> None:
        """Take the place back from ``caller``, if it has one."""
        source = self._hosts.pop(caller, None)
        if source is not None:
            self._held[source] -= 1
            if not self._held[source]:
                del self._held[source]


def _source(host: str) -> str:
    if ":" in host:
        # An address that is written otherwise counts by itself.
        with suppress(ValueError):
            address = ipaddress.IPv6Address(host.strip("[]").partition("%")[0])
            if address.ipv4_mapped is not None:
                return str(address.ipv4_mapped)
            return str(ipaddress.IPv6Network((address, 64), strict=False))
    return host

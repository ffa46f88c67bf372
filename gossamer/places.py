"""Places for callers that have not proved yet who they are: so many in all, so many for one address.

Who holds all places of its own address keeps nobody else out; the bound for all is the memory's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

C = TypeVar("C", bound=Hashable)


class Places(Generic[C]):
    """``total`` places, ``each`` for one host."""

    def __init__(self, total: int, each: int) -> None:
        self.total = total
        self.each = each
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
        if self._held[host] >= self.each:
            return f"{self.each} callers of one address"
        if len(self._hosts) >= self.total:
            return f"{self.total} callers"
        self._hosts[caller] = host
        self._held[host] += 1
        return ""

    def free(self, caller: C) -> None:
        """Take the place back from ``caller``, if it has one."""
        host = self._hosts.pop(caller, None)
        if host is not None:
            self._held[host] -= 1
            if not self._held[host]:
                del self._held[host]

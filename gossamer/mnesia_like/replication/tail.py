"""The last deltas of one owner that took effect here, as they are passed on to peers that lack them.

Rules: 1. Pure. Numbers have no gaps.  2. Bounded in deltas and in bytes: it is for what was on its way when
an owner went; a peer that lacks more waits for the owner, or for a survivor that takes the rows over.
"""

from __future__ import annotations

from collections import deque


class Tail:
    """At most so many deltas, and bytes of them; the newest last."""

    __slots__ = ("_deltas", "_last", "_most", "_most_bytes", "size")

    def __init__(self, *, most: int = 1000, most_bytes: int = 1024 * 1024) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self.clear()

    def clear(self) -> None:
        """What comes next does not follow what is here."""
        self._deltas: deque[bytes] = deque()
        self._last = 0
        self.size = 0

    def add(self, number: int, delta: bytes) -> None:
        """The next delta took effect."""
        self._deltas.append(delta)
        self._last = number
        self.size += len(delta)
        while len(self._deltas) > self._most or self.size > self._most_bytes:
            self.size -= len(self._deltas.popleft())

    def after(self, number: int) -> list[bytes]:
        """All that come after a number; nothing where not all of them are here."""
        count = self._last - number
        return list(self._deltas)[-count:] if 0 < count <= len(self._deltas) else []

"""The broadcast queue: which statements ride on the next packet?

Rules: 1. One statement a member: a newer one replaces the older.  2. Fewest transmits first; among equals the
newest.  3. A statement is dropped after ``mult * ceil(log10(members + 1))`` transmits.  4. At most ``limit``
statements wait; the most transmitted go first.

memberlist sorts equals by size to pack packets tighter. Records here are of much the same size, so a first
fit that gives up after a few misses costs O(taken) instead of a sorted tree and packs as well.
"""

from __future__ import annotations

import math

__all__ = ["BroadcastQueue", "retransmit_limit"]

_MISSES = 4
"""How many too large statements are skipped before a packet counts as full."""


def retransmit_limit(members: int, *, mult: int) -> int:
    """How often one statement is sent in a cluster of ``members``."""
    return mult * math.ceil(math.log10(members + 1))


class BroadcastQueue:
    """Statements waiting to spread, keyed by the member they are about."""

    __slots__ = ("_level_of", "_levels", "_limit")

    def __init__(self, *, limit: int = 4096) -> None:
        self._limit = limit
        self._levels: list[dict[str, bytes]] = [{}]
        self._level_of: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._level_of)

    def put(self, name: str, message: bytes, *, sent: int = 0) -> None:
        """Queue ``message`` about ``name``, replacing what was queued about it.

        ``sent`` counts it as sent so often already: news that others are spreading needs fewer repeats.
        """
        level = self._level_of.get(name)
        if level is not None:
            del self._levels[level][name]
        elif len(self._level_of) >= self._limit:
            self._evict()
        while len(self._levels) <= sent:
            self._levels.append({})
        self._levels[sent][name] = message
        self._level_of[name] = sent

    def discard(self, name: str) -> None:
        """Forget what is queued about ``name``."""
        level = self._level_of.pop(name, None)
        if level is not None:
            del self._levels[level][name]

    def take(
        self, room: int, *, limit: int, told: set[str] | None = None, counted: bool = True
    ) -> list[bytes]:
        """Statements that fit into ``room`` bytes; each is counted as sent once more.

        ``told`` are the names that this receiver has just heard of: they are skipped, and grow. A second
        packet that repeats the first would only use up the transmits that others need. Nor does one that
        probably reaches nobody: not ``counted``.
        """
        taken: list[tuple[int, str, bytes]] = []
        misses = 0
        for level, waiting in enumerate(self._levels):
            for name in reversed(waiting):
                if told is not None and name in told:
                    continue
                message = waiting[name]
                if len(message) > room:
                    misses += 1
                    if misses >= _MISSES:
                        break
                    continue
                room -= len(message)
                taken.append((level, name, message))
            if misses >= _MISSES:
                break
        if not counted:
            if told is not None:
                told.update(name for _, name, _ in taken)
            return [message for _, _, message in taken]
        # Oldest first, so that relative age survives the move to the next level.
        for level, name, message in reversed(taken):
            del self._levels[level][name]
            if told is not None:
                told.add(name)
            if level + 1 >= limit:
                del self._level_of[name]
                continue
            if level + 1 == len(self._levels):
                self._levels.append({})
            self._levels[level + 1][name] = message
            self._level_of[name] = level + 1
        return [message for _, _, message in taken]

    def _evict(self) -> None:
        for waiting in reversed(self._levels):
            if waiting:
                name = next(iter(waiting))
                del waiting[name]
                del self._level_of[name]
                return

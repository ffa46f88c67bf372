"""What is being recorded right now: a bounded list of rows in memory, numbered as they come.

The publish path calls ``note`` and nothing else of the recorder: one tuple and one append an event. A row is
``(kind, hlc, wall, …)`` with the values of the kind's own columns, in the order of ``schema.EVENTS``; what
all rows of a node have in common (its name, its creation) is added where files are written.

Rules: 1. Full means lost, counted and said: the place of what was lost is taken by one ``gap`` row, whose
number comes after those of the rows it stands for, so that numbers stay contiguous and a reader sees how
much is missing and when.  2. Sampling is by message and by its number alone, so that every node on a
message's way keeps the same ones: one number of each block of ``1 / share``, at a place that a hash of the
block decides. A fixed stride would always meet the same client of a few that take turns.  3. Membership,
sessions and subscriptions are never sampled: without them no message can be judged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gossamer.audit.schema as schema
from gossamer.clock import HybridLogicalClock

__all__ = ["KINDS", "Sampler", "Tape"]

KINDS = {event.name: number for number, event in enumerate(schema.EVENTS)}
"""The number by which a row names its kind."""

_GAP = KINDS[schema.GAP]
_MIX = 0x9E3779B97F4A7C15
_MASK = 2**64 - 1

Row = tuple[Any, ...]


class Sampler:
    """Which messages are recorded, by their number; ``share`` of 1 keeps all, of 0 none."""

    __slots__ = ("_block",)

    def __init__(self, share: float) -> None:
        self._block = 0 if share <= 0 else max(1, round(1 / share))

    def next(self, number: int) -> int:
        """The first number from ``number`` on that is kept; -1: none ever is."""
        block = self._block
        if block <= 1:
            return number if block else -1
        index = number // block
        chosen = index * block + self._place(index)
        if chosen < number:
            index += 1
            chosen = index * block + self._place(index)
        return chosen

    def keeps(self, number: int) -> bool:
        return self.next(number) == number

    def within(self, first: int, count: int) -> list[tuple[int, int]]:
        """The kept numbers of [first, first + count) as (number, how many in a row)."""
        if self._block == 1:
            return [(first, count)]
        kept = []
        number = self.next(first)
        while 0 <= number < first + count:
            kept.append((number, 1))
            number = self.next(number + 1)
        return kept

    def _place(self, index: int) -> int:
        # Splitmix64: neighbouring blocks land far apart.
        mixed = ((index + 1) * _MIX) & _MASK
        mixed ^= mixed >> 31
        mixed = (mixed * 0xBF58476D1CE4E5B9) & _MASK
        return (mixed >> 32) % self._block


class Tape:
    """Rows that nobody has taken yet. ``limit`` bounds them; ``wall`` and ``offset`` are asked per row."""

    __slots__ = ("_clock", "_lost", "_rows", "_wall", "limit", "lost", "number")

    def __init__(self, *, limit: int, wall: Callable[[], float], clock: HybridLogicalClock) -> None:
        self._rows: list[Row] = []
        self._wall = wall
        self._clock = clock
        self._lost = 0
        self.limit = limit
        self.number = 0
        """Of the last row, lost ones included."""
        self.lost = 0
        """Rows that found no place, ever."""

    def __len__(self) -> int:
        return len(self._rows)

    def note(self, kind: int, *values: Any) -> None:
        """Record an event of ``kind`` with the values of its columns."""
        self.number += 1
        if len(self._rows) >= self.limit:
            self._lost += 1
            self.lost += 1
            return
        if self._lost:
            self._close_gap("overflow")
        wall = self._wall()
        self._rows.append((self.number, kind, self._clock.tick(wall), int(wall * 1_000_000), *values))

    def lose(self, count: int, reason: str) -> None:
        """Say that ``count`` rows were lost after they had been taken."""
        self.lost += count
        self._mark(count, reason)

    def take(self) -> list[Row]:
        """All rows, which are the caller's from now on."""
        if self._lost:
            self._close_gap("overflow")
        rows, self._rows = self._rows, []
        return rows

    def _close_gap(self, reason: str) -> None:
        count, self._lost = self._lost, 0
        self._mark(count, reason)

    def _mark(self, count: int, reason: str) -> None:
        wall = self._wall()
        self.number += 1
        self._rows.append((self.number, _GAP, self._clock.tick(wall), int(wall * 1_000_000), count, reason))

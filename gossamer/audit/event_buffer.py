"""Buffer of what is being recorded: a bounded list of rows in memory, numbered as they come.

A row is ``(number, kind, hlc, wall, …)`` with the values of the kind's own columns, in the order of
``schema.EVENTS``; what all rows of a node have in common (its name, its creation, how far its clock is off)
is added where files are written. A row whose client is a tuple of names stands for one row a client: a
fan-out is one row here and is spread out by the writer.

Rules: 1. Full means lost, counted and said: the place of what was lost is taken by one ``gap`` row, whose
number comes after those of the rows it stands for, so that numbers stay contiguous and a reader sees how
much is missing and when.  2. Membership, sessions and subscriptions are never sampled: without them no
message can be judged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gossamer.audit.schema as schema
from gossamer.clock import ClockSkewError, HybridLogicalClock

KINDS = {event.name: number for number, event in enumerate(schema.EVENTS)}
"""The number by which a row names its kind."""

_GAP = KINDS[schema.GAP]
_DELIVERED = KINDS[schema.DELIVERED]
_CLIENT = 8
"""Place of the client, or the clients, in a delivery's row."""

Row = tuple[Any, ...]
"""A note of one event."""


class EventBuffer:
    """Rows that nobody has taken yet. ``limit`` bounds them; ``wall`` is asked per row."""

    __slots__ = ("_clock", "_lost", "_rows", "_wall", "gaps", "limit", "lost", "number", "offset_us")

    def __init__(self, *, limit: int, wall: Callable[[], float]) -> None:
        self._rows: list[Row] = []
        self._wall = wall
        self._clock = HybridLogicalClock()
        self._lost = 0
        self.limit = limit
        self.number = 0
        """Of the last row, lost ones included."""
        self.lost = 0
        """Rows that found no place, ever."""
        self.gaps = 0
        """Times that rows were lost, and something was recorded again."""
        self.offset_us: int | None = None
        """How far the wall clock is believed to be ahead of the others'; None: not measured."""

    def __len__(self) -> int:
        return len(self._rows)

    def note(self, kind: int, *values: object) -> None:
        """Record an event of ``kind`` with the values of its columns."""
        self.number += 1
        if len(self._rows) >= self.limit:
            self._lost += 1
            self.lost += 1
            return
        if self._lost:
            self.number -= 1
            self._close_gap("overflow")
            self.number += 1
        wall = self._wall()
        self._rows.append((self.number, kind, self._clock.tick(wall), int(wall * 1_000_000), *values))

    def note_many(self, kind: int, many: int, *values: object) -> None:
        """Record ``many`` events at once; their row has a tuple of so many clients, and the last number."""
        if len(self._rows) >= self.limit:
            self.number += many
            self._lost += many
            self.lost += many
            return
        if self._lost:
            self._close_gap("overflow")
        self.number += many
        wall = self._wall()
        self._rows.append((self.number, kind, self._clock.tick(wall), int(wall * 1_000_000), *values))

    def stamp(self) -> int:
        """The hybrid clock, for something that leaves this node now."""
        return self._clock.tick(self._wall())

    def observe(self, hlc: int) -> None:
        """Something came here that left another node at ``hlc``."""
        if hlc:
            try:
                self._clock.observe(hlc, self._wall())
            except ClockSkewError:
                # A clock that is a minute ahead is that node's trouble; its offset is in its rows.
                return

    def lose(self, count: int, reason: str) -> None:
        """Say that ``count`` rows were lost after they had been taken."""
        self.lost += count
        self._mark(count, reason)

    def take(self, weight: int = 0) -> list[Row]:
        """The oldest rows, which are the caller's from now on: about ``weight``, or all.

        A row of many clients counts for one more with every twenty of them.
        """
        if self._lost:
            self._close_gap("overflow")
        rows = self._rows
        if not weight:
            self._rows = []
            return rows
        stop = 0
        for row in rows:
            if weight <= 0:
                break
            weight -= 1
            if row[1] == _DELIVERED and type(row[_CLIENT]) is tuple:
                weight -= len(row[_CLIENT]) // 20
            stop += 1
        taken = rows[:stop]
        del rows[:stop]
        return taken

    def _close_gap(self, reason: str) -> None:
        count, self._lost = self._lost, 0
        self._mark(count, reason)

    def _mark(self, count: int, reason: str) -> None:
        self.gaps += 1
        wall = self._wall()
        self.number += 1
        self._rows.append((self.number, _GAP, self._clock.tick(wall), int(wall * 1_000_000), count, reason))

"""Records of a write-ahead log, and what they leave of a group.

Rules: 1. Entries replace everything from the first one's index on.  2. A mark says where a group's entries
begin, and its snapshot; earlier ones are forgotten.  3. A record that is ``whole`` replaces all that was
before it, so that older segments need not be kept for that group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from gossamer.raft.errors import DamagedLogError
from gossamer.raft.log import Log
from gossamer.raft.values import Entry, HardState, Snapshot


class Mark(msgspec.Struct, frozen=True, array_like=True):
    """Snapshot of a group, and index and term before the first entry that is kept."""

    snapshot: Snapshot
    base: int
    base_term: int


class Record(msgspec.Struct, frozen=True, array_like=True):
    """What a turn wants kept of one group. ``replica``: the number of this node's, 0 for the one before."""

    group: int
    hard: HardState | None = None
    mark: Mark | None = None
    entries: Sequence[Entry] = ()
    whole: bool = False
    removed: bool = False
    replica: int = 0


class Batch(msgspec.Struct, frozen=True, array_like=True):
    """Body of a frame: the oldest segment that is still needed, and a turn's records of all groups."""

    oldest: int
    records: Sequence[Record] = ()


@dataclass
class Stored:
    """What is on disc of one group."""

    replica: int = 0
    hard: HardState = field(default_factory=HardState)
    mark: Mark = field(default_factory=lambda: Mark(Snapshot(), 0, 0))
    entries: list[Entry] = field(default_factory=list)
    places: list[tuple[int, int]] = field(default_factory=list)
    """First index and segment of each run of entries."""

    first: int = 1
    """Index of the first entry. While segments are read it may be beyond what follows the mark: entries
    before it were in a segment that is gone, since the group took a snapshot or was written whole later."""

    @property
    def oldest(self) -> int | None:
        """Oldest segment that has entries of the group; None: none has."""
        return self.places[0][1] if self.places else None

    def apply(self, record: Record, segment: int) -> None:
        """Take a record of a segment."""
        if record.whole:
            self.entries, self.places, self.first = [], [], self.mark.base + 1
        if record.replica:
            self.replica = record.replica
        if record.hard is not None:
            self.hard = record.hard
        if record.mark is not None:
            self._mark(record.mark)
        if record.entries:
            self._append(record.entries, segment)

    def check(self, group: int, where: str) -> None:
        """Raise what is wrong once all records are taken.

        Raises:
            DamagedLogError: entries are missing.
        """
        if self.first != self.mark.base + 1:
            got, expected = f"entries from {self.first} on", f"entries from {self.mark.base + 1} on"
            raise DamagedLogError(f"{where}, group {group}", got=got, expected=expected)

    def _mark(self, mark: Mark) -> None:
        self.mark = mark
        del self.entries[: max(mark.base + 1 - self.first, 0)]
        self.first = max(self.first, mark.base + 1) if self.entries else mark.base + 1
        while len(self.places) > 1 and self.places[1][0] <= self.first:
            del self.places[0]
        if not self.entries:
            self.places = []

    def _append(self, entries: Sequence[Entry], segment: int) -> None:
        first = entries[0].index
        if not 0 <= first - self.first <= len(self.entries):
            self.entries, self.places, self.first = [], [], first
        del self.entries[first - self.first :]
        self.entries.extend(entries)
        while self.places and self.places[-1][0] >= first:
            del self.places[-1]
        if not self.places or self.places[-1][1] != segment:
            self.places.append((first, segment))

    def log(self) -> Log:
        """Return the log that a replica begins with."""
        return Log(self.mark.snapshot, self.entries, base=(self.mark.base, self.mark.base_term))

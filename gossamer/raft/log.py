"""The log of one replica, from the entry after its base to the last, in memory.

Four marks, never the other way round: base <= applied <= committed <= last. ``stable`` is how far the disc
holds it. The base is the position before the first entry that is kept; ``snapshot`` is the newest snapshot of
the state machine, at or after the base.

Rules: 1. No I/O: the host writes what :attr:`unstable` returns and says so.  2. Committed entries never
change; what would change them was sent by a liar, or the disc forgot.  3. Members are a function of the log:
those of the last entry that says them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import islice

from gossamer.raft.errors import DamagedLogError
from gossamer.raft.values import Entry, Kind, Membership, Snapshot, membership_of


class Log:
    """Entries of one replica, and how far they are stored, committed and applied."""

    def __init__(
        self, snapshot: Snapshot, entries: Sequence[Entry] = (), *, base: tuple[int, int] | None = None
    ) -> None:
        """``base``: index and term before the first entry; by default the position of the snapshot.

        Raises:
            DamagedLogError: the entries do not follow one another.
        """
        self.base, self._base_term = base if base is not None else (snapshot.index, snapshot.term)
        self.snapshot = snapshot
        self.committed = self.applied = snapshot.index
        self.stable = self.base
        self.unstable_bytes = self.uncommitted_bytes = 0
        self._entries: list[Entry] = []
        self._memberships: list[tuple[int, Membership]] = [(snapshot.index, snapshot.membership)]
        term = self._base_term
        for place, entry in enumerate(entries, self.base + 1):
            if entry.index != place or entry.term < term:
                raise DamagedLogError(
                    f"log, entry {place}",
                    got=f"index {entry.index} of term {entry.term}",
                    expected=f"index {place} of term {term} or later",
                )
            term = entry.term
        self._extend(entries)
        self.uncommitted_bytes -= self._bytes(self.base + 1, snapshot.index)
        if self.last < snapshot.index:
            raise DamagedLogError(
                "log", got=f"a last index of {self.last}", expected=f"{snapshot.index}, its snapshot's"
            )
        self.stable, self.unstable_bytes = self.last, 0

    @property
    def last(self) -> int:
        """Index of the last entry."""
        return self.base + len(self._entries)

    @property
    def last_term(self) -> int:
        """Term of the last entry."""
        return self._entries[-1].term if self._entries else self._base_term

    @property
    def membership(self) -> Membership:
        """The members, by the last entry that says them."""
        return self._memberships[-1][1]

    @property
    def membership_index(self) -> int:
        """Index of the entry that says the members."""
        return self._memberships[-1][0]

    def membership_at(self, index: int) -> Membership:
        """Return the members as of an entry at or after the snapshot."""
        place = bisect_right(self._memberships, index, key=lambda pair: pair[0])
        return self._memberships[max(place - 1, 0)][1]

    def term(self, index: int) -> int | None:
        """Return the term of an entry, or of the base; None where it is not known here."""
        place = index - self.base
        if place == 0:
            return self._base_term
        return self._entries[place - 1].term if 0 < place <= len(self._entries) else None

    def slice(self, first: int, last: int, max_bytes: int) -> list[Entry]:
        """Return entries from ``first`` up to ``last``: as many as fit, and at least one."""
        found: list[Entry] = []
        size = 0
        for entry in islice(self._entries, first - self.base - 1, last - self.base):
            size += entry.size
            if found and size > max_bytes:
                break
            found.append(entry)
        return found

    @property
    def unstable(self) -> list[Entry]:
        """Entries that the disc does not hold."""
        return self._entries[self.stable - self.base :]

    def at_least(self, index: int, term: int) -> bool:
        """Return whether a log that ends with this entry is as complete as ours (section 3.6.1)."""
        return (term, index) >= (self.last_term, self.last)

    def conflict_hint(self, index: int, term: int) -> tuple[int, int]:
        """Return the last entry up to ``index`` whose term is not above ``term``, and its term.

        Above it no entry can be the other log's, so a whole term is skipped with one question.
        """
        index = min(index, self.last)
        while index > self.base:
            found = self._entries[index - self.base - 1].term
            if found <= term:
                return index, found
            index -= 1
        return self.base, self._base_term

    # -- changes

    def append(self, entries: Sequence[Entry]) -> None:
        """Append a leader's own entries."""
        self._extend(entries)

    def accept(self, prev_index: int, prev_term: int, entries: Sequence[Entry]) -> bool:
        """Take over a leader's entries, in place of others from the first difference on.

        False where the entry before them is not ours.

        Raises:
            DamagedLogError: they would change what is committed.
        """
        if self.term(prev_index) != prev_term:
            return False
        for place, entry in enumerate(entries):
            known = self.term(entry.index)
            if known == entry.term:
                continue
            if known is not None:
                self._truncate(entry.index)
            self._extend(entries[place:])
            break
        return True

    def commit_to(self, index: int) -> bool:
        """Commit up to an entry; return whether that is news.

        Raises:
            DamagedLogError: the log ends before it, though this replica has acknowledged it.
        """
        if index <= self.committed:
            return False
        if index > self.last:
            raise DamagedLogError(
                "log",
                got=f"a last index of {self.last}",
                expected=f"{index}, which this replica has acknowledged and is committed",
            )
        self.uncommitted_bytes -= self._bytes(self.committed + 1, index)
        self.committed = index
        return True

    def stored(self, index: int, term: int) -> None:
        """Note that the disc holds everything up to an entry, unless that was replaced meanwhile."""
        if index > self.stable and self.term(index) == term:
            self.unstable_bytes -= self._bytes(self.stable + 1, index)
            self.stable = index

    def restore(self, snapshot: Snapshot) -> None:
        """Replace everything by a snapshot."""
        self.base, self._base_term = snapshot.index, snapshot.term
        self.snapshot = snapshot
        self._entries = []
        self._memberships = [(snapshot.index, snapshot.membership)]
        self.committed = self.applied = self.stable = snapshot.index
        self.unstable_bytes = self.uncommitted_bytes = 0

    def compact(self, snapshot: Snapshot, base: int) -> None:
        """Forget entries up to ``base``, at most up to the snapshot, which the host has stored."""
        base = min(base, snapshot.index)
        term = self.term(base)
        if base > self.base and term is not None:
            del self._entries[: base - self.base]
            self.base, self._base_term = base, term
        self.snapshot = snapshot
        kept = [pair for pair in self._memberships if pair[0] > snapshot.index]
        self._memberships = [(snapshot.index, snapshot.membership), *kept]

    def _bytes(self, first: int, last: int) -> int:
        return sum(e.size for e in islice(self._entries, first - self.base - 1, last - self.base))

    def _extend(self, entries: Sequence[Entry]) -> None:
        self._entries.extend(entries)
        for entry in entries:
            size = entry.size
            self.unstable_bytes += size
            self.uncommitted_bytes += size
            if entry.kind is Kind.MEMBERSHIP and entry.index > self.snapshot.index:
                self._memberships.append((entry.index, membership_of(entry)))

    def _truncate(self, index: int) -> None:
        """Remove entries from ``index`` on."""
        if index <= self.committed:
            raise DamagedLogError(
                f"log, entry {index}",
                got="another entry from the leader",
                expected=f"the one that is here: everything up to {self.committed} is committed",
            )
        self.unstable_bytes -= self._bytes(max(index, self.stable + 1), self.last)
        self.uncommitted_bytes -= self._bytes(index, self.last)
        del self._entries[index - self.base - 1 :]
        self.stable = min(self.stable, index - 1)
        while self._memberships[-1][0] >= index:
            self._memberships.pop()

"""Ranges of a cluster: a few to begin with, which share out the first bytes of keys; they split and merge.

A caller knows all ranges as they began, and learns from answers, and from what leaders tell every node, what
became of them. Of two ranges that had a key the one of the higher version has it: so nobody needs to know
which took the place of which, and what comes late does no harm.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from msgspec.structs import replace

from gossamer.basekv.machine import RangeMachine
from gossamer.basekv.values import RangeInfo, kind_of, number_of

FIRST_RANGES = 4


def first_ranges(count: int = FIRST_RANGES) -> list[RangeInfo]:
    """Return ``count`` ranges that share out all keys, a power of two up to 256."""
    width = 256 // count
    starts = [b"", *(bytes([width * number]) for number in range(1, count)), None]
    return [RangeInfo(number, starts[number] or b"", starts[number + 1]) for number in range(count)]


KINDS = tuple(kind_of(info.number) for info in first_ranges())
"""Kinds of the groups that a cluster has to begin with."""


def machine_of(kind: str) -> RangeMachine | None:
    """Return the state machine of a group of this kind; None if it is no range. One that has begun with the
    keys of another gets its range with its first snapshot."""
    number = number_of(kind)
    if number is None:
        return None
    return RangeMachine(first_ranges()[number] if number < FIRST_RANGES else RangeInfo(number, b"", b"", 0))


def range_of(key: bytes) -> int:
    """Return the number of the range that has a key to begin with."""
    return next(info.number for info in first_ranges() if info.has(key))


class RoutingTable:
    """Ranges as one caller knows them."""

    def __init__(self) -> None:
        self._first = first_ranges()
        self._ranges = {info.number: info for info in self._first}
        self._starts: list[bytes] = []
        self._owners: list[RangeInfo] = []
        """What has the keys from each of the starts on."""

    def ranges(self) -> list[RangeInfo]:
        """Return the ranges that have keys, in order."""
        self._arrange()
        return sorted(set(self._owners), key=lambda info: info.start)

    def find(self, key: bytes) -> RangeInfo:
        """Return the range of a key."""
        self._arrange()
        return self._owners[bisect_right(self._starts, key) - 1]

    def version(self, number: int) -> int:
        """Return the version of a range; 0: it is not known."""
        info = self._ranges.get(number)
        return 0 if info is None else info.version

    def learn(self, infos: Iterable[RangeInfo]) -> bool:
        """Take ranges as an answer has them; return whether that was news."""
        known = self._ranges
        for info in infos:
            if info.version > self.version(info.number):
                self._ranges = {**self._ranges, info.number: info}
                self._starts = []
        return self._ranges is not known

    def _arrange(self) -> None:
        if self._starts:
            return
        # Keys that went to a range which is not known yet are asked for where they were at first, in a
        # version that nothing has: the answer says more.
        unknown = [replace(info, version=0) for info in self._first]
        infos = sorted([*self._ranges.values(), *unknown], key=lambda info: info.version, reverse=True)
        borders = {border for info in infos for border in (info.start, info.end) if border is not None}
        self._starts = sorted(borders)
        self._owners = [next(one for one in infos if one.has(start)) for start in self._starts]

"""Ranges of a cluster: a few to begin with, which share out the first bytes of keys.

A caller knows all ranges as they began, and learns from answers what became of them.
"""

from __future__ import annotations

from gossamer.basekv.machine import RangeMachine
from gossamer.basekv.values import RangeInfo

FIRST_RANGES = 4
_KIND = "basekv/"


def first_ranges(count: int = FIRST_RANGES) -> list[RangeInfo]:
    """Return ``count`` ranges that share out all keys, a power of two up to 256."""
    width = 256 // count
    starts = [b"", *(bytes([width * number]) for number in range(1, count)), None]
    return [RangeInfo(number, starts[number] or b"", starts[number + 1]) for number in range(count)]


def kind_of(number: int) -> str:
    """Return the kind of the group of a range."""
    return f"{_KIND}{number}"


KINDS = tuple(kind_of(info.number) for info in first_ranges())
"""Kinds of the groups that a cluster has to begin with."""


def machine_of(kind: str) -> RangeMachine | None:
    """Return the state machine of a group of this kind; None if it is no range."""
    number = kind.removeprefix(_KIND)
    if number == kind or not number.isdecimal() or int(number) >= FIRST_RANGES:
        return None
    return RangeMachine(first_ranges()[int(number)])


def range_of(key: bytes) -> int:
    """Return the number of the range that has a key to begin with."""
    return next(info.number for info in first_ranges() if info.has(key))


class RoutingTable:
    """Ranges as one caller knows them."""

    def __init__(self) -> None:
        self._ranges = {info.number: info for info in first_ranges()}

    def find(self, key: bytes) -> RangeInfo:
        """Return the range of a key."""
        return next(info for info in self._ranges.values() if info.has(key))

    def range(self, number: int) -> RangeInfo:
        """Return a range by its number."""
        return self._ranges[number]

    def learn(self, info: RangeInfo) -> None:
        """Take a range as an answer has it."""
        if info.version > self._ranges[info.number].version:
            self._ranges[info.number] = info

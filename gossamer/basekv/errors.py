"""Errors of key ranges.

::

    UsageError        BadRowError BadRangeError
    UnavailableError  NotWrittenError RangeFullError
"""

from __future__ import annotations

from gossamer.basekv.values import MAX_RANGE
from gossamer.errors import UnavailableError, UsageError


class BadRowError(UsageError):
    """A key, a value or a write that no range takes."""

    def __init__(self, what: str, *, got: str, expected: str) -> None:
        self.what = what
        self.got = got
        self.expected = expected
        super().__init__(f"{what}: got {got}, expected {expected}")


class BadRangeError(UsageError):
    """A range that cannot be changed so; ``where`` is its key or number, as it was given."""

    def __init__(self, where: str, *, got: str, expected: str) -> None:
        self.where = where
        self.got = got
        self.expected = expected
        super().__init__(f"range {where}: got {got}, expected {expected}")


class NotWrittenError(UnavailableError):
    """A write that is not known to be done; ``unknown``: it may be, else it is not."""

    def __init__(self, why: str, *, unknown: bool) -> None:
        self.why = why
        self.unknown = unknown
        outcome = (
            "it may be done or not: read before it is tried again"
            if unknown
            else "nothing was done; try again"
        )
        super().__init__(f"write: {why}; {outcome}")


class RangeFullError(UnavailableError):
    """A write to a range that holds as much as it may; nothing was done."""

    def __init__(self, number: int) -> None:
        self.number = number
        most = f"{MAX_RANGE // 2**20} MiB"
        super().__init__(f"write: range {number} is full, with {most}; delete rows and try again")

"""Hints for a node that is away, as entries, and the actions that its hint log returns."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

OVERHEAD = 64
"""Bytes that an entry counts for besides its records."""
MOVED_LIMIT = 100_000
"""Clients whose moves are remembered while a node is away; all others get every hint."""

NO_END = (1 << 63) - 1

Moved = Mapping[str, Sequence[int]]
"""By client, half-open ranges of the numbers that are not for it: start, end, start, end and so on."""


def is_for(client_id: str, number: int, moved: Moved) -> bool:
    """Return whether an entry is for a client's session at the node that was away."""
    return bisect_right(moved.get(client_id, ()), number) % 2 == 0


def joined(bounds: Iterable[int]) -> list[int]:
    """Return the bounds of ranges without empty ones, and with adjacent ones merged."""
    joined: list[int] = []
    for bound in bounds:
        if joined and joined[-1] == bound:
            joined.pop()
        else:
            joined.append(bound)
    return joined


class Hint(msgspec.Struct, frozen=True):
    """An entry: ``count`` messages that came together at ``at``, on this node's clock."""

    number: int
    at: float
    records: bytes
    count: int
    live: bool = False
    session: int = 0
    frame: int = 0
    """Number of the frame in which it was sent, in the link session ``session``; 0: it was never sent."""

    @property
    def size(self) -> int:
        return len(self.records) + OVERHEAD

    def is_known(self, taken: int, frames: Mapping[int, int]) -> bool:
        """Return whether a node has it that took entries up to ``taken``, and link sessions to ``frames``."""
        return self.number <= taken or 0 < self.frame <= frames.get(self.session, 0)


@dataclass(frozen=True, slots=True)
class Keep:
    """Write an entry to disc."""

    hint: Hint


@dataclass(frozen=True, slots=True)
class Drop:
    """Delete entries from disc."""

    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Lost:
    """Report records that the node will not get, except those still ``left``."""

    records: tuple[bytes, ...]
    reason: str
    left: bytes = b""


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask the node what it has."""


@dataclass(frozen=True, slots=True)
class Send:
    """Send the unexpired ``records`` of an entry; call :meth:`HintLog.confirmed` once they took effect."""

    hint: Hint
    records: bytes


@dataclass(frozen=True, slots=True)
class Over:
    """Report to the node that all that was kept while it was away has been sent."""


@dataclass(frozen=True, slots=True)
class Live:
    """Forward to the node directly again."""


Action = Keep | Drop | Lost | Ask | Send | Over | Live

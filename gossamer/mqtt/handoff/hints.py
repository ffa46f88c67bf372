"""Hints for a node that is away, entry by entry, and the actions on them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

OVERHEAD = 64
"""Bytes that an entry counts for besides its records."""
MOVED_LIMIT = 100_000
"""Clients whose comings and goings are known while a node is away; of others everything is given back."""


NO_END = (1 << 63) - 1

Moved = Mapping[str, Sequence[int]]
"""By client, the numbers that are not for it: from the first, up to and without the second, and so on."""


def is_for(client_id: str, number: int, moved: Moved) -> bool:
    """Return whether an entry is for a client's session at the node that was away."""
    return bisect_right(moved.get(client_id, ()), number) % 2 == 0


def joined(bounds: Iterable[int]) -> list[int]:
    """Ranges without those that are empty, and as one where the next begins at the end of the one before."""
    joined: list[int] = []
    for bound in bounds:
        if joined and joined[-1] == bound:
            joined.pop()
        else:
            joined.append(bound)
    return joined


class Kept(msgspec.Struct, frozen=True):
    """Records that came together; ``at`` is a moment of this node's clock."""

    number: int
    at: float
    records: bytes
    count: int
    live: bool = False
    session: int = 0
    frame: int = 0
    """The frame it went in, of the session with that number; 0: it was never sent."""

    @property
    def size(self) -> int:
        return len(self.records) + OVERHEAD

    def is_known(self, taken: int, frames: Mapping[int, int]) -> bool:
        """Return whether a node that took so much of the hints, and of each stream, has it."""
        return self.number <= taken or 0 < self.frame <= frames.get(self.session, 0)


@dataclass(frozen=True, slots=True)
class Keep:
    """Have it on disc."""

    kept: Kept


@dataclass(frozen=True, slots=True)
class Drop:
    """These are not needed any more."""

    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Lost:
    """The node will not get these records, but for those that are ``left`` of them."""

    records: tuple[bytes, ...]
    reason: str
    left: bytes = b""


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask the node what it has."""


@dataclass(frozen=True, slots=True)
class Send:
    """Send an entry; say :meth:`Spool.confirmed` once it has taken effect. ``records`` are what is left."""

    kept: Kept
    records: bytes


@dataclass(frozen=True, slots=True)
class Over:
    """All that was kept while the node was away has been sent."""


@dataclass(frozen=True, slots=True)
class Live:
    """The node gets what comes itself again."""


Action = Keep | Drop | Lost | Ask | Send | Over | Live

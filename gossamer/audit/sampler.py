"""Which messages are recorded: runs of neighbours, at places that a hash decides.

The node that takes a message from its publisher decides, by the message's number alone; the decision travels
with the message as its identifier (``mqtt.idents``), so that all nodes keep the same ones.

:data:`RUN` neighbours are kept or not together, because a run of them costs hardly more than one: at 1 % a
busy node writes a few rows for 3,200 messages. Numbers are cut into strata of ``1 / share`` runs, and a hash
of the stratum says which of its runs is kept, so that clients that take turns are met alike and the share is
met in every stretch of numbers.

Rejected: to keep every n-th message (always the same client's of a few that take turns); to keep one message
here and there (in a busy node each costs a hundred times what passing it on does); runs as long as what one
read brought (who sends more at once would be kept more often than his share).
"""

from __future__ import annotations

from math import ceil

__all__ = ["NEVER", "RUN", "Sampler"]

RUN = 32
"""Messages that are kept or not together."""
NEVER = 1 << 62
"""A number that no message reaches."""

_MIX = 0x9E3779B97F4A7C15
_MASK = 2**64 - 1


class Sampler:
    """Which messages are recorded, by their number; ``share`` of 1 keeps all, of 0 none."""

    __slots__ = ("share",)

    def __init__(self, share: float) -> None:
        self.share = min(1.0, max(0.0, share))

    def next(self, number: int) -> tuple[int, int]:
        """From ``number`` on: the first number that is kept, and the last one of its run."""
        share = self.share
        if share >= 1.0:
            return number, NEVER
        if share <= 0.0:
            return NEVER, NEVER
        run = number // RUN
        stratum = max(0, int(run * share) - 1)
        while True:
            chosen = self._place(stratum)
            if chosen >= run:
                return max(number, chosen * RUN), chosen * RUN + RUN - 1
            stratum += 1

    def keeps(self, number: int) -> bool:
        return self.next(number)[0] == number

    def within(self, first: int, count: int) -> list[tuple[int, int]]:
        """The kept numbers of [first, first + count) as (number, how many in a row)."""
        kept = []
        end = first + count
        begin, last = self.next(first)
        while begin < end:
            kept.append((begin, min(last + 1, end) - begin))
            begin, last = self.next(last + 1)
        return kept

    def _place(self, stratum: int) -> int:
        """The run that is kept of a stratum."""
        first = ceil(stratum / self.share)
        size = max(1, ceil((stratum + 1) / self.share) - first)
        # Splitmix64: neighbouring strata land far apart.
        mixed = ((stratum + 1) * _MIX) & _MASK
        mixed ^= mixed >> 31
        mixed = (mixed * 0xBF58476D1CE4E5B9) & _MASK
        return first + (mixed >> 32) % size

"""Sampling of messages: whole reads, at places that a hash decides.

The node that takes a message from its publisher decides, and the decision travels with the message as its
identifier (``mqtt.messages``), so that all nodes keep the same ones. What is decided on is an *arrival*:
what one read of a publisher's socket brought, or a single message that came otherwise. Arrivals are numbered,
and :data:`RUN` neighbours are kept or not together. Their numbers are cut into strata of ``1 / share`` runs,
and a hash of the stratum says which of its runs is kept. So every message is kept with the same probability
whichever client sends it and however much at once; clients that take turns are met alike, and the share is
met in every stretch of arrivals.

Why reads: messages that come together are told together, in hardly more rows than one, and what is not kept
goes its way at full speed, since nothing is asked about each message. Why runs of them: the first read that
is kept after a while finds none of the recorder's code and data in the processor's caches and costs three
times as much as the next. (Within the process, 1 % of reads with runs of 16 costs 2 to 5 % more than none.)

Rejected: to keep every n-th message or read (always the same client's of a few that take turns); to keep one
message here and there (in a busy node each costs a hundred times what passing it on does); a number of
messages across reads (three times as many rows, and a question at every message).
"""

from __future__ import annotations

from math import ceil

RUN = 32
"""Arrivals that are kept or not together."""
NEVER = 1 << 62
"""A number that no arrival reaches."""

_MIX = 0x9E3779B97F4A7C15
_MASK = 2**64 - 1


class Sampler:
    """Choice of arrivals by their number; ``share`` of 1 keeps all, of 0 none."""

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

    def _place(self, stratum: int) -> int:
        """The run that is kept of a stratum."""
        first = ceil(stratum / self.share)
        size = max(1, ceil((stratum + 1) / self.share) - first)
        # Splitmix64: neighbouring strata land far apart.
        mixed = ((stratum + 1) * _MIX) & _MASK
        mixed ^= mixed >> 31
        mixed = (mixed * 0xBF58476D1CE4E5B9) & _MASK
        return first + (mixed >> 32) % size

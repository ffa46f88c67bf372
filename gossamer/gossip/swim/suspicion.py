"""Suspicion: how long does an accused member have to refute?

The Lifeguard formula: from ``maximum`` with nobody confirming down to ``minimum`` once ``needed`` others
did::

    max(minimum, maximum - (maximum - minimum) * ln(n + 1) / ln(needed + 1)) - elapsed

Rules: 1. Confirmers are distinct, and the first accuser is not one.  2. Hard evidence (the accused's host
refused a connection to its port) counts as all of them, and is enough after ``refused`` seconds.  3. In
clusters too small to have as many others as are asked for, ``needed`` are all there are, and the field uses
the minimum at once; here soft evidence gets twice that until they have confirmed it, because with no other
opinion a stalled process and a dead one look the same (``few``).  4. So it is where others are there but
suspected themselves: on the smaller side of a split nobody is left to confirm, and waiting for them would
only make it the last to know (``witnesses``). Time that this process lost itself is given back (``extend``),
as ever.
"""

from __future__ import annotations

import math

__all__ = ["Suspicion", "suspicion_bounds"]


def suspicion_bounds(
    members: int, *, interval: float, mult: float, max_mult: float, floor: float
) -> tuple[float, float]:
    """The shortest and longest timeout, in seconds, for a cluster of ``members``."""
    minimum = max(floor, mult * max(1.0, math.log10(max(1, members))) * interval)
    return minimum, max_mult * minimum


class Suspicion:
    """One accused member's remaining time."""

    __slots__ = (
        "_confirmers",
        "_few",
        "_hard",
        "_maximum",
        "_minimum",
        "_needed",
        "_refused",
        "started",
        "witnesses",
    )

    def __init__(
        self,
        accuser: str,
        *,
        now: float,
        minimum: float,
        maximum: float,
        needed: int,
        few: bool = False,
        refused: float | None = None,
        hard: bool = False,
    ) -> None:
        self.started = now
        self._minimum = minimum
        self._refused = minimum if refused is None else refused
        self._maximum = maximum
        self._needed = needed
        self._few = few
        self._hard = hard
        self.witnesses = needed
        """How many could confirm now: those that are neither accused themselves nor the accuser."""
        # Membership only: the order of this set reaches nothing.
        self._confirmers = {accuser}

    @property
    def confirmations(self) -> int:
        """How many others agreed with the accuser."""
        return len(self._confirmers) - 1

    @property
    def hard(self) -> bool:
        return self._hard

    def confirm(self, confirmer: str, *, hard: bool = False) -> bool:
        """Count a confirmer; False when this told us nothing new."""
        if hard and not self._hard:
            self._hard = True
            self._confirmers.add(confirmer)
            return True
        if self.confirmations >= self._needed or confirmer in self._confirmers:
            return False
        self._confirmers.add(confirmer)
        return True

    def extend(self, seconds: float) -> None:
        """Give back time that this process, not the accused, lost."""
        self.started += seconds

    def timeout(self) -> float:
        """Seconds from start to verdict, as the evidence stands."""
        if self._hard:
            return self._refused
        alone = min(2 * self._minimum, self._maximum)
        if self._needed == 0:
            return alone
        shrink = math.log(self.confirmations + 1) / math.log(self._needed + 1)
        asked = max(self._minimum, self._maximum - (self._maximum - self._minimum) * shrink)
        return min(asked, alone) if self._few or self.witnesses < self._needed else asked

    def deadline(self) -> float:
        """When the accused is declared down."""
        return self.started + self.timeout()

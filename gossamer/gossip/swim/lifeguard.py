"""Lifeguard (Dadgar, Phillips, Currey, 2018): how far to trust one's own timers, and how long to suspect.

*Awareness* is a score, 0 (well) to ``maximum`` - 1. A node that misses answers which others got, that is
accused, or whose event loop runs late, raises it and so waits longer before it accuses anybody; each answered
probe lowers it.

A *suspicion* lasts from ``maximum`` with nobody confirming down to ``minimum`` once ``needed`` others did::

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
from dataclasses import dataclass, field


class Awareness:
    """A saturating counter that stretches timeouts."""

    __slots__ = ("_maximum", "score")

    def __init__(self, *, maximum: int) -> None:
        self._maximum = maximum
        self.score = 0

    def apply(self, delta: int) -> int:
        """Add ``delta``; returns the new score."""
        self.score = min(max(self.score + delta, 0), self._maximum - 1)
        return self.score

    def stretch(self, seconds: float) -> float:
        """A timeout at the present health."""
        return seconds * (self.score + 1)


def suspicion_bounds(
    members: int, *, interval: float, mult: float, max_mult: float, floor: float
) -> tuple[float, float]:
    """The shortest and longest timeout, in seconds, for a cluster of ``members``."""
    minimum = max(floor, mult * max(1.0, math.log10(max(1, members))) * interval)
    return minimum, max_mult * minimum


@dataclass(slots=True)
class Suspicion:
    """One accused member's remaining time, ``started`` when ``accuser`` spoke."""

    accuser: str
    started: float
    minimum: float
    maximum: float
    needed: int
    few: bool = False
    refused: float | None = None
    """Seconds after hard evidence; None for ``minimum``."""
    hard: bool = False
    witnesses: int = field(init=False)
    """How many could confirm now: those that are neither accused themselves nor the accuser."""
    # Membership only: the order of this set reaches nothing.
    _confirmers: set[str] = field(init=False)

    def __post_init__(self) -> None:
        self.witnesses = self.needed
        self._confirmers = {self.accuser}

    @property
    def confirmations(self) -> int:
        """How many others agreed with the accuser."""
        return len(self._confirmers) - 1

    def confirm(self, confirmer: str, *, hard: bool = False) -> bool:
        """Count a confirmer; False when this told us nothing new."""
        if hard and not self.hard:
            self.hard = True
            self._confirmers.add(confirmer)
            return True
        if self.confirmations >= self.needed or confirmer in self._confirmers:
            return False
        self._confirmers.add(confirmer)
        return True

    def extend(self, seconds: float) -> None:
        """Give back time that this process, not the accused, lost."""
        self.started += seconds

    def timeout(self) -> float:
        """Seconds from start to verdict, as the evidence stands."""
        if self.hard:
            return self.minimum if self.refused is None else self.refused
        alone = min(2 * self.minimum, self.maximum)
        if self.needed == 0:
            return alone
        shrink = math.log(self.confirmations + 1) / math.log(self.needed + 1)
        asked = max(self.minimum, self.maximum - (self.maximum - self.minimum) * shrink)
        return min(asked, alone) if self.few or self.witnesses < self.needed else asked

    def deadline(self) -> float:
        """When the accused is declared down."""
        return self.started + self.timeout()

"""Lifeguard (Dadgar, Phillips, Currey, 2018): local health awareness, and the duration of suspicions.

*Awareness* is a score, 0 (healthy) to ``maximum`` - 1. A node that misses answers which others got, that is
accused, or whose event loop is late, raises it and so waits longer before it accuses others; each answered
probe lowers it.

A *suspicion* lasts from ``maximum`` unconfirmed down to ``minimum`` once ``needed`` others confirmed::

    max(minimum, maximum - (maximum - minimum) * ln(n + 1) / ln(needed + 1)) - elapsed

Rules: 1. Confirmers are distinct, and the first accuser is not one.  2. Hard evidence (the accused's host
refused a connection to its port) counts as all of them, and suffices after ``refused`` seconds.  3. In
clusters with fewer others than required, ``needed`` is all of them, and other implementations use the minimum
at once; here soft evidence gets twice that until they have confirmed it, because without another opinion a
stalled process and a dead one look the same (``few``).  4. The same applies if the others are suspected
themselves: on the smaller side of a split nobody is left to confirm, and waiting for them would only delay
the detection (``witnesses``). Time lost by this process itself is always given back (``extend``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field


class Awareness:
    """Saturating counter that stretches timeouts."""

    __slots__ = ("_maximum", "score")

    def __init__(self, *, maximum: int) -> None:
        self._maximum = maximum
        self.score = 0

    def apply(self, delta: int) -> int:
        """Add ``delta``; return the new score."""
        self.score = min(max(self.score + delta, 0), self._maximum - 1)
        return self.score

    def stretch(self, seconds: float) -> float:
        """Scale a timeout by the current health."""
        return seconds * (self.score + 1)


def suspicion_bounds(
    members: int, *, interval: float, mult: float, max_mult: float, floor: float
) -> tuple[float, float]:
    """Return the shortest and longest timeout, in seconds, for a cluster of ``members``."""
    minimum = max(floor, mult * max(1.0, math.log10(max(1, members))) * interval)
    return minimum, max_mult * minimum


@dataclass(slots=True)
class Suspicion:
    """Suspicion of one member, ``started`` with the report of ``accuser``."""

    accuser: str
    started: float
    minimum: float
    maximum: float
    needed: int
    few: bool = False
    refused: float | None = None
    """Timeout in seconds after hard evidence; None for ``minimum``."""
    hard: bool = False
    witnesses: int = field(init=False)
    """Number of members that could confirm now: neither accused themselves nor the accuser."""
    # Membership tests only: the order of this set has no effect.
    _confirmers: set[str] = field(init=False)

    def __post_init__(self) -> None:
        self.witnesses = self.needed
        self._confirmers = {self.accuser}

    @property
    def confirmations(self) -> int:
        """Number of others that agreed with the accuser."""
        return len(self._confirmers) - 1

    def confirm(self, confirmer: str, *, hard: bool = False) -> bool:
        """Count a confirmer; return False if it adds nothing."""
        if hard and not self.hard:
            self.hard = True
            self._confirmers.add(confirmer)
            return True
        if self.confirmations >= self.needed or confirmer in self._confirmers:
            return False
        self._confirmers.add(confirmer)
        return True

    def extend(self, seconds: float) -> None:
        """Give back time lost by this process, not by the accused."""
        self.started += seconds

    def timeout(self) -> float:
        """Return the seconds from start to verdict with the current evidence."""
        if self.hard:
            return self.minimum if self.refused is None else self.refused
        alone = min(2 * self.minimum, self.maximum)
        if self.needed == 0:
            return alone
        shrink = math.log(self.confirmations + 1) / math.log(self.needed + 1)
        asked = max(self.minimum, self.maximum - (self.maximum - self.minimum) * shrink)
        return min(asked, alone) if self.few or self.witnesses < self.needed else asked

    def deadline(self) -> float:
        """Return the time at which the accused is declared down."""
        return self.started + self.timeout()

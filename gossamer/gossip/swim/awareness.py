"""Local health: how far should this node distrust its own timers?

The score of Lifeguard (Dadgar, Phillips, Currey, 2018), 0 (well) to ``maximum`` - 1. A node that misses
answers which others got, that is accused, or whose event loop runs late, raises it and so waits longer
before it accuses anybody; each answered probe lowers it.
"""

from __future__ import annotations

__all__ = ["Awareness"]


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

"""Spreading news: rounds of gossip for as long as something waits, and quiet when nothing does.

Each round tells a few live members, drawn at random, and one that has been down for a short time only, so
that one which lives can refute. News also rides on every probe; rounds are what makes it fast.
"""

from __future__ import annotations

from gossamer.gossip.swim.core import Core, Part
from gossamer.gossip.swim.table import Entry

_PACKETS_A_TARGET = 3
GOSSIP_TO_DEAD = 30.0
"""A down member still receives gossip for this many seconds, so that it can refute."""


class Spreader(Part):
    """Runs the rounds of this node."""

    def __init__(self, core: Core) -> None:
        super().__init__(core)
        self._running = False

    def wake(self, now: float) -> None:
        """Begin, at a phase of our own, if news waits and no rounds run."""
        if not self._running and self._outbox.gossiping():
            self._running = True
            self._timers.at(now + self._rng.uniform(0, self._settings.gossip_interval), self._round)

    def at_once(self, now: float) -> None:
        """A round now."""
        self._running = True
        self._round(now)

    def _round(self, now: float) -> None:
        if not self._outbox.gossiping():
            self._running = False
            return
        self._timers.at(now + self._settings.gossip_interval, self._round)
        targets = self._table.sample(self._rng, self._settings.gossip_fanout)
        targets += self._recently_down(now)
        for entry in targets:
            self._outbox.gossip(entry, packets=_PACKETS_A_TARGET)

    def _recently_down(self, now: float) -> list[Entry]:
        down = self._table.down
        if not down:
            return []
        entry = self._table.get(down[self._rng.randrange(len(down))])
        if entry is None or now - entry.since > GOSSIP_TO_DEAD:
            return []
        return [entry]

"""Autoclean: members that have been down for too long are removed, once, by the leader.

Downtime is counted while this node runs, and stored on disc with the time of writing: a restarted observer
adds the time between. So a clock jump while the node runs has no effect.

Rules: 1. Only the earliest started node that is alive removes, and only where more than half of the members
are online: the smaller side of a split never cleans the larger.  2. Nothing is removed while a split that was
detected is not healed.  3. A member that returns, or restarts, begins at zero.  4. A removal that failed is
retried after a pause.  5. A member of unknown state, since this node has just started, is neither down nor
back: its downtime continues.

Rejected: removal by every node on its own, which needs no leader and cleans both halves of a split.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from gossamer.autoheal.values import Cluster, leader_of

RETRY = 30.0
SAVE_EVERY = 30.0
KEPT = 86_400.0
"""Seconds after which the time of one who is no member is forgotten."""


class Downtime(Struct, frozen=True):
    """Seconds for which members have been down, as of ``wall``."""

    wall: float = 0.0
    seconds: dict[str, float] = {}


class Autoclean:
    """Removal of members after ``limit`` seconds, changeable at any time; None: no removal."""

    def __init__(
        self, *, node: str, limit: float | None, now: float, wall: float, downtime: Downtime | None = None
    ) -> None:
        self.node = node
        self.limit = limit
        before = downtime or Downtime()
        gone_by = max(0.0, wall - before.wall)
        self.down: dict[str, float] = {name: spent + gone_by for name, spent in before.seconds.items()}
        self.changed = False
        self._last = now
        self._save_at = now + SAVE_EVERY
        self._asked: dict[str, float] = {}

    def tick(
        self, cluster: Cluster, down: Mapping[str, object], now: float, *, unresolved: bool
    ) -> list[str]:
        """Return the members to remove now; ``down`` names the members that are down."""
        passed, self._last = max(0.0, now - self._last), now
        gone = [
            name
            for name, spent in self.down.items()
            if name not in down and (name in cluster.known or spent > KEPT)
        ]
        for name in gone:
            del self.down[name]
            self._asked.pop(name, None)
        fresh = [name for name in down if name not in self.down]
        for name in self.down:
            self.down[name] += passed
        self.down.update(dict.fromkeys(fresh, 0.0))
        if gone or fresh or (self.down and now >= self._save_at):
            self.changed = True
            self._save_at = now + SAVE_EVERY
        if (
            self.limit is None
            or unresolved
            or leader_of(cluster) != self.node
            or not cluster.is_majority(len(cluster.online))
        ):
            return []
        due = [
            name
            for name, spent in sorted(self.down.items())
            if name in down and spent > self.limit and now >= self._asked.get(name, now)
        ]
        self._asked.update(dict.fromkeys(due, now + RETRY))
        return due

    def downtime(self, wall: float) -> Downtime:
        """Return what is to be on disc now."""
        self.changed = False
        return Downtime(wall, dict(self.down))

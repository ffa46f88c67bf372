"""Coordinator: makes the minority reload, one node after another, reconciles the rows that both sides wrote,
and announces the end of the heal.

Rules: 1. Its progress is on disc before any message about it, so that it continues after a restart.  2. A
node that has restarted since the plan was made has reloaded.  3. A node that stays away is skipped after a
bounded wait: its own marks, and those on it, are settled by the next heal.  4. Every message is repeated
until it is answered or its receiver is gone.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from msgspec import Struct
from msgspec.structs import replace

from gossamer.autoheal.values import Cluster, Healed, HealPlan, Incident, Progress, Reconciled, Reload, Tell

RETRY_INTERVAL = 2.0
SILENCE_TIMEOUT = 30.0
"""Seconds after which a node that does not answer is left out."""


@dataclass(frozen=True, slots=True)
class Reconcile:
    """Decide, here, about the rows that both sides wrote; then call ``reconciled``."""

    plan: HealPlan


class Work(Struct, frozen=True):
    """Progress of a plan. ``episode`` is there once only the telling is left."""

    plan: HealPlan
    reloaded: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    told: tuple[str, ...] = ()
    rows: Reconciled | None = None
    episode: Incident | None = None


class Coordinator:
    """State machine that carries out one heal plan at a time.

    ``work`` is the plan in hand as read from disc; ``patience`` is how many seconds a node may stay silent
    before it is skipped.
    """

    def __init__(self, *, node: str, work: Work | None = None, patience: float = SILENCE_TIMEOUT) -> None:
        self.node = node
        self.work = work
        self.changed = False
        self._patience = patience
        self._turn = ""
        self._since = 0.0
        self._repeat_at = 0.0
        self._telling: float | None = None

    @property
    def busy(self) -> str:
        """The plan in hand, while nodes are still to reload."""
        return self.work.plan.id if self.work is not None and self.work.episode is None else ""

    def order(self, plan: HealPlan, source: str) -> list[Tell]:
        """A leader wants this plan carried out; another one in hand comes first."""
        if self.work is None or (self.work.episode is not None and self.work.plan.id != plan.id):
            self._set(Work(plan))
            self._turn = ""
            self._telling = None
        return [Tell(source, Progress(self.node, plan.id))]

    def reloaded(self, plan: str, source: str) -> None:
        """A node has reloaded."""
        work = self.work
        if work is not None and work.plan.id == plan and source in self._todo(work):
            self._set(replace(work, reloaded=(*work.reloaded, source)))

    def told(self, plan: str, source: str) -> None:
        """Record that a node was informed of the end of the plan."""
        work = self.work
        if work is not None and work.plan.id == plan and source not in work.told:
            self._set(replace(work, told=(*work.told, source)))

    def reconciled(self, plan: str, rows: Reconciled) -> None:
        """:class:`Reconcile` is done."""
        work = self.work
        if work is not None and work.plan.id == plan and work.rows is None:
            self._set(replace(work, rows=rows))

    def tick(self, cluster: Cluster, now: float, wall: float) -> list[Tell | Reconcile]:
        """Time passed, or something happened."""
        work = self.work
        if work is None:
            return []
        if work.episode is None:
            tells, work = self._reload(work, cluster, now)
            if self._todo(work):
                return [*tells]
            if work.rows is None:
                return [Reconcile(work.plan)]
            work = replace(work, episode=_incident(work, work.rows, wall))
            self._set(work)
        return [*self._tell(work, cluster, now)]

    def _todo(self, work: Work) -> list[str]:
        return [name for name in work.plan.victims if name not in (*work.reloaded, *work.skipped)]

    def _reload(self, work: Work, cluster: Cluster, now: float) -> tuple[list[Tell], Work]:
        for name in self._todo(work):
            if name != self._turn:
                self._turn, self._since, self._repeat_at = name, now, now
            peer = cluster.online.get(name)
            if peer is not None and peer.creation != work.plan.creations[name]:
                work = replace(work, reloaded=(*work.reloaded, name))
            elif now - self._since >= self._patience:
                work = replace(work, skipped=(*work.skipped, name))
            elif peer is not None and now >= self._repeat_at:
                self._repeat_at = now + RETRY_INTERVAL
                return [Tell(name, Reload(self.node, work.plan.id, work.plan.restart))], work
            else:
                return [], work
            self._set(work)
        return [], work

    def _tell(self, work: Work, cluster: Cluster, now: float) -> list[Tell]:
        assert work.episode is not None  # noqa: S101 - made just before
        if self._telling is None:
            self._telling = self._repeat_at = now
        audience = [name for name in (*work.plan.creations, work.plan.leader) if name not in work.told]
        missing = [name for name in dict.fromkeys(audience) if name in cluster.online]
        late = now - self._telling >= self._patience
        if not audience or (late and not missing) or now - self._telling >= 4 * self._patience:
            self._set(None)
            self._telling = None
            return []
        if now < self._repeat_at:
            return []
        self._repeat_at = now + RETRY_INTERVAL
        settled = settled_marks(work.plan, work.skipped)
        return [Tell(name, Healed(self.node, work.episode, settled)) for name in missing]

    def _set(self, work: Work | None) -> None:
        self.work = work
        self.changed = True


def settled_marks(plan: HealPlan, skipped: Collection[str]) -> dict[str, dict[str, int]]:
    """Return the records that a heal settles: not those of a skipped node, nor those on it."""
    return {
        node: {peer: serial for peer, serial in marks.items() if peer not in skipped}
        for node, marks in plan.marks.items()
        if node not in skipped
    }


def _incident(work: Work, rows: Reconciled, wall: float) -> Incident:
    plan = work.plan
    return Incident(
        plan=plan.id,
        coordinator=plan.coordinator,
        survivors=plan.survivors,
        reloaded=work.reloaded,
        skipped=work.skipped,
        saw_down=plan.saw_down,
        split_at=plan.split_at,
        healed_at=wall,
        rows=rows,
    )

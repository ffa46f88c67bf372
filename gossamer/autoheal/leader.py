"""Leader: turns reports into a plan, and assigns a coordinator.

::

    idle ──report──▶ waiting ──delay──▶ gating ──all online──▶ collecting ──views──▶ healing ──▶ idle
                     ▲ (a new pair      │ or, after a bounded  │ no majority of
                     │  restarts it)    │ wait, a majority     │ views: gate again
                     └── pairs that the heal did not settle ◀──┴───────────────────────────────┘

Rules: 1. Reports are repeated by their senders, so that the leader need not store them: a successor gets them
too.  2. While a heal runs, further pairs queue.  3. The plan is the leader's until it is done; a coordinator
that is down, or silent, is replaced, since reloading twice does no harm.  4. If another leader's heal is
under way, it is waited for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from msgspec.structs import replace

from gossamer.autoheal.splitview import build_split_view
from gossamer.autoheal.values import (
    AskView,
    Cluster,
    HealOrder,
    HealPlan,
    NodeView,
    Pair,
    Restart,
    Tell,
    leader_of,
)

Phase = Literal["idle", "waiting", "gating", "collecting", "healing"]

RETRY_INTERVAL = 2.0
"""Seconds between two copies of a message."""
VIEW_TIMEOUT = 10.0
"""Seconds for views to come in."""
STALLED_TIMEOUT = 15.0
"""Seconds without a word of the coordinator until another is asked."""


class Leader:
    """State machine of the heal leader. Every node has one; all but the leader's are idle.

    ``delay`` and ``gate`` in seconds: from the first report to the check that all nodes are online, and how
    long they are waited for. ``plan`` is one that the previous creation had in hand.
    """

    def __init__(
        self,
        *,
        node: str,
        creation: int,
        delay: float,
        gate: float = 30.0,
        restart: Restart = "store",
        plan: HealPlan | None = None,
    ) -> None:
        self.node = node
        self.delay = delay
        self.restart: Restart = restart
        self.phase: Phase = "idle" if plan is None else "healing"
        self.plan = plan
        self.changed = False
        self.pairs: set[Pair] = set()
        self._settled: set[Pair] = set()
        self._creation = creation
        self._gate = gate
        self._round = 0
        self._views: dict[str, NodeView] = {}
        self._since = 0.0
        self._repeat_at = 0.0
        self._heard_at: float | None = None

    def report(self, pairs: Iterable[Pair], now: float) -> None:
        """Handle a report of split pairs."""
        news = set(pairs) - self.pairs - self._settled
        self.pairs |= news
        if news and self.phase in ("idle", "waiting"):
            # Later reports put it off, so that one plan covers all of a split.
            self.phase, self._since = "waiting", now

    def view(self, round_: int, view: NodeView) -> None:
        """A view came in."""
        if self.phase == "collecting" and round_ == self._round:
            self._views[view.node] = view

    def progress(self, plan: str, now: float) -> None:
        """Record a sign of life of the coordinator."""
        if self.plan is not None and self.plan.id == plan:
            self._heard_at = now

    def healed(self, plan: str, settled: dict[str, dict[str, int]], now: float) -> None:
        """A plan was carried out, this leader's or another's."""
        # A report that crossed the news on its way must not begin another heal.
        self._settled = {
            Pair(node, peer, serial) for node, marks in settled.items() for peer, serial in marks.items()
        }
        self.pairs -= self._settled
        if self.plan is not None and self.plan.id == plan:
            self.plan, self.changed = None, True
            self.phase, self._since = ("waiting" if self.pairs else "idle"), now

    def tick(self, cluster: Cluster, now: float, wall: float) -> list[Tell]:
        """Time passed, or something happened."""
        if self.phase != "healing" and leader_of(cluster) != self.node:
            self.phase = "idle"
            self.pairs.clear()
        if self.phase == "waiting" and now - self._since >= self.delay:
            self.phase, self._since = "gating", now
        if self.phase == "gating":
            waited = now - self._since >= self._gate
            if cluster.whole or (waited and cluster.is_majority(len(cluster.online))):
                self._collect(now)
        if self.phase == "collecting":
            return self._collecting(cluster, now, wall)
        if self.phase == "healing":
            return self._healing(cluster, now)
        return []

    def _collect(self, now: float) -> None:
        self.phase, self._since, self._repeat_at = "collecting", now, now
        self._round += 1
        self._views = {}

    def _collecting(self, cluster: Cluster, now: float, wall: float) -> list[Tell]:
        missing = [name for name in sorted(cluster.online) if name not in self._views]
        if missing and now - self._since < VIEW_TIMEOUT:
            if now < self._repeat_at:
                return []
            self._repeat_at = now + RETRY_INTERVAL
            return [Tell(name, AskView(self.node, self._round)) for name in missing]
        if missing and not cluster.is_majority(len(self._views)):
            self.phase, self._since = "gating", now
            return []
        if any(view.busy for view in self._views.values()):
            self.phase, self._since = "waiting", now
            return []
        plan = make_plan(
            self._views,
            cluster,
            leader=self.node,
            id=f"{self.node}/{self._creation}/{int(wall * 1000)}",
            wall=wall,
            restart=self.restart,
        )
        if plan is None:
            # Healed meanwhile; a node that still sees a split reports it again.
            self.phase = "idle"
            self.pairs.clear()
            return []
        self.plan, self.changed = plan, True
        self.phase, self._repeat_at, self._heard_at = "healing", now, now
        return self._healing(cluster, now)

    def _healing(self, cluster: Cluster, now: float) -> list[Tell]:
        plan = self.plan
        assert plan is not None  # noqa: S101 - the phase says so
        if self._heard_at is None:
            self._heard_at = now
        if now - self._heard_at >= STALLED_TIMEOUT:
            present = [name for name in plan.survivors if name in cluster.online] or [self.node]
            others = [name for name in present if name != plan.coordinator] or present
            chosen = min(others, key=lambda name: (cluster.online[name].start_time, name))
            plan = self.plan = replace(plan, coordinator=chosen)
            self.changed, self._heard_at, self._repeat_at = True, now, now
        if now < self._repeat_at:
            return []
        self._repeat_at = now + RETRY_INTERVAL
        return [Tell(plan.coordinator, HealOrder(self.node, plan))]


def make_plan(
    views: Mapping[str, NodeView],
    cluster: Cluster,
    *,
    leader: str,
    id: str,  # noqa: A002 - the plan's word
    wall: float,
    restart: Restart = "store",
) -> HealPlan | None:
    """Make the plan that follows from ``views``; None if all views are equal, or there are none."""
    if not views:
        return None
    silent = {name: peer for name, peer in cluster.online.items() if name not in views}
    split = build_split_view(
        views, leader=leader, silent={name: peer.start_time for name, peer in silent.items()}
    )
    if len(split.groups) == 1:
        return None
    there = {*views, *silent}
    return HealPlan(
        id=id,
        leader=leader,
        coordinator=split.coordinator,
        groups=split.groups,
        creations={name: peer.creation for name, peer in silent.items()}
        | {name: view.creation for name, view in views.items()},
        marks={
            name: {peer: serial for peer, serial in view.marks.items() if peer in there}
            for name, view in views.items()
        },
        made=wall,
        split_at=min((view.split_at for view in views.values() if view.split_at), default=wall),
        missing=tuple(sorted(cluster.known - there)),
        restart=restart,
        lost=max((view.lost for view in views.values()), default=0),
    )

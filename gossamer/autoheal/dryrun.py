"""A heal that is only shown: every node is asked for its view, and the plan that follows is not carried out.

Rounds of rehearsals are negative, so that their views never mix with those of a leader. A node that does not
answer in time is taken as one whose view got lost. Pure, but for the callers it passes through.
"""

from __future__ import annotations

from gossamer.autoheal.cluster import Cluster, Tell, leader_of
from gossamer.autoheal.leader import make_plan
from gossamer.autoheal.values import AskView, HealPlan, NodeView, ViewTold
from gossamer.supervisor import Caller

__all__ = ["Rehearsals"]

PATIENCE = 3.0


class _Rehearsal:
    __slots__ = ("caller", "deadline", "views")

    def __init__(self, caller: Caller, deadline: float) -> None:
        self.caller = caller
        self.deadline = deadline
        self.views: dict[str, NodeView] = {}


class Rehearsals:
    """Those under way at one node."""

    def __init__(self, node: str, creation: int) -> None:
        self._node = node
        self._creation = creation
        self._round = 0
        self._running: dict[int, _Rehearsal] = {}

    def begin(self, caller: Caller, cluster: Cluster, now: float) -> list[Tell]:
        """Ask everybody."""
        self._round -= 1
        self._running[self._round] = _Rehearsal(caller, now + PATIENCE)
        return [Tell(name, AskView(self._node, self._round)) for name in sorted(cluster.online)]

    def view(self, told: ViewTold, cluster: Cluster, wall: float) -> list[tuple[Caller, HealPlan | None]]:
        """An answer; whom to tell what now."""
        rehearsal = self._running.get(told.round)
        if rehearsal is None:
            return []
        rehearsal.views[told.view.node] = told.view
        if cluster.online.keys() - rehearsal.views.keys():
            return []
        return [self._end(told.round, cluster, wall)]

    def tick(self, cluster: Cluster, now: float, wall: float) -> list[tuple[Caller, HealPlan | None]]:
        """Time passed; whom to tell what now."""
        due = [number for number, rehearsal in self._running.items() if now >= rehearsal.deadline]
        return [self._end(number, cluster, wall) for number in due]

    def _end(self, number: int, cluster: Cluster, wall: float) -> tuple[Caller, HealPlan | None]:
        rehearsal = self._running.pop(number)
        leader = leader_of(cluster)
        if not rehearsal.views:
            return rehearsal.caller, None
        plan = make_plan(rehearsal.views, cluster, leader=leader, id="dry run", wall=wall)
        return rehearsal.caller, plan

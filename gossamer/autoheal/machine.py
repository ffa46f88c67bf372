"""State machine of one node's healing: down records, reports, leader, coordinator, and the store's reload.

The seed's five steps: detect, confirm after three seconds, report to the leader, the leader makes the plan,
the coordinator makes the minority reload. Every node runs all of it; the live members determine the leader
and the coordinator.

Rules: 1. Pure: ``now`` is interval time, ``wall`` is for display and for down records.  2. If ``changed`` is
True, ``state()`` must be on disc before the actions of a step are carried out.  3. Messages may be lost and
doubled; every one is repeated until it took effect.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

import gossamer.autoheal.values as values
from gossamer.autoheal.coordinator import Coordinator, Reconcile, Work, settled_marks
from gossamer.autoheal.leader import Leader
from gossamer.autoheal.marks import Marks

CONFIRM_DELAY = 3.0
"""Seconds until a split that was seen is believed; Mnesia's own healing of transient ones comes first."""
RETRY_INTERVAL = 2.0
HISTORY = 50


Event = values.Partition | values.Confirmed | values.Incident
"""Events for those who listen on this node."""

Action = values.Tell | Event | values.Reload | Reconcile
"""``Reload``: restart the store, then call ``store_reloaded``, or ``reload_failed``."""


class State(Struct, frozen=True):
    """State that has to survive the process."""

    marks: tuple[values.DownRecord, ...] = ()
    leading: values.HealPlan | None = None
    coordinating: Work | None = None
    history: tuple[values.Incident, ...] = ()


class Healer:
    """State machine of autoheal on one node; ``state`` is what the previous creation left on disc.

    ``delay`` in seconds from the first report to the heal; None is ``autoheal: off``: splits are detected and
    reported, never healed. ``gate`` in seconds: how long the leader waits for all nodes to be online.
    ``lost`` returns how many rows this node saw lose in a merge that no heal has settled.
    """

    def __init__(
        self,
        *,
        node: str,
        creation: int,
        start_time: float,
        delay: float | None,
        gate: float = 30.0,
        restart: values.Restart = "store",
        state: State | None = None,
        lost: Callable[[], int] = lambda: 0,
    ) -> None:
        state = state or State()
        self.node = node
        self.creation = creation
        self.enabled = delay is not None
        self.marks = Marks(node=node, creation=creation, marks=state.marks)
        self.leader = Leader(
            node=node,
            creation=creation,
            delay=delay or 0.0,
            gate=gate,
            restart=restart,
            plan=state.leading,
        )
        self.coordinator = Coordinator(node=node, work=state.coordinating, patience=gate)
        self.history: tuple[values.Incident, ...] = state.history
        self._start_time = start_time
        self._confirm_at: dict[int, float] = {}
        self._believed: set[int] = set()
        self._report_at = 0.0
        self._reloaded: dict[str, bool] = {}
        self._dirty = False
        self._lost = lost

    # -- events

    def up(self, peer: str) -> list[Action]:
        """A session with a peer began."""
        question = self.marks.question(peer)
        return [] if question is None else [values.Tell(peer, question)]

    def receive(
        self, message: values.Message, cluster: values.Cluster, now: float, wall: float
    ) -> list[Action]:
        """A message of another node's healer, or of this one's."""
        source = message.source
        match message:
            case values.DownQuery():
                answer, event = self.marks.heard(message, wall)
                actions: list[Action] = [] if answer is None else [values.Tell(source, answer)]
                return actions if event is None else [*actions, event]
            case values.Report(pairs=pairs):
                if self.enabled:
                    self.leader.report(pairs, now)
            case values.AskView(round=number):
                return [values.Tell(source, values.ViewTold(self.node, number, self.view(cluster)))]
            case values.ViewTold(round=number, view=view):
                self.leader.view(number, view)
            case values.HealOrder(plan=plan):
                return self._ordered(plan, source)
            case values.Progress(plan=plan_id):
                self.leader.progress(plan_id, now)
            case values.Reload():
                return self._reload(message)
            case values.Reloaded(plan=plan_id):
                self.coordinator.reloaded(plan_id, source)
            case values.Healed():
                return self._healed(message, now)
            case values.HealedPart(plan=plan_id):
                self.coordinator.told(plan_id, source)
        return []

    def store_reloaded(self, order: values.Reload) -> list[Action]:
        """The store was restarted."""
        self._reloaded[order.plan] = True
        return [values.Tell(order.source, values.Reloaded(self.node, order.plan))]

    def reload_failed(self, order: values.Reload) -> None:
        """The store could not be restarted; the coordinator asks again."""
        self._reloaded.pop(order.plan, None)

    def set_delay(self, delay: float | None) -> None:
        """Change ``autoheal`` while the node runs; what is under way is finished."""
        self.enabled = delay is not None
        self.leader.delay = delay or 0.0

    def tick(self, cluster: values.Cluster, now: float, wall: float) -> list[Action]:
        """Run timers; called about twice a second."""
        self.marks.forget(cluster.known | cluster.removed)
        actions: list[Action] = []
        if now >= self._report_at:
            self._report_at = now + RETRY_INTERVAL
            questions = self.marks.tick(cluster.online, wall, self.enabled)
            actions += [values.Tell(peer, question) for peer, question in questions]
            pairs = self._confirmed(cluster, now)
            if pairs:
                actions += [values.Confirmed(p.peer) for p in pairs if p.serial not in self._believed]
                self._believed = {pair.serial for pair in pairs}
                actions.append(values.Tell(values.leader_of(cluster), values.Report(self.node, pairs)))
        actions += self.leader.tick(cluster, now, wall)
        actions += self.coordinator.tick(cluster, now, wall)
        return actions

    # -- what survives, what shows

    @property
    def changed(self) -> bool:
        """True if ``state()`` has changed since it was last read."""
        return self._dirty or self.marks.changed or self.leader.changed or self.coordinator.changed

    def state(self) -> State:
        """Return what is to be on disc now."""
        self._dirty = self.marks.changed = self.leader.changed = self.coordinator.changed = False
        return State(tuple(self.marks.marks.values()), self.leader.plan, self.coordinator.work, self.history)

    @property
    def unresolved(self) -> bool:
        """A split that was seen is not healed."""
        return bool(self.marks.open or self.leader.phase != "idle" or self.coordinator.busy)

    def view(self, cluster: values.Cluster) -> values.NodeView:
        """Return this node's view of the split, for a plan."""
        marks = self.marks.marks
        return values.NodeView(
            node=self.node,
            creation=self.creation,
            start_time=self._start_time,
            running=tuple(sorted(cluster.online.keys() - marks.keys())),
            marks={peer: mark.serial for peer, mark in marks.items()},
            split_at=min((mark.wall for mark in marks.values()), default=0.0),
            busy=self.coordinator.busy,
            lost=self._lost(),
        )

    # -- inside

    def _confirmed(self, cluster: values.Cluster, now: float) -> tuple[values.Pair, ...]:
        open_marks = self.marks.open
        due = {mark.serial: self._confirm_at.get(mark.serial, now + CONFIRM_DELAY) for mark in open_marks}
        self._confirm_at = due
        if not self.enabled:
            return ()
        return tuple(
            values.Pair(self.node, mark.peer, mark.serial)
            for mark in open_marks
            if due[mark.serial] <= now and mark.peer in cluster.online
        )

    def _ordered(self, plan: values.HealPlan, source: str) -> list[Action]:
        done = next((episode for episode in self.history if episode.plan == plan.id), None)
        if done is not None and self.coordinator.work is None:
            return [values.Tell(source, values.Healed(self.node, done, settled_marks(plan, done.skipped)))]
        return [*self.coordinator.order(plan, source)]

    def _reload(self, order: values.Reload) -> list[Action]:
        done = self._reloaded.get(order.plan)
        if done is None:
            while len(self._reloaded) >= HISTORY:
                self._reloaded.pop(next(iter(self._reloaded)))
            self._reloaded[order.plan] = False
            return [order]
        return self.store_reloaded(order) if done else []

    def _healed(self, message: values.Healed, now: float) -> list[Action]:
        episode = message.episode
        actions: list[Action] = [values.Tell(message.source, values.HealedPart(self.node, episode.plan))]
        if self.node in message.marks:
            self.marks.settle(message.marks[self.node])
        else:
            # Its view did not arrive, its store was healed all the same.
            self.marks.settle_met({*episode.survivors, *episode.reloaded}, of=self.node)
        self.leader.healed(episode.plan, message.marks, now)
        if all(known.plan != episode.plan for known in self.history):
            self.history = (*self.history, episode)[-HISTORY:]
            self._dirty = True
            actions.append(episode)
        return actions

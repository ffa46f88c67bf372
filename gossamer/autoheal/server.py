"""The process that heals: events in, the machine decides, actions out.

Rule: the machine's state is stored before any of its messages leaves the node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog
from msgspec.structs import asdict

import gossamer.autoheal.values as values
from gossamer.autoheal.autoclean import Autoclean
from gossamer.autoheal.coordinator import Reconcile
from gossamer.autoheal.discards import Discards
from gossamer.autoheal.leader import make_plan
from gossamer.autoheal.machine import Action, Event, Healer
from gossamer.autoheal.quarantine import Kept
from gossamer.autoheal.status import Cleaned, HealStatus
from gossamer.autoheal.storage import Saved, Settings, Storage
from gossamer.clock import Clock
from gossamer.distribution import Distribution, NodeDown, NodeUp, register_message
from gossamer.errors import GossamerError, UnavailableError
from gossamer.gossip import ForceLeave, MembershipView, Status
from gossamer.supervisor import (
    Caller,
    GenServer,
    NoReply,
    Pid,
    Reply,
    call,
    reply,
    self_pid,
    send,
    send_after,
    spawn,
)

log = structlog.get_logger(__name__)

AUTOHEAL = "autoheal"
"""The registered name of the process on every node."""

for _type in (*values.MESSAGES, Kept):
    register_message(_type, f"autoheal.{_type.__name__}")

_TICK = 0.5
_VIEW_TIMEOUT = 3.0
"""Seconds that a node has to give its view for a dry run."""
_ANSWER_TIMEOUT = 10.0
_LOGGED = {"plan", "coordinator", "survivors", "reloaded", "skipped", "saw_down"}
_LOADING = 60.0
"""Seconds a coordinator waits for the rows of those that reloaded before it decides about rows."""


class Autoheal(GenServer):
    """Healer of one node. ``reload`` restarts the store, or more; ``start_time`` is that of the metadata.
    ``note`` records events: kind, node, text.
    """

    async def init(
        self,
        *,
        view: MembershipView,
        distribution: Distribution,
        clock: Clock,
        storage: Storage,
        status: HealStatus,
        discards: Discards,
        reload: Callable[[values.Restart], Awaitable[None]],
        loading: Callable[[], bool],
        start_time: float,
        settings: Settings,
        restart: values.Restart = "store",
        note: Callable[..., None] = lambda *_: None,
    ) -> None:
        self._view = view
        self._distribution = distribution
        self._clock = clock
        self._storage = storage
        self._status = status
        self._discards = discards
        self._restart_for = reload
        self._loading = loading
        self._start_time = start_time
        self._note = note
        self._noted_plan = ""
        self._subscribers: set[Pid] = set()
        self._sorting: tuple[str, float] = ("", 0.0)
        saved = await storage.load()
        runtime = self.process.runtime
        self._node, self._creation = runtime.node, runtime.creation
        status.node = self._node
        self._settings = settings
        status.autoheal, status.autoclean = settings.autoheal, settings.autoclean
        self._healer = Healer(
            node=self._node,
            creation=self._creation,
            start_time=start_time,
            delay=status.autoheal,
            restart=restart,
            state=saved.healing,
            lost=lambda: discards.unsettled,
        )
        self._clean = Autoclean(
            node=self._node,
            limit=status.autoclean,
            now=clock.monotonic(),
            wall=clock.wall(),
            downtime=saved.downtime,
        )
        self._discards.watch(self._healer.marks.marks)
        self._publish(self._cluster())
        distribution.subscribe(self_pid())
        send_after(_TICK, self_pid(), "tick")

    # -- events

    async def handle_info(self, message: object) -> None:
        healer, wall = self._healer, self._clock.wall()
        match message:
            case "tick":
                send_after(_TICK, self_pid(), message)
                self._configure()
                await self._do(healer.tick(self._cluster(), self._clock.monotonic(), wall))
                await self._remove()
            case NodeDown(name, creation, reason):
                self._note("link_down", name, reason)
                healer.marks.down(name, creation, reason, wall)
                await self._do([])
            case NodeUp(name):
                self._note("link_up", name)
                await self._do(healer.up(name))
            case values.Replayed(id):
                self._discards.quarantine.take(id)
            case _ if isinstance(message, values.Message):
                now = self._clock.monotonic()
                await self._do(healer.receive(message, self._cluster(), now, wall))
            case _:
                await super().handle_info(message)

    async def handle_call(self, request: object, caller: Caller) -> Reply | NoReply:
        match request:
            case values.ChangeSetting(setting, seconds):
                return await self._set(setting, seconds)
            case values.AskView():
                return Reply(self._healer.view(self._cluster()))
            case values.AskLost(victims):
                return Reply(self._discards.lost_of(victims))
            case values.DryRun():
                spawn(self._dry_run, caller, label="autoheal dry run")
                return NoReply()
            case values.Replay(id):
                try:
                    kept = await self._discards.replay(id)
                except GossamerError as error:
                    return Reply(error)
                log.warning("quarantine_replayed", id=id, table=kept.table, author=kept.version[1])
                for name in self._distribution.nodes():
                    send((AUTOHEAL, name), values.Replayed(id))
                return Reply(kept)
            case _:
                return await super().handle_call(request, caller)  # type: ignore[return-value]

    async def handle_cast(self, request: object) -> None:
        if isinstance(request, values.Subscribe):
            self._subscribers.add(request.pid)
        else:
            await super().handle_cast(request)

    async def _dry_run(self, caller: Caller) -> None:
        """The body of a process: what the views of those that answer in time would be made into."""
        cluster, runtime = self._cluster(), self.process.runtime

        async def ask(name: str) -> values.NodeView | None:
            try:
                view: values.NodeView = await runtime.call(
                    (AUTOHEAL, name), values.AskView(self._node, 0), timeout=_VIEW_TIMEOUT
                )
            except GossamerError:
                return None
            return view

        told = await asyncio.gather(*map(ask, sorted(cluster.online)))
        views = {view.node: view for view in told if view is not None}
        plan = make_plan(
            views, cluster, leader=values.leader_of(cluster), id="dry run", wall=self._clock.wall()
        )
        reply(caller, plan)

    async def _set(self, name: values.Setting, seconds: float | None) -> Reply:
        """An operator's word, for all nodes."""
        try:
            await self._settings.set(name, seconds)
        except GossamerError as error:
            return Reply(error)
        except TimeoutError:
            return Reply(UnavailableError(f"{name} is set, but not on disc yet; look at the log"))
        self._configure()
        return Reply(None)

    def _configure(self) -> None:
        """Follow the settings."""
        status = self._status
        wanted = self._settings.autoheal, self._settings.autoclean
        if wanted != (status.autoheal, status.autoclean):
            log.warning("heal_settings", autoheal=_shown(wanted[0]), autoclean=_shown(wanted[1]))
            status.autoheal, status.autoclean = wanted
            self._healer.set_delay(status.autoheal)
            self._clean.limit = status.autoclean

    # -- actions

    async def _do(self, actions: list[Action]) -> None:
        if self._healer.changed or self._clean.changed:
            downtime = self._clean.downtime(self._clock.wall())
            await self._storage.save(Saved(self._healer.state(), downtime))
        for action in actions:
            match action:
                case values.Tell(to, message) if to == self._node:
                    send(self_pid(), message)
                case values.Tell(to, message):
                    send((AUTOHEAL, to), message)
                case values.Reload():
                    await self._reload(action)
                case Reconcile(plan):
                    await self._reconcile(plan)
                case event:
                    await self._announce(event)
        self._discards.watch(self._healer.marks.marks)
        self._publish(self._cluster())

    async def _reload(self, order: values.Reload) -> None:
        facts = {"node": self._node, "plan": order.plan}
        log.warning("store_reloads", **facts, coordinator=order.source, restarts=order.restart)
        try:
            await self._restart_for(order.restart)
        except (GossamerError, TimeoutError) as error:
            log.error("store_reload_failed", **facts, error=str(error) or "no answer")
            self._healer.reload_failed(order)
            return
        self._status.counts["reloads"] += 1
        self._note("reloaded", order.source, order.plan)
        await self._do(self._healer.store_reloaded(order))

    async def _reconcile(self, plan: values.HealPlan) -> None:
        now = self._clock.monotonic()
        if self._sorting[0] != plan.id:
            self._sorting = (plan.id, now)
        if self._loading() and now - self._sorting[1] < _LOADING:
            # What the others held comes in still. The coordinator asks again.
            return
        if self._discards.merges:
            await self._ask_lost(plan)
        self._healer.coordinator.reconciled(plan.id, await self._discards.reconcile(plan))

    async def _ask_lost(self, plan: values.HealPlan) -> None:
        """Have here what a merge function decides about, also of what this node has not seen itself."""
        for name in sorted(self._cluster().online.keys() - {self._node}):
            try:
                rows = await call((AUTOHEAL, name), values.AskLost(plan.victims), timeout=_VIEW_TIMEOUT)
            except GossamerError as error:
                log.warning("lost_rows_not_told", peer=name, plan=plan.id, error=str(error))
            else:
                self._discards.told(rows)

    async def _remove(self) -> None:
        down = {
            member.name: member
            for member in self._view.members()[1:]
            if member.status is Status.OFFLINE and not member.left
        }
        now = self._clock.monotonic()
        unresolved = self._healer.unresolved
        for name in self._clean.tick(self._cluster(), down, now, unresolved=unresolved):
            try:
                removed = await call("gossip", ForceLeave(name, final=False), timeout=_ANSWER_TIMEOUT)
            except GossamerError as error:
                log.warning("autoclean_failed", member=name, error=str(error))
                continue
            # It may have come back in this very moment.
            if removed:
                spent = round(self._clean.down.get(name, 0.0), 3)
                log.warning("autocleaned", member=name, down_for=spent, limit=self._clean.limit)
                cleaned = Cleaned(name, self._clock.wall(), spent)
                self._status.cleaned.append(cleaned)
                self._status.counts["cleaned"] += 1
                self._note("removed", name)
                self._send(cleaned)
        if self._clean.changed:
            await self._do([])

    async def _announce(self, event: Event) -> None:
        if isinstance(event, values.Confirmed):
            self._note("confirmed", event.peer)
            return
        if isinstance(event, values.Partition):
            self._status.raised.append(event)
            self._status.counts["partitions"] += 1
            self._note("partition", event.peer, event.context)
            log.error(
                "inconsistent_database",
                context=event.context,
                node=self._node,
                peer=event.peer,
                apart=round(event.met_at - event.down_at, 3),
            )
        else:
            self._status.counts["heals"] += 1
            self._note("healed", event.coordinator, event.plan)
            if event.coordinator != self._node:
                await self._discards.settle(event.plan)
            log.warning(
                "healed",
                **{name: value for name, value in asdict(event).items() if name in _LOGGED},
                took=round(event.healed_at - event.split_at, 3),
                **asdict(event.rows),
            )
        self._send(event)

    def _send(self, event: values.Partition | values.Incident | Cleaned) -> None:
        for pid in list(self._subscribers):
            if not send(pid, event):
                self._subscribers.discard(pid)

    # -- what shows

    def _publish(self, cluster: values.Cluster) -> None:
        healer, status = self._healer, self._status
        contexts = {partition.peer: partition.context for partition in status.raised}
        status.open = tuple(
            values.Partition(mark.peer, contexts.get(mark.peer, ""), mark.wall, mark.met_wall)
            for mark in healer.marks.open
        )
        status.history = healer.history
        status.phase = healer.leader.phase
        status.leader = values.leader_of(cluster)
        work = healer.coordinator.work
        status.plan = healer.leader.plan or (work.plan if work is not None else None)
        if status.plan is not None and status.plan.id != self._noted_plan:
            self._noted_plan = status.plan.id
            kind = "plan" if healer.leader.plan is not None else "coordinates"
            self._note(kind, status.plan.coordinator, status.plan.id)
        status.down = dict(self._clean.down)

    def _cluster(self) -> values.Cluster:
        linked = set(self._distribution.nodes())
        online = {self._node: values.Peer(self._node, self._creation, self._start_time)}
        known = {self._node}
        removed = set()
        for member in self._view.members(include_left=True)[1:]:
            if member.left:
                if member.removed:
                    removed.add(member.name)
                continue
            known.add(member.name)
            if member.status is not Status.OFFLINE and member.name in linked:
                about = member.metadata
                online[member.name] = values.Peer(member.name, about.creation, about.start_time)
        return values.Cluster(online, frozenset(known), frozenset(removed))


def _shown(seconds: float | None) -> str:
    return "off" if seconds is None else f"{seconds:g} s"

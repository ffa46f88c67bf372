"""The process that heals: events in, the machine decides, actions out.

Rule: what the machine wants kept is kept before anything it said leaves the node.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

import structlog
from msgspec import Struct

from gossamer.autoheal.autoclean import Autoclean
from gossamer.autoheal.cluster import Cluster, Tell
from gossamer.autoheal.machine import Action, Announce, Healer, ReloadStore
from gossamer.autoheal.storage import Saved, Storage
from gossamer.autoheal.values import MESSAGES, Episode, Inconsistent, Message, Peer
from gossamer.clock import Clock
from gossamer.distribution import Distribution, NodeDown, NodeUp, register_message
from gossamer.errors import GossamerError
from gossamer.gossip import ForceLeave, MembershipView, Status
from gossamer.supervisor import Caller, GenServer, NoReply, Pid, Reply, call, self_pid, send, send_after

__all__ = ["AUTOHEAL", "Autoheal", "Cleaned", "HealStatus", "Partition", "SetAutoclean", "Subscribe"]

log = structlog.get_logger(__name__)

AUTOHEAL = "autoheal"
"""The registered name of the process on every node."""

for _type in MESSAGES:
    register_message(_type, f"autoheal.{_type.__name__}")

_TICK = 0.5
_EVENTS = 64
_PATIENCE = 10.0


class Partition(Struct, frozen=True):
    """The alarm ``partition``: this node and ``peer`` did not see each other. Wall-clock seconds.

    ``context`` is blank where an earlier life of the process raised it.
    """

    peer: str
    context: str
    down_at: float
    met_at: float


class Subscribe(Struct, frozen=True):
    """A cast: send ``pid`` every :class:`Partition`, :class:`Cleaned`, and :class:`Episode` of a heal."""

    pid: Pid


class SetAutoclean(Struct, frozen=True):
    """A call: from now on members that are down longer than ``limit`` seconds are removed; None: nobody."""

    limit: float | None


class Cleaned(Struct, frozen=True):
    """This node removed ``member``, down for ``down_for`` seconds, at wall-clock time ``at``."""

    member: str
    at: float
    down_for: float


class HealStatus:
    """What a node knows of splits, readable without asking anybody; made once a node."""

    def __init__(self) -> None:
        self.open: tuple[Partition, ...] = ()
        """The alarm ``partition``: pairs of this node that are not healed."""
        self.history: tuple[Episode, ...] = ()
        """The alarms ``healed``, latest last."""
        self.phase = "idle"
        self.cleaned: deque[Cleaned] = deque(maxlen=_EVENTS)
        """Members that this node removed for being down too long."""
        self.raised: deque[Partition] = deque(maxlen=_EVENTS)
        """Every ``inconsistent_database`` of this life."""


class Autoheal(GenServer):
    """``reload`` restarts the store; ``start_time`` is what this node's metadata says."""

    async def init(
        self,
        *,
        view: MembershipView,
        distribution: Distribution,
        clock: Clock,
        storage: Storage,
        status: HealStatus,
        reload: Callable[[], Awaitable[None]],
        start_time: float,
        delay: float | None,
        autoclean: float | None,
        gossip: str = "gossip",
    ) -> None:
        self._view = view
        self._distribution = distribution
        self._clock = clock
        self._storage = storage
        self._status = status
        self._store_reload = reload
        self._start_time = start_time
        self._gossip = gossip
        self._subscribers: set[Pid] = set()
        saved = await storage.load()
        runtime = self.process.runtime
        self._node, self._creation = runtime.node, runtime.creation
        self._healer = Healer(
            node=self._node,
            creation=self._creation,
            start_time=start_time,
            delay=delay,
            state=saved.healing,
        )
        self._clean = Autoclean(
            node=self._node,
            limit=autoclean,
            now=clock.monotonic(),
            wall=clock.wall(),
            downtime=saved.downtime,
        )
        self._publish()
        distribution.subscribe(self_pid())
        send_after(_TICK, self_pid(), _Tick())

    # -- events

    async def handle_info(self, message: Any) -> None:
        healer, wall = self._healer, self._clock.wall()
        match message:
            case _Tick():
                send_after(_TICK, self_pid(), message)
                await self._do(healer.tick(self._cluster(), self._clock.monotonic(), wall))
                await self._remove()
            case NodeDown(name, creation, reason):
                healer.down(name, creation, reason, wall)
                await self._do([])
            case NodeUp(name, creation):
                await self._do(healer.up(name, creation))
            case _ if isinstance(message, Message):
                await self._receive(message)
            case _:
                await super().handle_info(message)

    async def handle_call(self, request: Any, caller: Caller) -> Reply | NoReply:
        if isinstance(request, SetAutoclean):
            self._clean.limit = request.limit
            return Reply(None)
        return await super().handle_call(request, caller)  # type: ignore[return-value]

    async def handle_cast(self, request: Any) -> None:
        if isinstance(request, Subscribe):
            self._subscribers.add(request.pid)
        else:
            await super().handle_cast(request)

    async def _receive(self, message: Message) -> None:
        now, wall = self._clock.monotonic(), self._clock.wall()
        await self._do(self._healer.receive(message, self._cluster(), now, wall))

    # -- actions

    async def _do(self, actions: list[Action]) -> None:
        if self._healer.changed or self._clean.changed:
            wall = self._clock.wall()
            await self._storage.save(Saved(self._healer.state(), self._clean.downtime(wall)))
        for action in actions:
            match action:
                case Tell(to, message) if to == self._node:
                    send(self_pid(), message)
                case Tell(to, message):
                    send((AUTOHEAL, to), message)
                case Announce(event):
                    self._announce(event)
                case ReloadStore(plan, coordinator):
                    await self._reload(plan, coordinator)
        self._publish()

    async def _reload(self, plan: str, coordinator: str) -> None:
        log.warning("store_reloads", node=self._node, plan=plan, coordinator=coordinator)
        try:
            await self._store_reload()
        except (GossamerError, TimeoutError) as error:
            log.error("store_reload_failed", node=self._node, plan=plan, error=str(error) or "no answer")
            self._healer.reload_failed(plan)
            return
        await self._do(self._healer.store_reloaded(plan, coordinator))

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
                removed = await call(self._gossip, ForceLeave(name, final=False), timeout=_PATIENCE)
            except GossamerError as error:
                log.warning("autoclean_failed", member=name, error=str(error))
                continue
            # It may have come back in this very moment.
            if removed:
                spent = round(self._clean.down.get(name, 0.0), 3)
                log.warning("autocleaned", member=name, down_for=spent, limit=self._clean.limit)
                self._tell(self._status.cleaned, Cleaned(name, self._clock.wall(), spent))
        if self._clean.changed:
            await self._do([])

    def _announce(self, event: Inconsistent | Episode) -> None:
        told: Partition | Episode
        if isinstance(event, Inconsistent):
            told = Partition(event.peer, event.context, event.down_at, event.met_at)
            self._status.raised.append(told)
            log.error(
                "inconsistent_database",
                context=event.context,
                node=self._node,
                peer=event.peer,
                apart=round(event.met_at - event.down_at, 3),
            )
        else:
            told = event
            log.warning(
                "healed",
                plan=event.plan,
                coordinator=event.coordinator,
                survivors=event.survivors,
                reloaded=event.reloaded,
                skipped=event.skipped,
                saw_down=event.saw_down,
                took=round(event.healed_at - event.split_at, 3),
            )
        self._send(told)

    def _tell(self, kept: deque[Cleaned], event: Cleaned) -> None:
        kept.append(event)
        self._send(event)

    def _send(self, event: Partition | Episode | Cleaned) -> None:
        for pid in list(self._subscribers):
            if not send(pid, event):
                self._subscribers.discard(pid)

    def _publish(self) -> None:
        healer, status = self._healer, self._status
        contexts = {partition.peer: partition.context for partition in status.raised}
        status.open = tuple(
            Partition(mark.peer, contexts.get(mark.peer, ""), mark.wall, mark.met_wall)
            for mark in healer.marks.open
        )
        status.history = healer.history
        status.phase = healer.leader.phase

    def _cluster(self) -> Cluster:
        linked = set(self._distribution.nodes())
        online = {self._node: Peer(self._node, self._creation, self._start_time)}
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
                online[member.name] = Peer(member.name, about.creation, about.start_time)
        return Cluster(online, frozenset(known), frozenset(removed))


class _Tick:
    """Time passed."""

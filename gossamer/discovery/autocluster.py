"""Autocluster loop: discover and join, repeatedly, as long as the node runs.

Rules: 1. Each round is a process of its own: status requests are answered while a resolver, a lock or a seed
keeps a round waiting.  2. One round at a time, under the strategy's lock until this node is registered.
3. A node that left by command stays out, also after a restart, until it is commanded to join.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import structlog

from gossamer.discovery.commands import Standalone
from gossamer.discovery.plan import JoinProgress, Notice, Plan, advice
from gossamer.discovery.strategy import Discovered, DiscoveryFailedError, Strategy
from gossamer.gossip import Join, JoinResult, Leave, Member, MembershipView, Status
from gossamer.supervisor import (
    Caller,
    CallFailed,
    GenServer,
    NoReply,
    Pid,
    Reply,
    call,
    reply,
    self_pid,
    send,
    send_after,
    spawn_link,
)

log = structlog.get_logger(__name__)

_JOIN_TIMEOUT = 10.0
_LEAVE_TIMEOUT = 5.0
_TRY = "try"


@dataclass(frozen=True, slots=True)
class _Done:
    """A round is over; ``pause`` seconds until the next."""

    pause: float


class Autocluster(GenServer):
    """Drives one strategy.

    Call ``"settled"`` (without a time limit) to wait for the first success, ``"problems"`` for what stands in
    its way: target to reason.
    """

    async def init(
        self,
        *,
        strategy: Strategy,
        view: MembershipView,
        rng: random.Random | None = None,
        retry_interval: float = 5.0,
        standalone: Standalone | None = None,
        progress: JoinProgress | None = None,
    ) -> None:
        self._strategy = strategy
        self._view = view
        self._plan = Plan(rng=rng or random.Random(), longest=retry_interval)
        self._standalone = standalone or Standalone()
        self._progress = progress or JoinProgress()
        self._waiting: list[Caller] = []
        send(self_pid(), _TRY)

    async def handle_call(self, request: object, caller: Caller) -> Reply | NoReply:
        if request == "problems":
            return Reply(self._plan.problems)
        if request != "settled":
            return await super().handle_call(request, caller)  # type: ignore[return-value]
        if self._settled:
            return Reply(None)
        self._waiting.append(caller)
        return NoReply()

    @property
    def _settled(self) -> bool:
        return self._standalone.on or (self._plan.settled and self._strategy.registered)

    async def handle_info(self, message: object) -> None:
        match message:
            case "try":
                spawn_link(self._run, self_pid(), label="autocluster round")
            case _Done(pause):
                self._progress.rejections = {} if self._settled else self._plan.rejections
                if self._settled:
                    for caller in self._waiting:
                        reply(caller, None)
                    self._waiting.clear()
                send_after(pause, self_pid(), _TRY)

    async def _run(self, server: Pid) -> None:
        send(server, _Done(await self._try()))

    async def _try(self) -> float:
        """Run one round; return the seconds until the next."""
        plan, view, strategy = self._plan, self._view, self._strategy
        if self._standalone.on and view.members() and not view.standalone:
            await self._stay_out()
        if view.standalone or self._standalone.on:
            await strategy.unregister()
            return plan.rest()
        members = view.members()
        if not members:
            # Gossip is starting.
            return plan.pause()
        entering = not strategy.registered
        try:
            if entering:
                await strategy.lock()
            return await self._round(members, entering)
        except DiscoveryFailedError as error:
            found = Discovered(problems={error.where: error.problem})
            self._tell(found, JoinResult())
            return plan.pause()
        finally:
            if entering:
                await strategy.unlock()

    async def _stay_out(self) -> None:
        """Gossip has forgotten, or never known, that this node left."""
        try:
            await call("gossip", Leave(), timeout=_LEAVE_TIMEOUT)
        except CallFailed as error:
            log.warning("leave_failed", error=str(error))
        else:
            log.info("stays_out", advice="it left its cluster; gossamer cluster join brings it back")

    async def _round(self, members: list[Member], entering: bool) -> float:
        """Discover, join; register, where this node is ``entering``."""
        plan, strategy = self._plan, self._strategy
        local = members[0].endpoint
        found = await strategy.discover(local)
        live = {member.endpoint for member in members[1:] if member.status is not Status.OFFLINE}
        targets = plan.targets(found, local=local, live=live)
        result = await self._join(targets) if targets else JoinResult()
        if entering and not self._view.standalone:
            await strategy.register(members[0])
        if not targets and not found.problems:
            self._notice(found, plan.looked(found))
            return plan.rest()
        self._tell(found, result)
        return plan.pause()

    async def _join(self, targets: tuple[tuple[str, int], ...]) -> JoinResult:
        if self._view.standalone:
            # Left while names were looked up.
            return JoinResult()
        try:
            result: JoinResult = await call("gossip", Join(targets), timeout=_JOIN_TIMEOUT)
        except CallFailed:
            return JoinResult(failed=dict.fromkeys(targets, "unanswered"))
        return result

    def _tell(self, found: Discovered, result: JoinResult) -> None:
        self._notice(found, [*self._plan.looked(found), *self._plan.tried(found, result)])

    def _notice(self, found: Discovered, notices: list[Notice]) -> None:
        for notice in notices:
            if notice.news == "joined":
                log.info("joined_seed", seed=notice.target, strategy=self._strategy.name)
            elif notice.news == "found":
                log.info("seeds_found_again", host=notice.target, strategy=self._strategy.name)
            elif notice.target in found.problems:
                log.warning("seed_not_resolved", host=notice.target, problem=notice.news, retried="for ever")
            else:
                log.warning(
                    "seed_not_joined",
                    seed=notice.target,
                    reason=notice.news,
                    advice=advice(notice.news),
                    retried="for ever",
                )

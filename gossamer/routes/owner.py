"""The route owner: the process that feeds the router from the ``routes`` table and keeps both true.

The router itself is passive, as an ETS table is, and outlives this process. Whatever goes wrong while rows
are taken in ends this process and not the one that wrote them; its successor first holds everything against
its sources and repairs it, since events may have been missed, and no client notices. The same verification
then runs in the background for ever, followed by a comparison with every peer (where ``functions``, which
other nodes may call, are given).

Calls: ``"verify"`` (repair and report now) and ``"check"`` (report only) answer :class:`Findings`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

import structlog

from gossamer.distribution import Distribution, rpc
from gossamer.mnesia_like import OwnedTable
from gossamer.routes.audit.peers import PeerAudit
from gossamer.routes.audit.verify import Findings
from gossamer.routes.router import Router
from gossamer.supervisor import (
    Caller,
    Continue,
    GenServer,
    NoReply,
    Pid,
    Reply,
    reply,
    self_pid,
    send,
    send_after,
    spawn_link,
)

log = structlog.get_logger(__name__)

_STEP = "verify_step"
_AGAIN = "verify_again"
_COMPARED = "verify_compared"
_GROUPS = "refresh_groups"
GROUPS_INTERVAL = 0.5
"""Seconds after which other nodes know which members of share groups can take messages."""
ASK_WAIT = 10.0
"""Seconds a peer may take to answer."""


class RouteOwner(GenServer):
    """Process that owns the router; ``pause`` is the time between background verifications, in seconds."""

    async def init(
        self,
        router: Router,
        table: OwnedTable,
        links: Distribution | None = None,
        *,
        pause: float = 60.0,
        functions: dict[str, Callable[..., object]] | None = None,
    ) -> Continue:
        self._router = router
        self._audit: PeerAudit | None = None
        if functions is not None:
            self._audit = router.peer_audit(table, _ask)
            functions.update(self._audit.functions())
        self._pause = pause
        self._running: Any = None
        self._comparing = False
        self._findings = Findings()
        self._repair = True
        self._waiting: deque[tuple[Caller, bool]] = deque()
        self._asked: list[Caller] = []
        # In this process, so that an exception in it ends this process and so does the subscription.
        table.subscribe_batches(router.apply, own=False)
        router.attach(table, links)
        return Continue()

    async def handle_continue(self, token: Any) -> None:
        # Before anything else is served: routes that are wrong now lose messages. In steps all the same, for
        # a million routes take seconds and publishing goes on meanwhile.
        findings = Findings()
        for _ in self._router.verify_steps(findings):
            await asyncio.sleep(0)
        self._report(findings, "start")
        send_after(self._pause, self_pid(), _AGAIN)
        send_after(GROUPS_INTERVAL, self_pid(), _GROUPS)

    async def handle_call(self, request: object, caller: Caller) -> Reply | NoReply:
        if request not in ("verify", "check"):
            return await super().handle_call(request, caller)  # type: ignore[return-value]
        self._waiting.append((caller, request == "verify"))
        if self._idle:
            self._begin()
        return NoReply()

    async def handle_info(self, message: object) -> None:
        if message == _STEP and self._running is not None:
            if next(self._running, self) is not self:
                send(self_pid(), _STEP)
                return
            self._running = None
            if self._audit is None:
                self._end()
            else:
                self._comparing = True
                spawn_link(self._compare, self_pid(), self._audit, label="route audit")
        elif message == _COMPARED:
            self._comparing = False
            self._end()
        elif message == _GROUPS:
            for _ in self._router.refresh_groups():
                await asyncio.sleep(0)
            send_after(GROUPS_INTERVAL, self_pid(), _GROUPS)
        elif message == _AGAIN:
            if self._idle:
                self._begin()
        elif message != _STEP:
            await super().handle_info(message)

    @property
    def _idle(self) -> bool:
        return self._running is None and not self._comparing

    async def _compare(self, owner: Pid, audit: PeerAudit) -> None:
        await audit.compare(self._findings, repair=self._repair)
        send(owner, _COMPARED)

    def _begin(self) -> None:
        self._repair = repair = self._waiting[0][1] if self._waiting else True
        self._asked = [caller for caller, wanted in self._waiting if wanted is repair]
        self._waiting = deque(item for item in self._waiting if item[1] is not repair)
        self._findings = Findings()
        self._running = self._router.verify_steps(self._findings, repair=repair)
        send(self_pid(), _STEP)

    def _end(self) -> None:
        self._report(self._findings, "asked" if self._asked else "background")
        for caller in self._asked:
            reply(caller, self._findings)
        self._asked = []
        if self._waiting:
            self._begin()
        else:
            send_after(self._pause, self_pid(), _AGAIN)

    def _report(self, findings: Findings, why: str) -> None:
        self._router.counts["verified"] += findings.checked
        self._router.counts["found_wrong"] += findings.wrong
        self._router.counts["peers_compared"] += findings.peers
        self._router.counts["peers_silent"] += findings.silent
        if self._repair:
            self._router.counts["repaired"] += findings.wrong
        if findings.wrong and why != "start":
            log.warning("routes_differed", why=why, findings=str(findings))


async def _ask(peer: str, function: str, *args: Any) -> Any:
    result = await rpc.call(peer, function, *args, timeout=ASK_WAIT)
    return result.value if isinstance(result, rpc.Returned) else None

"""The route owner: the process that applies the ``routes`` table to the router, and verifies both.

The router itself is passive, as an ETS table is, and outlives this process. An error while rows are applied
ends this process and not the one that wrote them; when it restarts it first verifies and repairs everything,
since events may have been missed, and no client notices. The same verification then runs in the background,
followed by a comparison with every peer (where ``functions``, to which it adds what other nodes call, are
given).

Calls: ``"verify"`` (repair and report now) and ``"check"`` (report only) answer :class:`Findings`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

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

_AGAIN = "verify_again"
_GROUPS = "refresh_groups"
GROUPS_INTERVAL = 0.5
"""Seconds between reports to other nodes of which members of share groups can take messages."""
ASK_WAIT = 10.0
"""Seconds that a peer may take to answer."""


@dataclass(frozen=True, slots=True)
class _Verified:
    """Result of a verification, for the callers that ``asked``, if any."""

    findings: Findings
    repair: bool
    why: str
    asked: list[Caller] = field(default_factory=list)


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
        self._running = False
        self._waiting: list[tuple[Caller, bool]] = []
        # In this process, so that an exception in it ends this process and so does the subscription.
        table.subscribe_batches(router.apply, own=False)
        router.attach(table, links)
        return Continue()

    async def handle_continue(self, token: object) -> None:
        # Before any call: routes that are wrong now lose messages. In steps all the same, since a million
        # routes take seconds and publishing goes on meanwhile.
        self._report(_Verified(await self._verify(Findings(), repair=True), True, "start"))
        send_after(self._pause, self_pid(), _AGAIN)
        send_after(GROUPS_INTERVAL, self_pid(), _GROUPS)

    async def handle_call(self, request: object, caller: Caller) -> Reply | NoReply:
        if request not in ("verify", "check"):
            return await super().handle_call(request, caller)  # type: ignore[return-value]
        self._waiting.append((caller, request == "verify"))
        self._begin()
        return NoReply()

    async def handle_info(self, message: object) -> None:
        if isinstance(message, _Verified):
            self._running = False
            self._report(message)
            for caller in message.asked:
                reply(caller, message.findings)
            if self._waiting:
                self._begin()
            else:
                send_after(self._pause, self_pid(), _AGAIN)
        elif message == _GROUPS:
            for _ in self._router.refresh_groups():
                await asyncio.sleep(0)
            send_after(GROUPS_INTERVAL, self_pid(), _GROUPS)
        elif message == _AGAIN:
            self._begin()
        else:
            await super().handle_info(message)

    def _begin(self) -> None:
        """Start a verification, for all callers with the request of the first, unless one is running."""
        if self._running:
            return
        self._running = True
        repair = self._waiting[0][1] if self._waiting else True
        asked = [caller for caller, wanted in self._waiting if wanted is repair]
        self._waiting = [waits for waits in self._waiting if waits[1] is not repair]
        spawn_link(self._audit_all, self_pid(), asked, repair, label="route audit")

    async def _audit_all(self, owner: Pid, asked: list[Caller], repair: bool) -> None:
        findings = await self._verify(Findings(), repair=repair)
        if self._audit is not None:
            await self._audit.compare(findings, repair=repair)
        send(owner, _Verified(findings, repair, "asked" if asked else "background", asked))

    async def _verify(self, findings: Findings, *, repair: bool) -> Findings:
        for _ in self._router.verify_steps(findings, repair=repair):
            await asyncio.sleep(0)
        return findings

    def _report(self, verified: _Verified) -> None:
        findings, counts = verified.findings, self._router.counts
        counts["verified"] += findings.checked
        counts["found_wrong"] += findings.wrong
        counts["peers_compared"] += findings.peers
        counts["peers_silent"] += findings.silent
        if verified.repair:
            counts["repaired"] += findings.wrong
        if findings.wrong and verified.why != "start":
            log.warning("routes_differed", why=verified.why, findings=str(findings))


async def _ask(peer: str, function: str, *args: object) -> object:
    result = await rpc.call(peer, function, *args, timeout=ASK_WAIT)
    return result.value if isinstance(result, rpc.Returned) else None

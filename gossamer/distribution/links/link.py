"""Link process: keeps the outgoing channels to one peer open as long as it is a member.

One attempt opens a channel per purpose, control first and the others once that is open, both when it is this
link's turn (:mod:`~gossamer.distribution.links.turns`). They share their fate: when one ends, for any reason,
all are aborted and a new attempt begins. The session (:mod:`~gossamer.distribution.links.traffic`) outlives
a link's connections.

A hidden node opens a second channel per purpose, on which it receives.

After a link that was open for a while the first attempt follows at once: a peer that was killed refuses
within milliseconds, which is the fastest evidence of its death. Failed attempts back off exponentially. An
inbound call of the peer cuts the wait short, since then it is there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from itertools import product

import structlog

from gossamer.distribution.errors import Ending, HandshakeError, LinkLostError, TlsError
from gossamer.distribution.links.channels import Outbound
from gossamer.distribution.links.handshake import Opened
from gossamer.distribution.links.manager import RETRY, LinkManager
from gossamer.distribution.links.traffic import PeerSession
from gossamer.distribution.links.turns import YOUR_TURN, Call
from gossamer.distribution.transport.transport import show
from gossamer.distribution.wire import Purpose
from gossamer.supervisor import Exit, ExitProcess, receive, self_pid, trap_exit

log = structlog.get_logger(__name__)

STABLE_AFTER = 1.0
"""Seconds after which an open link counts as stable."""


class Link:
    """Body of the link process."""

    def __init__(self, manager: LinkManager, name: str) -> None:
        self._manager = manager
        self._name = name
        self._outbounds: list[Outbound] = []
        self._refusal = ""

    async def run(self) -> None:
        """Open the channels, and retry, until the peer is no longer a member."""
        manager, name = self._manager, self._name
        me = self_pid()
        holder = manager.links.get(name, me)
        if holder != me and manager.runtime.alive(holder):
            return
        manager.links[name] = me
        trap_exit()
        failures = 0
        try:
            while (peer := manager.peers.get(name)) is not None:
                first = Call.AGAIN if failures else Call.FIRST
                failures = 0 if await self._attempt(peer, first) else failures + 1
                if failures and manager.peers.get(name) is not None:
                    await self._wait(self._backoff(failures))
        finally:
            self._abort()
            if manager.links.get(name) == me:
                del manager.links[name]

    def _backoff(self, failures: int) -> float:
        """Return the wait in seconds: half to all of an exponential step, so that peers spread out."""
        initial, maximum = self._manager.backoff
        # The exponent is bounded too: a peer may be down for weeks.
        step: float = min(maximum, initial * 2 ** min(failures - 1, 32))
        return step * self._manager.rng.uniform(0.5, 1.0)

    async def _attempt(self, peer: PeerSession, first: Call) -> bool:
        """Run one attempt; return True if the link was open for a while, or its session is another now."""
        manager = self._manager
        loop = asyncio.get_running_loop()
        me = self_pid()
        since: float | None = None
        deadline: float | None = None
        error: Ending = None
        opened = 0
        # Of a session that is up nobody should wait for the rest longer than for control.
        parts = (peer.purposes,) if peer.up else (peer.purposes[:1], peer.purposes[1:])
        waves = [wave for wave in parts if wave]
        try:
            manager.turns.ask(me, first)
            while True:
                told, what = await self._receive(None if deadline is None else deadline - loop.time())
                if manager.peers.get(peer.name) is not peer:
                    return True
                if what == RETRY and manager.turns.waits_to_call_again(me):
                    # The peer has called.
                    manager.turns.free(me)
                    manager.turns.ask(me, Call.FIRST)
                if what == YOUR_TURN and waves:
                    deadline = loop.time() + manager.handshake_timeout
                    await self._call(peer, waves.pop(0), deadline)
                if told not in self._outbounds or isinstance(what, str):
                    continue
                if not isinstance(what, Opened):
                    error = what
                    if error is None and opened:
                        # A killed process closes its sockets as orderly as one that stops.
                        detail = "closed by the other side"
                        error = LinkLostError(address=show(peer.address), kind="reset", detail=detail)
                    break
                if what.creation > peer.creation:
                    manager.renew(peer, what.creation, "restarted")
                    break
                opened += 1
                if opened < len(self._outbounds):
                    continue
                deadline = None
                manager.turns.free(me)
                if waves:
                    manager.turns.ask(me, Call.FURTHER)
                    continue
                since = loop.time()
                peer.counts.connects += 1
                self._refusal = ""
                log.info("link_open", peer=peer.name, creation=peer.creation)
                manager.evidence(peer.name, "ok")
        except TimeoutError:
            log.debug("link_timeout", peer=peer.name, seconds=manager.handshake_timeout)
        finally:
            manager.turns.free(me)
            self._abort()
        self._report(peer, error)
        return since is not None and loop.time() - since >= STABLE_AFTER

    async def _call(self, peer: PeerSession, purposes: Sequence[Purpose], deadline: float) -> None:
        """Open a channel for each purpose, and with a hidden node's both ways. Raises TimeoutError."""
        manager, me = self._manager, self_pid()

        def tell(outbound: Outbound, what: Opened | Ending) -> None:
            if manager.hidden and isinstance(what, Opened):
                # A hidden node is never called, so it learns the other side's session here.
                peer.theirs = what.session
            manager.runtime.send(me, (outbound, what))

        for purpose, pull in product(purposes, (False, True) if manager.hidden else (False,)):
            outbound = Outbound(manager, peer, purpose, tell, pull=pull)
            self._outbounds.append(outbound)
            async with asyncio.timeout_at(deadline):
                await manager.transport.connect(peer.address, outbound, peer.name)
            if outbound.over:
                return

    def _report(self, peer: PeerSession, error: Ending) -> None:
        manager = self._manager
        if isinstance(error, LinkLostError):
            if error.kind == "reset":
                peer.counts.resets += 1
                log.info("link_lost", peer=peer.name, error=str(error))
            else:
                peer.counts.refusals += 1
            # An unreachable host is no evidence that the failure detector does not find itself.
            if error.kind != "unreachable":
                manager.evidence(peer.name, error.kind)
        elif isinstance(error, HandshakeError):
            if error.code == "stale_session":
                manager.renew(peer, peer.creation, "forgotten by the peer")
            elif error.code == "unknown_node":
                log.debug("link_early", peer=peer.name, error=str(error))
            elif str(error) != self._refusal:
                # Logged once, not at every attempt.
                self._refusal = str(error)
                log.error("handshake_failed", peer=peer.name, code=error.code, error=str(error))
        elif isinstance(error, TlsError):
            peer.counts.refusals += 1
            if str(error) != self._refusal:
                self._refusal = str(error)
                log.error("link_without_tls", peer=peer.name, error=str(error))
        elif error is not None:
            log.error("link_broken", peer=peer.name, error=str(error))

    def _abort(self) -> None:
        outbounds, self._outbounds = self._outbounds, []
        for outbound in outbounds:
            outbound.abort()

    async def _receive(self, timeout: float | None) -> tuple[Outbound | None, Opened | Ending | str]:
        """Wait for an outbound's report, or a message to this link. Raises TimeoutError."""
        message = await receive(None if timeout is None else max(0.0, timeout))
        if isinstance(message, Exit):
            # An orderly stop: queued frames may still leave.
            outbounds, self._outbounds = self._outbounds, []
            for outbound in outbounds:
                outbound.close()
            raise ExitProcess(message.reason)
        return (None, message) if isinstance(message, str) else message

    async def _wait(self, seconds: float) -> None:
        """Wait ``seconds``, or until a sign that the peer is there."""
        deadline = asyncio.get_running_loop().time() + seconds
        with suppress(TimeoutError):
            while (await self._receive(deadline - asyncio.get_running_loop().time()))[1] != RETRY:
                pass

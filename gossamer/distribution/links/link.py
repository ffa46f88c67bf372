"""Link process: keeps the outgoing channels to one peer open as long as it is a member.

One attempt opens a channel per purpose, control first and the others once that is open, both when it is this
link's turn (:mod:`~gossamer.distribution.links.turns`). They share their fate: when an open one ends, or the
other side refuses one, all are aborted and a new attempt begins. Once control is open, channels that do not
open in time, or break before they do, are called again on their own: on a busy machine a new attempt would
run out of time as well. The session (:mod:`~gossamer.distribution.links.traffic`) outlives a link's
connections.

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
        late = 0
        again: asyncio.TimerHandle | None = None
        # Of a session that is up nobody should wait for the rest longer than for control.
        wave: Sequence[Purpose] = peer.purposes if peer.up else peer.purposes[:1]
        called: Sequence[Purpose] = ()
        try:
            manager.turns.ask(me, first)
            while True:
                told, what = await self._receive_by(deadline, peer)
                if manager.peers.get(peer.name) is not peer:
                    return True
                if what == RETRY and manager.turns.waits_to_call_again(me):
                    # The peer has called.
                    manager.turns.free(me)
                    manager.turns.ask(me, Call.FIRST)
                if what == YOUR_TURN and wave:
                    deadline = loop.time() + manager.handshake_timeout
                    called, wave = wave, ()
                    await self._call(peer, called, deadline)
                if isinstance(what, str) or (told is not None and told not in self._outbounds):
                    continue
                if isinstance(what, Opened):
                    if what.creation > peer.creation:
                        manager.renew(peer, what.creation, "restarted")
                        break
                elif not self._drop_late(peer, told, what):
                    error = what
                    if what is None and any(outbound.ready for outbound in self._outbounds):
                        # A killed process closes its sockets as orderly as one that stops.
                        detail = "closed by the other side"
                        error = LinkLostError(address=show(peer.address), kind="reset", detail=detail)
                    break
                if deadline is None or not all(outbound.ready for outbound in self._outbounds):
                    continue
                deadline = None
                manager.turns.free(me)
                wave = self._missing(peer)
                if not wave:
                    since = loop.time()
                    self._opened(peer)
                elif set(wave).isdisjoint(called):
                    manager.turns.ask(me, Call.FURTHER)
                else:
                    late += 1
                    again = self._call_later(peer, wave, late)
        finally:
            if again is not None:
                again.cancel()
            manager.turns.free(me)
            self._abort()
        self._report(peer, error)
        return since is not None and loop.time() - since >= STABLE_AFTER

    def _opened(self, peer: PeerSession) -> None:
        """Report that all streams are open."""
        peer.counts.connects += 1
        self._refusal = ""
        log.info("link_open", peer=peer.name, creation=peer.creation)
        self._manager.evidence(peer.name, "ok")

    def _call_later(self, peer: PeerSession, streams: Sequence[Purpose], late: int) -> asyncio.TimerHandle:
        """Ask for a turn to call ``streams`` again, which did not open ``late`` times."""
        manager, loop = self._manager, asyncio.get_running_loop()
        advice = "their frames wait; look at the processor and the open files of both nodes"
        manager.missing_log.write(
            log.warning, "link_streams_missing", peer=peer.name, streams=streams, advice=advice
        )
        return loop.call_later(self._backoff(late), manager.turns.ask, self_pid(), Call.AGAIN)

    def _missing(self, peer: PeerSession) -> list[Purpose]:
        """Return the streams that have no open channel."""
        have = {outbound.purpose for outbound in self._outbounds if outbound.ready and not outbound.over}
        return [purpose for purpose in peer.purposes if purpose not in have]

    def _drop_late(self, peer: PeerSession, told: Outbound | None, error: Ending) -> bool:
        """Abort channel ``told``, or without it all that are not open yet, if they may be called again.

        Not without control, nor after the end of an open channel or a refusal: then the attempt is over.
        """
        late = [outbound for outbound in self._outbounds if not outbound.ready and told in (None, outbound)]
        streams = {*self._missing(peer), *(outbound.purpose for outbound in late)}
        if not late or "control" in streams or not isinstance(error, LinkLostError | None):
            return False
        for outbound in late:
            self._outbounds.remove(outbound)
            outbound.abort()
        return True

    async def _call(self, peer: PeerSession, purposes: Sequence[Purpose], deadline: float) -> None:
        """Open a channel for each purpose until ``deadline``, and with a hidden node's both ways."""
        manager, me = self._manager, self_pid()

        def tell(outbound: Outbound, what: Opened | Ending) -> None:
            if manager.hidden and isinstance(what, Opened):
                # A hidden node is never called, so it learns the other side's session here.
                peer.theirs = what.session
            manager.runtime.send(me, (outbound, what))

        with suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):
                for purpose, pull in product(purposes, (False, True) if manager.hidden else (False,)):
                    outbound = Outbound(manager, peer, purpose, tell, pull=pull)
                    self._outbounds.append(outbound)
                    await manager.transport.connect(peer.address, outbound, peer.name)
                    if outbound.over and purpose == "control":
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

    async def _receive_by(
        self, deadline: float | None, peer: PeerSession
    ) -> tuple[Outbound | None, Opened | Ending | str]:
        """Do the same; at ``deadline`` report that ``peer`` does not answer."""
        timeout = None if deadline is None else deadline - asyncio.get_running_loop().time()
        try:
            return await self._receive(timeout)
        except TimeoutError:
            detail = f"no answer in {self._manager.handshake_timeout:g} s"
            return None, LinkLostError(address=show(peer.address), kind="unreachable", detail=detail)

    async def _wait(self, seconds: float) -> None:
        """Wait ``seconds``, or until a sign that the peer is there."""
        deadline = asyncio.get_running_loop().time() + seconds
        with suppress(TimeoutError):
            while (await self._receive(deadline - asyncio.get_running_loop().time()))[1] != RETRY:
                pass

"""Limits of a listener: how many connections, how many at once, how fast, and from where.

All listeners of a node share its file descriptors (:class:`Room`): clients must not take those that links,
disc and HTTP need, or nothing works any more. They also share the memory for clients that are not let in yet.
A node whose loop is late lets nobody else in (:class:`Shedding`).

Rules: 1. Callers pass ``now``.  2. A connection that was counted in is counted out once.  3. The counts
outlive the process that listens, since connections do.  4. Where ``max_pending`` are not let in yet, who
comes gets the place of the address with most of them (:mod:`gossamer.places`): a few addresses keep nobody
else out.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import structlog

from gossamer.certificates import subject_of, user_of
from gossamer.config import ListenerConfig
from gossamer.errors import GossamerError
from gossamer.log_limit import LogLimit
from gossamer.mqtt.flow.backpressure import Bucket
from gossamer.places import Places

log = structlog.get_logger(__name__)

_SUBJECT = {"o": "organizationName", "ou": "organizationalUnitName"}
NOT_FOR_CLIENTS = 512
"""File descriptors that the node keeps for itself, or half of all where there are few."""


class Shedding:
    """Switch that turns new clients away while those that are here have to wait.

    On when the loop was ``limit`` seconds late, off when it is less than half as late; None: never.
    """

    def __init__(self, limit: float | None) -> None:
        self._limit = limit
        self.on = False

    def late(self, seconds: float) -> bool:
        """The loop ran so late; whether that changed anything."""
        if self._limit is None:
            return False
        before = self.on
        self.on = seconds > (self._limit / 2 if before else self._limit)
        return self.on != before


class Newcomer(Protocol):
    """A connection that is not let in yet; ``transport`` is the one that was accepted until TLS is ready."""

    transport: asyncio.Transport

    def crowd_out(self) -> None:
        """End; others need the memory."""


class Room:
    """Connections that the file descriptors of the process suffice for, and bytes of those not let in yet.

    ``max_early`` bounds these bytes: what such a connection has sent, whatever part of it is still held.
    """

    def __init__(self, descriptors: int | None = None, *, max_early: int = 64 * 1024**2) -> None:
        self.limit = None if descriptors is None else max(descriptors // 2, descriptors - NOT_FOR_CLIENTS)
        self.taken = 0
        self.early_bytes = 0
        self._max_early = max_early
        self._early: dict[Newcomer, int] = {}

    def hold(self, newcomer: Newcomer, size: int) -> bool:
        """Count ``size`` more bytes of ``newcomer``; beyond the bound, who has most is crowded out.

        Return whether ``newcomer`` may stay.
        """
        self._early[newcomer] = self._early.get(newcomer, 0) + size
        self.early_bytes += size
        while self.early_bytes > self._max_early:
            largest = max(self._early, key=self._early.__getitem__)
            self.free(largest)
            largest.crowd_out()
        return newcomer in self._early

    def free(self, newcomer: Newcomer) -> None:
        """Forget the bytes of one that is let in, or gone."""
        self.early_bytes -= self._early.pop(newcomer, 0)

    @property
    def is_full(self) -> bool:
        return self.limit is not None and self.taken >= self.limit


class Entrance:
    """One listener as its connections see it: lets them in by address and number, and counts them.

    ``refusals`` counts by listener and reason, ``decisions`` as ``Access`` does.
    """

    def __init__(
        self,
        config: ListenerConfig,
        name: str,
        room: Room,
        *,
        max_packet: int,
        now: Callable[[], float],
        refusals: Counter[tuple[str, str]],
        decisions: Counter[tuple[str, str, str]],
    ) -> None:
        self.max_packet = config.max_packet_size or max_packet
        self.hold, self.free = room.hold, room.free
        self.adopt: Callable[[Any], bool | None]
        """Makes a channel a process under the listener; not when there are too many already."""
        self._config = config
        self._name = name
        self._room = room
        self._now = now
        self._log = LogLimit(now, lines=1)
        self._refusals = refusals
        self._decisions = decisions
        self._connects = Bucket(config.max_connect_rate) if config.max_connect_rate else None
        self.connections = 0
        """Open now, those that are pending too."""
        self._pending: Places[Newcomer] = Places(config.max_pending, config.max_pending, self._displace)
        """Not let in yet."""

    def let_in(self, newcomer: Newcomer) -> bool:
        """Count a connection in; False when there are too many already."""
        refused = self._against(newcomer, self._now())
        if refused is not None:
            self.full(refused)
            return False
        self.connections += 1
        self._room.taken += 1
        return True

    def _against(self, newcomer: Newcomer, now: float) -> str | None:
        """Return the limit that one more connection would exceed, if any."""
        if self.connections >= self._config.max_connections:
            return "connections"
        if self._room.is_full:
            return "descriptors"
        peer = newcomer.transport.get_extra_info("peername")
        if self._pending.take(newcomer, str(peer[0]) if isinstance(peer, tuple) else ""):
            return "pending"
        if self._connects is not None and not self._connects.admit(now):
            self._pending.free(newcomer)
            return "connect_rate"
        return None

    def _displace(self, newcomer: Newcomer) -> None:
        self.refused("pending")
        newcomer.transport.abort()

    def admitted(self, newcomer: Newcomer) -> None:
        """One that was pending is let in."""
        self._pending.free(newcomer)

    def leave(self, newcomer: Newcomer) -> None:
        """One is gone."""
        self.connections -= 1
        self._room.taken -= 1
        self._pending.free(newcomer)

    def refused(self, why: str) -> None:
        """A connection is not let in; counted by ``why``, which has few values."""
        self._refusals[self._name, why] += 1

    def full(self, why: str) -> None:
        """A connection is not even looked at."""
        self.refused(why)
        self._decisions["accept", why, "deny"] += 1

    def crowded_out(self, peer: str) -> None:
        """Record that a connection ended since those not let in yet had sent too much together."""
        self.refused("connecting_bytes")
        self._log.write(log.warning, "newcomer_crowded_out", peer=peer, limit="max_connecting_bytes")

    def trusts(self, transport: asyncio.Transport) -> bool:
        """Return whether a PROXY header from there is believed."""
        peer = transport.get_extra_info("peername")
        if self._config.socket is not None or is_within(peer, self._config.proxy_sources):
            return True
        self.full("untrusted_proxy")
        log.debug("untrusted_proxy", peer=str(peer))
        return False

    def no_header(self, error: GossamerError) -> None:
        """There was no PROXY header where there must be one."""
        self.refused("no_proxy_header")
        self._log.write(log.info, "no_proxy_header", error=str(error))

    def tenant_of(self, transport: asyncio.BaseTransport) -> str:
        """The tenant of clients whose source names none: of the certificate, else of the listener."""
        tls, named = self._config.tls, None
        if tls is not None and tls.tenant != "none":
            named = subject_of(transport.get_extra_info("peercert"), _SUBJECT[tls.tenant])
        return self._config.tenant if named is None else named

    def certificate_of(self, transport: asyncio.BaseTransport) -> str | None:
        """The user name in the client's certificate, where the listener takes names from there."""
        tls = self._config.tls
        if tls is None or tls.username == "none":
            return None
        return user_of(transport.get_extra_info("peercert"), tls.username)


def is_within(peer: object, networks: Iterable[ipaddress.IPv4Network | ipaddress.IPv6Network]) -> bool:
    """Return whether the address of a socket's other end is in one of ``networks``."""
    try:
        host = ipaddress.ip_address(str(peer[0]).partition("%")[0]) if isinstance(peer, tuple) else None
    except ValueError:
        return False
    if host is None:
        return False
    if isinstance(host, ipaddress.IPv6Address):
        # A socket of both families shows addresses of the older one so.
        host = host.ipv4_mapped or host
    return any(host in network for network in networks)

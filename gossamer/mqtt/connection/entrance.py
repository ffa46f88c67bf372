"""One listener as its connections see it: who may come in, and the count of who came and went.

It outlives the process that holds the socket, as connections do.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections import Counter
from collections.abc import Callable, Iterable

import structlog

from gossamer.config import ListenerConfig
from gossamer.errors import GossamerError
from gossamer.mqtt.connection.certificates import user_of
from gossamer.mqtt.connection.limits import ListenerLimits, Room
from gossamer.supervisor import Port

__all__ = ["Entrance", "is_within"]

log = structlog.get_logger(__name__)


class Entrance(ListenerLimits):
    """Lets connections in by address and number, and counts them.

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
        self.adopt: Callable[[Port], bool | None]
        """Makes a channel a process under the listener; not when there are too many already."""
        super().__init__(config, room)
        self._name = name
        self._now = now
        self._refusals = refusals
        self._decisions = decisions

    def let_in(self) -> bool:
        """Count a connection in; False when there are too many already."""
        refused = self.enter(self._now())
        if refused is not None:
            self.full(refused)
        return refused is None

    def refused(self, why: str) -> None:
        """A connection is not let in; counted by ``why``, which has few values."""
        self._refusals[self._name, why] += 1

    def full(self, why: str) -> None:
        """A connection is not even looked at."""
        self.refused(why)
        self._decisions["accept", why, "deny"] += 1

    def trusts(self, transport: asyncio.Transport) -> bool:
        """Whether a PROXY header from there is believed."""
        peer = transport.get_extra_info("peername")
        if self._config.socket is not None or is_within(peer, self._config.proxy_sources):
            return True
        self.full("untrusted_proxy")
        log.debug("untrusted_proxy", peer=str(peer))
        return False

    def no_header(self, error: GossamerError) -> None:
        """There was no PROXY header where there must be one."""
        self.refused("no_proxy_header")
        log.info("no_proxy_header", error=str(error))

    def certificate_of(self, transport: asyncio.BaseTransport) -> str | None:
        """The user name in the client's certificate, where the listener takes names from there."""
        tls = self._config.tls
        if tls is None or tls.username == "none":
            return None
        return user_of(transport.get_extra_info("peercert"), tls.username)


def is_within(peer: object, networks: Iterable[ipaddress.IPv4Network | ipaddress.IPv6Network]) -> bool:
    """Whether the address of a socket's other end is in one of ``networks``."""
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

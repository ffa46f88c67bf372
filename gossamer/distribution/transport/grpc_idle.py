"""Connections to a gRPC port that carry no stream: bounded by address, and ended in time.

gRPC makes a connection known only by its streams, so that those which open none, or only ones of another
method, are counted by nobody, and a stream of another method now and then keeps one for ever. It gives no
hook where it accepts, but its sockets are descriptors of this process: once a second they are looked through,
and those of the port whose peer has no stream here are counted as callers that have proved nothing.

Rules: 1. Such a connection lasts ``limit`` seconds after it was first met.  2. So many of one address, so
many in all (:class:`~gossamer.places.Places`).  3. It is ended by ``shutdown``, as if by its peer: the
descriptor stays gRPC's own.  4. A look takes the descriptors by slices with pauses between them, so that it
costs a node of many clients about one per cent, and works where all are taken.

Rejected: to accept here and relay to gRPC, which copies every byte once more; gRPC's own bound alone
(``grpc.max_allowed_incoming_connections``), which one address would fill for all others.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import socket
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet

import structlog

from gossamer.log_limit import LogLimit
from gossamer.places import Places

log = structlog.get_logger(__name__)

MAX_IDLE = 512
MAX_IDLE_EACH = 128
"""Connections without a stream that are left by a look, of all addresses and of one."""
MAX_CONNECTIONS = 4096
"""Connections of all kinds that gRPC accepts; fewer where a quarter of the descriptors is."""
_INTERVAL = 1.0
_SLICE = 128
_PAUSE = 0.05

Peer = tuple[str, int]


class IdleConnections:
    """Decides which connections without a stream are ended: by ``end``, with the bound, blank for time."""

    def __init__(self, limit: float, end: Callable[[Peer, str], object]) -> None:
        self._limit = limit
        self._end = end
        self._since: dict[Peer, float] = {}
        self._met: set[Peer] = set()
        self._places: Places[Peer] = Places(MAX_IDLE, MAX_IDLE_EACH, self._crowd_out)

    def meet(self, peer: Peer, now: float) -> None:
        """Count the connection of ``peer``, or end it."""
        self._met.add(peer)
        if peer not in self._since:
            full = self._places.take(peer, peer[0])
            if full:
                self._end(peer, full)
            else:
                self._since[peer] = now
        elif now - self._since[peer] >= self._limit:
            self._forget(peer)
            self._end(peer, "")

    def looked(self) -> AbstractSet[Peer]:
        """Forget those that were not met in this look; return those that stay."""
        for peer in self._since.keys() - self._met:
            self._forget(peer)
        self._met.clear()
        return self._since.keys()

    def _crowd_out(self, peer: Peer) -> None:
        del self._since[peer]
        self._end(peer, f"{MAX_IDLE} callers, most of them of this address")

    def _forget(self, peer: Peer) -> None:
        del self._since[peer]
        self._places.free(peer)


async def end_idle(port: int, carrying: Callable[[], Iterable[str]], limit: float) -> None:
    """Look through the connections to ``port`` of this process, again and again.

    ``carrying`` returns the addresses, as transports write them, of those that carry a stream.
    """
    now = asyncio.get_running_loop().time
    turned_away = LogLimit(now, lines=1)
    descriptors: dict[Peer, int] = {}

    def end(peer: Peer, full: str) -> None:
        _shut(descriptors[peer], peer, hand)
        if full:
            turned_away.write(log.warning, "callers_turned_away", address=peer[0], without_stream=full)

    idle = IdleConnections(limit, end)
    # One descriptor to end connections by, had before all are taken; it stays with the last of them.
    with socket.socket(socket.AF_INET6) as hand:
        while True:
            busy: set[Peer] = set()
            for number, descriptor in enumerate(_descriptors()):
                if number % _SLICE == 0:
                    await asyncio.sleep(_PAUSE)
                    busy = {_written(address) for address in carrying()}
                if (peer := _connected(descriptor, port)) and peer not in busy:
                    descriptors[peer] = descriptor
                    idle.meet(peer, now())
            for peer in descriptors.keys() - idle.looked():
                del descriptors[peer]
            await asyncio.sleep(_INTERVAL)


def max_connections() -> int:
    """Return how many connections gRPC may accept, by the descriptors that the node may have."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_CONNECTIONS if most == resource.RLIM_INFINITY else min(MAX_CONNECTIONS, most // 4)


def _descriptors() -> Iterable[int]:
    try:
        return map(int, os.listdir("/dev/fd"))  # noqa: PTH208  names alone, of thousands
    except OSError:
        # There is none left to list them by, so all are taken.
        return range(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def _connected(descriptor: int, port: int) -> Peer | None:
    """Return the peer of a connection to ``port``; None: the descriptor is none."""
    try:
        # Room for addresses of either family; which it is, they say themselves.
        view = socket.socket(socket.AF_INET6, socket.SOCK_STREAM, 0, fileno=descriptor)
    except OSError:
        return None
    try:
        local = view.getsockname()
        return _peer(view) if isinstance(local, tuple) and local[1:2] == (port,) else None
    except OSError:
        return None
    finally:
        view.detach()


def _peer(connection: socket.socket) -> Peer:
    host, port = connection.getpeername()[:2]
    return host.removeprefix("::ffff:"), port


def _written(address: str) -> Peer:
    """Return the peer whose address a transport writes so; gRPC adds the zone of an IPv6 address."""
    host, _, port = address.rpartition(":")
    return host.strip("[]").partition("%")[0], int(port) if port.isdigit() else 0


def _shut(descriptor: int, peer: Peer, hand: socket.socket) -> None:
    """End the connection of ``peer``, if it is still the one of ``descriptor``."""
    with contextlib.suppress(OSError):
        # gRPC's threads may close the descriptor, and another file get its number, at any moment.
        os.dup2(descriptor, hand.fileno(), inheritable=False)
        if _peer(hand) == peer:
            hand.shutdown(socket.SHUT_RDWR)

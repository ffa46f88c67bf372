"""Opening what gossip listens on: UDP and TCP on one port, and the address that others are told.

Rules: 1. Both or none: a datagram port whose stream port is taken is given back.  2. A predecessor's sockets
close a turn of the loop after it ended, so binding is tried for half a second.  3. What cannot be bound or
reached by others is the operator's to change, and the error names the key.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Any

from gossamer.errors import UsageError
from gossamer.gossip.transport.streams import AnsweringStream
from gossamer.network import Address, Listener, Network
from gossamer.supervisor import Port, self_pid

__all__ = ["GossipAddressError", "Sockets", "advertised", "local_host", "open_sockets"]

_BIND_TRIES = 10
_BIND_PAUSE = 0.05
_WILDCARDS = ("", "0.0.0.0", "::")  # noqa: S104 - compared with, not bound


class GossipAddressError(UsageError):
    """The gossip address cannot be used."""

    def __init__(self, address: Address, problem: str, advice: str) -> None:
        self.address = address
        super().__init__(f"gossip address {address[0]}:{address[1]}: {problem}; {advice}")


def local_host() -> str:
    """The address of the interface that leads out of this machine; loopback where none does."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        # Connecting a datagram socket sends nothing; it only asks for the route.
        probe.connect(("192.0.2.1", 9))
        host: str = probe.getsockname()[0]
        return host
    return "127.0.0.1"


class Sockets(Port):
    """Owns the open sockets, and closes them when the server ends."""

    __slots__ = ("bound", "datagrams", "listener", "streams")

    def __init__(self, datagrams: asyncio.DatagramTransport, listener: Listener, bound: Address) -> None:
        self.bound = bound
        self.datagrams = datagrams
        self.listener = listener
        self.streams: dict[int, AnsweringStream] = {}

    def handle_exit(self, source: object, reason: object) -> None:
        # The only link is the server's: also a normal end of it is the end of its sockets.
        self.close()

    def on_close(self, reason: object) -> None:
        self.datagrams.abort()
        self.listener.close()
        for stream in list(self.streams.values()):
            stream.close()


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, received: Callable[[bytes, Any], Any]) -> None:
        self._received = received

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self._received(data, addr)


async def open_sockets(
    network: Network,
    bind: Address,
    *,
    received: Callable[[bytes, Any], Any],
    answering: Callable[[], AnsweringStream],
) -> Sockets:
    """Bind both sockets, owned by a port that is linked to the calling process.

    Raises:
        GossipAddressError: the address cannot be bound.
    """
    for attempt in range(_BIND_TRIES):
        try:
            datagrams, _ = await network.open_datagram(lambda: _Datagrams(received), bind)
        except OSError as error:
            problem = error
        else:
            name = datagrams.get_extra_info("sockname")
            bound: Address = (name[0], name[1])
            try:
                listener = await network.listen(answering, bound)
            except OSError as error:
                datagrams.abort()
                problem = error
            else:
                sockets = Sockets(datagrams, listener, bound)
                sockets.open(label="gossip_sockets", link_to=self_pid())
                return sockets
        if attempt + 1 < _BIND_TRIES:
            await asyncio.sleep(_BIND_PAUSE)
    raise GossipAddressError(
        bind,
        f"UDP and TCP cannot be bound ({problem.strerror or problem})",
        "set cluster.host to an address of this machine and cluster.port to a free port",
    )


def advertised(bind: Address, bound: Address) -> Address:
    """Where others reach this node: what is bound, or where that is every address, the way out."""
    return (local_host() if bind[0] in _WILDCARDS else bound[0], bound[1])

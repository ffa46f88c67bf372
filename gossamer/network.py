"""The seam to the network: every socket of a node is opened through one of these.

Three calls, shaped like the event loop's own, so that ordinary ``asyncio`` protocols stand on either side.
:class:`SystemNetwork` opens real sockets. The simulator (``gossamer.testing``) gives each node a host on a
seeded network that drops, delays, reorders, duplicates and cuts, and nothing above this module can tell.

Rejected: passing the event loop itself, since one loop carries many simulated nodes and a connection must
know from which of them it comes.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Protocol, TypeVar

__all__ = ["Address", "Listener", "Network", "SystemNetwork"]

Address = tuple[str, int]
"""A host (an IP literal, once resolved) and a port."""

P = TypeVar("P", bound=asyncio.BaseProtocol)


class Listener(Protocol):
    """An open listening socket."""

    @property
    def address(self) -> Address:
        """Where it listens; the port is the real one even where 0 was asked for."""

    def close(self) -> None:
        """Stop accepting. Connections already accepted live on."""


class Network(Protocol):
    """What a node may do with the network."""

    async def open_datagram(
        self, factory: Callable[[], P], address: Address
    ) -> tuple[asyncio.DatagramTransport, P]:
        """Bind a datagram socket at ``address``. Raises OSError where it cannot be bound."""

    async def listen(
        self,
        factory: Callable[[], asyncio.BaseProtocol],
        address: Address,
        *,
        tls: ssl.SSLContext | None = None,
        backlog: int = 1024,
        reuse_port: bool = False,
    ) -> Listener:
        """Accept stream connections at ``address``. Raises OSError where it cannot be bound."""

    async def connect(
        self, factory: Callable[[], P], address: Address, *, tls: ssl.SSLContext | None = None
    ) -> tuple[asyncio.Transport, P]:
        """Open a stream connection to ``address``. Raises OSError where nobody answers."""


class _SystemListener:
    def __init__(self, server: asyncio.Server) -> None:
        self._server = server
        host, port, *_ = server.sockets[0].getsockname()
        self._address: Address = (host, port)

    @property
    def address(self) -> Address:
        return self._address

    def close(self) -> None:
        self._server.close()


class SystemNetwork:
    """Real sockets on the running event loop."""

    async def open_datagram(
        self, factory: Callable[[], P], address: Address
    ) -> tuple[asyncio.DatagramTransport, P]:
        loop = asyncio.get_running_loop()
        return await loop.create_datagram_endpoint(factory, local_addr=address)

    async def listen(
        self,
        factory: Callable[[], asyncio.BaseProtocol],
        address: Address,
        *,
        tls: ssl.SSLContext | None = None,
        backlog: int = 1024,
        reuse_port: bool = False,
    ) -> Listener:
        loop = asyncio.get_running_loop()
        host, port = address
        server = await loop.create_server(
            factory, host, port, ssl=tls, backlog=backlog, reuse_port=reuse_port or None
        )
        return _SystemListener(server)

    async def connect(
        self, factory: Callable[[], P], address: Address, *, tls: ssl.SSLContext | None = None
    ) -> tuple[asyncio.Transport, P]:
        loop = asyncio.get_running_loop()
        host, port = address
        return await loop.create_connection(factory, host, port, ssl=tls)

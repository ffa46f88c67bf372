"""Interface to the network: every socket of a node is opened through it.

Three calls, shaped like the event loop's own, so that ordinary ``asyncio`` protocols stand on either side.
:class:`SystemNetwork` opens real sockets. The simulator (``gossamer.testing``) gives each node a host on a
seeded network that drops, delays, reorders, duplicates and cuts, and nothing above this module can tell.

Rejected: passing the event loop itself, since one loop carries many simulated nodes and a connection must
know from which of them it comes.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from gossamer.handshakes import Handshakes

Address = tuple[str, int]
"""A host (an IP literal, once resolved) and a port."""

HANDSHAKE_LIMIT = 10.0
"""Seconds that a TLS handshake of an incoming connection may take."""

P = TypeVar("P", bound=asyncio.BaseProtocol)


class Listener(Protocol):
    """An open listening socket."""

    @property
    def address(self) -> Address:
        """Address at which it listens; the port is the real one even if 0 was requested."""

    def close(self) -> None:
        """Stop accepting. Connections already accepted live on."""


class Network(Protocol):
    """Network operations of a node."""

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
        """Accept stream connections at ``address``. Raises OSError where it cannot be bound.

        With ``tls`` ``factory`` is called once a handshake is over; see ``handshakes`` for its bounds.
        """

    async def listen_unix(
        self, factory: Callable[[], asyncio.BaseProtocol], path: str, *, backlog: int = 1024
    ) -> Listener:
        """Accept stream connections at a Unix socket; a dead socket file is replaced.

        Its address is ``(path, 0)``. Raises OSError where it cannot be bound.
        """

    async def connect(
        self,
        factory: Callable[[], P],
        address: Address,
        *,
        tls: ssl.SSLContext | None = None,
        tls_name: str | None = None,
    ) -> tuple[asyncio.Transport, P]:
        """Open a stream connection to ``address``. Raises OSError if that fails.

        ``tls_name`` is the host that the certificate must name, unless given the one of ``address``.
        """


def _remove_dead_socket(path: str) -> None:
    """Remove the socket file of a killed process; one that answers is in use and stays."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            Path(path).unlink(missing_ok=True)
        except OSError:
            return
        else:
            raise OSError(errno.EADDRINUSE, "Address already in use")


class _SystemListener:
    def __init__(
        self,
        server: asyncio.Server,
        address: Address | None = None,
        *,
        handshakes: Handshakes | None = None,
    ) -> None:
        self._server = server
        self._handshakes = handshakes
        if address is None:
            host, port, *_ = server.sockets[0].getsockname()
            address = (host, port)
        self._address: Address = address

    @property
    def address(self) -> Address:
        return self._address

    def close(self) -> None:
        self._server.close()
        if self._handshakes is not None:
            self._handshakes.close()


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
        handshakes = None
        if tls is not None:
            # Here, since commands take addresses from this module and have no use for what logs.
            from gossamer.handshakes import Handshakes

            handshakes = Handshakes(tls, factory, limit=HANDSHAKE_LIMIT)
        try:
            server = await loop.create_server(
                handshakes or factory, host, port, backlog=backlog, reuse_port=reuse_port or None
            )
        except socket.gaierror:
            raise
        except OSError as error:
            # asyncio's text repeats the address, which callers name.
            raise OSError(error.errno, os.strerror(error.errno or 0)) from error
        return _SystemListener(server, handshakes=handshakes)

    async def listen_unix(
        self, factory: Callable[[], asyncio.BaseProtocol], path: str, *, backlog: int = 1024
    ) -> Listener:
        await asyncio.to_thread(_remove_dead_socket, path)
        server = await asyncio.get_running_loop().create_unix_server(factory, path, backlog=backlog)
        return _SystemListener(server, (path, 0))

    async def connect(
        self,
        factory: Callable[[], P],
        address: Address,
        *,
        tls: ssl.SSLContext | None = None,
        tls_name: str | None = None,
    ) -> tuple[asyncio.Transport, P]:
        loop = asyncio.get_running_loop()
        host, port = address
        return await loop.create_connection(factory, host, port, ssl=tls, server_hostname=tls_name)

"""Relay in this process: a client that cannot use a ``Network`` calls a Unix socket instead.

gRPC opens its own sockets, out of reach of a fault gate. The relay opens the connection first, so that a
refusal is reported as one, and then offers it at a socket of its own in a private directory, to one caller,
once. Both are removed as soon as the caller connects, so that a node killed at another time leaves none.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import weakref
from pathlib import Path

from gossamer.network import Address, Listener, Network

CLAIM_TIMEOUT = 10.0
"""Timeout of the caller's connection in seconds."""
_READ = 256 * 1024


class Relay:
    """Connections of ``network`` for clients that can only call an address."""

    def __init__(self, network: Network) -> None:
        self._network = network

    async def open(self, address: Address) -> str:
        """Connect to ``address``; return the gRPC target at which that connection is offered.

        Raises:
            OSError: the connection failed.
        """
        loop = asyncio.get_running_loop()
        far = asyncio.StreamReader()
        transport, protocol = await self._network.connect(lambda: asyncio.StreamReaderProtocol(far), address)
        to_far = asyncio.StreamWriter(transport, protocol, far, loop)
        path = Path(tempfile.mkdtemp(prefix="gossamer-")) / "link"
        # Removed at the end of the process at the latest.
        clean = weakref.finalize(protocol, shutil.rmtree, path.parent, ignore_errors=True)
        listener: Listener | None = None

        def close() -> None:
            if listener is not None:
                listener.close()
            clean()

        def unclaimed() -> None:
            close()
            transport.abort()

        async def join(near: asyncio.StreamReader, to_near: asyncio.StreamWriter) -> None:
            await asyncio.gather(_carry(near, to_far), _carry(far, to_near))

        def claimed() -> asyncio.Protocol:
            give_up.cancel()
            loop.call_soon(close)
            return asyncio.StreamReaderProtocol(asyncio.StreamReader(), join)

        try:
            listener = await self._network.listen_unix(claimed, str(path))
        except BaseException:
            unclaimed()
            raise
        give_up = loop.call_later(CLAIM_TIMEOUT, unclaimed)
        return f"unix:{path}"


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy from one end to the other, and close it at the end; half-closed connections are not supported."""
    try:
        while data := await reader.read(_READ):
            writer.write(data)
            await writer.drain()
    except OSError:
        writer.transport.abort()
    finally:
        writer.close()

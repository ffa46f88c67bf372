"""A relay in this process: what cannot open connections through a ``Network`` calls a Unix socket instead.

gRPC opens its own sockets, out of reach of a fault gate. The relay opens the connection first, so that a
refusal is told as one, and then offers it at a socket of its own in a private directory, to one caller, once.
Both are gone as soon as the caller has come, so that a node that is killed leaves none behind but in the
moment of a call.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import cast

from gossamer.network import Address, Listener, Network

CLAIM = 10.0
"""Seconds in which the caller must come."""


class _End(asyncio.Protocol):
    """One end of a relayed connection; what comes here leaves at the other."""

    def __init__(self, made: Callable[[], object] | None = None) -> None:
        self._made = made
        self.transport: asyncio.Transport | None = None
        self.other: _End | None = None
        self._early: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        if self._made is not None:
            self._made()

    def pair(self, other: _End) -> None:
        """The other end is there: hand over what came before it."""
        self.other = other
        early, self._early = self._early, []
        for data in early:
            self.data_received(data)
        if self.transport is None:
            self.connection_lost(None)
        else:
            self.transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        if self.other is None:
            self._early.append(data)
            # Here and not when the connection is made: uvloop begins to read after that, whatever was asked.
            if self.transport is not None:
                self.transport.pause_reading()
        elif self.other.transport is not None:
            self.other.transport.write(data)

    def eof_received(self) -> bool:
        # Nobody who uses this closes one half only.
        return False

    def pause_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        if self.other is not None and self.other.transport is not None:
            if exc is None:
                self.other.transport.close()
            else:
                self.other.transport.abort()


class Relay:
    """Connections of ``network`` for who can only call an address."""

    def __init__(self, network: Network) -> None:
        self._network = network

    async def open(self, address: Address) -> str:
        """Connect to ``address``; the target, in gRPC's words, at which that connection can be had.

        Raises:
            OSError: nobody answers there.
        """
        _, far = await self._network.connect(_End, address)
        path = Path(tempfile.mkdtemp(prefix="gossamer-")) / "link"
        # At the end of the process at the latest.
        clean = weakref.finalize(far, shutil.rmtree, path.parent, ignore_errors=True)
        loop = asyncio.get_running_loop()
        listener: Listener | None = None

        def claimed() -> asyncio.Protocol:
            give_up.cancel()
            loop.call_soon(_close, listener, clean)
            near = _End(lambda: far.pair(near))
            near.other = far
            return near

        def unclaimed() -> None:
            _close(listener, clean)
            if far.transport is not None:
                far.transport.abort()

        give_up = loop.call_later(CLAIM, unclaimed)
        listener = await self._network.listen_unix(claimed, str(path))
        return f"unix:{path}"


def _close(listener: Listener | None, clean: Callable[[], object]) -> None:
    if listener is not None:
        listener.close()
    clean()

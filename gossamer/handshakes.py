"""TLS handshakes of incoming connections: counted from the first packet, bounded, and ended in time.

The loop's own TLS server makes a protocol known only once its handshake is over, so that connections which
never finish theirs are counted by nobody. Here each takes one of :data:`gossamer.places.Places` when it is
accepted, and gives it back when its handshake is over, however it ends; then what listens counts it.

Rules: 1. A handshake takes ``limit`` seconds at most.  2. Who finds no place is cut off before anything is
read.  3. Bytes read before TLS is ready (the loop may read even when told not to) are given to TLS first;
those decrypted in the turn in which its handshake ends, to the protocol above.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import cast

import structlog

from gossamer.log_limit import LogLimit
from gossamer.places import Places

log = structlog.get_logger(__name__)

MAX_HANDSHAKES = 512
MAX_HANDSHAKES_EACH = 128
"""Handshakes that a listener carries at once, of all addresses and of one."""


class Handshakes:
    """Factory of a listening socket's protocols: TLS by ``context``, then what ``make`` gives."""

    def __init__(
        self, context: ssl.SSLContext, make: Callable[[], asyncio.BaseProtocol], *, limit: float
    ) -> None:
        self.context = context
        self.make = make
        self.limit = limit
        self.places = Places(MAX_HANDSHAKES, MAX_HANDSHAKES_EACH, self._evict)
        self._log = LogLimit(asyncio.get_running_loop().time, lines=1)
        self._tasks: set[asyncio.Task[None]] = set()

    def __call__(self) -> asyncio.Protocol:
        return TlsDoor(self)

    def begin(self, door: TlsDoor, raw: asyncio.Transport) -> bool:
        """Give an accepted connection a place, and begin its handshake; False: there is none."""
        peer = raw.get_extra_info("peername")
        door.host = str(peer[0]) if isinstance(peer, tuple) else ""
        full = self.places.take(door, door.host)
        if full:
            self._turned_away(door, full)
            return False
        task = asyncio.get_running_loop().create_task(door.secure(raw))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    def _evict(self, door: TlsDoor) -> None:
        self._turned_away(door, f"{MAX_HANDSHAKES} callers, most of them of this address")
        door.abort()

    def _turned_away(self, door: TlsDoor, full: str) -> None:
        self._log.write(log.warning, "handshakes_turned_away", address=door.host, in_handshake=full)

    def close(self) -> None:
        """End the handshakes that are under way."""
        for door in list(self.places):
            door.abort()


class Securing(asyncio.Protocol):
    """Protocol of an accepted connection until TLS is ready; keeps early bytes (rule 3)."""

    def __init__(self) -> None:
        self._held = b""
        """Bytes read before TLS is ready."""
        self._early: list[bytes] | None = None
        """Bytes decrypted before the protocol above takes over; None until TLS is ready."""
        self._lost = False

    def data_received(self, data: bytes) -> None:
        if self._early is not None:
            self._early.append(data)
        elif not self._lost:
            self._held += data

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True

    async def _upgrade(
        self, raw: asyncio.Transport, context: ssl.SSLContext, limit: float
    ) -> asyncio.Transport | None:
        """Shake hands within ``limit`` seconds; return None if that fails, with ``raw`` aborted."""
        loop = asyncio.get_running_loop()
        secured: asyncio.Transport | None = None
        try:
            if not raw.is_closing():
                shaking = loop.create_task(
                    loop.start_tls(raw, self, context, server_side=True, ssl_handshake_timeout=limit)
                )
                # Once it has begun, and has asked to be told of its connection and to be read for.
                loop.call_soon(self._begun, raw)
                secured = await shaking
        except OSError as error:
            log.debug("tls_handshake_failed", peer=str(raw.get_extra_info("peername")), error=str(error))
        finally:
            if secured is None or self._lost:
                secured = None
                raw.abort()
        return secured

    def _begun(self, raw: asyncio.Transport) -> None:
        self._early = []
        held, self._held = self._held, b""
        if held:
            # In the turn in which it is told: before anything else is read.
            asyncio.get_running_loop().call_soon(_feed, raw, held)

    def _catch_up(self, inner: asyncio.Protocol) -> None:
        """Give the protocol above the bytes decrypted before it took over."""
        for data in self._early or ():
            inner.data_received(data)


class TlsDoor(Securing):
    """Protocol of a connection of :class:`Handshakes` until its handshake is over."""

    def __init__(self, handshakes: Handshakes) -> None:
        super().__init__()
        self._handshakes = handshakes
        self.host = ""
        self._raw: asyncio.Transport | None = None

    def abort(self) -> None:
        """End the connection."""
        if self._raw is not None:
            self._raw.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        raw = self._raw = cast("asyncio.Transport", transport)
        # The bytes that come next are for TLS.
        raw.pause_reading()
        if not self._handshakes.begin(self, raw):
            self._lost = True
            raw.abort()

    async def secure(self, raw: asyncio.Transport) -> None:
        """Shake hands, and hand the connection over."""
        settings = self._handshakes
        try:
            secured = await self._upgrade(raw, settings.context, settings.limit)
        finally:
            settings.places.free(self)
        if secured is not None:
            inner = cast("asyncio.Protocol", settings.make())
            secured.set_protocol(inner)
            inner.connection_made(secured)
            self._catch_up(inner)


def _feed(raw: asyncio.Transport, data: bytes) -> None:
    """Give TLS the bytes read before it was ready."""
    # What it is called differs from loop to loop.
    tls = cast("asyncio.BufferedProtocol", raw.get_protocol())
    while data and not raw.is_closing():
        buffer = memoryview(tls.get_buffer(len(data)))
        size = min(len(buffer), len(data))
        buffer[:size] = data[:size]
        data = data[size:]
        tls.buffer_updated(size)

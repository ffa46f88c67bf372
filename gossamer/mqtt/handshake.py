"""TLS handshakes that count: a connection is one of its listener's from the moment it is accepted.

The loop's own TLS server makes the protocol known only after the handshake, so that a thousand clients who
never finish theirs would be nobody's. Here the raw connection is accepted, counted and bounded first
(``max_connections``, ``max_pending``, ``max_connect_rate``), then upgraded, in a process of its own that ends
with the handshake.

Rules: 1. Whoever was counted in is counted out once: by the channel if it came to be, else here.  2. A
handshake takes :data:`WITHIN` seconds at most.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Any, cast

import structlog

if TYPE_CHECKING:
    from gossamer.mqtt.listener import Acceptor

__all__ = ["TlsDoor"]

log = structlog.get_logger(__name__)

WITHIN = 10.0


class TlsDoor(asyncio.Protocol):
    """The protocol of a raw connection, until it is secured; then ``inner`` is."""

    def __init__(self, acceptor: Acceptor, inner: asyncio.Protocol, context: ssl.SSLContext) -> None:
        self._acceptor = acceptor
        self._inner = inner
        self._context = context
        self._early: list[bytes] = []
        self._lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        raw = cast("asyncio.Transport", transport)
        if self._acceptor.enter():
            # Its first bytes are for TLS.
            raw.pause_reading()
            self._acceptor.spawn(self._upgrade, raw)
        else:
            raw.abort()

    async def _upgrade(self, raw: asyncio.Transport) -> None:
        secured: Any = None
        try:
            if not raw.is_closing():
                secured = await asyncio.get_running_loop().start_tls(
                    raw, self, self._context, server_side=True, ssl_handshake_timeout=WITHIN
                )
        except OSError as error:
            log.debug("tls_handshake_failed", peer=str(raw.get_extra_info("peername")), error=str(error))
        finally:
            if self._lost:
                secured = None
            if secured is None:
                raw.abort()
                self._acceptor.limits.leave(admitted=False)
        if secured is not None:
            secured.set_protocol(self._inner)
            self._inner.connection_made(secured)
            for data in self._early:
                self._inner.data_received(data)

    def data_received(self, data: bytes) -> None:
        # In the very turn in which the handshake was over.
        self._early.append(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True

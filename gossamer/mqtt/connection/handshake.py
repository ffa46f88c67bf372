"""TLS handshakes that count: a connection is one of its listener's from the moment it is accepted.

The loop's own TLS server makes the protocol known only after the handshake, so that a thousand clients who
never finish theirs would be nobody's. Here the raw connection is accepted, counted and bounded first
(``max_connections``, ``max_pending``, ``max_connect_rate``), its PROXY header read where it must have one,
then upgraded, in a process of its own that ends with the handshake.

Rules: 1. Whoever was counted in is counted out once: by the channel if it came to be, else here.  2. A
header and a handshake take :data:`WITHIN` seconds at most, each.  3. What came before TLS was there to take
it (behind the header, or because the loop reads whether it was told to or not) is given to it first.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import structlog

from gossamer.mqtt.connection.proxy import ProxyHeaderError, parse_header

if TYPE_CHECKING:
    from gossamer.mqtt.connection.channel import Channel
    from gossamer.mqtt.connection.entrance import Entrance

__all__ = ["TlsDoor"]

log = structlog.get_logger(__name__)

WITHIN = 10.0


class TlsDoor(asyncio.Protocol):
    """The protocol of a raw connection, until it is secured; then ``inner``, which fronts ``channel``, is."""

    def __init__(
        self,
        entrance: Entrance,
        channel: Channel,
        inner: asyncio.Protocol,
        context: ssl.SSLContext,
        *,
        proxied: bool,
        spawn: Callable[..., object],
    ) -> None:
        self._entrance = entrance
        self._channel = channel
        self._inner = inner
        self._context = context
        self._proxied = proxied
        self._spawn = spawn
        self._peer: str | None = None
        self._raw: asyncio.Transport = cast("Any", None)
        self._timer: asyncio.TimerHandle | None = None
        self._waiting = False
        self._held = b""
        """What came in the clear."""
        self._early: list[bytes] | None = None
        """What came through TLS."""
        self._lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        raw = self._raw = cast("asyncio.Transport", transport)
        if (self._proxied and not self._entrance.trusts(raw)) or not self._entrance.let_in():
            self._lost = True
            raw.abort()
        elif self._proxied:
            self._waiting = True
            self._timer = asyncio.get_running_loop().call_later(WITHIN, raw.abort)
        else:
            self._secure()

    def data_received(self, data: bytes) -> None:
        if self._early is not None:
            # In the very turn in which the handshake was over.
            self._early.append(data)
            return
        self._held += data
        if self._waiting:
            self._read_header()

    def _read_header(self) -> None:
        try:
            found = parse_header(self._held)
        except ProxyHeaderError as error:
            self._entrance.no_header(error)
            self._raw.abort()
            return
        if found is not None:
            stop, self._peer = found
            self._held = self._held[stop:]
            self._stop_waiting()
            self._secure()

    def _secure(self) -> None:
        # The bytes that come next are for TLS.
        self._raw.pause_reading()
        self._spawn(self._upgrade, self._raw)

    def _stop_waiting(self) -> None:
        self._waiting = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _upgrade(self, raw: asyncio.Transport) -> None:
        secured: Any = None
        loop = asyncio.get_running_loop()
        try:
            if not raw.is_closing():
                handshake = loop.create_task(
                    loop.start_tls(raw, self, self._context, server_side=True, ssl_handshake_timeout=WITHIN)
                )
                # Once it has begun, and has asked to be told of its connection and to be read for.
                loop.call_soon(self._begun, raw)
                secured = await handshake
        except OSError as error:
            log.debug("tls_handshake_failed", peer=str(raw.get_extra_info("peername")), error=str(error))
        finally:
            if self._lost:
                secured = None
            if secured is None:
                self._entrance.refused("tls_handshake")
                raw.abort()
                self._entrance.leave(admitted=False)
        if secured is not None:
            secured.set_protocol(self._inner)
            self._inner.connection_made(secured)
            if self._peer is not None:
                self._channel.peer = self._peer
            for data in self._early or ():
                self._inner.data_received(data)

    def _begun(self, raw: asyncio.Transport) -> None:
        self._early = []
        held, self._held = self._held, b""
        if held:
            # In the turn in which it is told: before anything else is read.
            asyncio.get_running_loop().call_soon(_feed, raw, held)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True
        if self._waiting:
            # No handshake has begun that would count it out.
            self._stop_waiting()
            self._entrance.leave(admitted=False)


def _feed(raw: asyncio.Transport, data: bytes) -> None:
    """Give TLS what was read before it was there."""
    # What it is called differs from loop to loop.
    tls = cast("asyncio.BufferedProtocol", raw.get_protocol())
    while data and not raw.is_closing():
        buffer = memoryview(tls.get_buffer(len(data)))
        size = min(len(buffer), len(data))
        buffer[:size] = data[:size]
        data = data[size:]
        tls.buffer_updated(size)

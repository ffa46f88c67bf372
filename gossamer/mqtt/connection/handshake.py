"""Handshakes before MQTT on a connection: the PROXY header of a load balancer, and TLS.

**PROXY**, versions 1 and 2: a balancer says first who the client really is. ``UNKNOWN`` and ``LOCAL`` (health
checks of the balancer) leave the connection's own addresses.

**TLS**: the loop's own TLS server makes the protocol known only after the handshake, so that nothing would
count a thousand clients that never finish theirs. Here (:class:`Door`) the raw connection is accepted,
counted and bounded first, its PROXY header read where it must have one, then upgraded, in a process of its
own that ends with the handshake.

Rules: 1. Only balancers are believed: a connection from elsewhere than ``proxy_sources``, and one without a
header, is closed; else anybody could forge an address.  2. At most 536 bytes of a header are held (the
specification's bound of version 2's useful part); checksums and other extensions are skipped.  3. A
connection that was counted in is counted out once: by its channel if there is one, else here.  4. A header
and a handshake take :data:`HANDSHAKE_TIMEOUT` seconds at most, each.  5. What came before TLS was there to
take it (behind the header, or because the loop reads whether it was told to or not) is given to it first.
"""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
from collections.abc import Callable
from typing import cast

from gossamer.errors import PeerError
from gossamer.handshakes import Securing
from gossamer.mqtt.connection.channel import Channel
from gossamer.mqtt.connection.limits import Entrance

HANDSHAKE_TIMEOUT = 10.0
V1_LIMIT = 107
V2_LIMIT = 536
SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"


class ProxyHeaderError(PeerError):
    """Bytes at the start of a connection that are not a PROXY header."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(f"expected a PROXY header: {why}; is it the balancer that connects?")


def parse_header(data: bytes) -> tuple[int, str | None] | None:
    """The header's length and the client as ``host:port`` (None: not told); None while it is not whole.

    Raises:
        ProxyHeaderError: it is no such header.
    """
    if data.startswith(SIGNATURE[: len(data)]):
        return _version_2(data)
    if data.startswith(b"PROXY "[: len(data)]):
        return _version_1(data)
    raise ProxyHeaderError(f"it starts with {data[:12].hex(' ')}")


def _version_1(data: bytes) -> tuple[int, str | None] | None:
    stop = data.find(b"\r\n", 0, V1_LIMIT)
    if stop < 0:
        if len(data) >= V1_LIMIT:
            raise ProxyHeaderError("the first line does not end")
        return None
    words = data[:stop].split(b" ")
    if words[1] == b"UNKNOWN":
        return stop + 2, None
    if len(words) != 6 or words[1] not in (b"TCP4", b"TCP6"):
        raise ProxyHeaderError(f"{len(words)} words, expected PROXY TCP4|TCP6 and two addresses and ports")
    try:
        host = ipaddress.ip_address(words[2].decode())
        port = int(words[4])
    except ValueError:
        raise ProxyHeaderError("its addresses cannot be read") from None
    if host.version != (4 if words[1] == b"TCP4" else 6) or not 0 <= port <= 65535:
        raise ProxyHeaderError("its addresses cannot be right")
    return stop + 2, _text(host, port)


def _version_2(data: bytes) -> tuple[int, str | None] | None:
    if len(data) < 16:
        return None
    stop = 16 + int.from_bytes(data[14:16], "big")
    if data[12] >> 4 != 2 or data[12] & 15 > 1:
        raise ProxyHeaderError(f"version and command 0x{data[12]:02X}")
    if stop > V2_LIMIT:
        raise ProxyHeaderError(f"{stop} bytes long")
    if len(data) < stop:
        return None
    size = {0x11: 4, 0x21: 16}.get(data[13])
    if data[12] & 15 == 0 or size is None:
        return stop, None
    if stop < 16 + 2 * size + 4:
        raise ProxyHeaderError("it is too short for its addresses")
    port = int.from_bytes(data[16 + 2 * size : 18 + 2 * size], "big")
    return stop, _text(ipaddress.ip_address(data[16 : 16 + size]), port)


def _text(host: ipaddress.IPv4Address | ipaddress.IPv6Address, port: int) -> str:
    return f"[{host}]:{port}" if host.version == 6 else f"{host}:{port}"


class Door(Securing):
    """Protocol of a connection until MQTT may begin; then ``inner``, which is or fronts ``channel``, takes
    over.

    ``proxied``: a header comes first. ``context``: TLS comes next; where there is none, the channel is there
    from the start, counts against the limits and bounds the patience. ``spawn`` runs a function as a process.
    """

    def __init__(
        self,
        entrance: Entrance,
        channel: Channel,
        inner: asyncio.Protocol,
        *,
        proxied: bool,
        context: ssl.SSLContext | None,
        spawn: Callable[..., object],
    ) -> None:
        super().__init__()
        self._entrance = entrance
        self._channel = channel
        self._inner = inner
        self._context = context
        self._spawn = spawn
        self._peer: str | None = None
        self._raw: asyncio.Transport
        self._timer: asyncio.TimerHandle | None = None
        self._proxied = proxied
        """Its header has not all come."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        raw = self._raw = self._channel.transport = cast("asyncio.Transport", transport)
        trusted = not self._proxied or self._entrance.trusts(raw)
        if not trusted or (self._context is not None and not self._entrance.let_in(self._channel)):
            self._lost = True
            raw.abort()
        elif self._context is None:
            self._inner.connection_made(raw)
        elif self._proxied:
            self._timer = asyncio.get_running_loop().call_later(HANDSHAKE_TIMEOUT, raw.abort)
        else:
            self._secure(self._context)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._lost or not self._proxied:
            return
        try:
            found = parse_header(self._held)
        except ProxyHeaderError as error:
            self._entrance.no_header(error)
            self._raw.abort()
            return
        if found is not None:
            stop, self._peer = found
            self._held = self._held[stop:]
            self._proxied = False
            self._header_read()

    def _header_read(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._context is not None:
            self._secure(self._context)
            return
        if self._peer is not None:
            self._channel.peer = self._peer
        self._raw.set_protocol(self._inner)
        if self._held:
            self._inner.data_received(self._held)

    def _secure(self, context: ssl.SSLContext) -> None:
        # The bytes that come next are for TLS.
        self._raw.pause_reading()
        self._spawn(self._shake, self._raw, context)

    async def _shake(self, raw: asyncio.Transport, context: ssl.SSLContext) -> None:
        secured = None
        try:
            secured = await self._upgrade(raw, context, HANDSHAKE_TIMEOUT)
        finally:
            if secured is None:
                self._entrance.refused("tls_handshake")
                self._entrance.leave(self._channel)
        if secured is not None:
            secured.set_protocol(self._inner)
            self._inner.connection_made(secured)
            if self._peer is not None:
                self._channel.peer = self._peer
            self._catch_up(self._inner)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._context is None and not self._lost:
            self._inner.connection_lost(exc)
        elif self._proxied and not self._lost:
            # No handshake has begun that would count it out.
            if self._timer is not None:
                self._timer.cancel()
            self._entrance.leave(self._channel)
        self._lost = True

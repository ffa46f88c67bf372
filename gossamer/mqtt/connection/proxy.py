"""The PROXY protocol, versions 1 and 2: a load balancer says first who the client really is.

The connection's protocol is :class:`ProxyHeader` until the header is whole, then the channel itself; nothing
stands between socket and channel afterwards. A header names addresses of TCP over IPv4 or IPv6; ``UNKNOWN``
and ``LOCAL`` (health checks of the balancer) leave the connection's own.

Rules: 1. Only balancers are believed: a connection from elsewhere than ``proxy_sources``, and one without a
header, is closed; else anybody could say who he is.  2. At most 536 bytes are held (the specification's bound
of version 2's useful part).  3. Checksums and other extensions are skipped.  4. Where the listener speaks
TLS, the header comes before it (``handshake`` reads it).
"""

from __future__ import annotations

import asyncio
import ipaddress
from typing import TYPE_CHECKING, Any, cast

from gossamer.errors import PeerError

if TYPE_CHECKING:
    from gossamer.mqtt.connection.channel import Channel
    from gossamer.mqtt.connection.entrance import Entrance

__all__ = ["ProxyHeader", "ProxyHeaderError", "parse_header"]

V1_LIMIT = 107
V2_LIMIT = 536
SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"


class ProxyHeaderError(PeerError):
    """What came is not a PROXY header."""

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


class ProxyHeader(asyncio.Protocol):
    """Reads the header, then hands the connection to ``inner``, which fronts or is ``channel``."""

    def __init__(self, channel: Channel, inner: asyncio.Protocol, entrance: Entrance) -> None:
        self._channel = channel
        self._inner = inner
        self._entrance = entrance
        self._held = b""
        self._refused = False
        self._transport: asyncio.Transport = cast("Any", None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if self._entrance.trusts(self._transport):
            # The channel is there from the start: it counts against the limits, and its patience is bounded.
            self._inner.connection_made(transport)
        else:
            self._refused = True
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        self._held += data
        try:
            found = parse_header(self._held)
        except ProxyHeaderError as error:
            self._entrance.no_header(error)
            self._transport.abort()
            return
        if found is None:
            return
        stop, peer = found
        if peer is not None:
            self._channel.peer = peer
        rest, self._held = self._held[stop:], b""
        self._transport.set_protocol(self._inner)
        if rest:
            self._inner.data_received(rest)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._refused:
            self._inner.connection_lost(exc)

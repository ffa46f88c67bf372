"""Channels over plain stream connections: each message prefixed with its length, four bytes, big-endian.

The simulator uses them, and real nodes can where HTTP/2 is not wanted. With ``certificates`` the connections
are encrypted, and both ends show who they are; the channel binding is then the hash of the caller's
certificate, which both know.
"""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections.abc import Callable
from typing import cast

from gossamer.distribution.errors import LinkLostError, TlsError
from gossamer.distribution.transport.certificates import LinkCertificates, Names, host_of
from gossamer.distribution.transport.transport import Handler, LinkListener, Opener, not_reached, show
from gossamer.distribution.wire import HANDSHAKE_LIMIT
from gossamer.network import Address, Listener, Network

_HEADER = 4


class _StreamChannel(asyncio.Protocol):
    """Connection; both the protocol below and the channel above."""

    def __init__(
        self,
        handler: Opener,
        peers: set[_StreamChannel],
        certificates: LinkCertificates | None,
        address: str = "",
        binding: bytes = b"",
    ) -> None:
        self.limit = HANDSHAKE_LIMIT
        self.handler: Handler = handler
        self._opener = handler
        self._peers = peers
        self.address = address
        self._certificates = certificates
        # A caller's own binding; who is called asks the connection for it.
        self._binding = binding
        self._heard = False
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray()
        self._paused = False
        self._full = False
        self.closing = False
        """True while it closes, once everything is written."""
        self._flush_due = False
        self._failure: str | None = None

    @property
    def binding(self) -> bytes:
        shown = self._shown()
        return self._binding or (hashlib.sha256(shown).digest() if shown else b"")

    @property
    def names(self) -> Names | None:
        shown = self._shown()
        return Names.of(shown) if shown else None

    def _shown(self) -> bytes | None:
        """Return the other side's certificate."""
        transport = self._transport
        tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object") if transport else None
        return tls.getpeercert(binary_form=True) if tls else None

    # The channel, for the handler above.

    def wake(self) -> None:
        if not self._flush_due and self._transport:
            self._flush_due = True
            self._loop.call_soon(self._flush)

    def pause(self) -> None:
        if not self._paused and self._transport:
            self._paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._paused and self._transport:
            self._paused = False
            self._transport.resume_reading()

    def close(self) -> None:
        self.closing = True
        self.wake()

    def abort(self) -> None:
        if self._transport:
            self._transport.abort()

    # The protocol, for the connection below.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._peers.add(self)
        if not self.address:
            peer = transport.get_extra_info("peername")
            self.address = show((peer[0], peer[1])) if peer else "unknown"
        self._opener.opened(self)

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        self._heard = True
        messages: list[bytes] = []
        start, have = 0, len(buffer)
        while have - start >= _HEADER:
            size = int.from_bytes(buffer[start : start + _HEADER], "big")
            if size > self.limit and messages:
                # The handshake may end with one of them, and set another limit.
                self.handler.received(messages)
                messages = []
            if size > self.limit:
                self._failure = f"a message of {size} bytes, expected at most {self.limit}"
                self.abort()
                return
            end = start + _HEADER + size
            if have < end:
                break
            messages.append(bytes(memoryview(buffer)[start + _HEADER : end]))
            start = end
        if start:
            del buffer[:start]
        if messages:
            self.handler.received(messages)

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        self.wake()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._peers.discard(self)
        detail = self._failure or (str(exc) or type(exc).__name__ if exc else "")
        if not detail and self._buffer:
            detail = "closed in the middle of a message"
        error: LinkLostError | TlsError | None = None
        if detail:
            error = LinkLostError(address=self.address, kind="reset", detail=detail)
        if self._certificates and self._binding and not self._heard and not self.closing:
            # In TLS 1.3 a caller is open before its own certificate has been looked at.
            why = detail or "the connection closed in the TLS handshake"
            error = self._certificates.not_shown(self.address, why)
        self.handler.closed(error)

    def _flush(self) -> None:
        self._flush_due = False
        transport = self._transport
        if transport is None or self._full or transport.is_closing():
            return
        message = self.handler.pull()
        if message is not None:
            transport.write(len(message).to_bytes(_HEADER, "big") + message)
        if self.closing and not self._flush_due:
            transport.close()


class _StreamListener:
    def __init__(self, listener: Listener, peers: set[_StreamChannel]) -> None:
        self._listener = listener
        self._peers = peers

    @property
    def address(self) -> Address:
        return self._listener.address

    async def close(self) -> None:
        self._listener.close()
        for channel in list(self._peers):
            channel.abort()


class StreamTransport:
    """Channels over ``network``, plain or with ``certificates``."""

    def __init__(self, network: Network, *, certificates: LinkCertificates | None = None) -> None:
        self._network = network
        self._certificates = certificates
        self._open: set[_StreamChannel] = set()

    async def listen(self, address: Address, accept: Callable[[], Opener]) -> LinkListener:
        accepted: set[_StreamChannel] = set()
        certificates = self._certificates
        listener = await self._network.listen(
            lambda: _StreamChannel(accept(), accepted, certificates),
            address,
            tls=certificates.server if certificates else None,
        )
        return _StreamListener(listener, accepted)

    async def connect(self, address: Address, handler: Opener, node: str = "") -> None:
        shown, certificates = show(address), self._certificates
        # Once: its files may be read again meanwhile.
        identity = certificates.identity if certificates else None
        binding = identity.binding if identity else b""
        host = host_of(node) or address[0]
        try:
            await self._network.connect(
                lambda: _StreamChannel(handler, self._open, certificates, shown, binding),
                address,
                tls=identity.context if identity else None,
                tls_name=host if identity else None,
            )
        except ssl.SSLCertVerificationError as error:
            assert certificates is not None  # noqa: S101 - only TLS raises it
            handler.closed(certificates.not_believed(shown, error.verify_message, node or host))
        except (ssl.SSLError, ConnectionResetError, ConnectionAbortedError) as error:
            lost = certificates.not_shown(shown, str(error)) if certificates else not_reached(shown, error)
            handler.closed(lost)
        except OSError as error:
            handler.closed(not_reached(shown, error))

    async def close(self) -> None:
        for channel in list(self._open):
            if not channel.closing:
                channel.abort()

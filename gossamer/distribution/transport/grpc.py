"""Channels over gRPC: one bidirectional stream of raw bytes each, on HTTP/2, through grpc.aio.

One generic method, ``/gossamer.Distribution/Channel``, with no serializer: the messages are msgpack already
(:mod:`~gossamer.distribution.wire`), and a protobuf envelope around opaque bytes would only copy them.

A gRPC message costs about 60 µs of Python whatever its length, so the writer pulls everything that gathered
while the previous message was written. gRPC buffers a message until it is complete, whoever sends it, so long
messages travel in pieces, and an unauthenticated caller can have one piece buffered. A connection carries one
stream; those that carry none are bounded and end (:mod:`~gossamer.distribution.transport.grpc_idle`).

Every channel has a connection of its own (a local subchannel pool), which also disables gRPC's own reconnect
back-off: the link above decides when to retry. Keepalive pings detect a peer whose host vanished without a
reset. Ports are bound exclusively, so that a second node on the same port is an error and not a coin toss.
With ``certificates`` it is mTLS (:mod:`~gossamer.distribution.transport.grpc_tls`).
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from urllib.parse import unquote

import grpc
import grpc.aio

from gossamer.distribution.errors import LinkLostError, TlsError
from gossamer.distribution.transport.certificates import Identity, LinkCertificates, Names, host_of
from gossamer.distribution.transport.grpc_idle import end_idle, max_connections
from gossamer.distribution.transport.grpc_tls import ServerTls, credentials_of, tls_error
from gossamer.distribution.transport.relay import Relay
from gossamer.distribution.transport.transport import Handler, LinkListener, Opener, not_reached, show
from gossamer.distribution.wire import HANDSHAKE_LIMIT
from gossamer.network import Address, Network, SystemNetwork

_SERVICE = "gossamer.Distribution"
_METHOD = "Channel"
_LINGER = 1.0
PIECE = 288 * 1024
"""Bytes of a piece: another one follows, unless it is shorter. A full batch fits into one: in pieces of
64 KiB a node forwarded a quarter less."""

_OPTIONS = [
    ("grpc.max_receive_message_length", PIECE),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.enable_http_proxy", 0),
]
_CLIENT_OPTIONS = [*_OPTIONS, ("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0)]
_IDLE_MS = 5_000
_SERVER_OPTIONS = [
    *_OPTIONS,
    ("grpc.so_reuseport", 0),
    ("grpc.max_concurrent_streams", 1),
    ("grpc.max_connection_idle_ms", _IDLE_MS),
    ("grpc.server_handshake_timeout_ms", _IDLE_MS),
]


class _GrpcChannel:
    """Either end of a stream: a reader and a writer around one handler."""

    def __init__(
        self, handler: Opener, address: str, binding: bytes = b"", names: Names | None = None
    ) -> None:
        self.limit = HANDSHAKE_LIMIT
        self.handler: Handler = handler
        self._opener = handler
        self.address = address
        self.binding = binding
        self.names = names
        self._work = asyncio.Event()
        self._reading = asyncio.Event()
        self._reading.set()
        self._aborted = asyncio.Event()
        self._closing = False
        self._heard = False
        self._failure: str | None = None

    def wake(self) -> None:
        self._work.set()

    def pause(self) -> None:
        self._reading.clear()

    def resume(self) -> None:
        self._reading.set()

    def close(self) -> None:
        self._closing = True
        self._work.set()

    def abort(self) -> None:
        self._aborted.set()

    @property
    def closing(self) -> bool:
        """True if this side ended it in order."""
        return self._closing and not self._failure and not self._aborted.is_set()

    async def run(
        self, read: Callable[[], Awaitable[object]], write: Callable[[bytes], Awaitable[None]]
    ) -> None:
        """Carry messages until either side ends it; the handler gets the reason."""
        tasks = {
            asyncio.ensure_future(self._read(read)),
            asyncio.ensure_future(self._write(write)),
            asyncio.ensure_future(self._aborted.wait()),
        }
        try:
            self._opener.opened(self)
            ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                if error := task.exception():
                    self._failure = self._failure or _detail(error)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def ended(self, tls: tuple[LinkCertificates, str] | None = None) -> None:
        """Notify the handler, once the call is over; ``tls``: of a caller, with the name it expected."""
        error: LinkLostError | TlsError | None = None
        if self._failure:
            # gRPC gives a failed connect and a lost one the same code; the text tells them apart.
            refused = "refused" in self._failure.lower()
            kind = "reset" if self._heard else "refused" if refused else "unreachable"
            error = LinkLostError(address=self.address, kind=kind, detail=self._failure)
            if tls is not None and kind == "unreachable":
                error = tls_error(*tls, self.address, self._failure) or error
        self.handler.closed(error)

    async def _read(self, read: Callable[[], Awaitable[object]]) -> None:
        pieces: list[bytes] = []
        size = 0
        while True:
            await self._reading.wait()
            piece = await read()
            if not isinstance(piece, bytes):
                # gRPC's end of stream.
                return
            self._heard = True
            size += len(piece)
            if size > self.limit:
                self._failure = f"a message of {size} bytes, expected at most {self.limit}"
                return
            pieces.append(piece)
            if len(piece) < PIECE:
                self.handler.received([b"".join(pieces)])
                pieces, size = [], 0

    async def _write(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        while True:
            await self._work.wait()
            self._work.clear()
            while (message := self.handler.pull()) is not None:
                for start in range(0, len(message) + 1, PIECE):
                    await write(message[start : start + PIECE])
            if self._closing:
                return


def address_of(peer: str) -> str:
    """Return a caller's address as other transports write it, ``host:port``, from gRPC's name of it."""
    kind, _, rest = peer.partition(":")
    # The brackets of IPv6 are escaped as in a URI. Others, such as Unix sockets, have no port.
    return unquote(rest) if kind in ("ipv4", "ipv6") else peer


def _detail(error: BaseException) -> str:
    if isinstance(error, grpc.aio.AioRpcError):
        return str(error.details() or error.code().name)
    return str(error) or type(error).__name__


class _GrpcListener:
    def __init__(self) -> None:
        self.live: set[_GrpcChannel] = set()
        self.closing = False

    async def start(self, server: grpc.aio.Server, address: Address) -> None:
        self._server = server
        self.address = address
        await server.start()
        self._idle = asyncio.ensure_future(
            end_idle(address[1], lambda: [channel.address for channel in self.live], _IDLE_MS / 1000)
        )

    async def close(self) -> None:
        self.closing = True
        self._idle.cancel()
        for channel in list(self.live):
            channel.abort()
        # The aborted calls end in the next turns; stopping at once would make gRPC log each.
        await self._server.stop(_LINGER)


class GrpcTransport:
    """Channels over gRPC, plain or with ``certificates``.

    gRPC opens its own sockets. With a ``network``, connections go through it instead, by a local relay: for
    drills, whose faults act on the network.
    """

    def __init__(
        self, *, certificates: LinkCertificates | None = None, network: Network | None = None
    ) -> None:
        self._certificates = certificates
        self._shown: tuple[Identity, grpc.ChannelCredentials] | None = None
        self._relay = None if network is None else Relay(network)
        # Strong references: the loop holds tasks weakly.
        self._calls: set[asyncio.Task[None]] = set()
        self._dialled: set[_GrpcChannel] = set()

    async def listen(self, address: Address, accept: Callable[[], Opener]) -> LinkListener:
        # gRPC does not say why it cannot bind, and writes to standard error itself.
        (await SystemNetwork().listen(asyncio.Protocol, address)).close()
        listener = _GrpcListener()
        server_tls = None if self._certificates is None else ServerTls(self._certificates)

        async def serve(_: AsyncIterator[bytes], context: Any) -> None:
            if listener.closing:
                return
            shown = None if server_tls is None else server_tls.opened(context)
            if server_tls is not None and shown is None:
                return
            channel = _GrpcChannel(accept(), address_of(context.peer()), *(shown or ()))
            listener.live.add(channel)
            try:
                await channel.run(context.read, context.write)
            finally:
                listener.live.discard(channel)
                channel.ended()

        most = ("grpc.max_allowed_incoming_connections", max_connections())
        server = grpc.aio.server(options=[*_SERVER_OPTIONS, most])
        method = grpc.stream_stream_rpc_method_handler(serve)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, {_METHOD: method}),))
        where = show(address)
        try:
            if server_tls is not None:
                port = server.add_secure_port(where, server_tls.credentials())
            else:
                port = server.add_insecure_port(where)
        except RuntimeError as error:
            await server.stop(None)
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE)) from error
        await listener.start(server, (address[0], port))
        return listener

    async def connect(self, address: Address, handler: Opener, node: str = "") -> None:
        shown = target = show(address)
        if self._relay is not None:
            try:
                target = await self._relay.open(address)
            except OSError as error:
                handler.closed(not_reached(shown, error))
                return
        identity = None if self._certificates is None else self._certificates.identity
        channel = _GrpcChannel(handler, shown, identity.binding if identity else b"")
        task = asyncio.ensure_future(self._dial(target, channel, identity, node or address[0]))
        self._calls.add(task)
        self._dialled.add(channel)
        task.add_done_callback(self._calls.discard)

    async def close(self) -> None:
        for channel in list(self._dialled):
            if not channel.closing:
                channel.abort()
        if self._calls:
            await asyncio.wait(set(self._calls))

    async def _dial(self, target: str, channel: _GrpcChannel, identity: Identity | None, name: str) -> None:
        if identity is None:
            connection = grpc.aio.insecure_channel(target, options=_CLIENT_OPTIONS)
        else:
            options = [*_CLIENT_OPTIONS, ("grpc.ssl_target_name_override", host_of(name))]
            if self._shown is None or self._shown[0] is not identity:
                # Once: gRPC parses the certificates for each that it is given.
                self._shown = identity, credentials_of(identity)
            connection = grpc.aio.secure_channel(target, self._shown[1], options)
        try:
            async with connection:
                call = connection.stream_stream(f"/{_SERVICE}/{_METHOD}")()
                await channel.run(call.read, call.write)
                if channel.closing:
                    # A cancellation could overtake the last message: let the other side end the call.
                    with contextlib.suppress(TimeoutError, grpc.aio.AioRpcError):
                        async with asyncio.timeout(_LINGER):
                            await call.done_writing()
                            await call.code()
                call.cancel()
        finally:
            self._dialled.discard(channel)
            channel.ended(None if self._certificates is None else (self._certificates, name))

"""One boot of a simulated host: its sockets, its clock, and its kinds of crash.

Implements :class:`gossamer.network.Network`. Rules: 1. A host that has crashed never comes back: a restart
makes a new boot at the same address, and code that still runs on the old one is isolated.  2. A name is an
address; ``127.0.0.1`` and ``localhost`` are visible only on the host itself, ``0.0.0.0``, ``::`` and the
empty string bind both.  3. Errors are those of real sockets.  4. A datagram is delivered whole, late, twice
or not at all, never altered; sending it never blocks, and never fails for a peer's sake.
"""

from __future__ import annotations

import asyncio
import contextvars
import errno
import os
import ssl
from collections.abc import Callable
from typing import TypeVar, cast

from gossamer.errors import UsageError
from gossamer.network import Address
from gossamer.testing.medium import ANY, HEADERS, LOOPBACK, Boot, Crash, Medium, binds
from gossamer.testing.streams import SimTransport

LARGEST_DATAGRAM = 65_507
P = TypeVar("P", bound=asyncio.BaseProtocol)
Data = bytes | bytearray | memoryview


class SimDatagramTransport(asyncio.DatagramTransport):
    """A bound socket on one boot of one host."""

    def __init__(self, host: Boot, local: Address, context: contextvars.Context) -> None:
        super().__init__({"sockname": local, "socket": None})
        self._host = host
        self._context = context
        self._protocol: asyncio.DatagramProtocol | None = None
        self._closing = False
        self.local = local

    def open(self, protocol: asyncio.BaseProtocol) -> None:
        self.set_protocol(protocol)
        self._host.sockets[self.local] = self.deliver
        self._context.run(protocol.connection_made, self)

    def sendto(self, data: Data, addr: Address | None = None) -> None:  # type: ignore[override]
        if self._closing or self._protocol is None or not self._host.alive:
            return
        if addr is None:
            raise ValueError("sendto() of an unconnected datagram socket needs an address")
        if len(data) > LARGEST_DATAGRAM:
            error = OSError(errno.EMSGSIZE, f"datagram of {len(data)} bytes, at most {LARGEST_DATAGRAM}")
            self._host.sim.loop.call_soon(self._protocol.error_received, error, context=self._context)
            return
        self._host.sim.carry_datagram(self._host, self.local, (addr[0], addr[1]), bytes(data))

    def deliver(self, data: bytes, sender: Address) -> None:
        protocol = self._protocol
        if self._closing or protocol is None or not self._host.alive:
            return
        if self._host.postpones(lambda: self.deliver(data, sender)):
            return
        try:
            self._context.run(protocol.datagram_received, data, sender)
        except Exception as error:  # noqa: BLE001
            message = "Exception in a datagram protocol's datagram_received()."
            self._host.sim.report(message, error, transport=self, protocol=protocol)

    def is_closing(self) -> bool:
        return self._closing or not self._host.alive

    def close(self) -> None:
        if self.is_closing():
            return
        self._closing = True
        self._host.sockets.pop(self.local, None)
        protocol = self._protocol
        if protocol is not None:
            self._host.sim.loop.call_soon(protocol.connection_lost, None, context=self._context)

    def abort(self) -> None:
        self.close()

    def get_write_buffer_size(self) -> int:
        return 0

    def get_protocol(self) -> asyncio.BaseProtocol:
        if self._protocol is None:
            raise RuntimeError(f"{self!r} has no protocol")
        return self._protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = cast("asyncio.DatagramProtocol", protocol)

    def __repr__(self) -> str:
        return f"<SimDatagramTransport {self.local[0]}:{self.local[1]}>"


_FIRST_EPHEMERAL = 49_152


def _refuse(tls: ssl.SSLContext | None) -> None:
    if tls is not None:
        raise UsageError("simulated streams carry no TLS; expected tls=None, test TLS on real sockets")


def _os_error(number: int, where: Address) -> OSError:
    return OSError(number, f"{os.strerror(number)}: {where[0]}:{where[1]}")


def _clash(one: Address, other: Address) -> bool:
    return one[1] == other[1] and (binds(one[0], other[0]) or binds(other[0], one[0]))


class SimListener:
    """Implements :class:`gossamer.network.Listener`."""

    def __init__(
        self,
        host: SimHost,
        factory: Callable[[], asyncio.BaseProtocol],
        address: Address,
        *,
        context: contextvars.Context,
        reuse_port: bool,
    ) -> None:
        self._host = host
        self._factory = factory
        self._context = context
        self.address = address
        self.reuse_port = reuse_port
        self.closed = False

    def close(self) -> None:
        self.closed = True
        self._host.unlisten(self)

    def incoming(self, client: SimTransport, loopback: bool) -> None:
        """Make the accepting end upon a client's first packet."""
        if client.peer is not None:
            return
        server = SimTransport(
            self._host,
            local=client.remote if loopback else (self._host.address, self.address[1]),
            remote=client.local,
            context=self._context.copy(),
            accepts=self._accept,
        )
        server.peer = client
        client.peer = server

    def _accept(self) -> asyncio.BaseProtocol | None:
        if self.closed or not self._host.alive:
            return None
        try:
            return self._context.run(self._factory)
        except Exception as error:  # noqa: BLE001
            self._host.sim.report(f"Exception in a protocol factory at {self.address}.", error)
            return None


class SimHost(Boot):
    """One boot of one host; ``rng`` and ``clock`` are for what runs on it."""

    def __init__(self, sim: Medium, address: str, number: int, *, skew: float, drift: float) -> None:
        super().__init__(sim, address, number, skew=skew, drift=drift)
        self._listeners: list[SimListener] = []
        self._next_port = _FIRST_EPHEMERAL

    # -- gossamer.network.Network ---------------------------------------------------------------------

    async def open_datagram(
        self, factory: Callable[[], P], address: Address
    ) -> tuple[asyncio.DatagramTransport, P]:
        self._check_alive(address)
        bound = self._bindable(address)
        if any(_clash(bound, other) for other in self.sockets):
            raise _os_error(errno.EADDRINUSE, bound)
        transport = SimDatagramTransport(self, bound, contextvars.copy_context())
        protocol = factory()
        transport.open(protocol)
        return transport, protocol

    async def listen(
        self,
        factory: Callable[[], asyncio.BaseProtocol],
        address: Address,
        *,
        tls: ssl.SSLContext | None = None,
        backlog: int = 1024,
        reuse_port: bool = False,
    ) -> SimListener:
        _refuse(tls)
        self._check_alive(address)
        bound = self._bindable(address)
        for other in self._listeners:
            if _clash(bound, other.address) and not (reuse_port and other.reuse_port):
                raise _os_error(errno.EADDRINUSE, bound)
        context = contextvars.copy_context()
        listener = SimListener(self, factory, bound, context=context, reuse_port=reuse_port)
        self._listeners.append(listener)
        return listener

    async def listen_unix(
        self, factory: Callable[[], asyncio.BaseProtocol], path: str, *, backlog: int = 1024
    ) -> SimListener:
        raise OSError(errno.EOPNOTSUPP, "simulated hosts have no Unix sockets")

    async def connect(
        self,
        factory: Callable[[], P],
        address: Address,
        *,
        tls: ssl.SSLContext | None = None,
        tls_name: str | None = None,
    ) -> tuple[asyncio.Transport, P]:
        _refuse(tls)
        self._check_alive(address)
        remote = (address[0], address[1])
        loopback = remote[0] in LOOPBACK or remote[0] == self.address
        if not loopback and remote[0] not in self.sim.boots:
            raise _os_error(errno.EHOSTUNREACH, remote)
        local = (remote[0] if loopback else self.address, self._ephemeral_port())
        client = SimTransport(self, local=local, remote=remote, context=contextvars.copy_context())
        try:
            await self._handshake(client, remote, loopback)
            protocol = factory()
        except BaseException:
            client.reset_peer()
            raise
        client.open(protocol)
        return client, protocol

    async def _handshake(self, client: SimTransport, remote: Address, loopback: bool) -> None:
        """Knock until answered, refused, or out of time."""
        loop = self.sim.loop
        answer: asyncio.Future[None] = loop.create_future()
        limits = self.sim.limits
        target = self.address if loopback else remote[0]
        wait = limits.connect_first
        deadline = loop.time() + limits.connect_timeout
        while True:
            self._knock(target, client, answer, loopback)
            left = deadline - loop.time()
            await asyncio.wait({answer}, timeout=min(wait, left))
            if answer.done():
                answer.result()
                return
            if loop.time() >= deadline:
                raise TimeoutError(errno.ETIMEDOUT, f"Connect call timed out: {remote[0]}:{remote[1]}")
            wait *= 2

    def _knock(self, target: str, client: SimTransport, answer: asyncio.Future[None], loopback: bool) -> None:
        """Send a connection's first packet; the answer to it comes back in a while, if it does."""
        sim = self.sim

        def arrive() -> None:
            host = sim.kernel(target)
            if not isinstance(host, SimHost) or sim.links.is_cut(self.address, target):
                return
            listener = host._listener_for(client.remote) if host.alive else None
            if listener is None:
                sim.note("refuse", target, self.address)
            else:
                listener.incoming(client, loopback)
            sim.carry_stream("answer", host, self, HEADERS, 0.0, lambda: answered(listener is not None))

        def answered(accepted: bool) -> None:
            if answer.done():
                return
            if accepted:
                answer.set_result(None)
            else:
                answer.set_exception(_os_error(errno.ECONNREFUSED, client.remote))

        now = sim.loop.time()
        delay = sim.links.segment(self.address, target, HEADERS, now, sim.limits.resend_first)
        sim.note("connect" if delay is not None else "cut:connect", self.address, target)
        if delay is not None:
            sim.loop.call_later(delay, arrive, context=sim.context)

    def _listener_for(self, address: Address) -> SimListener | None:
        """Return the listener at ``address``; of several that share the port a random one."""
        found = [
            one
            for one in self._listeners
            if one.address[1] == address[1] and binds(one.address[0], address[0])
        ]
        return self.rng.choice(found) if len(found) > 1 else found[0] if found else None

    # -- death ----------------------------------------------------------------------------------------

    def crash(self, how: Crash = "kill") -> None:
        """Stop everything on this host without calling its protocols, as for a killed process."""
        if not self.alive:
            return
        self.thaw()
        self.alive = False
        self.answers = how != "silence"
        self.sim.note(f"crash:{how}", self.address)
        self._listeners.clear()
        self.sockets.clear()
        for die in list(self.connections):
            die(how)

    # -- bookkeeping ----------------------------------------------------------------------------------

    def unlisten(self, listener: SimListener) -> None:
        if listener in self._listeners:
            self._listeners.remove(listener)

    def _check_alive(self, address: Address) -> None:
        if not self.alive:
            raise _os_error(errno.ENETDOWN, (address[0], address[1]))

    def _bindable(self, address: Address) -> Address:
        host, port = address[0], address[1]
        if host not in ANY and host not in LOOPBACK and host != self.address:
            raise _os_error(errno.EADDRNOTAVAIL, (host, port))
        return host, port or self._ephemeral_port()

    def _ephemeral_port(self) -> int:
        taken = {listener.address[1] for listener in self._listeners} | {port for _, port in self.sockets}
        while self._next_port in taken:
            self._next_port += 1
        self._next_port += 1
        return self._next_port - 1

"""One boot of one simulated host: its sockets, its clock, and the ways in which it dies.

Implements :class:`gossamer.network.Network`. Rules: 1. A host that has crashed never comes back: a restart
makes a new boot at the same address, and what still runs of the old one reaches nobody.  2. A name is an
address; ``127.0.0.1`` and ``localhost`` are seen from the host itself only, ``0.0.0.0``, ``::`` and the
empty string bind both.  3. Errors are those of real sockets.
"""

from __future__ import annotations

import asyncio
import contextvars
import errno
import os
import ssl
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Literal, TypeVar, cast

from gossamer.errors import UsageError
from gossamer.network import Address
from gossamer.testing.clock import SimClock
from gossamer.testing.datagrams import SimDatagramTransport
from gossamer.testing.streams import SimTransport

if TYPE_CHECKING:
    from gossamer.testing.loop import VirtualTimeLoop
    from gossamer.testing.network import SimNetwork

__all__ = ["Crash", "SimHost", "SimListener", "SimulatedTLSError"]

P = TypeVar("P", bound=asyncio.BaseProtocol)

Crash = Literal["kill", "reset", "silence"]
"""How a host dies. ``kill``: the process dies, its kernel ends its connections in order and refuses new
ones. ``reset``: as before, but connections are reset. ``silence``: the machine dies and says nothing."""

_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_ANY = ("", "0.0.0.0", "::")  # noqa: S104  what a simulated socket may bind
_FIRST_EPHEMERAL = 49_152


class SimulatedTLSError(UsageError):
    """TLS was asked of a simulated stream."""

    def __init__(self) -> None:
        super().__init__("simulated streams carry no TLS; expected tls=None, test TLS on real sockets")


def _os_error(number: int, where: Address) -> OSError:
    return OSError(number, f"{os.strerror(number)}: {where[0]}:{where[1]}")


class SimListener:
    """Implements :class:`gossamer.network.Listener`."""

    def __init__(
        self,
        host: SimHost,
        factory: Callable[[], asyncio.BaseProtocol],
        address: Address,
        *,
        context: contextvars.Context,
        backlog: int,
        reuse_port: bool,
    ) -> None:
        self._host = host
        self._factory = factory
        self._address = address
        self._context = context
        self._opening: set[SimTransport] = set()
        self.backlog = backlog
        self.reuse_port = reuse_port
        self.closed = False

    @property
    def address(self) -> Address:
        return self._address

    def close(self) -> None:
        self.closed = True
        self._host.unlisten(self)

    def answers(self, host: str) -> bool:
        """Is this the listener for a connection to ``host``, as the connecting side names it?"""
        bound = self._address[0]
        return bound in _ANY or bound == host or (bound in _LOOPBACK and host in _LOOPBACK)

    def incoming(self, client: SimTransport, loopback: bool) -> SimTransport | None:
        """The accepting end for a client's first packet; None where the backlog is full."""
        if client.peer is not None:
            return client.peer
        if len(self._opening) >= self.backlog:
            return None
        server = SimTransport(
            self._host,
            local=client.remote if loopback else (self._host.address, self._address[1]),
            remote=client.local,
            context=self._context.copy(),
            accepts=self._accept,
        )
        server.peer = client
        client.peer = server
        self._opening.add(server)
        self._host.remember(server)
        return server

    def _accept(self, server: SimTransport) -> asyncio.BaseProtocol | None:
        self._opening.discard(server)
        if self.closed or not self._host.alive:
            return None
        try:
            return self._context.run(self._factory)
        except Exception as error:  # noqa: BLE001  handed to the loop's handler, as by a real listener
            self._host.sim.loop.call_exception_handler(
                {"message": f"Exception in a protocol factory at {self._address}.", "exception": error}
            )
            return None


class SimHost:
    """One boot of one host; ``rng`` and ``clock`` are for what runs on it."""

    def __init__(self, sim: SimNetwork, address: str, boot: int, *, skew: float, drift: float) -> None:
        self.sim = sim
        self.address = address
        self.boot = boot
        self.alive = True
        self.clock = SimClock(sim.loop, skew=skew, drift=drift)
        self.rng = Random(f"{sim.seed}/{address}/{boot}")
        self._answers = True  # its kernel does
        self._waiting: list[Callable[[], None]] | None = None  # while its process is frozen
        self._listeners: list[SimListener] = []
        # A dict, because the order in which connections die is part of what a seed decides.
        self._connections: dict[SimTransport, None] = {}
        self._sockets: dict[Address, SimDatagramTransport] = {}
        self._next_port = _FIRST_EPHEMERAL

    def __repr__(self) -> str:
        return f"<SimHost {self.address} boot {self.boot} {'alive' if self.alive else 'dead'}>"

    # -- gossamer.network.Network ---------------------------------------------------------------------

    async def open_datagram(
        self, factory: Callable[[], P], address: Address
    ) -> tuple[asyncio.DatagramTransport, P]:
        self._check_alive(address)
        bound = self._bindable(address)
        if any(self._clashes(bound, other) for other in self._sockets):
            raise _os_error(errno.EADDRINUSE, bound)
        transport = SimDatagramTransport(self, bound, contextvars.copy_context())
        protocol = factory()
        self._sockets[bound] = transport
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
        if tls is not None:
            raise SimulatedTLSError
        self._check_alive(address)
        bound = self._bindable(address)
        for other in self._listeners:
            if self._clashes(bound, other.address) and not (reuse_port and other.reuse_port):
                raise _os_error(errno.EADDRINUSE, bound)
        listener = SimListener(
            self, factory, bound, context=contextvars.copy_context(), backlog=backlog, reuse_port=reuse_port
        )
        self._listeners.append(listener)
        return listener

    async def listen_unix(
        self, factory: Callable[[], asyncio.BaseProtocol], path: str, *, backlog: int = 1024
    ) -> SimListener:
        raise OSError(errno.EOPNOTSUPP, "simulated hosts have no Unix sockets")

    async def connect(
        self, factory: Callable[[], P], address: Address, *, tls: ssl.SSLContext | None = None
    ) -> tuple[asyncio.Transport, P]:
        if tls is not None:
            raise SimulatedTLSError
        self._check_alive(address)
        remote = (address[0], address[1])
        loopback = self._is_loopback(remote[0])
        if not loopback and not self.sim.knows(remote[0]):
            raise _os_error(errno.EHOSTUNREACH, remote)
        local = (remote[0] if loopback else self.address, self._ephemeral_port())
        client = SimTransport(self, local=local, remote=remote, context=contextvars.copy_context())
        self.remember(client)
        try:
            await self._handshake(client, remote, loopback)
            protocol = factory()
        except BaseException:
            client.reset_peer()
            self.forget(client)
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
            self.sim.carry_knock(self, target, client, answer, loopback)
            left = deadline - loop.time()
            await asyncio.wait({answer}, timeout=min(wait, left))
            if answer.done():
                answer.result()
                return
            if loop.time() >= deadline:
                raise TimeoutError(errno.ETIMEDOUT, f"Connect call timed out: {remote[0]}:{remote[1]}")
            wait *= 2

    # -- what the network asks ------------------------------------------------------------------------

    def listener_for(self, address: Address) -> SimListener | None:
        """Who accepts at ``address``; of several that share the port, one by luck."""
        found = [one for one in self._listeners if one.address[1] == address[1] and one.answers(address[0])]
        return self.rng.choice(found) if len(found) > 1 else found[0] if found else None

    def socket_for(self, address: Address) -> SimDatagramTransport | None:
        for bound, transport in self._sockets.items():
            if bound[1] == address[1] and (
                bound[0] in _ANY
                or bound[0] == address[0]
                or (bound[0] in _LOOPBACK and address[0] in _LOOPBACK)
            ):
                return transport
        return None

    @property
    def answers(self) -> bool:
        """Does a kernel listen to packets for this boot?"""
        return self._answers

    def is_loopback(self, host: str) -> bool:
        return host in _LOOPBACK

    # -- life and death -------------------------------------------------------------------------------

    def crash(self, how: Crash = "kill") -> None:
        """Stop everything on this host; its protocols are not told, as a killed process is not."""
        if not self.alive:
            return
        self.thaw()
        self.alive = False
        self._answers = how != "silence"
        self.sim.note(f"crash:{how}", self.address)
        self._listeners.clear()
        for socket in self._sockets.values():
            socket.process_died()
        self._sockets.clear()
        for connection in list(self._connections):
            if how == "silence":
                connection.machine_died()
            else:
                connection.process_died(reset=how == "reset")

    def freeze(self) -> None:
        """Stop the process as SIGSTOP does: the kernel goes on taking packets, nobody reads them."""
        if self._waiting is None:
            self._waiting = []
            cast("VirtualTimeLoop", self.sim.loop).freeze(self.address)

    def thaw(self) -> None:
        """Let the process go on, and read what came meanwhile."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            cast("VirtualTimeLoop", self.sim.loop).thaw(self.address)
            for read in waiting:
                self.sim.loop.call_soon(read, context=self.sim.context)

    def postpones(self, read: Callable[[], None]) -> bool:
        """Whether nobody here reads now; then ``read`` is called later."""
        if self._waiting is None:
            return False
        self._waiting.append(read)
        return True

    def replaced(self) -> None:
        """Another boot has this address now."""
        self._answers = False

    # -- bookkeeping ----------------------------------------------------------------------------------

    def remember(self, connection: SimTransport) -> None:
        self._connections[connection] = None

    def forget(self, connection: SimTransport) -> None:
        self._connections.pop(connection, None)

    def release(self, socket: SimDatagramTransport) -> None:
        if self._sockets.get(socket.local) is socket:
            del self._sockets[socket.local]

    def unlisten(self, listener: SimListener) -> None:
        if listener in self._listeners:
            self._listeners.remove(listener)

    @property
    def connections(self) -> tuple[SimTransport, ...]:
        """Every connection its kernel still keeps."""
        return tuple(self._connections)

    def _check_alive(self, address: Address) -> None:
        if not self.alive:
            raise _os_error(errno.ENETDOWN, (address[0], address[1]))

    def _is_loopback(self, host: str) -> bool:
        return host in _LOOPBACK or host == self.address

    def _bindable(self, address: Address) -> Address:
        host, port = address[0], address[1]
        if host not in _ANY and host not in _LOOPBACK and host != self.address:
            raise _os_error(errno.EADDRNOTAVAIL, (host, port))
        return host, port or self._ephemeral_port()

    def _ephemeral_port(self) -> int:
        taken = {listener.address[1] for listener in self._listeners} | {port for _, port in self._sockets}
        while self._next_port in taken:
            self._next_port += 1
        self._next_port += 1
        return self._next_port - 1

    @staticmethod
    def _clashes(one: Address, other: Address) -> bool:
        return one[1] == other[1] and (
            one[0] == other[0]
            or one[0] in _ANY
            or other[0] in _ANY
            or (one[0] in _LOOPBACK and other[0] in _LOOPBACK)
        )

"""A network behind the gate: datagrams both ways, and the connections that this node opens.

Who opened an incoming connection is not known here, so its faults are those of the node that did. A drill
tells both, as it must: a cut that only one side knows of is a cut of half of the connections.

Rules: 1. Nothing is wrapped away: with no faults set, everything passes at once.  2. A connection to a peer
that is cut off is not refused: it is not answered, until the cut ends or the caller gives up.
"""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import Callable
from typing import Any, TypeVar, cast

from gossamer.faults.stream import GatedConnection
from gossamer.faults.table import Direction, FaultTable
from gossamer.network import Address, Listener, Network

P = TypeVar("P", bound=asyncio.BaseProtocol)


class FaultyNetwork:
    """Implements :class:`gossamer.network.Network` on another one."""

    def __init__(self, network: Network, table: FaultTable, *, rng: random.Random) -> None:
        self._network = network
        self._table = table
        self._rng = rng

    async def open_datagram(
        self, factory: Callable[[], P], address: Address
    ) -> tuple[asyncio.DatagramTransport, P]:
        above = factory()
        gate = _GatedDatagrams(above, self._table, self._rng)
        await self._network.open_datagram(lambda: gate, address)
        return gate, above

    async def listen(
        self,
        factory: Callable[[], asyncio.BaseProtocol],
        address: Address,
        *,
        tls: ssl.SSLContext | None = None,
        backlog: int = 1024,
        reuse_port: bool = False,
    ) -> Listener:
        return await self._network.listen(factory, address, tls=tls, backlog=backlog, reuse_port=reuse_port)

    async def listen_unix(
        self, factory: Callable[[], asyncio.BaseProtocol], path: str, *, backlog: int = 1024
    ) -> Listener:
        return await self._network.listen_unix(factory, path, backlog=backlog)

    async def connect(
        self, factory: Callable[[], P], address: Address, *, tls: ssl.SSLContext | None = None
    ) -> tuple[asyncio.Transport, P]:
        await self._passable(address)
        above = factory()
        gate = GatedConnection(above, self._table, address, self._rng)
        await self._network.connect(lambda: gate, address, tls=tls)
        return gate, above

    async def _passable(self, address: Address) -> None:
        """Wait until ``address`` is not cut off."""
        if not self._table.is_cut(address):
            return
        self._table.counts.connects_held += 1
        changed = asyncio.Event()
        self._table.watch(changed.set)
        try:
            while self._table.is_cut(address):
                changed.clear()
                await changed.wait()
        finally:
            self._table.unwatch(changed.set)


class _GatedDatagrams(asyncio.DatagramTransport, asyncio.DatagramProtocol):
    """The transport of the protocol above, and the protocol of the real socket below."""

    def __init__(self, above: asyncio.BaseProtocol, table: FaultTable, rng: random.Random) -> None:
        super().__init__()
        self._above = cast("asyncio.DatagramProtocol", above)
        self._table = table
        self._rng = rng
        self._loop = asyncio.get_running_loop()
        self._below: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._below = cast("asyncio.DatagramTransport", transport)
        self._above.connection_made(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._below = None
        self._above.connection_lost(exc)

    def error_received(self, exc: Exception) -> None:
        self._above.error_received(exc)

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self._pass(addr, "in", self._hand_up, data)

    def sendto(self, data: Any, addr: Any = None) -> None:
        self._pass(addr, "out", self._send, data)

    def close(self) -> None:
        if self._below is not None:
            self._below.close()

    def abort(self) -> None:
        if self._below is not None:
            self._below.abort()

    def is_closing(self) -> bool:
        return self._below is None or self._below.is_closing()

    def get_extra_info(self, name: str, default: object = None) -> Any:
        return default if self._below is None else self._below.get_extra_info(name, default)

    def _pass(self, addr: Any, way: Direction, onward: Callable[[bytes, object], None], data: bytes) -> None:
        fault = None if addr is None else self._table.find((addr[0], addr[1]), way)
        if fault is None:
            onward(data, addr)
        elif fault.cut or self._rng.random() < fault.loss:
            self._table.counts.datagrams_dropped += 1
        else:
            late = fault.delay + self._rng.uniform(0.0, fault.jitter)
            if late:
                self._table.counts.datagrams_delayed += 1
                self._loop.call_later(late, onward, data, addr)
            else:
                onward(data, addr)

    def _hand_up(self, data: bytes, addr: Any) -> None:
        # What was on its way when the socket closed is nobody's.
        if self._below is not None:
            self._above.datagram_received(data, addr)

    def _send(self, data: bytes, addr: Any) -> None:
        if self._below is not None and not self._below.is_closing():
            self._below.sendto(data, addr)

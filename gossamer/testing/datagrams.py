"""A simulated datagram socket: asyncio's datagram transport over the seeded network.

Rules: 1. A datagram is delivered whole, late, twice or not at all, never altered.  2. Sending never blocks
and never fails for a peer's sake; one too large is refused to its sender, as by a real socket.
"""

from __future__ import annotations

import asyncio
import contextvars
import errno
from typing import Any, cast

from gossamer.network import Address
from gossamer.testing.medium import Boot

LARGEST_DATAGRAM = 65_507


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

    def sendto(self, data: bytes | bytearray | memoryview, addr: Any = None) -> None:
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

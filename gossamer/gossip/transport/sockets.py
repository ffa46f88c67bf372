"""What gossip listens on: UDP and TCP on one port, the address that others are told, frames on streams.

A stream is one question, one answer, one connection. A frame is four bytes of length and a sealed packet.
Both sides bound what they buffer by the largest frame, the answering side also how long and how many.

Rules: 1. Both or none: a datagram port whose stream port is taken is given back.  2. A predecessor's sockets
close a turn of the loop after it ended, so binding is tried for half a second.  3. What cannot be bound or
reached by others is the operator's to change, and the error names the key.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Any

from gossamer.errors import UsageError
from gossamer.gossip.wire import PacketRejected
from gossamer.network import Address, Listener, Network

_HEAD = 4
MAX_FRAME = 8 * 1024 * 1024
"""Largest stream frame."""
_BIND_TRIES = 10
_BIND_PAUSE = 0.05
_WILDCARDS = ("", "0.0.0.0", "::")  # noqa: S104 - compared with, not bound


class GossipAddressError(UsageError):
    """The gossip address cannot be used."""

    def __init__(self, address: Address, problem: str, advice: str) -> None:
        self.address = address
        super().__init__(f"gossip address {address[0]}:{address[1]}: {problem}; {advice}")


def local_host() -> str:
    """The address of the interface that leads out of this machine; loopback where none does."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        # Connecting a datagram socket sends nothing; it only asks for the route.
        probe.connect(("192.0.2.1", 9))
        host: str = probe.getsockname()[0]
        return host
    return "127.0.0.1"


def frame(packet: bytes) -> bytes:
    """A packet as it goes onto a stream."""
    return len(packet).to_bytes(_HEAD, "big") + packet


class FrameBuffer:
    """Collects bytes until one frame is whole."""

    def __init__(self, *, max_frame: int) -> None:
        self._max_frame = max_frame
        self._buffer = bytearray()

    def feed(self, data: bytes) -> bytes | None:
        """The packet, once it is whole.

        Raises:
            PacketRejected: ``oversized``; the length alone says so, the rest is not waited for.
        """
        self._buffer += data
        if len(self._buffer) < _HEAD:
            return None
        length = int.from_bytes(self._buffer[:_HEAD], "big")
        if length > self._max_frame:
            raise PacketRejected(
                "oversized", f"a frame of {length} bytes, expected at most {self._max_frame}"
            )
        if len(self._buffer) < _HEAD + length:
            return None
        return bytes(self._buffer[_HEAD : _HEAD + length])


class AskingStream(asyncio.Protocol):
    """The side that connected: sends one frame, waits for one."""

    def __init__(self, *, max_frame: int) -> None:
        self.answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._frames = FrameBuffer(max_frame=max_frame)

    def data_received(self, data: bytes) -> None:
        if self.answer.done():
            return
        try:
            packet = self._frames.feed(data)
        except PacketRejected as error:
            self.answer.set_exception(error)
            return
        if packet is not None:
            self.answer.set_result(packet)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.answer.done():
            # Nobody may be waiting any more, so an exception would be reported as never retrieved.
            self.answer.set_result(b"")


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, received: Callable[[bytes, object], Any]) -> None:
        self._received = received

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self._received(data, addr)


async def open_sockets(
    network: Network,
    bind: Address,
    *,
    received: Callable[[bytes, object], Any],
    answering: Callable[[], asyncio.Protocol],
) -> tuple[asyncio.DatagramTransport, Listener]:
    """Bind both sockets, at one port.

    Raises:
        GossipAddressError: the address cannot be bound.
    """
    for attempt in range(_BIND_TRIES):
        try:
            datagrams, _ = await network.open_datagram(lambda: _Datagrams(received), bind)
        except OSError as error:
            problem = error
        else:
            name = datagrams.get_extra_info("sockname")
            bound: Address = (name[0], name[1])
            try:
                listener = await network.listen(answering, bound)
            except OSError as error:
                datagrams.abort()
                problem = error
            else:
                return datagrams, listener
        if attempt + 1 < _BIND_TRIES:
            await asyncio.sleep(_BIND_PAUSE)
    raise GossipAddressError(
        bind,
        f"UDP and TCP cannot be bound ({problem.strerror or problem})",
        "set cluster.host to an address of this machine and cluster.port to a free port",
    )


def advertised(bind: Address, bound: Address) -> Address:
    """Where others reach this node: what is bound, or where that is every address, the way out."""
    return (local_host() if bind[0] in _WILDCARDS else bound[0], bound[1])

"""Network behind the fault gate: datagrams both ways, and the connections that this node opens.

Who opened an incoming connection is not known here, so its faults are those of the node that did. A drill
tells both, as it must: a cut that only one side knows of is a cut of half of the connections.

Rules: 1. Nothing is wrapped away: with no faults set, everything passes at once.  2. A connection to a peer
that is cut off is not refused: it is not answered, until the cut ends or the caller gives up.  3. A stream
stands still while its peer is cut off, and goes on after. Neither end is told, as on a real network: what is
written waits here, bounded by back-pressure; what the peer sent waits in the kernel; an end or a reset that
comes through the real connection is held back, and one of ours reaches the peer only after the cut.
"""

from __future__ import annotations

import asyncio
import random
import ssl
from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum
from typing import TypeVar

from gossamer.faults.table import Direction, FaultTable
from gossamer.network import Address, Network

HIGH_WATER = 64 * 1024
RETRANSMISSION = 0.2
"""Seconds that a lost piece of a stream is late, as often as it is lost."""

P = TypeVar("P", bound=asyncio.BaseProtocol)
Data = bytes | bytearray | memoryview


class FaultyNetwork:
    """Implements :class:`gossamer.network.Network` on another one."""

    def __init__(self, network: Network, table: FaultTable, *, rng: random.Random) -> None:
        self._network = network
        self._table = table
        self._rng = rng
        self.listen = network.listen
        self.listen_unix = network.listen_unix

    async def open_datagram(
        self, factory: Callable[[], P], address: Address
    ) -> tuple[asyncio.DatagramTransport, P]:
        above = factory()
        assert isinstance(above, asyncio.DatagramProtocol)  # noqa: S101 - what else would it be for
        gate = _GatedDatagrams(above, self._table, self._rng)
        await self._network.open_datagram(lambda: gate, address)
        return gate, above

    async def connect(
        self,
        factory: Callable[[], P],
        address: Address,
        *,
        tls: ssl.SSLContext | None = None,
        tls_name: str | None = None,
    ) -> tuple[asyncio.Transport, P]:
        await self._passable(address)
        above = factory()
        gate = _GatedStream(above, self._table, address, self._rng)
        await self._network.connect(lambda: gate, address, tls=tls, tls_name=tls_name)
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

    def __init__(self, above: asyncio.DatagramProtocol, table: FaultTable, rng: random.Random) -> None:
        super().__init__()
        self._above = above
        self._table = table
        self._rng = rng
        self._loop = asyncio.get_running_loop()
        self._below: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:  # type: ignore[override]
        self._below = transport
        self._above.connection_made(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._below = None
        self._above.connection_lost(exc)

    def error_received(self, exc: Exception) -> None:
        self._above.error_received(exc)

    def datagram_received(self, data: bytes, addr: Address) -> None:
        self._pass(addr, "in", self._hand_up, data)

    def sendto(self, data: Data, addr: Address | None = None) -> None:  # type: ignore[override]
        self._pass(addr, "out", self._send, bytes(data))

    def close(self) -> None:
        if self._below is not None:
            self._below.close()

    def abort(self) -> None:
        if self._below is not None:
            self._below.abort()

    def is_closing(self) -> bool:
        return self._below is None or self._below.is_closing()

    def get_extra_info(self, name: str, default: object = None) -> object:
        return default if self._below is None else self._below.get_extra_info(name, default)

    def _pass(
        self, addr: Address | None, way: Direction, onward: Callable[[bytes, Address], None], data: bytes
    ) -> None:
        assert addr is not None  # noqa: S101 - sockets here are not connected
        fault = self._table.find((addr[0], addr[1]), way)
        if fault is None:
            onward(data, addr)
        elif fault.cut or self._rng.random() < fault.loss:
            self._table.counts.datagrams_dropped += 1
        elif late := fault.lateness(self._rng):
            self._table.counts.datagrams_delayed += 1
            self._loop.call_later(late, onward, data, addr)
        else:
            onward(data, addr)

    def _hand_up(self, data: bytes, addr: Address) -> None:
        # Datagrams in flight when the socket closed are dropped.
        if self._below is not None:
            self._above.datagram_received(data, addr)

    def _send(self, data: bytes, addr: Address) -> None:
        if self._below is not None and not self._below.is_closing():
            self._below.sendto(data, addr)


class _Mark(Enum):
    """Marker between the bytes of a stream, besides an error."""

    EOF = "eof"
    CLOSE = "close"


_Piece = bytes | _Mark | Exception


class _Lane:
    """One direction: pieces in order, each due at a time, none while the stream stands still."""

    def __init__(self, stream: _GatedStream, direction: Direction, emit: Callable[[_Piece], None]) -> None:
        self._stream = stream
        self._direction = direction
        self._emit = emit
        self._waiting: deque[tuple[float, _Piece]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self.size = 0
        """Bytes that wait."""

    def push(self, piece: _Piece) -> None:
        """Take bytes, or a mark such as the end."""
        late = self._stream.lateness(self._direction)
        if not (late or self._waiting or self._stream.stalled):
            self._emit(piece)
            return
        due = self._stream.loop.time() + late
        if self._waiting:
            # A stream keeps its order whatever the jitter.
            due = max(due, self._waiting[-1][0])
        self._waiting.append((due, piece))
        self.size += len(piece) if isinstance(piece, bytes) else 0
        self.run()

    def run(self) -> None:
        """Hand on what is due."""
        self._stop()
        loop = self._stream.loop
        while self._waiting and not self._stream.stalled:
            due, piece = self._waiting[0]
            if due > loop.time():
                self._timer = loop.call_at(due, self.run)
                return
            self._waiting.popleft()
            self.size -= len(piece) if isinstance(piece, bytes) else 0
            self._emit(piece)

    def drop(self) -> None:
        """Discard the rest."""
        self._waiting.clear()
        self.size = 0
        self._stop()

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _GatedStream(asyncio.Transport, asyncio.Protocol):
    """The transport of the protocol above, and the protocol of the real transport below."""

    def __init__(
        self, above: asyncio.BaseProtocol, table: FaultTable, address: Address, rng: random.Random
    ) -> None:
        super().__init__()
        self.loop = asyncio.get_running_loop()
        self.stalled = False
        self.set_protocol(above)
        self._table = table
        self._address = address
        self._rng = rng
        self._below: asyncio.Transport | None = None
        self._out = _Lane(self, "out", self._send)
        self._in = _Lane(self, "in", self._hand_up)
        self._told_pause = self._below_full = self._reading_paused = self._below_paused = False
        self._closing = self._gone = False

    def lateness(self, direction: Direction) -> float:
        """Seconds that a piece is late by the faults of now."""
        fault = self._table.find(self._address, direction)
        if fault is None:
            return 0.0
        late = fault.lateness(self._rng)
        # A share of 1 is a cut for datagrams; here it is one retransmission after another.
        for _ in range(6):
            if self._rng.random() >= fault.loss:
                break
            late += RETRANSMISSION
        return late

    # -- the protocol of the real transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._below = transport
        self._table.watch(self._changed)
        self.stalled = self._table.is_cut(self._address)
        self._flow()
        self._above.connection_made(self)

    def data_received(self, data: bytes) -> None:
        if self._below_paused and self._below is not None:
            # uvloop begins to read after the connection is made, whatever was asked before.
            self._below.pause_reading()
        self._in.push(bytes(data))
        self._flow()

    def eof_received(self) -> bool:
        self._in.push(_Mark.EOF)
        # The protocol above decides, once it is informed.
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self._below = None
        self._in.push(exc if exc is not None else _Mark.CLOSE)

    def pause_writing(self) -> None:
        self._below_full = True
        self._flow()

    def resume_writing(self) -> None:
        self._below_full = False
        self._flow()

    # -- the transport of the protocol above

    def write(self, data: Data) -> None:
        if not self._closing and data:
            self._out.push(bytes(data))
            self._flow()

    def writelines(self, list_of_data: Iterable[Data]) -> None:
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        return self._below is not None and self._below.can_write_eof()

    def write_eof(self) -> None:
        self._out.push(_Mark.EOF)

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._out.push(_Mark.CLOSE)

    def abort(self) -> None:
        """End this side at once, and leave the real connection as it is until the cut ends."""
        self._closing = True
        self._out.drop()
        self._in.drop()
        if self.stalled:
            self.loop.call_soon(self._end, None)
        elif self._below is not None:
            self._below.abort()

    def pause_reading(self) -> None:
        self._reading_paused = True
        self._flow()

    def resume_reading(self) -> None:
        self._reading_paused = False
        self._flow()

    def is_reading(self) -> bool:
        return not (self._reading_paused or self._closing)

    def get_write_buffer_size(self) -> int:
        return self._out.size + (0 if self._below is None else self._below.get_write_buffer_size())

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if self._below is not None:
            self._below.set_write_buffer_limits(high, low)

    def get_extra_info(self, name: str, default: object = None) -> object:
        return default if self._below is None else self._below.get_extra_info(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        assert isinstance(protocol, asyncio.Protocol)  # noqa: S101 - nothing here reads into buffers
        self._above = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._above

    # -- inside

    def _changed(self) -> None:
        """The faults are others now."""
        stalled = self._table.is_cut(self._address)
        self._table.counts.streams_stalled += stalled and not self.stalled
        self.stalled = stalled
        if not self._gone:
            self._out.run()
            self._in.run()
            self._flow()
        elif not stalled:
            self._table.unwatch(self._changed)
            if self._below is not None:
                self._below.abort()

    def _flow(self) -> None:
        """Read and let write as far as there is room."""
        below = self._below
        if below is not None and not below.is_closing():
            paused = self._reading_paused or self.stalled or self._in.size > HIGH_WATER
            if paused is not self._below_paused:
                self._below_paused = paused
                (below.pause_reading if paused else below.resume_reading)()
        full = self._below_full or self._out.size > HIGH_WATER
        if full is not self._told_pause and not self._gone:
            self._told_pause = full
            (self._above.pause_writing if full else self._above.resume_writing)()

    def _send(self, piece: _Piece) -> None:
        if self._below is None:
            return
        if piece is _Mark.CLOSE:
            self._below.close()
        elif piece is _Mark.EOF:
            self._below.write_eof()
        elif isinstance(piece, bytes):
            self._below.write(piece)
            self._flow()

    def _hand_up(self, piece: _Piece) -> None:
        if self._gone:
            return
        if isinstance(piece, bytes):
            self._above.data_received(piece)
            self._flow()
        elif piece is not _Mark.EOF:
            self._end(piece if isinstance(piece, Exception) else None)
        elif not self._above.eof_received():
            self.close()

    def _end(self, error: Exception | None) -> None:
        if self._gone:
            return
        self._gone = self._closing = True
        self._out.drop()
        self._in.drop()
        if not self.stalled or self._below is None:
            self._table.unwatch(self._changed)
        self._above.connection_lost(error)

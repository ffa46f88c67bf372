"""A stream connection behind the gate: it stands still while its peer is cut off, and goes on after.

Neither end is told of a cut, as on a real network. What is written waits here, bounded by back-pressure; what
the peer sent waits in the kernel; an end or a reset that comes through the real connection is held back, and
one of ours reaches the peer only after the cut (:meth:`GatedConnection.abort` ends this side at once, and
leaves the real connection as it is until then).
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from typing import Any, cast

from gossamer.faults.table import Direction, FaultTable
from gossamer.network import Address

HIGH_WATER = 64 * 1024
RETRANSMISSION = 0.2
"""Seconds that a lost piece of a stream is late, as often as it is lost."""


class _Lane:
    """One direction: pieces in order, each due at a time, none while the stream stands still."""

    def __init__(
        self, connection: GatedConnection, direction: Direction, emit: Callable[[object], object]
    ) -> None:
        self._connection = connection
        self._direction = direction
        self._emit = emit
        self._waiting: deque[tuple[float, object]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self.size = 0

    def push(self, piece: Any) -> None:
        """Take bytes, or a mark such as the end."""
        connection = self._connection
        late = connection.lateness(self._direction)
        if not (late or self._waiting or connection.stalled):
            self._emit(piece)
            return
        due = connection.loop.time() + late
        if self._waiting:
            # A stream keeps its order whatever the jitter.
            due = max(due, self._waiting[-1][0])
        self._waiting.append((due, piece))
        self.size += len(piece) if isinstance(piece, bytes) else 0
        self.run()

    def run(self) -> None:
        """Hand on what is due."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        loop = self._connection.loop
        while self._waiting and not self._connection.stalled:
            due, piece = self._waiting[0]
            if due > loop.time():
                self._timer = loop.call_at(due, self.run)
                return
            self._waiting.popleft()
            self.size -= len(piece) if isinstance(piece, bytes) else 0
            self._emit(piece)

    def drop(self) -> None:
        """Nobody wants the rest."""
        self._waiting.clear()
        self.size = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


_EOF, _CLOSE = object(), object()


class GatedConnection(asyncio.Transport, asyncio.Protocol):
    """The transport of the protocol above, and the protocol of the real transport below."""

    def __init__(
        self, above: asyncio.BaseProtocol, table: FaultTable, address: Address, rng: random.Random
    ) -> None:
        super().__init__()
        self.loop = asyncio.get_running_loop()
        self.stalled = False
        self._above = cast("asyncio.Protocol", above)
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
        late = fault.delay + self._rng.uniform(0.0, fault.jitter)
        # A share of 1 is a cut for datagrams; here it is one retransmission after another.
        for _ in range(6):
            if self._rng.random() >= fault.loss:
                break
            late += RETRANSMISSION
        return late

    # -- the protocol of the real transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._below = cast("asyncio.Transport", transport)
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
        self._in.push(_EOF)
        # The protocol above decides, once it hears of it.
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self._below = None
        self._in.push(exc if exc is not None else _CLOSE)

    def pause_writing(self) -> None:
        self._below_full = True
        self._flow()

    def resume_writing(self) -> None:
        self._below_full = False
        self._flow()

    # -- the transport of the protocol above

    def write(self, data: Any) -> None:
        if not self._closing and data:
            self._out.push(bytes(data))
            self._flow()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        return self._below is not None and self._below.can_write_eof()

    def write_eof(self) -> None:
        self._out.push(_EOF)

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._out.push(_CLOSE)

    def abort(self) -> None:
        self._closing = True
        self._out.drop()
        self._in.drop()
        if self.stalled:
            # The peer must not hear of it before the cut ends.
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

    def get_extra_info(self, name: str, default: Any = None) -> object:
        return default if self._below is None else self._below.get_extra_info(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._above = cast("asyncio.Protocol", protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._above

    # -- inside

    def _changed(self) -> None:
        """The faults are others now."""
        stalled = self._table.is_cut(self._address)
        self._table.counts.streams_stalled += stalled and not self.stalled
        self.stalled = stalled
        if self._gone:
            if not stalled and self._below is not None:
                self._below.abort()
            if not stalled:
                self._table.unwatch(self._changed)
            return
        self._out.run()
        self._in.run()
        self._flow()

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

    def _send(self, piece: Any) -> None:
        below = self._below
        if below is None:
            return
        if piece is _CLOSE:
            below.close()
        elif piece is _EOF:
            below.write_eof()
        else:
            below.write(piece)
            self._flow()

    def _hand_up(self, piece: Any) -> None:
        if self._gone:
            return
        if piece is _EOF:
            if not self._above.eof_received():
                self.close()
        elif piece is _CLOSE:
            self._end(None)
        elif isinstance(piece, Exception):
            self._end(piece)
        else:
            self._above.data_received(piece)
            self._flow()

    def _end(self, error: Exception | None) -> None:
        if self._gone:
            return
        self._gone = self._closing = True
        self._out.drop()
        self._in.drop()
        if not self.stalled or self._below is None:
            self._table.unwatch(self._changed)
        self._above.connection_lost(error)

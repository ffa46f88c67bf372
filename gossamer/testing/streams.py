"""A simulated stream connection: asyncio's transport contract over :mod:`gossamer.testing.window`.

Each end is a :class:`SimTransport` on one boot of one host. What crosses the network is segments,
acknowledgements and resets; the network decides when they arrive, if they do. Rules: 1. Callbacks of a
protocol run in the context in which its listener or connection was made, as on a real loop, and never in
that of the peer.  2. Where one read ends and the next begins is drawn by luck: a protocol that relies on
it fails some seed.  3. An end that its process has closed, and whose bytes the kernel still carries, lives
on without a protocol until they are acknowledged or given up.
"""

from __future__ import annotations

import asyncio
import contextvars
import errno
import math
from asyncio.transports import _FlowControlMixin
from collections.abc import Callable, Iterable
from typing import cast

from gossamer.network import Address
from gossamer.testing.loop import VirtualTimeLoop
from gossamer.testing.medium import HEADERS, Boot, Crash
from gossamer.testing.window import ReceiveSide, Segment, SendSide


class SimTransport(_FlowControlMixin):
    """One end of a connection. ``accepts`` makes the protocol of an accepting end when it opens."""

    # Of asyncio's own, where the stubs hide them.
    _loop: VirtualTimeLoop
    _maybe_pause_protocol: Callable[[], None]
    _maybe_resume_protocol: Callable[[], None]

    def __init__(
        self,
        host: Boot,
        *,
        local: Address,
        remote: Address,
        context: contextvars.Context,
        accepts: Callable[[], asyncio.BaseProtocol | None] | None = None,
    ) -> None:
        super().__init__({"peername": remote, "sockname": local, "socket": None}, host.sim.loop)
        self._host = host
        self._limits = host.sim.limits
        self._luck = host.sim.links.luck(local[0], remote[0])
        self.local = local
        self.remote = remote
        self.peer: SimTransport | None = None
        self._context = context
        self._accepts = accepts
        self._protocol: asyncio.Protocol | None = None
        self._send = SendSide(self._limits, greets=accepts is None)
        self._receive = ReceiveSide(self._limits)
        self._reading = True
        self._eof_told = False
        self._reading_scheduled = False
        self._sending_scheduled = False
        self._closing = False
        self._lost = False  # connection_lost is called or on its way
        self._gone = False  # the kernel has forgotten this end
        self._at_rest = False  # ... after both directions had ended in order
        self._last_arrival = 0.0
        self._resend_timer: asyncio.TimerHandle | None = None
        host.connections[self.die] = None

    # -- opening --------------------------------------------------------------------------------------

    def open(self, protocol: asyncio.BaseProtocol) -> None:
        """Give the connection to its protocol, in the caller's turn."""
        self.set_protocol(protocol)
        self._send.waiting_since = self._loop.time()
        self._call(protocol.connection_made, self)
        self._schedule_sending()

    @property
    def is_open(self) -> bool:
        return self._protocol is not None and not self._gone

    # -- asyncio.Transport: reading -------------------------------------------------------------------

    def is_reading(self) -> bool:
        return self._reading and not self._closing

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        if self._closing or self._reading:
            return
        self._reading = True
        self._schedule_reading()

    # -- asyncio.Transport: writing -------------------------------------------------------------------

    def get_write_buffer_size(self) -> int:
        return self._send.user_size

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not isinstance(data, bytes | bytearray | memoryview):
            raise TypeError(f"data argument must be a bytes-like object, not {type(data).__name__!r}")
        if self._send.finished and not self._closing:
            raise RuntimeError("Cannot call write() after write_eof()")
        if self._closing or self._gone or not data:
            return
        self._send.write(data, self._loop.time())
        self._schedule_sending()
        # In the writer's own turn and context, as real transports do.
        self._maybe_pause_protocol()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if self._closing or self._gone or self._send.finished:
            return
        self._send.finish(self._loop.time())
        self._schedule_sending()

    # -- asyncio.Transport: closing -------------------------------------------------------------------

    def get_protocol(self) -> asyncio.BaseProtocol:
        if self._protocol is None:
            raise RuntimeError(f"{self!r} has no protocol")
        return self._protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = cast("asyncio.Protocol", protocol)

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        if self._closing or self._gone:
            return
        self._closing = True
        self._send.finish(self._loop.time())
        self._schedule_sending()
        self._lose_if_flushed()

    def abort(self) -> None:
        self._fail(None)

    def __repr__(self) -> str:
        state = "gone" if self._gone else "closing" if self._closing else "open"
        return f"<SimTransport {self.local[0]}:{self.local[1]} > {self.remote[0]}:{self.remote[1]} {state}>"

    # -- the host's side ------------------------------------------------------------------------------

    def die(self, how: Crash) -> None:
        """The process is gone. Where its kernel is not, what was written is still sent, then the end."""
        self._protocol = None
        self._lost = self._closing = True
        if how == "silence":
            self._forget()
        elif how == "reset" or self._receive.unread:
            self.reset_peer()
        else:
            self._send.finish(self._loop.time())
            self._schedule_sending()

    def reset_peer(self) -> None:
        """Forget the connection and tell the other end that it is gone."""
        if self._gone:
            return
        self._forget()
        self._carry("reset", lambda peer: peer._on_reset())

    # -- sending --------------------------------------------------------------------------------------

    def _schedule_sending(self) -> None:
        """Send at the end of this turn, so that the writes of one turn share segments."""
        if not self._sending_scheduled and not self._gone:
            self._sending_scheduled = True
            self._loop.call_soon(self._transmit, context=self._host.sim.context)

    def _transmit(self) -> None:
        self._sending_scheduled = False
        if self._gone:
            return
        now = self._loop.time()
        while segment := self._send.take(self._segment_size(), now):
            self._carry_segment(segment)
        self._lose_if_flushed()
        self._arm_resend_timer()

    def _segment_size(self) -> int:
        """Mostly a whole segment; at times any size from one byte."""
        most = self._limits.segment
        if self._luck.random() < self._host.sim.chop:
            return int(math.exp(self._luck.uniform(0, math.log(most))))
        return most

    def _carry_segment(self, segment: Segment) -> None:
        kind = "end" if segment.end else "segment"
        self._carry(kind, lambda peer: peer._on_segment(segment), size=len(segment.data))

    def _carry(
        self, kind: str, arrive: Callable[[SimTransport], None], *, size: int = 0, sender: Boot | None = None
    ) -> None:
        """Send one packet to the other end, behind those that were sent before."""
        peer = self.peer
        if peer is not None:
            self._last_arrival = self._host.sim.carry_stream(
                kind,
                sender or self._host,
                peer._host,
                size + HEADERS,
                self._last_arrival,
                lambda: arrive(peer),
            )

    def _arm_resend_timer(self) -> None:
        if self._resend_timer is None and self._send.outstanding and not self._gone:
            self._resend_timer = self._loop.call_later(
                self._send.resend_after, self._on_resend_timer, context=self._host.sim.context
            )

    def _cancel_resend_timer(self) -> None:
        if self._resend_timer is not None:
            self._resend_timer.cancel()
            self._resend_timer = None

    def _on_resend_timer(self) -> None:
        self._resend_timer = None
        if self._gone or not self._send.outstanding:
            return
        now = self._loop.time()
        if now - self._send.waiting_since > self._limits.give_up_after:
            self._host.sim.note("give up", self.local[0], self.remote[0])
            self._forget()
            self._lose(TimeoutError(errno.ETIMEDOUT, f"no answer from {self.remote[0]}:{self.remote[1]}"))
            return
        probe = self._send.rewind()
        if probe is not None:
            self._carry_segment(probe)
        self._transmit()

    def _on_acknowledgement(self, offset: int, window: int) -> None:
        if self._gone:
            return
        if self._send.acknowledged(offset, window, self._loop.time()):
            self._cancel_resend_timer()
        self._transmit()
        if not self._closing and self._protocol is not None:
            self._context.run(self._maybe_resume_protocol)
        if self._lost and self._send.finished and not self._send.outstanding:
            self._at_rest = True
            self._forget()

    # -- receiving ------------------------------------------------------------------------------------

    def _on_segment(self, segment: Segment) -> None:
        if self._gone:
            self._answer_for_the_dead(segment)
            return
        if self._protocol is None and not self._lost:
            if self._host.postpones(lambda: self._on_segment(segment)):
                return
            protocol = self._accepts() if self._accepts is not None else None
            if protocol is None:
                self.reset_peer()
                return
            self.open(protocol)
            if not self.is_open:
                return
        if self._lost and segment.data:
            # Nobody will read this: the sender must not believe otherwise.
            self.reset_peer()
            return
        self._receive.accept(segment)
        self._acknowledge()
        self._schedule_reading()

    def _answer_for_the_dead(self, segment: Segment) -> None:
        """This end is forgotten: whatever kernel has the address now, if any, resets the sender."""
        kernel = self._host.sim.kernel(self._host.address)
        if self._at_rest and kernel is self._host and not segment.data:
            self._receive.accept(segment)
            self._acknowledge()
        elif kernel is not None:
            self._carry("reset", lambda peer: peer._on_reset(), sender=kernel)

    def _acknowledge(self) -> None:
        expected, window = self._receive.expected, self._receive.window
        self._carry("ack", lambda peer: peer._on_acknowledgement(expected, window))

    def _schedule_reading(self) -> None:
        if not self._reading_scheduled:
            self._reading_scheduled = True
            self._loop.call_soon(self._read, context=self._host.sim.context)

    def _read(self) -> None:
        if self._host.postpones(self._read):
            return
        self._reading_scheduled = False
        if not self.is_reading() or self._protocol is None:
            return
        if self._receive.unread:
            was_closed = self._receive.window == 0
            self._hand_over()
            if was_closed:
                self._acknowledge()
        if self._receive.ended and not self._eof_told and self.is_reading():
            self._eof_told = True
            if not self._call(self._protocol.eof_received):
                self.close()

    def _hand_over(self) -> None:
        assert self._protocol is not None  # noqa: S101 - whoever calls has looked
        self._call(self._protocol.data_received, self._receive.read())

    def _on_reset(self) -> None:
        if self._gone:
            return
        if self.is_reading() and self._protocol is not None and self._receive.unread:
            # What came before the reset is still read, as from a real socket.
            self._hand_over()
        if not self._gone:
            self._forget()
            self._lose(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))

    # -- losing the connection ------------------------------------------------------------------------

    def _call(self, callback: Callable[..., object], *args: object) -> object:
        """Call the protocol in its own context; an exception in it ends the connection, as asyncio has it."""
        try:
            return self._context.run(callback, *args)
        except Exception as error:  # noqa: BLE001
            message = f"Fatal error: {getattr(callback, '__qualname__', callback)}() call failed."
            self._host.sim.report(message, error, transport=self, protocol=self._protocol)
            self._fail(error)
            return None

    def _fail(self, error: Exception | None) -> None:
        if not self._gone:
            self.reset_peer()
            self._lose(error)

    def _lose_if_flushed(self) -> None:
        if self._closing and not self._lost and not self._send.user_size:
            if self._receive.unread:
                # Closing over unread bytes resets, as Linux does.
                self.reset_peer()
            self._lose(None)

    def _lose(self, error: Exception | None) -> None:
        self._closing = True
        if not self._lost:
            self._lost = True
            protocol = self._protocol
            if protocol is not None:
                self._loop.call_soon(self._tell_lost, protocol, error, context=self._host.sim.context)

    def _tell_lost(self, protocol: asyncio.BaseProtocol, error: Exception | None) -> None:
        if self._host.postpones(lambda: self._tell_lost(protocol, error)):
            return
        if self._host.alive:
            self._context.run(protocol.connection_lost, error)

    def _forget(self) -> None:
        self._gone = True
        self._closing = True
        self._cancel_resend_timer()
        self._host.connections.pop(self.die, None)

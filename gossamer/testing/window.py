"""One direction of a stream as a state machine: what its sender may transmit, what its receiver accepts.

A small TCP: bytes are numbered, acknowledgements are cumulative and carry the receiver's window, whatever
is not acknowledged is sent again after a time that doubles, and a peer that stays silent too long is given
up. Rules: 1. No I/O, no clock: callers pass ``now``.  2. Every buffer is bounded: the sender's kernel buffer
by ``send_buffer`` (what exceeds it is the transport's own, for which it pauses its writer), the receiver's by
``window``.  3. The end of a stream is one number after its last byte.

Rejected: selective acknowledgement and congestion control. Nothing above can tell, since a lost segment
is only late; after a cut the doubling time decides when the stream moves again, as on real systems.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """Sizes in bytes, times in seconds; after Linux's defaults, scaled down in size."""

    send_buffer: int = 128 << 10
    window: int = 128 << 10
    segment: int = 16 << 10
    resend_first: float = 0.2
    resend_most: float = 30.0
    give_up_after: float = 900.0
    connect_first: float = 1.0
    connect_timeout: float = 127.0


@dataclass(frozen=True, slots=True)
class Segment:
    """Bytes at ``offset``; ``end`` where the stream ends after them. Without bytes: opens, or probes."""

    offset: int
    data: bytes
    end: bool


class SendSide:
    """Sender's state: bytes from the first unacknowledged one on."""

    def __init__(self, limits: StreamLimits, *, greets: bool) -> None:
        self._limits = limits
        self._buffer = bytearray()
        self._first = 0  # offset of the buffer's first byte: everything below is acknowledged
        self._next = 0  # offset of the next byte to transmit
        self._window = limits.window
        self._finished = False
        self._end_acked = False
        # A connecting side has to send once, even without data.
        self._greeting = greets
        self._greeted = not greets
        self._round_trip = 0.0
        self._timed: tuple[int, float] | None = None  # an offset, and when the byte before it left
        self.resend_after = limits.resend_first
        self.waiting_since = 0.0

    @property
    def user_size(self) -> int:
        """Bytes that do not fit the kernel's buffer."""
        return max(0, len(self._buffer) - self._limits.send_buffer)

    @property
    def finished(self) -> bool:
        return self._finished

    @property
    def outstanding(self) -> bool:
        """Is anything not acknowledged?"""
        return bool(self._buffer) or not self._greeted or (self._finished and not self._end_acked)

    def write(self, data: bytes | bytearray | memoryview, now: float) -> None:
        if not self.outstanding:
            self.waiting_since = now
        self._buffer += data

    def finish(self, now: float) -> None:
        """The stream ends after what has been written."""
        if not self.outstanding:
            self.waiting_since = now
        self._finished = True

    def take(self, size: int, now: float) -> Segment | None:
        """The next segment of at most ``size`` bytes that may be transmitted now, or None."""
        unsent = self._first + len(self._buffer) - self._next
        room = self._first + self._window - self._next
        length = min(size, unsent, room)
        if length > 0:
            start = self._next - self._first
            data = bytes(self._buffer[start : start + length])
        elif self._greeting or (self._finished and unsent == 0 and not self._end_acked):
            data = b""
        else:
            return None
        self._greeting = False
        segment = Segment(self._next, data, self._finished and length == unsent)
        self._next += len(data)
        if data and self._timed is None:
            self._timed = (self._next, now)
        if segment.end:
            # Counted as transmitted: take() offers it again only after rewind().
            self._next += 1
        return segment

    def rewind(self) -> Segment | None:
        """Restart from the first unacknowledged byte, after ``resend_after`` without an answer.

        Returns a probe if the receiver's window is closed, so that its opening is noticed.
        """
        self._next = self._first
        self._greeting = not self._greeted
        self._timed = None  # which of two copies was answered would be a guess
        self.resend_after = min(self.resend_after * 2, self._limits.resend_most)
        if self._window == 0 and self._buffer:
            return Segment(self._first, b"", end=False)
        return None

    def acknowledged(self, offset: int, window: int, now: float) -> bool:
        """The receiver has every byte below ``offset`` and room for ``window`` more.

        Returns False where that is no news: something beyond a gap has come, and the gap is still to be
        filled when its time is over, however much is sent meanwhile (RFC 6298, 5.3).
        """
        if self._greeted and offset == self._first and window <= self._window and self.outstanding:
            if not window:
                # It answers, and has no room.
                self.waiting_since = now
            self._window = window
            return False
        self.waiting_since = now
        if self._timed is not None and offset >= self._timed[0]:
            sample = now - self._timed[1]
            self._round_trip = sample if not self._round_trip else 0.875 * self._round_trip + 0.125 * sample
            self._timed = None
        self.resend_after = self._limits.resend_first + 2 * self._round_trip
        self._greeted = True
        end = self._first + len(self._buffer)
        if self._finished and offset == end + 1:
            self._end_acked = True
            offset = end
        if offset >= self._first:
            del self._buffer[: offset - self._first]
            self._first = offset
            self._next = max(self._next, offset)
            self._window = window
        return True


class ReceiveSide:
    """Receiver's state: bytes in order that its application has not read."""

    def __init__(self, limits: StreamLimits) -> None:
        self._limits = limits
        self._buffer = bytearray()
        self._expected = 0
        self.ended = False

    @property
    def expected(self) -> int:
        """The cumulative acknowledgement."""
        return self._expected + self.ended

    @property
    def window(self) -> int:
        return max(0, self._limits.window - len(self._buffer))

    @property
    def unread(self) -> int:
        return len(self._buffer)

    def accept(self, segment: Segment) -> None:
        """Take what is new of a segment; one beyond a gap is left to be sent again."""
        skip = self._expected - segment.offset
        if skip < 0 or skip > len(segment.data):
            return
        fresh = segment.data[skip:][: self.window]
        self._buffer += fresh
        self._expected += len(fresh)
        if segment.end and skip + len(fresh) == len(segment.data):
            self.ended = True

    def read(self, most: int = -1) -> bytes:
        data = bytes(self._buffer if most < 0 else self._buffer[:most])
        del self._buffer[: len(data)]
        return data

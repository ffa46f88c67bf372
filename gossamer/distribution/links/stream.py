"""One stream of one session, as two state machines: numbering, retention, resending, duplicates.

The transport below is reliable while a connection lasts and forgets everything when it breaks. A stream
outlives connections: it delivers every reliable frame once and in order for as long as both nodes remember
the session.

Rules:

1. Reliable frames are numbered from 1 without holes, and kept until the receiver says that they have taken
   effect. Acks are cumulative. Nothing is sent again while a connection lasts.
2. On a new connection the receiver says how far it has received; the sender goes on after that.
3. The receiver drops what it has by the high-water mark of received numbers. A number beyond the next one
   is a broken peer.
4. Retention is bounded in bytes (:attr:`SendStream.retain`). Where a frame does not fit, the session ends:
   a stream has no gaps, so that nobody has to mend what its predecessor should have brought.
5. Unreliable frames keep their place among the others, have no number, are never sent twice, and wait in a
   bound of their own; one that does not fit is refused and counted.

*Received* and *done* differ: a frame is received when it is handed to its user and done when the user says
so. Only done frames are acked, so an ack means "has taken effect", and a user that is replaced midway can ask
for what its predecessor had not done (:meth:`ReceiveStream.rewind`).

Frames may speak of time that is left. One that leaves :data:`LATE` seconds or more after it was pushed, since
a connection was slow or none was there, goes out as ``refresh(frame, seconds)`` makes it; what is retained
stays as it was pushed.

No clock and no I/O: callers pass ``now``. Rejected: retransmission timers and selective acks, which TCP below
already has; a fresh number space per overflow, since monotonic numbers make "is frame n safe" one comparison.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from gossamer.distribution.errors import WireError
from gossamer.distribution.wire import Batch
from gossamer.histogram import Histogram

LATE = 1.0
"""Seconds from which on the age of a frame counts: shorter than what is said in whole seconds."""
Refresh = Callable[[bytes, float], bytes]
"""``refresh(frame, seconds)``: the frame with so much less time left in it."""

# What a frame costs beyond its bytes, so that empty frames are bounded as well.
_OVERHEAD = 64


class SendStream:
    """The sending end. ``retain`` and ``queue`` bound, in bytes, reliable and unreliable frames.

    ``latency`` counts how long reliable frames took from being pushed to having taken effect.
    """

    __slots__ = (
        "_queue",
        "_queued",
        "_retained",
        "acked",
        "last",
        "latency",
        "pending",
        "retain",
        "retained",
        "sent",
    )

    def __init__(self, *, retain: int, queue: int, latency: Histogram) -> None:
        self.retain = retain
        self._queue = queue
        # Unacked reliable frames, and when they were pushed; the newest is number ``last``, so the oldest is
        # last - len + 1.
        self._retained: deque[tuple[bytes, float]] = deque()
        self.retained = 0
        """Bytes held for resending, overhead included; beyond ``retain`` the session has to end."""
        self.pending: deque[tuple[int, bytes, float]] = deque()
        """Frames that the connection has not carried yet, in order, each with its number (0: an unreliable
        one) and the time at which it was pushed."""
        self._queued = 0
        self.last = 0
        """The newest number given."""
        self.acked = 0
        """Every frame up to here has taken effect at the receiver."""
        self.sent = 0
        """The newest number any connection has carried."""
        self.latency = latency

    @property
    def unacked(self) -> int:
        """How many reliable frames are held."""
        return len(self._retained)

    def push(self, frame: bytes, now: float = 0.0) -> int:
        """Queue a reliable frame; returns its number."""
        self.last += 1
        self._retained.append((frame, now))
        self.retained += len(frame) + _OVERHEAD
        self.pending.append((self.last, frame, now))
        return self.last

    def push_unreliable(self, frame: bytes, now: float = 0.0) -> bool:
        """Queue an unreliable frame; False where it does not fit."""
        size = len(frame) + _OVERHEAD
        if self._queued + size > self._queue:
            return False
        self._queued += size
        self.pending.append((0, frame, now))
        return True

    def ack(self, number: int, now: float = 0.0) -> bool:
        """The receiver is done up to ``number``; False when that is old news. Raises WireError."""
        if number > self.sent:
            raise WireError(where="ack", expected=f"a number up to {self.sent}", got=str(number))
        if number <= self.acked:
            return False
        self.acked = number
        oldest = self.last - len(self._retained) + 1
        for _ in range(number - oldest + 1):
            frame, at = self._retained.popleft()
            self.retained -= len(frame) + _OVERHEAD
            self.latency.observe(now - at)
        return True

    def resume(self, received: int) -> None:
        """A connection begins at a receiver that has every frame up to ``received``. Raises WireError."""
        if received > self.sent:
            raise WireError(where="resume", expected=f"a number up to {self.sent}", got=str(received))
        oldest = self.last - len(self._retained) + 1
        waiting = next((entry[0] for entry in self.pending if entry[0]), self.last + 1)
        again = [
            (number, frame, at)
            for number, (frame, at) in enumerate(self._retained, oldest)
            if received < number < waiting
        ]
        kept = [entry for entry in self.pending if entry[0] == 0 or entry[0] > received]
        self.pending = deque(again + kept)

    def next_batch(self, limit: int, now: float = 0.0, refresh: Refresh | None = None) -> Batch:
        """The next frames to write, of about ``limit`` bytes unless a single frame is longer."""
        pending = self.pending
        runs: list[tuple[int, list[bytes]]] = []
        size = 0
        expected = -1
        while pending:
            number, frame, at = pending[0]
            size += len(frame) + _OVERHEAD
            if runs and size > limit:
                break
            pending.popleft()
            if number != expected:
                runs.append((number, []))
            if refresh is not None and now - at >= LATE:
                runs[-1][1].append(refresh(frame, now - at))
            else:
                runs[-1][1].append(frame)
            if number:
                expected = number + 1
                self.sent = max(self.sent, number)
            else:
                expected = 0
                self._queued -= len(frame) + _OVERHEAD
        return Batch(runs=runs)


class ReceiveStream:
    """The receiving end."""

    __slots__ = ("_ahead", "acked", "done", "duplicates", "received")

    def __init__(self) -> None:
        self.received = 0
        """The newest number handed to the user."""
        self.done = 0
        """Every frame up to here has taken effect."""
        self.acked = 0
        """The newest number acked on this connection; an ack is due while it is less than ``done``."""
        self.duplicates = 0
        self._ahead: set[int] = set()

    def fresh(self, batch: Batch) -> list[tuple[int, bytes]]:
        """The frames of ``batch`` that are new, in order, with their numbers (0: unreliable).

        The caller moves ``received`` with every frame that it hands over, so that where it stops midway no
        more counts as received than what was. Raises WireError.
        """
        found: list[tuple[int, bytes]] = []
        expected = self.received + 1
        for first, frames in batch.runs:
            if not first:
                found += [(0, frame) for frame in frames]
                continue
            if first > expected:
                raise WireError(where="batch", expected=f"frame {expected}", got=f"frame {first}")
            known = min(expected - first, len(frames))
            self.duplicates += known
            expected += len(frames) - known
            found += enumerate(frames[known:], first + known)
        return found

    def finish(self, number: int) -> bool:
        """The user is done with ``number``; True when an ack is due for it or those after it."""
        if number == self.done + 1 == self.received:
            self.done = number
        elif self.done < number <= self.received:
            self._ahead.add(number)
            while self.done + 1 in self._ahead:
                self.done += 1
                self._ahead.remove(self.done)
        return self.done > self.acked

    def connected(self) -> int:
        """A connection begins; the number to resume after."""
        # The last ack of the connection before may have been lost with it.
        self.acked = 0
        return self.received

    def rewind(self) -> bool:
        """Forget what was received but not done; False where there is nothing of that kind."""
        behind = self.received > self.done
        self.received = self.done
        self._ahead.clear()
        return behind

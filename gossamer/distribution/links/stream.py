"""One stream of one session, as two state machines: numbering, retention, resending, deduplication.

The transport below is reliable while a connection lasts and loses everything when it breaks. A stream
outlives connections: it delivers every reliable frame once and in order as long as both nodes keep the
session.

Rules:

1. Reliable frames are numbered from 1 without gaps, and kept until the receiver acks that they have taken
   effect. Acks are cumulative. Nothing is resent while a connection lasts.
2. On a new connection the receiver sends its position; the sender continues after that.
3. The receiver drops duplicates by the highest number received. A number beyond the next one is a protocol
   error.
4. Retention is bounded in bytes (:attr:`SendStream.retain`). If a frame does not fit, the session ends: a
   stream has no gaps, so that no user has to repair a missing frame.
5. Unreliable frames keep their place among the others, have no number, are never resent, and have a bound of
   their own; one that does not fit is refused and counted.

*Received* and *done* differ: a frame is received when it is delivered to its user and done when the user
calls ``done``. Only done frames are acked, so an ack means "has taken effect", and a user that replaces
another can get the frames that its predecessor had not done (:meth:`ReceiveStream.rewind`).

Frames may contain a remaining time. One that leaves :data:`LATE` seconds or more after it was pushed, because
the connection was slow or missing, is rewritten by ``refresh(frame, seconds)``; the retained frame stays as
it was pushed.

No clock and no I/O: callers pass ``now``. Rejected: retransmission timers and selective acks, which TCP below
already has; a new number space per overflow, since monotonic numbers make "is frame n safe" one comparison.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from gossamer.distribution.errors import WireError
from gossamer.distribution.wire import Ack, Batch
from gossamer.histogram import Histogram

LATE = 1.0
"""Minimum age in seconds of a frame that is refreshed: remaining times are in whole seconds."""
Refresh = Callable[[bytes, float], bytes]
"""``refresh(frame, seconds)`` returns the frame with its remaining time reduced."""
Part = tuple[int, int, int]
"""Number of a frame, its first byte that is meant, and the one behind the last."""

# Cost of a frame beyond its bytes, so that empty frames are bounded too.
_OVERHEAD = 64


class SendStream:
    """Sending end. ``retain`` and ``queue`` bound reliable and unreliable frames, in bytes.

    ``latency`` measures the time of reliable frames from push to having taken effect.
    """

    __slots__ = (
        "_queue",
        "_queued",
        "_retained",
        "_shortened",
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
        # Unacked reliable frames with the time of their push; the newest is number ``last``, so the oldest
        # is last - len + 1.
        self._retained: deque[tuple[bytes, float]] = deque()
        self.retained = 0
        """Bytes held for resending, overhead included; beyond ``retain`` the session ends."""
        self.pending: deque[tuple[int, bytes, float]] = deque()
        """Frames not yet written to the connection, in order, each with its number (0: unreliable) and the
        time of its push."""
        self._queued = 0
        self._shortened: set[int] = set()
        """Unacked frames that left without some of their bytes: what the receiver says of places in them is
        not of places in ours."""
        self.last = 0
        """Newest number assigned."""
        self.acked = 0
        """Number up to which every frame has taken effect at the receiver."""
        self.sent = 0
        """Newest number written to any connection."""
        self.latency = latency

    @property
    def unacked(self) -> int:
        """Number of reliable frames held."""
        return len(self._retained)

    def push(self, frame: bytes, now: float = 0.0) -> int:
        """Queue a reliable frame; returns its number."""
        self.last += 1
        self._retained.append((frame, now))
        self.retained += len(frame) + _OVERHEAD
        self.pending.append((self.last, frame, now))
        return self.last

    def push_unreliable(self, frame: bytes, now: float = 0.0) -> bool:
        """Queue an unreliable frame; return False if it does not fit."""
        size = len(frame) + _OVERHEAD
        if self._queued + size > self._queue:
            return False
        self._queued += size
        self.pending.append((0, frame, now))
        return True

    def ack(self, number: int, now: float = 0.0) -> bool:
        """Release frames up to ``number``; return False if that was known. Raises WireError."""
        if number > self.sent:
            raise WireError(where="ack", expected=f"a number up to {self.sent}", got=str(number))
        if number <= self.acked:
            return False
        self.acked = number
        if self._shortened:
            self._shortened = {one for one in self._shortened if one > number}
        oldest = self.last - len(self._retained) + 1
        for _ in range(number - oldest + 1):
            frame, at = self._retained.popleft()
            self.retained -= len(frame) + _OVERHEAD
            self.latency.observe(now - at)
        return True

    def ahead(self, numbers: Iterable[int]) -> list[int]:
        """Return which of these frames have taken effect before one that came first. Raises WireError."""
        found = [number for number in numbers if number > self.acked]
        if found and max(found) > self.sent:
            raise WireError(where="ack", expected=f"numbers up to {self.sent}", got=str(max(found)))
        return found

    def ahead_in_part(self, parts: Iterable[Part]) -> list[Part]:
        """Return the parts of frames that have taken effect and are known by their places."""
        return [part for part in parts if part[0] > self.acked and part[0] not in self._shortened]

    def resume(self, received: int) -> None:
        """Start on a connection to a receiver that has every frame up to ``received``. Raises WireError."""
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
        """Return the next frames to write, of about ``limit`` bytes unless a single frame is longer."""
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
                fresh = refresh(frame, now - at)
                runs[-1][1].append(fresh)
                if number and len(fresh) != len(frame):
                    self._shortened.add(number)
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
    """Receiving end."""

    __slots__ = ("_ahead", "_parts", "_untold", "acked", "done", "duplicates", "more", "received")

    def __init__(self) -> None:
        self.received = 0
        """Newest number delivered to the user."""
        self.done = 0
        """Number up to which every frame has taken effect."""
        self.acked = 0
        """Newest number acked on this connection; an ack is due while it is less than ``done``."""
        self.duplicates = 0
        self.more = False
        """Whether the next ack has more to say than a number."""
        self._ahead: set[int] = set()
        """Frames beyond ``done`` that have taken effect."""
        self._untold: list[int] = []
        """Those of them that no ack on this connection has named."""
        self._parts: list[tuple[int, int, int]] = []
        """Parts of others, which an ack names once: if it is lost, so are they."""

    @property
    def due(self) -> bool:
        """Return whether an ack is due."""
        return self.done > self.acked or self.more

    def ack(self) -> Ack:
        """Return the ack that is due, where it has more to say than a number."""
        self.acked, self.more = self.done, False
        untold, self._untold = self._untold, []
        parts, self._parts = self._parts, []
        return Ack(
            self.done,
            tuple(number for number in untold if number > self.done),
            tuple(part for part in parts if part[0] > self.done and part[0] not in self._ahead),
        )

    def part(self, number: int, spans: Iterable[tuple[int, int]]) -> bool:
        """Note bytes of a frame that have taken effect; return True if an ack is due for them."""
        if self.done < number <= self.received:
            self._parts += [(number, *span) for span in spans]
            self.more = True
        return self.due

    def fresh(self, batch: Batch) -> list[tuple[int, bytes]]:
        """Return the new frames of ``batch`` in order, with their numbers (0: unreliable).

        The caller advances ``received`` with every frame that it delivers, so that if it stops midway only
        delivered frames count as received. Raises WireError.
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
        """Mark ``number`` as done; return True if an ack is due for it or those after it."""
        if number == self.done + 1 == self.received:
            self.done = number
        elif self.done < number <= self.received:
            self._ahead.add(number)
            while self.done + 1 in self._ahead:
                self.done += 1
                self._ahead.remove(self.done)
            if number > self.done:
                self._untold.append(number)
                self.more = True
        return self.done > self.acked or self.more

    def connected(self) -> int:
        """Start on a new connection; return the number to resume after."""
        # The last acks of the previous connection may have been lost with it.
        self.acked = 0
        self._untold = sorted(self._ahead)
        self._parts.clear()
        self.more = bool(self._untold)
        return self.received

    def rewind(self) -> bool:
        """Drop frames received but not done, so that they come again; return False if there are none."""
        behind = self.received > self.done
        self.received = self.done
        self._ahead.clear()
        self._untold.clear()
        self._parts.clear()
        self.more = False
        return behind

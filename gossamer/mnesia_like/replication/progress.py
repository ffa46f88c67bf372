"""Progress of one follower: what it was sent of this node's rows in one table, and what it acknowledged.

Two modes. *Log*: deltas in order, as many as the window lets be in flight. *Snapshot*: the peer needs deltas
that the log no longer holds, so it gets all rows in bounded parts, then the log from the snapshot's base on.

The snapshot is fuzzy: rows are read when their part is built, while writes continue, so a part may be newer
than the base. That is harmless, because deltas carry a row's final value: applying one that a part already
had changes nothing in the end.

Rules: 1. Pure.  2. The link loses nothing within a session, and keeps the order, so a peer acknowledges the
number of messages applied since it followed, and nothing is sent again; a peer that follows again sends its
position.  3. At most ``window`` bytes (and one message) are in flight: a stuck peer costs that, a cursor, and
nothing else.  4. A turn builds one part of a snapshot; while there is ``more`` the owner continues in later
turns, so that a joiner of a large table delays no other peer.
"""

from __future__ import annotations

from collections import deque

from gossamer.mnesia_like.replication.own_log import OwnLog
from gossamer.mnesia_like.replication.wire import encode_chunk
from gossamer.mnesia_like.values import Key, encode

_CHUNK = 64 * 1024


class FollowerProgress:
    """Progress of one peer: deltas up to ``sent`` are in flight, those up to ``acked`` applied there."""

    __slots__ = (
        "_applied",
        "_flight",
        "_keys",
        "_log",
        "_window",
        "acked",
        "base",
        "in_flight",
        "sent",
        "snapshots",
    )

    def __init__(self, log: OwnLog, *, window: int) -> None:
        self._log = log
        self._window = window
        # Per message in flight: its bytes, and the peer's position after it (-1: unknown).
        self._flight: deque[tuple[int, int]] = deque()
        self._applied = 0
        # Keys still to be sent of the current snapshot, the next one last.
        self._keys: list[Key] | None = None
        self.base: int | None = None
        """Base of a snapshot that the peer has not fully applied; deltas after it must be kept."""
        self.in_flight = 0
        self.sent = 0
        self.acked = 0
        self.snapshots = 0

    @property
    def caught_up(self) -> bool:
        """True once everything sealed has been sent."""
        return self._keys is None and self.sent == self._log.last

    @property
    def more(self) -> bool:
        """True while another part of a snapshot may be sent."""
        return self._keys is not None and self.in_flight < self._window

    def follow(self, position: int, *, snapshot: bool) -> None:
        """Restart from the peer's ``position``; ``snapshot``: send all rows regardless."""
        self._flight.clear()
        self.in_flight = self._applied = 0
        self.sent = self.acked = position
        self.base = self._keys = None
        # A peer ahead of us holds rows that are not in our log.
        if snapshot or position > self._log.last:
            self._start_snapshot()

    def ack(self, applied: int) -> None:
        """Record that the peer has applied ``applied`` messages since it followed."""
        while self._applied < applied and self._flight:
            self._applied += 1
            size, position = self._flight.popleft()
            self.in_flight -= size
            self.acked = max(self.acked, position)
            if position == self.base:
                self.base = None

    def pump(self) -> list[bytes]:
        """Return the messages to send now; see :attr:`more`."""
        messages: list[bytes] = []
        log = self._log
        while self.in_flight < self._window and (self._keys is not None or self.sent < log.last):
            delta = log.deltas.get(self.sent + 1) if self._keys is None else None
            if delta is not None:
                self.sent = position = self.sent + 1
            else:
                if self._keys is None:
                    self._start_snapshot()
                delta, position = self._next_part()
            messages.append(delta)
            self._flight.append((len(delta), position))
            self.in_flight += len(delta)
            if self._keys is not None:
                break
        return messages

    def _start_snapshot(self) -> None:
        self._log.seal()
        self.snapshots += 1
        self.base = self._log.last
        self._keys = list(reversed(self._log.rows))

    def _next_part(self) -> tuple[bytes, int]:
        """Encode as many rows as fit (none of an empty table); the last part carries the base."""
        rows, keys, base = self._log.rows, self._keys, self.base
        assert keys is not None  # noqa: S101
        assert base is not None  # noqa: S101
        pairs: list[bytes] = []
        size = 0
        while keys and size < _CHUNK:
            if keys[-1] in rows:
                pair = encode(keys[-1]) + encode(rows[keys[-1]])
                if size and size + len(pair) > 2 * _CHUNK:
                    break
                pairs.append(pair)
                size += len(pair)
            keys.pop()
        if keys:
            base = -1
        else:
            self._keys = None
            self.sent = base
        return encode_chunk(self._log.definition.name, base, pairs), base

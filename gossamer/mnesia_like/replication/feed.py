"""What one peer has been sent of this node's rows in one table, and what it has confirmed.

Two modes. *Log*: deltas in order, as many as the window lets be in flight. *Snapshot*: the peer needs deltas
that the log no longer holds, so it gets all rows in bounded parts, then the log from the snapshot's base on.

The snapshot is fuzzy: rows are read when their part is built, while writes go on, so a part may be newer than
the base. That is harmless, because deltas say where a row ended up: applying again what a part already had
changes nothing in the end.

Rules: 1. Pure.  2. The link loses nothing while its session lasts, so what was sent is not sent again; a peer
that follows anew says how far it got.  3. In flight at most ``window`` bytes (and one message): a stuck peer
costs that, a cursor, and nothing else.  4. A turn builds one part of a snapshot; while there is ``more`` the
owner goes on in later turns, so that a joiner of a large table holds up nobody.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from gossamer.mnesia_like.replication.own_log import OwnLog
from gossamer.mnesia_like.replication.wire import encode_chunk
from gossamer.mnesia_like.values import Key, encode

_CHUNK = 64 * 1024


class _Snapshot:
    """A cursor over the keys there were at ``base``."""

    __slots__ = ("base", "index", "keys", "offset", "parts", "session")

    def __init__(self, session: int, base: int, keys: list[Key]) -> None:
        self.session = session
        self.base = base
        self.keys = keys
        self.offset = 0
        self.index = 0
        # Parts in flight: (index, bytes).
        self.parts: deque[tuple[int, int]] = deque()


class Feed:
    """Progress of one peer. ``sessions`` numbers snapshots: a later one is always larger."""

    __slots__ = (
        "_flight",
        "_log",
        "_sessions",
        "_snapshot",
        "_window",
        "acked",
        "in_flight",
        "sent",
        "snapshots",
    )

    def __init__(self, log: OwnLog, *, sessions: Iterator[int], window: int) -> None:
        self._log = log
        self._sessions = sessions
        self._window = window
        self._flight: deque[tuple[int, int]] = deque()
        self._snapshot: _Snapshot | None = None
        self.in_flight = 0
        self.sent = 0
        self.acked = 0
        self.snapshots = 0

    @property
    def base(self) -> int | None:
        """The base of the snapshot under way; deltas after it must be kept."""
        return None if self._snapshot is None else self._snapshot.base

    @property
    def level(self) -> bool:
        """Everything sealed has been sent, and no snapshot is under way."""
        return self._snapshot is None and self.sent == self._log.last

    def follow(self, position: int, *, snapshot: bool) -> None:
        """The peer holds our rows up to ``position``; ``snapshot``: it wants all of them regardless."""
        self._rewind(position)
        self._snapshot = None
        # A peer ahead of us holds rows that we do not know of.
        if snapshot or position > self._log.last:
            self._start_snapshot()

    def ack(self, position: int, session: int, index: int) -> None:
        """The peer got so far."""
        snapshot = self._snapshot
        if snapshot is not None:
            if session == snapshot.session:
                self._ack_part(snapshot, index)
            return
        if position > self._log.last:
            self._start_snapshot()
            return
        self.acked = max(self.acked, position)
        flight = self._flight
        while flight and flight[0][0] <= position:
            self.in_flight -= flight.popleft()[1]

    def pump(self) -> list[bytes]:
        """The messages to send now; see :attr:`more`."""
        messages: list[bytes] = []
        while self.in_flight < self._window:
            message = self._next()
            if message is None:
                break
            messages.append(message)
            self.in_flight += len(message)
            if self._snapshot is not None:
                break
        return messages

    @property
    def more(self) -> bool:
        """Whether another part of a snapshot may be sent."""
        snapshot = self._snapshot
        return snapshot is not None and self.in_flight < self._window and snapshot.offset < len(snapshot.keys)

    def _next(self) -> bytes | None:
        if self._snapshot is None:
            if self.sent >= self._log.last:
                return None
            delta = self._log.delta(self.sent + 1)
            if delta is not None:
                self.sent += 1
                self._flight.append((self.sent, len(delta)))
                return delta
            self._start_snapshot()
        return self._next_part()

    def _start_snapshot(self) -> None:
        self._log.seal()
        self._flight.clear()
        self.in_flight = 0
        self.snapshots += 1
        self._snapshot = _Snapshot(next(self._sessions), self._log.last, list(self._log.rows))

    def _next_part(self) -> bytes | None:
        snapshot = self._snapshot
        assert snapshot is not None  # noqa: S101
        keys = snapshot.keys
        # An empty table still sends one part, which says that it is empty.
        if snapshot.offset >= len(keys) and snapshot.index:
            return None
        rows = self._log.rows
        offset = snapshot.offset
        pairs: list[bytes] = []
        size = 0
        while offset < len(keys) and size < _CHUNK:
            key = keys[offset]
            if key in rows:
                pair = encode(key) + encode(rows[key])
                if size and size + len(pair) > 2 * _CHUNK:
                    break
                pairs.append(pair)
                size += len(pair)
            offset += 1
        snapshot.offset = offset
        snapshot.index += 1
        base = snapshot.base if offset >= len(keys) else -1
        part = encode_chunk(self._log.definition.name, snapshot.session, snapshot.index, base, pairs)
        snapshot.parts.append((snapshot.index, len(part)))
        return part

    def _ack_part(self, snapshot: _Snapshot, index: int) -> None:
        parts = snapshot.parts
        while parts and parts[0][0] <= index:
            self.in_flight -= parts.popleft()[1]
        if not parts and snapshot.offset >= len(snapshot.keys) and index == snapshot.index:
            self._snapshot = None
            self._rewind(snapshot.base)

    def _rewind(self, position: int) -> None:
        self._flight.clear()
        self.in_flight = 0
        self.sent = self.acked = position

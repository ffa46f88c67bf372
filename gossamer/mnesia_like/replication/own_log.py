"""The rows this node owns in one table, and the numbered log of what it did to them.

Writes gather in an *open* delta; within it the last change of a key wins, since a peer needs only where a row
ended up. ``seal`` gives the open delta the next number, encodes it once and keeps it in the log. The number a
write returns is that of the delta it will travel in: a peer that has applied it has the row.

Rules: 1. Pure: no clock, no I/O; what may stand in a row was checked before.  2. Numbers start at 1 and have
no gaps.  3. The log is bounded in bytes; a peer that needs what was trimmed gets a snapshot. A snapshot under
way pins the log behind it, up to a second bound.

Rejected: one number a row, which costs a log entry, a comparison and a tuple for each of the 200,000 rows a
second that this path carries.
"""

from __future__ import annotations

from gossamer.mnesia_like.definition import TableDef
from gossamer.mnesia_like.replication.digest import Sweep
from gossamer.mnesia_like.replication.wire import encode_delta
from gossamer.mnesia_like.values import NIL, Key, Value

_BATCH = 128 * 1024


class OwnLog:
    """Rows, log and numbering of one (table, owner, creation), at the owner."""

    def __init__(
        self,
        definition: TableDef,
        *,
        log_bytes: int = 8 * 1024 * 1024,
        pinned_log_bytes: int = 64 * 1024 * 1024,
    ) -> None:
        self.definition = definition
        self.rows: dict[Key, Value] = {}
        self.first = 1
        self.last = 0
        self.pinned: int | None = None
        self.sweep: Sweep | None = None
        self._table = definition.name
        self.deltas: dict[int, bytes] = {}
        """Encoded deltas by number, from ``first`` on."""
        self.log_size = 0
        """Bytes of them."""
        self._log_bytes = log_bytes
        self._pinned_log_bytes = pinned_log_bytes
        self._written: dict[Key, bytes] = {}
        self._deleted: dict[Key, bytes] = {}
        self.open_size = 0
        """Bytes of the open delta, which waits to be sealed; 0: there is none."""

    @property
    def position(self) -> int:
        """The number under which everything written so far travels."""
        return self.last + 1 if self.open_size else self.last

    def write(self, key: Key, value: Value, encoded: bytes) -> int:
        """Set the row of ``key``, of which ``encoded`` are the bytes of key and value; the delta's number."""
        self._make_room(key, len(encoded))
        self.rows[key] = value
        if self._deleted:
            self._deleted.pop(key, None)
        self._written[key] = encoded
        return self.last + 1

    def delete(self, key: Key, encoded: bytes) -> int:
        """Remove the row of ``key``, which is there and of which ``encoded`` are the bytes; the number."""
        self._make_room(key, len(encoded))
        del self.rows[key]
        self._written.pop(key, None)
        self._deleted[key] = encoded + NIL
        return self.last + 1

    def seal(self) -> bool:
        """Close the open delta into the log; False where there was none."""
        if not self.open_size:
            return False
        self.last += 1
        delta = encode_delta(self._table, self.last, self._written.values(), self._deleted.values())
        self._written = {}
        self._deleted = {}
        self.open_size = 0
        self.deltas[self.last] = delta
        self.log_size += len(delta)
        if self.log_size > self._log_bytes:
            self._trim()
        return True

    def clear(self) -> None:
        """Own nothing any more; followers get that as a snapshot, and never what was before."""
        self.seal()
        self.rows.clear()
        self.sweep = None
        self.deltas.clear()
        self.log_size = 0
        self.last += 1
        self.first = self.last + 1

    def pin(self, position: int | None) -> None:
        """A snapshot as of ``position`` is under way (None: no longer)."""
        self.pinned = position
        self._trim()

    def _make_room(self, key: Key, size: int) -> None:
        """A row is about to change, by so many bytes of a delta."""
        if self.open_size and self.open_size + size > _BATCH:
            self.seal()
        self.open_size += size
        if self.sweep is not None:
            self.sweep.note((key,))

    def _trim(self) -> None:
        # The newest delta always stays: most peers are about to be sent just that one.
        while self.log_size > self._log_bytes and self.first < self.last:
            held = self.pinned is not None and self.first > self.pinned
            if held and self.log_size <= self._pinned_log_bytes:
                return
            self.log_size -= len(self.deltas.pop(self.first))
            self.first += 1

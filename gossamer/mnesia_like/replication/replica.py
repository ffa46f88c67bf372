"""Replica of one peer's rows in one table.

Deltas are applied in the order of their numbers, which is the order of arrival; one out of sequence is
ignored. A snapshot's parts are applied as they arrive, so that a joiner can use the rows it has; after the
last part, rows that no part named are removed.

Life cycle: ``up`` → follow → (snapshot) → caught up, deltas … ``down`` → rows stay for the table's grace time
→ purged in slices. Those of an owned table are *parked*: readers do not see them, but when the peer returns
under the same creation they are put back and it continues from its position, after a split of any length.
Under a new creation its old rows are purged before it is followed, so that no new row can fall to the old
purge. The rows of a peer that has left are purged at once.

Rules: 1. Pure: events in, :class:`Change` values out, ``now`` is passed in.  2. Change values share the
decoded maps; nothing is allocated per row.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass

from gossamer.mnesia_like.definition import TableDef
from gossamer.mnesia_like.replication.digest import Sweep
from gossamer.mnesia_like.replication.wire import Chunk, Delta, Digest, Relayed
from gossamer.mnesia_like.values import Key, Value, encode

_MISSING: Value = object()


@dataclass(frozen=True, slots=True)
class Change:
    """Rows of ``owner`` in ``table`` that were written and deleted; already in effect."""

    table: str
    owner: str
    written: dict[Key, Value]
    deleted: Collection[Key]


class Tail:
    """Last deltas of one owner that were applied here, kept to relay them to peers that lack them.

    It covers what was in flight when an owner went down, so it is bounded in deltas and in bytes: a peer that
    lacks more waits for the owner, or for a survivor that adopts the rows. Numbers have no gaps.
    """

    __slots__ = ("_deltas", "_last", "_most", "_most_bytes", "size")

    def __init__(self, *, most: int = 1000, most_bytes: int = 1024 * 1024) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self.clear()

    def clear(self) -> None:
        """Drop all deltas: the next one does not continue them."""
        self._deltas: deque[bytes] = deque()
        self._last = 0
        self.size = 0

    def add(self, number: int, delta: bytes) -> None:
        """Append the next applied delta."""
        self._deltas.append(delta)
        self._last = number
        self.size += len(delta)
        while len(self._deltas) > self._most or self.size > self._most_bytes:
            self.size -= len(self._deltas.popleft())

    def after(self, number: int) -> list[bytes]:
        """Return all deltas after ``number``, or none if some of them are missing here."""
        count = self._last - number
        return list(self._deltas)[-count:] if 0 < count <= len(self._deltas) else []


class Replica:
    """One (table, owner)'s rows on this node, and their position."""

    def __init__(self, definition: TableDef, owner: str) -> None:
        self.definition = definition
        self.owner = owner
        self.creation = 0
        self.rows: dict[Key, Value] = {}
        self.position = 0
        self.head = 0
        self.up = False
        self.left = False
        self.down_since: float | None = None
        self.purging = False
        self.parked_rows: dict[Key, Value] = {}
        """Rows of a peer that has been down for longer than the grace time."""
        self.parked = False
        self.answered = False
        self.loaded = False
        # The user declared it loaded, whatever is missing.
        self.forced = False
        self.refused: str | None = None
        self.loading = False
        self.sweep: Sweep | None = None
        self.tail = Tail()
        """Of a shared table: the owner's last deltas, up to ``position``."""
        self._target = 0
        self._seen: set[Key] | None = None
        self._digest: Digest | None = None
        self._table = definition.name

    # -- the peer comes and goes

    def peer_up(self, creation: int) -> bool:
        """Mark the peer up; return True to follow it now, False once its old rows are purged."""
        self.forced = False
        if creation != self.creation:
            self.creation = creation
            self.loaded = False
            self.purging = bool(self.rows) or self.purging
            self.parked_rows = {}
            self._reset()
        elif self.parked:
            self.purging = False
        self.parked = False
        self.up = True
        self.left = False
        self.down_since = None
        self._unsettle()
        if self.purging and not self.rows:
            self.purging = False
        return not self.moving

    @property
    def moving(self) -> bool:
        """True while rows are being purged or put back, so that new ones cannot be applied."""
        return self.purging or (self.up and bool(self.parked_rows))

    def peer_down(self, now: float, *, left: bool) -> None:
        """Mark the peer down; ``left``: permanently."""
        self.up = False
        self.left = left
        self.down_since = now
        self._unsettle()
        if left:
            self._begin_purge()

    def dropped(self) -> None:
        """Purge the rows of a peer that is up and no longer has the table."""
        self._begin_purge()
        if not self.purging:
            self.on_refused("")

    def restart(self) -> None:
        """Drop all of the owner's rows, and follow it from the beginning."""
        self.rows.clear()
        self.parked_rows = {}
        self.purging = self.loaded = False
        self._reset()

    def expire(self, now: float) -> None:
        """Start the purge if the peer has been down past the grace time."""
        if (
            self.down_since is not None
            and not self.purging
            and not self.parked
            and now - self.down_since >= self.definition.grace
            and (self.rows or self.position)
        ):
            if self.definition.replication == "owned":
                self.parked = True
                self.purging = bool(self.rows)
                self.loaded = False
            else:
                # Other nodes keep the versions that they have seen of these.
                self._begin_purge()

    def move(self, budget: int) -> Change | None:
        """Purge at most ``budget`` rows, or put them back; see :attr:`moving`."""
        source = self.rows if self.purging else self.parked_rows
        moved = dict(source.popitem() for _ in range(min(budget, len(source))))
        if not self.purging:
            self.rows |= moved
            return Change(self._table, self.owner, moved, ())
        if self.parked:
            self.parked_rows |= moved
        self.purging = bool(self.rows)
        return Change(self._table, self.owner, {}, list(moved)) if moved else None

    # -- messages of the owner

    def on_head(self, number: int) -> None:
        """Handle the owner's newest number: it accepted us as a follower."""
        self.refused = None
        if not self.answered:
            self.answered = True
            self._target = number
        self.head = max(self.head, number)
        self._check_loaded()

    def on_refused(self, fingerprint: str) -> None:
        """Handle a refusal: the owner has no such table (``fingerprint`` is empty), or a different one."""
        self.answered = True
        self.refused = fingerprint
        self.loaded = not fingerprint

    def follow(self) -> None:
        """Expect rows after ``position``, which were just requested from the owner."""
        self.loading = False
        self._seen = None

    def on_delta(self, delta: Delta) -> Change | None:
        """Apply the next delta; None: it is out of sequence and ignored."""
        self.head = max(self.head, delta.number)
        if delta.number != self.position + 1 or self.loading:
            return None
        change = self._apply(delta)
        if self.definition.replication == "shared":
            self.tail.add(delta.number, encode(Relayed(self._table, self.owner, self.creation, delta)))
        if not self.loaded:
            self._check_loaded()
        return change

    def on_relayed(self, relayed: Relayed) -> Change | None:
        """Apply a delta of an owner that is down, as another peer relayed it; None: it is ignored.

        An owner that is up sends its deltas itself, and counts them. Where nothing of it is here, its log
        from the beginning would show rows that others have deleted since.
        """
        if self.up or self.purging or relayed.creation != self.creation or not self.position:
            return None
        return self.on_delta(relayed.delta)

    def on_chunk(self, chunk: Chunk) -> list[Change]:
        """Apply one part of a snapshot."""
        if not self.loading:
            self.loading = True
            self._seen = set() if self.rows else None
            self.sweep = None
        changes: list[Change] = []
        rows = self.rows
        written = chunk.rows
        if self._seen is not None:
            self._seen.update(written)
            written = {
                key: value
                for key, value in written.items()
                if (old := rows.get(key, _MISSING)) != value or type(old) is not type(value)
            }
        if written:
            rows.update(written)
            changes.append(Change(self._table, self.owner, written, ()))
        if chunk.base >= 0:
            changes += self._finish_snapshot(chunk.base)
        return changes

    @property
    def caught_up(self) -> bool:
        """True once everything that the owner had when it answered is here."""
        return self.answered and not self.loading and self.position >= self._target

    # -- digests

    def begin_sweep(self, number: int) -> None:
        """Start a digest at the owner's ``number``, if that is our position."""
        self._digest = None
        self.sweep = None
        if number == self.position and not self.loading and not self.purging:
            self.sweep = Sweep(self.rows, number)

    def on_digest(self, digest: Digest) -> None:
        """Store the owner's digest."""
        self._digest = digest

    def diverged(self) -> bool:
        """Compare the digests once both are there; True: the rows differ and must all be sent again."""
        sweep, digest = self.sweep, self._digest
        if sweep is None or digest is None or not sweep.done:
            return False
        self.sweep = self._digest = None
        same_place = digest.number == sweep.number
        return same_place and (digest.rows, digest.total) != (sweep.count, sweep.total)

    def waits_for(self) -> str:
        """Describe what keeps this replica from being loaded."""
        place = f"{self._table}: {self.owner}"
        if self.refused:
            return f"{place} has it as {self.refused}, here it is {self.definition.fingerprint}"
        if self.purging:
            return f"{place}: {len(self.rows)} rows of its previous incarnation are being removed"
        if self.moving:
            return f"{place}: {len(self.parked_rows)} rows are being put back"
        if not self.answered:
            return f"{place} is up and has not answered"
        if self.loading:
            return f"{place}: snapshot, {len(self.rows)} rows so far"
        return f"{place}: at {self.position} of {self.head}"

    # -- inside

    def _apply(self, delta: Delta) -> Change:
        rows = self.rows
        if self.sweep is not None:
            self.sweep.note(delta.written)
            self.sweep.note(delta.deleted)
        rows.update(delta.written)
        deleted: Collection[Key] = ()
        if delta.deleted:
            # A row written and deleted within one delta is deleted in it, and was never here.
            pop = rows.pop
            deleted = [key for key in delta.deleted if pop(key, _MISSING) is not _MISSING]
        self.position = delta.number
        return Change(self._table, self.owner, delta.written, deleted)

    def _finish_snapshot(self, base: int) -> list[Change]:
        self.loading = False
        self.tail.clear()
        self.position = base
        self.head = max(self.head, base)
        seen, self._seen = self._seen, None
        self._check_loaded()
        if seen is None or len(seen) == len(self.rows):
            return []
        rows = self.rows
        stale = [key for key in rows if key not in seen]
        for key in stale:
            del rows[key]
        return [Change(self._table, self.owner, {}, stale)]

    def _check_loaded(self) -> None:
        if self.caught_up:
            self.loaded = True

    def _begin_purge(self) -> None:
        self.purging = bool(self.rows)
        self.parked = False
        self.parked_rows = {}
        # If it comes back under the same creation, it is followed from the beginning.
        self.creation = 0
        self.loaded = False
        self._reset()

    def _reset(self) -> None:
        self.position = self.head = self._target = 0
        self.tail.clear()
        self._unsettle()

    def _unsettle(self) -> None:
        self.answered = False
        self.refused = None
        self.loading = False
        self.sweep = self._digest = None
        self._seen = None

"""Quarantine: rows that lost when two sides of a split merged, kept until an operator has reviewed them.

Rules: 1. Bounded in rows and bytes: the oldest go first, and are counted.  2. ``keep`` and ``take`` return at
once. On a node with a disc, what they did goes to a journal of the store, which tries again while the disc is
full; ``synced`` waits for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import Struct

from gossamer.errors import UsageError
from gossamer.mnesia_like import DiscError, Journal, Store

MAX_ROWS = 100_000
MAX_BYTES = 16 * 1024 * 1024
SYNC_TIMEOUT = 5.0
_NEVER = (0, "")
_encode = msgspec.msgpack.Encoder().encode


class Kept(Struct, frozen=True):
    """A row that lost to ``winner``. ``value`` is empty for a deletion; times are wall-clock seconds.

    ``before``: it is what this node held before it met the other side.
    """

    table: str
    key: Any
    value: list[Any]
    version: tuple[int, str]
    winner: tuple[int, str]
    peer: str
    at: float
    policy: str
    before: bool = False
    plan: str = ""

    @property
    def id(self) -> str:
        """Names it, on every node alike."""
        return blake2b(_encode((self.table, self.key, self.version)), digest_size=6).hexdigest()

    @property
    def real(self) -> bool:
        """False where there was no row before."""
        return self.version != _NEVER


class NotInQuarantineError(UsageError):
    """No such row is in the quarantine."""

    def __init__(self, id: str) -> None:  # noqa: A002 - the operator's word
        self.id = id
        super().__init__(
            f"{id}: no such row in this node's quarantine; `gossamer autoheal quarantine` lists them"
        )


class Quarantine:
    """Rows that heals discarded, within ``max_rows`` and ``max_bytes``; in memory until ``load``."""

    def __init__(self, *, max_rows: int = MAX_ROWS, max_bytes: int = MAX_BYTES) -> None:
        self.rows: dict[str, Kept] = {}
        self.dropped = 0
        """Rows that had to go for newer ones."""
        self.bytes = 0
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._sizes: dict[str, int] = {}
        self._store: Store | None = None
        self._journal: Journal | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Kept]:
        return iter(self.rows.values())

    def get(self, id: str) -> Kept:  # noqa: A002
        """Return one row.

        Raises:
            NotInQuarantineError: there is none.
        """
        try:
            return self.rows[id]
        except KeyError:
            raise NotInQuarantineError(id) from None

    def keep(self, kept: Kept) -> None:
        """Put a row in; one that is there already is replaced."""
        record = self._add(kept)
        if self._journal is not None:
            self._journal.put(_encode(kept.id), record)
        while len(self.rows) > self._max_rows or self.bytes > self._max_bytes:
            self.dropped += 1
            self.take(next(iter(self.rows)))

    def take(self, id: str) -> None:  # noqa: A002
        """Take a row out, if it is there."""
        if self._forget(id) and self._journal is not None:
            self._journal.put(_encode(id), None)

    async def load(self, store: Store) -> None:
        """Load the rows of the node's last creation from ``store``'s disc, and use it from now on; once."""
        if self._journal is not None:
            return
        self._store = store
        self._journal, rows = await store.create_journal("heal_quarantine")
        for kept in sorted(msgspec.convert([*rows.values()], list[Kept]), key=lambda kept: kept.at):
            self._add(msgspec.structs.replace(kept, key=as_key(kept.key)))

    async def synced(self) -> None:
        """Wait until all changes are on disc; a failing disc does not block."""
        if self._store is not None:
            with suppress(DiscError, TimeoutError):
                await self._store.queue.durable(self._store.queue.ticket, SYNC_TIMEOUT)

    def _add(self, kept: Kept) -> bytes:
        self._forget(kept.id)
        record = _encode(kept)
        self.rows[kept.id] = kept
        self._sizes[kept.id] = len(record)
        self.bytes += len(record)
        return record

    def _forget(self, id: str) -> bool:  # noqa: A002
        known = self.rows.pop(id, None) is not None
        if known:
            self.bytes -= self._sizes.pop(id)
        return known


def as_key(key: object) -> object:
    """A row's key, whose tuples came as lists."""
    return tuple(map(as_key, key)) if isinstance(key, list) else key

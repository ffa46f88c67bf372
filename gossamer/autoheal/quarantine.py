"""The quarantine: rows that lost when two sides of a split became one, kept until somebody has looked.

One file a node, of records that are added at the end: a row that lost, or the news that one was taken out.
Each record carries its length and its checksum.

Rules: 1. Bounded in rows and bytes: the oldest go first, and are counted.  2. ``keep`` and ``take`` return at
once; ``flush`` brings what they did to the disc, in a thread, and syncs it.  3. Half a record at the end is
cut off; from a damaged one on nothing is believed, and that is logged.  4. A full disc stops nobody: the rows
stay in memory.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec
import structlog
from msgspec import Struct

from gossamer.errors import UsageError
from gossamer.files import replace_file

log = structlog.get_logger(__name__)

MAX_ROWS = 100_000
MAX_BYTES = 16 * 1024 * 1024
_HEAD = 8
_NEVER = (0, "")


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
        what = msgspec.msgpack.encode((self.table, self.key, self.version))
        return blake2b(what, digest_size=6).hexdigest()

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
    """Rows discarded by heals, in one file: at most ``max_rows`` rows and ``max_bytes`` bytes.

    ``path`` None keeps them in memory.
    """

    def __init__(self, path: Path | None, *, max_rows: int = MAX_ROWS, max_bytes: int = MAX_BYTES) -> None:
        self.path = path
        self.rows: dict[str, Kept] = {}
        self.dropped = 0
        """Rows that had to go for newer ones."""
        self.bytes = 0
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._sizes: dict[str, int] = {}
        self._waiting: list[bytes] = []
        self._file_bytes = 0
        self._flushing = asyncio.Lock()

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Kept]:
        return iter(self.rows.values())

    def get(self, id: str) -> Kept:  # noqa: A002
        """One row.

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
        self._waiting.append(record)
        while len(self.rows) > self._max_rows or self.bytes > self._max_bytes:
            oldest = next(iter(self.rows))
            self.dropped += 1
            self.take(oldest)

    def take(self, id: str) -> None:  # noqa: A002
        """Take a row out, if it is there."""
        if self.rows.pop(id, None) is not None:
            self.bytes -= self._sizes.pop(id)
            self._waiting.append(msgspec.msgpack.encode(id))

    async def load(self) -> None:
        """Read what the file holds."""
        if self.path is not None and not self.rows:
            await asyncio.get_running_loop().run_in_executor(None, self._load, self.path)

    async def flush(self) -> None:
        """Back once all that was done is on disc."""
        if self.path is None:
            self._waiting.clear()
            return
        async with self._flushing:
            waiting, self._waiting = self._waiting, []
            if not waiting:
                return
            content = b"".join(map(_framed, waiting))
            whole = self._file_bytes + len(content) > 2 * self._max_bytes
            if whole:
                content = b"".join(_framed(msgspec.msgpack.encode(kept)) for kept in self)
            try:
                await asyncio.get_running_loop().run_in_executor(None, self._write, self.path, content, whole)
            except OSError as error:
                log.error("quarantine_not_saved", path=str(self.path), rows=len(waiting), error=str(error))
                return
            self._file_bytes = len(content) + (0 if whole else self._file_bytes)

    # -- inside

    def _add(self, kept: Kept) -> bytes:
        self._forget(kept.id)
        record = msgspec.msgpack.encode(kept)
        self.rows[kept.id] = kept
        self._sizes[kept.id] = len(record)
        self.bytes += len(record)
        return record

    def _forget(self, id: str) -> None:  # noqa: A002
        if self.rows.pop(id, None) is not None:
            self.bytes -= self._sizes.pop(id)

    def _load(self, path: Path) -> None:
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return
        except OSError as error:
            log.error("quarantine_not_read", path=str(path), error=str(error))
            return
        at = 0
        while at + _HEAD <= len(content):
            size = int.from_bytes(content[at : at + 4], "big")
            record = content[at + _HEAD : at + _HEAD + size]
            if len(record) < size:
                break
            try:
                if crc32(record) != int.from_bytes(content[at + 4 : at + _HEAD], "big"):
                    raise ValueError("its checksum is wrong")
                entry = msgspec.msgpack.decode(record, type=Kept | str)
            except (msgspec.MsgspecError, ValueError) as error:
                log.error("quarantine_damaged", path=str(path), at=at, error=str(error), kept=len(self.rows))
                break
            if isinstance(entry, str):
                self._forget(entry)
            else:
                self._add(msgspec.structs.replace(entry, key=_as_key(entry.key)))
            at += _HEAD + size
        if at < len(content):
            try:
                os.truncate(path, at)
            except OSError as error:
                log.error("quarantine_not_repaired", path=str(path), error=str(error))
        self._file_bytes = at

    @staticmethod
    def _write(path: Path, content: bytes, whole: bool) -> None:
        if whole:
            replace_file(path, content)
            return
        with path.open("ab") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())


def _framed(record: bytes) -> bytes:
    return len(record).to_bytes(4, "big") + crc32(record).to_bytes(4, "big") + record


def _as_key(key: Any) -> object:
    return tuple(map(_as_key, key)) if isinstance(key, list) else key

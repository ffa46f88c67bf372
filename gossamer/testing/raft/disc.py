"""A simulated disc: sectors, what is in memory only, and everything that discs do wrong.

A file has what is written, which every reader sees, and what is durable. Rules: 1. ``sync`` makes the dirty
sectors durable.  2. When the power goes, each dirty sector is written or not, and the size is any between;
when only the process ends nothing is lost.  3. Names are durable after the directory's sync.  4. Every call
that writes counts as an operation, and a crash can be set for any: the operation is then done in part.
"""

from __future__ import annotations

import errno
import os
from random import Random

from gossamer.raft import SECTOR


class CrashedError(BaseException):
    """The process ended within an operation; a signal, so that no handler takes it for an error."""


class _Content:
    """Bytes of one file."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.durable = bytearray()
        self.dirty: set[int] = set()

    def write(self, offset: int, data: bytes) -> None:
        if len(self.written) < offset:
            self.written.extend(bytes(offset - len(self.written)))
        self.written[offset : offset + len(data)] = data
        self.dirty |= set(range(offset // SECTOR, -(-(offset + len(data)) // SECTOR)))

    def truncate(self, size: int) -> None:
        del self.written[size:]
        self.dirty = {sector for sector in self.dirty if sector * SECTOR < size}

    def flush(self, size: int, sectors: set[int]) -> None:
        """Make the size and these sectors durable."""
        del self.durable[size:]
        self.durable.extend(bytes(size - len(self.durable)))
        for sector in sectors:
            start, end = sector * SECTOR, min(sector * SECTOR + SECTOR, size)
            if start < end:
                self.durable[start:end] = self.written[start:end]

    def lose_power(self, rng: Random) -> None:
        low, high = sorted((len(self.written), len(self.durable)))
        kept = {sector for sector in sorted(self.dirty) if rng.random() < 0.6}
        self.flush(rng.choice((low, high, rng.randint(low, high))), kept)
        self.written = bytearray(self.durable)
        self.dirty = set()


class SimFile:
    """An open file of a simulated disc."""

    def __init__(self, disc: SimDisc, content: _Content) -> None:
        self._disc = disc
        self._content = content

    def write(self, offset: int, data: bytes) -> None:
        disc = self._disc
        if disc.operation():
            self._content.write(offset, data[: disc.rng.randrange(len(data) + 1)])
            raise CrashedError
        more = offset + len(data) - len(self._content.written)
        if disc.room is not None and more > disc.room:
            self._content.write(offset, data[: max(len(data) - more + disc.room, 0)])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if disc.room is not None:
            disc.room -= max(more, 0)
        self._content.write(offset, data)

    def truncate(self, size: int) -> None:
        if self._disc.operation():
            raise CrashedError
        self._content.truncate(size)

    def sync(self) -> None:
        disc, content = self._disc, self._content
        if disc.operation():
            part = {sector for sector in sorted(content.dirty) if disc.rng.random() < 0.5}
            content.flush(len(content.written), part)
            raise CrashedError
        if disc.fails_sync:
            disc.fails_sync = False
            # What was not written passes for written from now on.
            content.dirty = set()
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        if not disc.lies:
            content.flush(len(content.written), content.dirty)
            content.dirty = set()

    def close(self) -> None:
        """Nothing is lost by that, and nothing gained."""


class SimDisc:
    """Directory of one node."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.operations = 0
        self.crash_in: int | None = None
        """Operations until the process ends within one."""
        self.room: int | None = None
        """Bytes that it takes; None: as many as there are."""
        self.fails_sync = False
        """The next sync fails."""
        self.lies = False
        """Syncs do nothing, and say that all went well."""
        self.misreads = False
        """The next read has a sector from elsewhere."""
        self._files: dict[str, _Content] = {}
        self._durable: dict[str, _Content] = {}

    def operation(self) -> bool:
        """Count an operation; True if the process ends within it."""
        self.operations += 1
        if self.crash_in is not None:
            self.crash_in -= 1
            if self.crash_in < 0:
                self.crash_in = None
                return True
        return False

    # -- as gossamer.raft's Directory

    def names(self) -> list[str]:
        return sorted(self._files)

    def read(self, name: str) -> bytes:
        data = bytearray(self._files[name].written)
        if self.misreads and data:
            self.misreads = False
            other = self._files[self.rng.choice(self.names())].written
            place = self.rng.randrange(len(data) // SECTOR + 1) * SECTOR
            start = self.rng.randrange(len(other) // SECTOR + 1) * SECTOR
            sector = other[start : start + SECTOR]
            data[place : place + len(sector)] = sector
        return bytes(data)

    def open(self, name: str) -> SimFile:
        if self.operation():
            raise CrashedError
        return SimFile(self, self._files.setdefault(name, _Content()))

    def remove(self, name: str) -> None:
        if self.operation():
            raise CrashedError
        del self._files[name]

    def sync(self) -> None:
        if self.operation():
            raise CrashedError
        if not self.lies:
            self._durable = dict(self._files)

    # -- what befalls it

    def lose_power(self) -> None:
        """Keep what is durable, and of the rest what luck keeps."""
        names = sorted(self._files.keys() | self._durable.keys())
        after: dict[str, _Content] = {}
        for name in names:
            now, then = self._files.get(name), self._durable.get(name)
            found = now if now is then or self.rng.random() < 0.5 else then
            if found is not None:
                after[name] = found
        for content in after.values():
            content.lose_power(self.rng)
        self._files, self._durable = after, dict(after)

    def flip(self) -> str:
        """Flip a bit somewhere; where, or blank if there is none."""
        files = [(name, content) for name, content in sorted(self._files.items()) if content.durable]
        if not files:
            return ""
        name, content = self.rng.choice(files)
        place, bit = self.rng.randrange(len(content.durable)), 1 << self.rng.randrange(8)
        for data in (content.durable, content.written):
            if place < len(data):
                data[place] ^= bit
        return f"{name} byte {place}"

    def wipe(self) -> None:
        """A new disc in its place."""
        self._files, self._durable = {}, {}
        self.room, self.lies, self.fails_sync, self.misreads = None, False, False, False

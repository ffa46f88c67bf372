"""A node's data directory: one node at a time, a creation that never repeats, and a format.

The *creation* tells one life of a node from the next: pids, links and table rows of an older one are stale.
It is the wall clock in milliseconds, and larger than the one before even where the clock went back.

Rules: 1. A second process on the same directory is refused, since two writers would destroy each other's
tables; the lock is the kernel's, so that a killed node never leaves it behind.  2. A creation is on disc
before anybody hears of it.  3. An older format is upgraded when the directory is opened, step by step; a
newer one is refused before anything is changed. What a step has done it may find done already: the node may
have been killed before the new number was on disc.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import structlog

from gossamer import __version__
from gossamer.errors import TransportError, UnavailableError
from gossamer.files import replace_file

log = structlog.get_logger(__name__)

_LOCK_FILE = "lock"
_CREATION_FILE = "creation"
_FORMAT_FILE = "format"
UPGRADES: Sequence[Callable[[Path], None]] = ()
"""Steps from each format to the next, the first from format 1; a directory that names none has that one."""


class NewerDataError(UnavailableError):
    """A later release wrote the data directory."""

    def __init__(self, *, path: Path, format: int, release: str, newest: int) -> None:  # noqa: A002
        self.path = path
        self.format = format
        self.release = release
        super().__init__(
            f"data directory {path}: got format {format}, written by gossamer {release}; expected at most "
            f"{newest}, as gossamer {__version__} writes it; start gossamer {release} or later, or restore "
            "the directory as it was before the upgrade"
        )


class _Format(msgspec.Struct, frozen=True):
    """File that says who wrote the directory."""

    format: int
    release: str


class DataDir:
    """An opened directory; ``close`` lets the next process have it. Opening blocks: do it before the loop.

    Raises:
        UnavailableError: another process runs a node on it, or a later release wrote it.
        TransportError: it cannot be made, read or written.
    """

    def __init__(
        self, path: Path, *, wall: float, upgrades: Sequence[Callable[[Path], None]] = UPGRADES
    ) -> None:
        self.path = path
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(path / _LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise _unusable(path, error.strerror or str(error)) from error
        try:
            self._take()
            self.fresh = not (path / _CREATION_FILE).exists() and not (path / "tables.db").exists()
            """True if no node has run on it yet."""
            self._upgrade(upgrades)
            self.creation = self._count(wall)
        except BaseException:
            os.close(self._lock)
            raise

    def close(self) -> None:
        """Release the directory."""
        os.close(self._lock)

    def _take(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(self._lock, 32, 0).decode("ascii", "replace").strip()
            raise UnavailableError(
                f"data directory {self.path} is in use by process {holder or 'unknown'}; "
                "stop that node, or give this one its own node.data_dir"
            ) from None
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, f"{os.getpid()}\n".encode("ascii"), 0)

    def _upgrade(self, upgrades: Sequence[Callable[[Path], None]]) -> None:
        file, newest = self.path / _FORMAT_FILE, 1 + len(upgrades)
        try:
            found = msgspec.json.decode(file.read_bytes(), type=_Format)
        except FileNotFoundError:
            found = _Format(newest if self.fresh else 1, "")
        except (OSError, msgspec.MsgspecError, ValueError) as error:
            raise _unusable(file, f"cannot be read ({error})") from error
        if found.format > newest:
            raise NewerDataError(path=self.path, format=found.format, release=found.release, newest=newest)
        try:
            for number in range(found.format, newest):
                log.info(
                    "data_dir_upgraded", path=str(self.path), format=number + 1, written_by=found.release
                )
                upgrades[number - 1](self.path)
                replace_file(file, msgspec.json.encode(_Format(number + 1, __version__)))
            if found != (own := _Format(newest, __version__)):
                replace_file(file, msgspec.json.encode(own))
        except OSError as error:
            raise _unusable(file, error.strerror or str(error)) from error

    def _count(self, wall: float) -> int:
        file = self.path / _CREATION_FILE
        try:
            previous = int(file.read_text("ascii"))
        except FileNotFoundError:
            previous = 0
        except (OSError, ValueError) as error:
            raise _unusable(file, f"cannot be read ({error})") from error
        creation = max(previous + 1, int(wall * 1000))
        try:
            replace_file(file, b"%d\n" % creation)
        except OSError as error:
            raise _unusable(file, error.strerror or str(error)) from error
        return creation


def _unusable(path: Path, why: str) -> TransportError:
    return TransportError(f"data directory {path}: {why}; expected a directory this user can write to")

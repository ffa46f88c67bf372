"""A node's data directory: one node at a time, and a creation that never repeats.

The *creation* tells one life of a node from the next: pids, links and table rows of an older one are stale.
It is the wall clock in milliseconds, and larger than the one before even where the clock went back.

Rules: 1. A second process on the same directory is refused, since two writers would destroy each other's
tables; the lock is the kernel's, so that a killed node never leaves it behind.  2. A creation is on disc
before anybody hears of it.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from gossamer.errors import TransportError, UnavailableError
from gossamer.files import replace_file

_LOCK_FILE = "lock"
_CREATION_FILE = "creation"


class DataDir:
    """An opened directory; ``close`` lets the next process have it. Opening blocks: do it before the loop.

    Raises:
        UnavailableError: another process runs a node on it.
        TransportError: it cannot be made, read or written.
    """

    def __init__(self, path: Path, *, wall: float) -> None:
        self.path = path
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(path / _LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise _unusable(path, error.strerror or str(error)) from error
        try:
            self._take()
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

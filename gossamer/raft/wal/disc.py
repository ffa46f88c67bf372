"""The little of a disc that a write-ahead log needs, so that a simulated one can take its place.

Rules: 1. What is written is on disc only after ``sync``; a name, after the directory's.  2. Any call may
raise OSError. After one from ``sync`` what the disc holds is unknown: a system may take the pages that it
could not write for written, show them to whoever reads, and report no error the next time (Rebello et al.,
"Can Applications Recover from fsync Failures?", 2020).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol


class File(Protocol):
    """A file. Blocks on the disc."""

    def write(self, offset: int, data: bytes) -> None:
        """Write all of ``data`` at an offset; at an error any part of it may be there."""

    def truncate(self, size: int) -> None:
        """Cut the end off."""

    def sync(self) -> None:
        """Return when the disc has everything."""

    def close(self) -> None:
        """Give the file back."""


class Directory(Protocol):
    """Files by name. Blocks on the disc."""

    def names(self) -> list[str]:
        """Return the names of all files."""

    def read(self, name: str) -> bytes:
        """Return all that a file has."""

    def open(self, name: str) -> File:
        """Open a file to write to it; a new one if there is none."""

    def remove(self, name: str) -> None:
        """Remove a file."""

    def sync(self) -> None:
        """Return when the disc has all names."""


class DiscFile:
    """File of the operating system."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)

    def write(self, offset: int, data: bytes) -> None:
        view = memoryview(data)
        while view:
            written = os.pwrite(self._descriptor, view, offset)
            view, offset = view[written:], offset + written

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def sync(self) -> None:
        os.fsync(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)


class DiscDirectory:
    """Directory of the operating system, made if it is not there."""

    def __init__(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self._path = path

    def names(self) -> list[str]:
        return sorted(path.name for path in self._path.iterdir())

    def read(self, name: str) -> bytes:
        return (self._path / name).read_bytes()

    def open(self, name: str) -> DiscFile:
        return DiscFile(self._path / name)

    def remove(self, name: str) -> None:
        (self._path / name).unlink()

    def sync(self) -> None:
        descriptor = os.open(self._path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
